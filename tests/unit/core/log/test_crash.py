"""A process that dies, or is overtaken, at any change of the metadata: nothing confirmed is lost,
there is no hole, and never do two owners have records in the log at once."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, EndOfStream, LedgerFenced, OwnershipLost, Unavailable
from tailrace.core.log import segment_chain
from tailrace.core.log.config import CompressionType
from tailrace.core.log.log import Log
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tailrace.protocol.distributedlog.record import record_parts
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    run_world,
    settle,
    txids_of,
    write,
)

CHANGES_MAX = 40


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_chain, "STEP_RETRY_S", 0.001)


class Process:
    """Writes 0, 1, 2, ... with rolls in between, and ends cleanly if it is let."""

    def __init__(self, world: World, store: FaultyStore, client_id: str = "tailrace") -> None:
        self.listener = Listener()
        self.store = store
        self.namespace = world.namespace(store, client_id=client_id)
        self.state = RecordState()
        self.appended: list[int] = []
        self.writer: LogWriter | None = None

    async def run(self) -> None:
        log = await self.namespace.open_log("s")
        self.writer = writer = await log.open_writer(self.listener, self.state)
        for _ in range(3):
            for _ in range(3):
                self._put(writer)
                await settle(2)
            await writer.flush()
            self.store.on_change = self._put_if_alive  # records never stop for a roll
            await writer.roll()
            self.store.on_change = lambda: None
        await writer.close()

    def _put_if_alive(self) -> None:
        if self.writer is not None and self.writer.error is None:
            self._put(self.writer)

    def _put(self, writer: LogWriter) -> None:
        txid = max(writer.last_txid + 1, 0)
        put(writer, txid)
        self.appended.append(txid)

    async def vanish(self) -> None:
        """Do nothing more, as a process that died."""
        if self.writer is not None:
            self.writer._chain.fail()
            await self.writer._chain._tasks.close()


async def run_until_failure(process: Process) -> bool:
    """Let a process run until it ends, fails, or dies with its store; tell whether it ended."""
    running = asyncio.create_task(process.run())
    dying = asyncio.create_task(process.store.died.wait())
    await asyncio.wait({running, dying}, return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    if process.store.died.is_set():
        await settle()
        running.cancel()
        await process.vanish()
    await asyncio.wait([running])
    if running.cancelled():
        return False
    error = running.exception()
    assert error is None or isinstance(error, CoreError), error
    return error is None


async def check_successor(world: World, first: Process) -> None:
    """Open the log as the next owner, and hold it against what the first one knew."""
    log = await world.log(client_id="successor")
    state = RecordState()
    writer = await log.open_writer(Listener(), state)
    assert first.writer is None or writer.number > first.writer.number
    found = await txids_of(log)
    assert found == list(range(len(found))), "a hole, or a record twice"
    assert len(found) > first.listener.last, "a confirmed record was lost"
    assert len(found) <= len(first.appended)
    assert state.txids == found, "the state is not that of the log"
    assert writer.last_txid == (found[-1] if found else -999)
    assert all(not s.in_progress for s in log.segments)
    await write(writer, len(found), len(found) + 1)
    await writer.close()
    assert await txids_of(log) == list(range(len(found) + 2))
    sequence = 0
    for segment in log.segments:
        assert segment.start_sequence_id == sequence
        sequence += segment.record_count
    assert sequence == len(found) + 2


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_crash_at_every_metadata_change(tmp_path: Path, part: int, *, applied: bool) -> None:
    completed = []
    for change in range(part, CHANGES_MAX, 4):

        async def story(world: World, change: int = change) -> None:
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            process = Process(world, store)
            completed.append(await run_until_failure(process))
            await world.restart_store()
            await check_successor(world, process)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert completed[-1], "CHANGES_MAX does not reach the end"
    assert not all(completed)


class Sealer(Process):
    """Writes bulks and record sets, rolls, and seals the log; what it wrote is in `payloads`."""

    def __init__(self, world: World, store: FaultyStore) -> None:
        super().__init__(world, store)
        self.payloads: list[bytes] = []
        self.known = 0
        """How many of them were acknowledged."""
        self.sets: list[tuple[int, int]] = []
        self.is_sealed = False

    async def run(self) -> None:
        log = await self.namespace.open_log("s")
        self.writer = writer = await log.open_writer(self.listener)
        for _ in range(2):
            bulk = self._next(3)
            futures = writer.append_many(
                [record_parts(len(self.payloads), (each,), len(each)) for each in bulk]
            )
            await asyncio.gather(*futures)
            self.known = len(self.payloads)
            self.sets.append((len(self.payloads), len(self.payloads) + 4))
            values = self._next(4)
            position = writer.append_set(len(self.payloads), values, CompressionType.LZ4)
            await writer.roll()
            await position
            self.known = len(self.payloads)
        await writer.mark_end_of_stream()
        self.is_sealed = True
        await writer.close()

    def _next(self, count: int) -> list[bytes]:
        values = [b"r%d" % (len(self.payloads) + n) for n in range(count)]
        self.payloads += values
        return values


@pytest.mark.parametrize("applied", [False, True])
def test_crash_of_bulks_record_sets_and_the_end(tmp_path: Path, *, applied: bool) -> None:
    completed, sealed, changes = [], 0, CHANGES_MAX
    for change in range(CHANGES_MAX):
        if change > changes:
            break

        async def story(world: World, change: int = change) -> None:
            nonlocal changes, sealed
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            first = Sealer(world, store)
            completed.append(await run_until_failure(first))
            changes = store.changes if completed[-1] else changes
            await world.restart_store()
            log = await world.log(client_id="successor")
            try:
                writer = await log.open_writer(Listener())
            except EndOfStream:
                sealed += 1
                log = await world.log(client_id="third")
                assert await payloads_of(log) == first.payloads
                return
            assert not first.is_sealed, "the end was confirmed and is lost"
            found = await payloads_of(log)
            assert found == first.payloads[: len(found)], "a hole, or a record twice"
            assert len(found) >= first.known, "a confirmed record was lost"
            assert not any(start < len(found) < end for start, end in first.sets), "half a set"
            await writer.write(1000, b"more")
            await writer.close()
            assert await payloads_of(log) == [*found, b"more"]

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert completed[-1], "CHANGES_MAX does not reach the end"
    assert not all(completed)
    assert sealed > sum(completed), "no crash after the end was written"


async def payloads_of(log: Log) -> list[bytes]:
    found: list[bytes] = []
    reader = await log.open_reader(INITIAL)
    try:
        while batch := await reader.read(1 << 20):
            found += [bytes(record.payload) for _, record in batch]
    except EndOfStream:
        pass
    finally:
        await reader.close()
    return found


@pytest.mark.parametrize("part", range(2))
def test_lost_answer_at_every_metadata_change(tmp_path: Path, part: int) -> None:
    """A multi that happened is recognised, any other change fails the writer: never a hole."""
    for change in range(part, CHANGES_MAX, 2):

        async def story(world: World, change: int = change) -> None:
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            store.lose_answer_of(change)
            process = Process(world, store)
            await run_until_failure(process)
            await world.restart_store()
            await check_successor(world, process)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)


def test_lost_answer_of_a_multi_is_settled_by_reading(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        listener = Listener()
        writer = await log.open_writer(listener)
        multis = []
        inner = store.multi

        async def multi(ops: object) -> list[int]:
            versions = await inner(ops)  # type: ignore[arg-type]
            if any("inprogress" in op.path for op in ops):  # type: ignore[attr-defined]
                multis.append(ops)
                raise Unavailable("the answer was lost")
            return versions

        store.multi = multi  # type: ignore[method-assign]
        await write(writer, 0, 1)
        await writer.roll()
        await write(writer, 2)
        await writer.close()
        assert len(multis) == 4  # two starts, two completions
        assert not listener.errors
        assert await txids_of(log) == [0, 1, 2]

    run_world(tmp_path, story)


@pytest.mark.parametrize("part", range(4))
def test_overtaken_at_every_metadata_change(tmp_path: Path, part: int) -> None:
    """Another process takes the log over just before a change of the first, which then goes on."""
    # 0 is the lock member, 1 the owner's number: whoever comes then is the one that is overtaken.
    for change in range(part + 2, CHANGES_MAX, 4):

        async def story(world: World, change: int = change) -> None:
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            first = Process(world, store)
            second = await world.log()  # the same client and session: the lock lets it in
            taken: list[int] = []
            writers = []

            begun, done = asyncio.Event(), asyncio.Event()

            async def take_over(number: int) -> None:
                if number == change:
                    begun.set()
                    writer = await second.open_writer(Listener(), RecordState())
                    taken.extend(await txids_of(second))
                    await write(writer, 1000, 1001)
                    writers.append(writer)
                    done.set()

            store.before = take_over
            finished = await run_until_failure(first)
            if not begun.is_set():
                assert finished
                return
            await done.wait()
            await settle()
            await write(writers[0], 1002)
            found = await txids_of(second)
            assert found == [*taken, 1000, 1001, 1002], "the first owner got a record in"
            assert taken == list(range(len(taken)))
            assert len(taken) > first.listener.last, "a confirmed record was lost"
            for error in first.listener.errors:
                assert isinstance(error, LedgerFenced | OwnershipLost | Unavailable), error
            await writers[0].close()
            assert await txids_of(await world.log(client_id="third")) == found

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)


def test_who_opens_and_writes_while_another_opens_is_overtaken(tmp_path: Path) -> None:
    """The other one has the lock already, and recovers later: it finds what is confirmed."""

    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        store = FaultyStore(world.store)
        first = Process(world, store)
        second = await world.log()  # the same client and session: the lock lets it in
        writers: list[LogWriter] = []

        async def take_over(number: int) -> None:
            if number == 1:
                writers.append(await second.open_writer(Listener(), RecordState()))
                await write(writers[0], 1000, 1001)

        store.before = take_over
        assert await run_until_failure(first)
        with pytest.raises(LedgerFenced):
            await write(writers[0], 5000)
        await writers[0].abort()
        assert first.writer is not None
        assert first.writer.number > writers[0].number
        assert await txids_of(await world.log(client_id="third")) == [1000, 1001, *first.appended]

    run_world(tmp_path, story)


def test_old_owner_is_fenced(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        old = await log.open_writer(listener)
        await write(old, 0, 1)
        second = await world.log()
        new = await second.open_writer(Listener())
        put(old, 2)
        with pytest.raises(LedgerFenced):
            await old.flush()
        assert isinstance(listener.errors[0], LedgerFenced)
        with pytest.raises(LedgerFenced):
            put(old, 3)
        await write(new, 2)
        assert await txids_of(second) == [0, 1, 2]
        await old.close()
        await new.close()
        assert await txids_of(log) == [0, 1, 2]

    run_world(tmp_path, story)
