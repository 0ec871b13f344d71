"""Segments end by their records' own times, as Kafka's do; what waits for that waits not long."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from tailrace.core.errors import Unavailable
from tailrace.core.log import timed_roll
from tailrace.core.log.log import Log
from tailrace.core.log.rolling import RollingPolicy, RollPhase
from tailrace.core.log.timed_roll import TimedRoll
from tailrace.core.log.waiting_records import NEVER_MS, WaitingRecords
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.store import Op
from tailrace.protocol.distributedlog.envelope import ENVELOPE_SIZE
from tailrace.protocol.distributedlog.record import HEADER_SIZE, MAX_LOGRECORDSET_SIZE, record_parts
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import Listener, World, read_all, run_world, settle, txids_of

HOUR_MS = 3_600_000


@pytest.fixture(autouse=True, scope="module")
def slow_machine() -> Iterator[None]:
    """Let records wait for as long as a roll takes here, unless a test says otherwise."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timed_roll, "HOLD_S", 60)
        yield


BY_THE_HOUR = RollingPolicy(0, HOUR_MS)


def put_made(writer: LogWriter, txid: int, time_ms: int) -> None:
    payload = b"r%d" % txid
    writer.append(txid, (payload,), len(payload), time_ms=time_ms)


def cut_as_kafka(times: Sequence[int], span_ms: int) -> list[list[int]]:
    """The dumb oracle: LogSegment.shouldRoll, one record after the other."""
    segments: list[list[int]] = []
    for txid, time_ms in enumerate(times):
        if not segments or time_ms - times[segments[-1][0]] > span_ms:
            segments.append([])
        segments[-1].append(txid)
    return segments


async def cut_here(log: Log, count: int) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for dlsn, record in await read_all(log, at_least=count):
        found.setdefault(dlsn.lssn, []).append(record.txid)
    return list(found.values())


@given(
    hours=st.lists(st.integers(0, 12), min_size=1, max_size=12),
    at_once=st.integers(1, 5),
)
@settings(max_examples=30, deadline=None)
def test_segments_are_cut_where_kafka_cuts_them(hours: list[int], at_once: int) -> None:
    times = [hour * HOUR_MS for hour in hours]

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.rolling = BY_THE_HOUR
        for txid, time_ms in enumerate(times):
            put_made(writer, txid, time_ms)
            if txid % at_once == 0:
                await writer.flush()
        await writer.flush()
        assert await cut_here(log, len(times)) == cut_as_kafka(times, HOUR_MS)
        await writer.close()
        assert await txids_of(await world.log(client_id="b")) == list(range(len(times)))

    with TemporaryDirectory() as path:
        run_world(Path(path), story)


def test_the_clock_counts_only_where_the_first_record_has_no_time(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.rolling = BY_THE_HOUR
        put_made(writer, 0, 5)
        await writer.flush()
        world.clock.advance_ms(9 * HOUR_MS)
        put_made(writer, 1, 5)
        await writer.flush()
        await writer._chain.settled()
        assert len(log.segments) == 1, "the records are of one time"
        await writer.roll()
        put_made(writer, 2, -1)
        put_made(writer, 3, 99 * HOUR_MS)
        await writer.flush()
        world.clock.advance_ms(HOUR_MS)
        put_made(writer, 4, 99 * HOUR_MS)
        await writer.flush()
        await writer._chain.settled()
        assert len(log.segments) == 3
        assert await cut_here(log, 5) == [[0, 1], [2, 3, 4]]
        await writer.close()

    run_world(tmp_path, story)


class HangingStore(FaultyStore):
    """Does not answer who asks for a new ledger, or refuses, until it is told to go on."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.asked = asyncio.Event()
        self.is_away = False

    @override
    def _check(self) -> None:
        super()._check()
        if self.is_away:
            raise Unavailable("the store is away")

    @override
    async def multi(self, ops: Sequence[Op]) -> list[int]:
        if not self.goes_on.is_set():
            self.asked.set()
            await self.goes_on.wait()
        return await super().multi(ops)


async def opened(world: World) -> tuple[LogWriter, Log, Listener, HangingStore]:
    store = HangingStore(world)
    namespace = world.namespace(store)
    await namespace.create_log("s")
    log, listener = await namespace.open_log("s"), Listener()
    writer = await log.open_writer(listener)
    writer.rolling = BY_THE_HOUR
    put_made(writer, 0, 0)
    await writer.flush()
    return writer, log, listener, store


def test_while_the_next_ledger_is_made_what_is_hardly_late_goes_on_and_later_records_wait(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        writer, log, listener, store = await opened(world)
        store.is_away = True  # no ledger can be had: the roll is given up, nothing waits
        put_made(writer, 1, 9 * HOUR_MS)
        await listener.reached(1)
        assert writer.lssn == 1
        store.is_away = False
        world.clock.advance_ms(HOUR_MS)
        store.goes_on.clear()
        put_made(writer, 2, HOUR_MS + 1)
        put_made(writer, 3, 9 * HOUR_MS)
        put_made(writer, 4, 3)
        await store.asked.wait()
        await listener.reached(2)
        await settle()
        assert writer._chain.roll.phase is RollPhase.ALLOCATING
        assert listener.last == 2, "later ones wait, and nobody overtakes them"
        store.goes_on.set()
        await writer.flush()
        assert await cut_here(log, 5) == [[0, 1, 2], [3, 4]]
        await writer.close()

    run_world(tmp_path, story)


def test_nobody_waits_for_a_roll_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_roll, "HOLD_S", 0.01)

    async def story(world: World) -> None:
        writer, log, listener, store = await opened(world)
        store.goes_on.clear()
        put_made(writer, 1, 9 * HOUR_MS)
        await listener.reached(1)
        put_made(writer, 2, 99 * HOUR_MS)
        await listener.reached(2)
        assert writer.lssn == 1
        monkeypatch.setattr(timed_roll, "HOLD_S", 60)
        store.goes_on.set()
        await writer._chain.settled()
        put_made(writer, 3, 99 * HOUR_MS)
        put_made(writer, 4, 199 * HOUR_MS)
        await writer.flush()
        assert await cut_here(log, 5) == [[0, 1, 2], [3], [4]], "the next roll is waited for again"
        await writer.close()

    run_world(tmp_path, story)


def test_a_writer_that_is_closed_while_records_wait_keeps_them(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _, _, store = await opened(world)
        store.goes_on.clear()
        put_made(writer, 1, 9 * HOUR_MS)
        await store.asked.wait()
        closing = asyncio.create_task(writer.close())
        await settle()
        store.goes_on.set()
        await closing
        assert await txids_of(await world.log(client_id="b")) == [0, 1]

    run_world(tmp_path, story)


def test_jitter_takes_another_part_off_for_each_segment() -> None:
    async def main() -> None:
        roll = TimedRoll(Random(1), lambda: None)
        policy, latest = RollingPolicy(0, 1000, 400), set()
        for _ in range(200):
            roll.begin(5000)
            latest.add(roll.latest_ms(policy))
        assert min(latest) > 5600
        assert max(latest) <= 6000
        assert len(latest) > 100
        assert roll.latest_ms(RollingPolicy(0, 1000)) == 6000
        assert 5000 < roll.latest_ms(RollingPolicy(0, 1000, 2**63 - 1)) <= 6000
        assert roll.latest_ms(RollingPolicy(7, 0, 400)) == NEVER_MS

    asyncio.run(main())


@given(
    st.lists(st.tuples(st.integers(0, 600_000), st.integers(-1, 9)), min_size=1, max_size=8),
    st.integers(-1, 9),
)
def test_an_entry_takes_what_is_early_enough_and_fits(
    records: list[tuple[int, int]], latest_ms: int
) -> None:
    waiting = WaitingRecords()
    for txid, (length, time_ms) in enumerate(records):
        waiting.records.append(record_parts(txid, (b"",), length))
        waiting.times.append(time_ms)
        waiting.payload_bytes += length
    taken, size = waiting.take(latest_ms)
    expected: list[int] = []
    room = MAX_LOGRECORDSET_SIZE - ENVELOPE_SIZE
    for txid, (length, time_ms) in enumerate(records):
        room -= length + HEADER_SIZE
        if txid and (time_ms > latest_ms or room < 0):
            break
        expected.append(txid)
    assert [txid for txid, _, _, _ in taken] == expected
    assert size == sum(records[txid][0] + HEADER_SIZE for txid in expected)
    left = records[len(expected) :]
    assert list(waiting.times) == [time_ms for _, time_ms in left]
    assert waiting.payload_bytes == sum(length for length, _ in left)
    assert waiting.size_bytes == sum(length + HEADER_SIZE for length, _ in left)
