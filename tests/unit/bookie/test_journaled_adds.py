"""`journalWriteData=true`: several journals, the memtable, its flush, what holds adds back."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie import journal_format
from tailrace.bookie.app import OpenBookie
from tailrace.bookie.entry_log_format import HEADER_SIZE
from tailrace.bookie.errors import StorageFailed
from tailrace.bookie.record_scan import scan_records
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.availability import decode_availability
from tailrace.protocol.bookkeeper.messages import (
    ForceLedgerRequest,
    ListEntriesRequest,
    ReadLacRequest,
    StatusCode,
)
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import L1, L2, add, ask, entry_body, fence, open_small, read, run

EOK = StatusCode.EOK
MIB = 1024 * 1024


def two_journals(directory: Path) -> tuple[Path, ...]:
    return (directory / "journal-a", directory / "journal-b")


async def open_journaled(
    directory: Path, files: SystemFiles | None = None, **changes: object
) -> OpenBookie:
    changes = {"journal_write_data": True, "preallocate_mb": 0} | changes
    return await open_small(directory, files, **changes)


def records(path: Path, start: int) -> list[tuple[int, int]]:
    """Return (ledger, entry) of all records of a file, trailers left out."""
    image = path.read_bytes()
    found = scan_records(lambda size, at: image[at : at + size], start, str(path))
    return [(ledger_id, entry_id) for ledger_id, entry_id, *_ in found if ledger_id >= 0]


def journaled(directory: Path) -> list[tuple[int, int]]:
    return [
        record
        for path in sorted(directory.glob("current/*.txn"))
        for record in records(path, journal_format.HEADER_SIZE)
    ]


def logged(directory: Path) -> list[tuple[int, int]]:
    return [
        record
        for path in sorted((directory / "ledgers/current").glob("*.log"))
        for record in records(path, HEADER_SIZE)
    ]


def test_a_ledger_has_its_journal(tmp_path: Path) -> None:
    first, second = two_journals(tmp_path)

    async def story() -> None:
        bookie = await open_journaled(tmp_path, journal_directories=(first, second))
        for number in range(4):
            await ask(bookie, add(LedgerId(number), 0))
        await ask(bookie, fence(LedgerId(5)))
        await bookie.checkpoint()
        assert {ledger_id for ledger_id, _ in journaled(first)} == {0, 2}
        assert {ledger_id for ledger_id, _ in journaled(second)} == {1, 3, 5}
        assert (1, 0) in journaled(second)
        assert (5, journal_format.FENCE) in journaled(second)
        await bookie.close()

    run(story)
    marks = sorted(p.name for p in (tmp_path / "ledgers/current").glob("lastMark*"))
    assert marks == ["lastMark", "lastMark.1"]


def test_a_journal_that_the_list_forgot_is_not_lost_silently(tmp_path: Path) -> None:
    async def story() -> None:
        both = two_journals(tmp_path)
        bookie = await open_journaled(tmp_path, journal_directories=both)
        await ask(bookie, add(L1, 0))
        await bookie.close()
        with pytest.raises(CorruptData, match=r"lastMark\.1 says that journalDirectories had more"):
            await open_journaled(tmp_path, journal_directories=both[:1])
        bookie = await open_journaled(tmp_path, journal_directories=both)
        assert (await ask(bookie, read(L1, 0))).status is EOK
        await bookie.close()

    run(story)


def test_a_flush_is_sorted_by_ledger_and_entry(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_journaled(tmp_path)
        for entry_id in (3, 1, 2, 0):
            for ledger_id in (L2, L1):
                await ask(bookie, add(ledger_id, entry_id, b"%d" % entry_id))
        assert logged(tmp_path) == []
        await bookie.checkpoint()
        assert logged(tmp_path) == [(ledger, entry) for ledger in (1, 2) for entry in range(4)]
        for entry_id in range(4):
            body = entry_body(L1, entry_id, b"%d" % entry_id)
            assert (await ask(bookie, read(L1, entry_id))).body == body
        await bookie.close()

    run(story)


class GatedFlush(SystemFiles):
    """Writes to entry logs wait while the gate is shut; everything else goes on."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self._logs: set[int] = set()

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        (self._logs.add if path.suffix == ".log" else self._logs.discard)(fd)
        return fd

    @override
    def sync(self, fd: int) -> None:
        assert fd not in self._logs or self.gate.wait(20)
        super().sync(fd)


def test_what_is_being_flushed_is_read_and_listed(tmp_path: Path) -> None:
    async def story() -> None:
        files = GatedFlush()
        bookie = await open_journaled(tmp_path, files)
        await ask(bookie, add(L1, 0))
        await bookie.checkpoint()
        files.gate.clear()
        await ask(bookie, add(L1, 1))
        flushing = bookie.checkpoint()
        waiting = asyncio.ensure_future(flushing)
        await ask(bookie, add(L1, 2))
        for entry_id in range(3):
            body = entry_body(L1, entry_id, b"payload")
            assert (await ask(bookie, read(L1, entry_id))).body == body
        listed = (await ask(bookie, ListEntriesRequest(L1))).availability
        assert [i for g in decode_availability(listed) for i in g.entry_ids()] == [0, 1, 2]
        last = (await ask(bookie, ReadLacRequest(L1))).last_entry_body
        assert last == entry_body(L1, 2, b"payload")
        assert not waiting.done()
        files.gate.set()
        await waiting
        for entry_id in range(3):
            assert (await ask(bookie, read(L1, entry_id))).status is EOK
        await bookie.close()

    run(story)


def test_both_memtables_full_hold_adds_back_until_the_flush(tmp_path: Path) -> None:
    """Who waits for acknowledgements is slowed down; who does not is refused at the limit."""

    async def story() -> None:
        files = GatedFlush()
        limits = {"memtable_bytes_max": MIB, "pending_bytes_max": 6}
        bookie = await open_journaled(tmp_path, files, **limits)
        await ask(bookie, add(L1, 0))
        await bookie.checkpoint()
        files.gate.clear()
        acknowledged, late = [0], []
        for entry_id in range(1, 100):
            answer = ask(bookie, add(L1, entry_id, bytes(MIB // 4)))
            await ask(bookie, ForceLedgerRequest(L1))  # the entry is durable, and shown
            if not answer.done():
                late.append(answer)
            elif answer.result().status is EOK:
                assert not late
                acknowledged.append(entry_id)
            else:
                assert answer.result().status is StatusCode.ETOOMANYREQUESTS
                break
        assert 6 * MIB < bookie.metrics.pending_bytes < 7 * MIB
        assert 8 <= len(acknowledged) <= 16
        assert len(late) == 24
        for entry_id in range(len(acknowledged) + len(late)):
            assert (await ask(bookie, read(L1, entry_id))).status is EOK
        files.gate.set()
        for answer in late:
            assert (await answer).status is EOK
        await bookie.checkpoint()
        assert bookie.metrics.pending_bytes == 0
        assert (await ask(bookie, add(L1, 200))).status is EOK
        await bookie.close()

    run(story)


def test_a_full_memtable_is_flushed_by_itself(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_journaled(tmp_path, memtable_bytes_max=10_000)
        for entry_id in range(20):
            await ask(bookie, add(L1, entry_id, bytes(2000)))
        await bookie.checkpoint()  # comes after those that the memtable started
        assert bookie.metrics.checkpoints_total >= 3
        await bookie.close()

    run(story)


def test_old_journals_are_kept_up_to_the_backups(tmp_path: Path) -> None:
    async def story() -> None:
        bookie = await open_journaled(tmp_path, journal_max_size_mb=0, journal_backups_max=3)
        for entry_id in range(8):
            await ask(bookie, add(L1, entry_id))
        assert len(list((tmp_path / "journal/current").glob("*.txn"))) == 8
        await bookie.checkpoint()
        assert len(list((tmp_path / "journal/current").glob("*.txn"))) == 4
        await bookie.close()

    run(story)


class GatedJournal(SystemFiles):
    """Syncs below one directory wait while the gate is shut, and fail once it is broken."""

    def __init__(self, directory: Path) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.is_broken = False
        self._directory = directory
        self._fds: set[int] = set()

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        (self._fds.add if self._directory in path.parents else self._fds.discard)(fd)
        return fd

    @override
    def sync(self, fd: int) -> None:
        if fd in self._fds:
            assert self.gate.wait(20)
            if self.is_broken:
                raise OSError("the journal's disk is gone")
        super().sync(fd)


def test_a_force_waits_for_the_ledgers_own_journal_only(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = two_journals(tmp_path)
        files = GatedJournal(first)
        bookie = await open_journaled(tmp_path, files, journal_directories=(first, second))
        await asyncio.wait([ask(bookie, add(LedgerId(n), 0)) for n in range(2)])
        files.gate.clear()
        slow = ask(bookie, add(LedgerId(0), 1))
        forced = ask(bookie, ForceLedgerRequest(LedgerId(0)))
        assert (await ask(bookie, add(LedgerId(1), 1))).status is EOK
        assert (await ask(bookie, ForceLedgerRequest(LedgerId(1)))).status is EOK
        assert not slow.done()
        assert not forced.done()
        files.gate.set()
        assert (await forced).status is EOK
        assert slow.done()
        await bookie.close()

    run(story)


def test_one_journal_that_fails_ends_all(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = two_journals(tmp_path)
        files = GatedJournal(first)
        bookie = await open_journaled(tmp_path, files, journal_directories=(first, second))
        await asyncio.wait([ask(bookie, add(LedgerId(n), 0)) for n in range(2)])
        files.is_broken = True
        lost = ask(bookie, add(LedgerId(0), 1))
        failure = await bookie.failed
        assert isinstance(failure, StorageFailed)
        files.is_broken = False
        assert (await ask(bookie, add(LedgerId(1), 1))).status is StatusCode.LOCAL_UNAVAILABLE
        assert (await ask(bookie, add(LedgerId(0), 2))).status is StatusCode.LOCAL_UNAVAILABLE
        await bookie.close()
        assert not lost.done()
        bookie = await open_journaled(tmp_path, journal_directories=(first, second))
        for number in range(2):
            assert (await ask(bookie, read(LedgerId(number), 0))).status is EOK
        await bookie.close()

    run(story)


def test_a_kill_leaves_what_the_memtable_had_in_the_journals(tmp_path: Path) -> None:
    live, dead = tmp_path / "live", tmp_path / "dead"

    async def story() -> None:
        bookie = await open_journaled(live, journal_directories=two_journals(live))
        for entry_id in range(10):
            for ledger_id in (L1, L2):
                await ask(bookie, add(ledger_id, entry_id, b"p" * entry_id, lac=entry_id - 1))
        copy(live, dead)
        await bookie.close()
        # A replay of more than the memtable may hold is flushed in pieces.
        bookie = await open_journaled(
            dead, journal_directories=two_journals(dead), memtable_bytes_max=1000
        )
        for entry_id in range(10):
            for ledger_id in (L1, L2):
                body = entry_body(ledger_id, entry_id, b"p" * entry_id, lac=entry_id - 1)
                response = await ask(bookie, read(ledger_id, entry_id))
                assert (response.body, response.max_lac) == (body, 8)
        await bookie.close()
        assert sorted(logged(dead)) == [(ledger, e) for ledger in (1, 2) for e in range(10)]

    run(story)


def copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)


class FullDisk(SystemFiles):
    """Entry logs find no room while `is_full`."""

    def __init__(self) -> None:
        self.is_full = False
        self._logs: set[int] = set()

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        (self._logs.add if path.suffix == ".log" else self._logs.discard)(fd)
        return fd

    @override
    def allocate(self, fd: int, position: int, size: int) -> None:
        if self.is_full and fd in self._logs:
            raise OSError(errno.ENOSPC, "full")
        super().allocate(fd, position, size)


def test_a_flush_without_room_is_tried_again_and_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_journaled(tmp_path, files, preallocate_mb=1, pending_bytes_max=6)
        bodies = {}

        async def put(entry_id: int, size: int) -> StatusCode:
            await bookie.look_at_disks()  # they have room, as far as they know
            response = await ask(bookie, add(L1, entry_id, bytes(size)))
            if response.status is EOK:
                bodies[entry_id] = entry_body(L1, entry_id, bytes(size))
            status: StatusCode = response.status
            return status

        assert await put(0, 100) is EOK
        files.is_full = True
        for attempt in range(3):
            assert await put(1 + attempt, MIB) is EOK
            with pytest.raises(OSError, match="no room"):
                await bookie.checkpoint()
        assert not bookie.failed.done()
        for entry_id, body in bodies.items():
            assert (await ask(bookie, read(L1, entry_id))).body == body
        files.is_full = False
        await bookie.checkpoint()
        # One checkpoint covered the plan that was stuck, and what came since.
        assert not bookie._storage.known.unsaved
        assert sorted(set(logged(tmp_path))) == [(1, entry_id) for entry_id in bodies]
        assert await put(9, 100) is EOK
        await bookie.close()
        bookie = await open_journaled(tmp_path)
        for entry_id, body in bodies.items():
            assert (await ask(bookie, read(L1, entry_id))).body == body
        await bookie.close()

    run(story)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_an_entry_that_was_added_again_is_replayed_over_the_one_in_the_entry_log(
    tmp_path: Path, is_damaged: bool
) -> None:
    """The scrub repairs so: what it stored again must not give way to the damaged copy."""

    async def story() -> None:
        live, dead = tmp_path / "live", tmp_path / "dead"
        bookie = await open_journaled(live)
        for payload in (b"first", b"other"):
            await ask(bookie, add(L1, 0, payload))
            await ask(bookie, add(L1, 1, b"same"))
            await bookie.checkpoint()
        for payload in (b"third", b"last!"):
            assert (await ask(bookie, add(L1, 0, payload, recovery=True))).status is EOK
        assert (await ask(bookie, add(L1, 1, b"same", recovery=True))).status is EOK
        shutil.copytree(live, dead)
        await bookie.close()
        (log,) = (dead / "ledgers/current").glob("*.log")
        if is_damaged:
            image = log.read_bytes()
            at = image.rindex(b"other") - 36  # its ledger and entry id
            log.write_bytes(image[:at] + bytes(16) + image[at + 16 :])
        before = len(logged(dead)) if not is_damaged else 0
        bookie = await open_journaled(dead)
        assert (await ask(bookie, read(L1, 0))).body == entry_body(L1, 0, b"last!")
        assert (await ask(bookie, read(L1, 1))).body == entry_body(L1, 1, b"same")
        await bookie.close()
        if not is_damaged:
            assert len(logged(dead)) == before + 1  # nothing is written that is there already

    run(story)
