"""The storage as a whole against a dictionary: any order of adds, reads, checkpoints, restarts."""

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from tailrace.bookie.log_usage import LogUsages
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.availability import decode_availability
from tailrace.protocol.bookkeeper.messages import (
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    StatusCode,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.world import L1, L2, add, ask, entry_body, fence, open_small, read, run

if TYPE_CHECKING:
    from tailrace.bookie.app import OpenBookie
    from tailrace.bookie.group_wait import Item

ledgers = st.integers(0, 3).map(LedgerId)
entries = st.one_of(st.integers(0, 12), st.sampled_from([900, 1023, 1024, 1025, 5000]))
payloads = st.integers(0, 3000).map(lambda size: bytes([size % 251 + 1]) * size)


class StorageMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(debug=True)
        self.directory = tempfile.TemporaryDirectory()
        self.bodies: dict[LedgerId, dict[int, bytes]] = {}
        self.fenced: set[LedgerId] = set()
        self.bookie: OpenBookie | None = None

    @initialize(journal_write_data=st.booleans(), log_size_limit=st.sampled_from([8000, 2**30]))
    def start(self, journal_write_data: bool, log_size_limit: int) -> None:
        self.changes = {
            "journal_write_data": journal_write_data,
            "log_size_limit": log_size_limit,
            "preallocate_mb": 0,
            "cached_ledgers_max": 1,
            "open_file_limit": 2,
            "cached_index_pages_max": 2,
        }
        self.open()

    def open(self) -> None:
        opening = open_small(Path(self.directory.name), **self.changes)
        self.bookie = self.runner.run(opening)

    def ask(self, request: object) -> object:
        async def asking() -> object:
            return await ask(self.bookie, request)  # type: ignore[arg-type]

        return self.runner.run(asking())

    @rule(ledger_id=ledgers, adds=st.lists(st.tuples(entries, payloads), min_size=1, max_size=8))
    def add_together(self, ledger_id: LedgerId, adds: list[tuple[int, bytes]]) -> None:
        async def asking() -> list[StatusCode]:
            answers = [ask(self.bookie, add(ledger_id, e, p)) for e, p in adds]
            return [(await answer).status for answer in answers]

        statuses = set(self.runner.run(asking()))
        if ledger_id in self.fenced:
            assert statuses == {StatusCode.EFENCED}
            return
        assert statuses == {StatusCode.EOK}
        for entry_id, payload in adds:
            body = entry_body(ledger_id, entry_id, payload)
            self.bodies.setdefault(ledger_id, {})[entry_id] = body

    @rule(ledger_id=ledgers)
    def fence(self, ledger_id: LedgerId) -> None:
        self.ask(fence(ledger_id))
        self.fenced.add(ledger_id)
        self.bodies.setdefault(ledger_id, {})

    @rule()
    def checkpoint(self) -> None:
        assert self.bookie is not None
        self.runner.run(self.bookie.checkpoint())

    @rule()
    def restart(self) -> None:
        assert self.bookie is not None
        self.runner.run(self.bookie.close())
        self.open()

    @rule(ledger_id=ledgers, entry_id=entries)
    def read(self, ledger_id: LedgerId, entry_id: int) -> None:
        response = self.ask(read(ledger_id, entry_id))
        known = self.bodies.get(ledger_id)
        if known is None:
            assert response.status is StatusCode.ENOLEDGER
        elif entry_id not in known:
            assert response.status is StatusCode.ENOENTRY
        else:
            assert response.body == known[entry_id]

    @rule(ledger_id=ledgers)
    def read_last(self, ledger_id: LedgerId) -> None:
        known = self.bodies.get(ledger_id)
        response = self.ask(ReadLacRequest(ledger_id))
        if not known:
            assert response.status is StatusCode.ENOENTRY
        else:
            assert response.last_entry_body == known[max(known)]

    @rule(ledger_id=ledgers)
    def list(self, ledger_id: LedgerId) -> None:
        known = self.bodies.get(ledger_id)
        response = self.ask(ListEntriesRequest(ledger_id))
        if known is None:
            assert response.status is StatusCode.ENOLEDGER
        else:
            groups = decode_availability(response.availability)
            assert [i for group in groups for i in group.entry_ids()] == sorted(known)

    @invariant()
    def nothing_waits(self) -> None:
        if self.bookie is not None:
            assert self.bookie.metrics.pending_bytes == 0
            assert self.bookie.metrics.pending_reads == 0
            assert not self.bookie.failed.done()

    def teardown(self) -> None:
        if self.bookie is not None:
            self.runner.run(self.bookie.close())
        self.runner.close()
        self.directory.cleanup()


TestStorage = StorageMachine.TestCase
TestStorage.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_memory_holds_no_more_ledgers_than_allowed(
    tmp_path: Path, journal_write_data: bool
) -> None:
    """Also without a checkpoint: a bookie that only reads, lists or is scrubbed makes none."""
    count, limit = 60, 5
    changes = {"cached_ledgers_max": limit, "journal_write_data": journal_write_data}

    async def story() -> None:
        bookie = await open_small(tmp_path, **changes)
        for number in range(count):
            await ask(bookie, add(LedgerId(number), 0, b"%d" % number))
        assert len(bookie._storage.ledgers) == count  # none is in an index file yet
        await bookie.checkpoint()
        assert len(bookie._storage.ledgers) == bookie.metrics.ledgers_open == limit
        await bookie.close()
        bookie = await open_small(tmp_path, **changes)
        for ask_for in (read, fence, lambda ledger_id, _: ListEntriesRequest(ledger_id)):
            for number in range(count):
                ledger_id = LedgerId(number)
                assert (await ask(bookie, ask_for(ledger_id, 0))).status is StatusCode.EOK
            if ask_for is fence:
                await bookie.checkpoint()
            assert len(bookie._storage.ledgers) == bookie.metrics.ledgers_open == limit
        for number in range(count):
            body = entry_body(LedgerId(number), 0, b"%d" % number)
            assert (await ask(bookie, read(LedgerId(number), 0))).body == body
            status = (await ask(bookie, add(LedgerId(number), 1))).status
            assert status is StatusCode.EFENCED
        await bookie.close()

    run(story)


def test_what_waits_is_never_let_go(tmp_path: Path) -> None:
    """A long poll, and an add that is not durable, keep their ledger in memory."""

    async def story() -> None:
        bookie = await open_small(tmp_path, cached_ledgers_max=1)
        for number in range(10):
            await ask(bookie, add(LedgerId(number), 0))
        await bookie.checkpoint()
        poll = ask(bookie, ReadRequest(L1, -1, previous_lac=-1, timeout_ms=60_000, piggyback=True))
        for number in range(2, 10):
            await ask(bookie, read(LedgerId(number), 0))
        assert len(bookie._storage.ledgers) == 2
        await ask(bookie, add(L1, 1, lac=0))
        assert (await poll).max_lac == 0
        await bookie.close()

    run(story)


class _GatedIndexes(SystemFiles):
    """Index files are synced only while the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.is_waited_for = threading.Event()
        self._indexes: set[int] = set()

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._indexes.discard(fd)
        if path.suffix in (".idx", ".sums"):
            self._indexes.add(fd)
        return fd

    @override
    def sync(self, fd: int) -> None:
        if fd in self._indexes:
            self.is_waited_for.set()
            assert self.gate.wait(20)
        super().sync(fd)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_what_a_checkpoint_is_writing_is_never_let_go(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        files = _GatedIndexes()
        bookie = await open_small(
            tmp_path, files, cached_ledgers_max=1, journal_write_data=journal_write_data
        )
        for number in range(10):
            await ask(bookie, add(LedgerId(number), 0))
        await bookie.checkpoint()
        files.is_waited_for.clear()
        files.gate.clear()
        await ask(bookie, fence(L1))
        await ask(bookie, add(L2, 1))
        checkpoint = asyncio.ensure_future(bookie.checkpoint())
        await asyncio.to_thread(files.is_waited_for.wait, 20)
        for number in range(3, 10):
            await ask(bookie, read(LedgerId(number), 0))
        assert (await ask(bookie, add(L1, 1))).status is StatusCode.EFENCED
        assert (await ask(bookie, read(L2, 1))).status is StatusCode.EOK
        assert (await ask(bookie, read(L2))).body == entry_body(L2, 1, b"payload")
        files.gate.set()
        await checkpoint
        assert len(bookie._storage.ledgers) == 1
        await bookie.close()

    run(story)


def test_a_log_is_sealed_with_all_its_ledgers_however_few_are_in_memory(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, cached_ledgers_max=1, log_size_limit=4000)
        for entry_id in range(3):
            for number in range(4):
                await ask(bookie, add(LedgerId(number), entry_id, bytes(100)))
                await bookie.checkpoint()
        for entry_id in range(3, 30):
            await ask(bookie, add(LedgerId(9), entry_id, bytes(200)))
        await bookie.checkpoint()
        usage = LogUsages(SystemFiles(), bookie._dirs).read(0)
        assert usage is not None
        size = len(entry_body(L1, 0, bytes(100))) + 4
        assert {number: usage[number] for number in range(4)} == dict.fromkeys(range(4), 3 * size)
        await bookie.close()

    run(story)


async def until(happened: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def look() -> None:
        if happened():
            done.set_result(None)
        else:
            loop.call_later(0.005, look)

    look()
    await done


def test_checkpoint_by_bytes_and_by_time(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, flush_entry_log_bytes=5000, flush_interval_ms=20)
        mark = tmp_path / "ledgers/current/entryLogMark"
        await ask(bookie, add(L1, 0, bytes(6000)))
        await bookie.checkpoint()  # comes after the one that the bytes started
        assert bookie.metrics.checkpoints_total == 1
        before = mark.read_bytes()
        await ask(bookie, add(L1, 1))
        async with asyncio.timeout(10):
            await until(lambda: bookie.metrics.checkpoints_total == 2)
        assert mark.read_bytes() != before
        await bookie.checkpoint()
        assert bookie.metrics.checkpoints_total == 2  # nothing new: nothing written
        await bookie.close()

    run(story)


def test_a_reply_that_fails_does_not_cost_others_theirs(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))

        def broken(_: object) -> None:
            raise RuntimeError("a client's bug")

        for entry_id in range(1, 4):
            bookie.submit(add(L1, entry_id), broken)
        assert (await ask(bookie, add(L1, 4))).status is StatusCode.EOK
        for entry_id in range(5):
            assert (await ask(bookie, read(L1, entry_id))).status is StatusCode.EOK
        await bookie.close()

    run(story)


class GatedFiles(SystemFiles):
    """Syncs wait while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()

    @override
    def sync(self, fd: int) -> None:
        assert self.gate.wait(20)
        super().sync(fd)


def test_a_second_fence_does_not_overtake_the_first_ones_sync(tmp_path: Path) -> None:
    async def story() -> None:
        files = GatedFiles()
        bookie = await open_small(tmp_path, files)
        await ask(bookie, add(L1, 0))
        files.gate.clear()
        fences = [ask(bookie, fence(L1)) for _ in range(2)]
        await ask(bookie, read(L1, 0))  # behind whatever the fences would have read
        assert not any(answer.done() for answer in fences)
        assert (await ask(bookie, add(L1, 1))).status is StatusCode.EFENCED
        files.gate.set()
        assert [(await answer).status for answer in fences] == [StatusCode.EOK] * 2
        await bookie.close()

    run(story)


def test_what_is_found_is_synced_before_it_is_served(tmp_path: Path) -> None:
    """After a kill a group may be in memory only; whoever reads it now counts on it for ever."""

    async def story() -> None:
        bookie = await open_small(tmp_path)
        await ask(bookie, add(L1, 0))
        await bookie.close()
        files = CrashFiles()
        bookie = await open_small(tmp_path, files)
        assert "sync 0.log" in files.steps
        await bookie.close()

    run(story)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_an_entry_that_cannot_be_published_does_not_move_the_others(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        bookie = await open_small(tmp_path, journal_write_data=journal_write_data)
        await ask(bookie, add(L1, 0))
        adds: Any = bookie._storage._adds
        publish = adds._publish

        def fail_odd(item: "Item", place: object) -> None:
            if item[3] % 2:
                raise MemoryError
            publish(item, place)

        adds._publish = fail_odd
        answers = [ask(bookie, add(L1, e, b"%d" % e * 100)) for e in range(1, 21)]
        for number in range(1, 21, 2):  # even entries; odd ones are never acknowledged
            assert (await answers[number]).status is StatusCode.EOK
        for entry_id in range(2, 21, 2):
            found = await ask(bookie, read(L1, entry_id))
            assert found.body == entry_body(L1, entry_id, b"%d" % entry_id * 100)
        assert not any(answers[number].done() for number in range(0, 20, 2))
        del adds._publish
        await bookie.close()

    run(story)
