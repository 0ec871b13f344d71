"""A disk that is full: adds are refused, nothing else happens, until there is room again."""

import asyncio
import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.app import OpenBookie
from tailrace.bookie.errors import NoRoom
from tailrace.bookie.grouped_file import EntryLog
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.core.runtime.files import Space, SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import Buffer, Position
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.world import L1, L2, add, ask, fence, open_small, read, run

MIB = 1024 * 1024
LARGE = bytes(MIB)


class FullDisk(SystemFiles):
    """Says that there is no room, for whatever grows a file whose name ends in `suffixes`.

    `room_bytes` is left for them all.
    """

    def __init__(self) -> None:
        self.suffixes: tuple[str, ...] = ()
        self.room_bytes = 0
        self._paths: dict[int, Path] = {}

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    @override
    def allocate(self, fd: int, position: Position, size: int) -> None:
        if self.suffixes and self._paths[fd].name.endswith(self.suffixes):
            if size > self.room_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room_bytes -= size
        super().allocate(fd, position, size)

    @override
    def write_at(self, fd: int, parts: Sequence[Buffer], position: Position) -> None:
        grows = position + sum(map(len, parts)) > self.size(fd)
        if grows and self.suffixes and self._paths[fd].name.endswith(self.suffixes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write_at(fd, parts, position)

    @override
    def space(self, path: Path) -> Space:
        return Space(1000, 1 if self.suffixes else 900)


async def statuses(bookie: OpenBookie, *entries: int, ledger: int = L1) -> list[StatusCode]:
    """Add large entries together, one group or several; return the answers."""
    asked = [ask(bookie, add(ledger, entry, LARGE)) for entry in entries]
    return [(await answer).status for answer in asked]


@pytest.mark.parametrize("preallocate_mb", [0, 1])
def test_adds_are_refused_at_a_full_disk_and_taken_again_when_there_is_room(
    tmp_path: Path, preallocate_mb: int
) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files, preallocate_mb=preallocate_mb)
        assert await statuses(bookie, 0, 1) == [StatusCode.EOK] * 2
        files.suffixes = (".log",)
        assert await statuses(bookie, 2, 3) == [StatusCode.EREADONLY] * 2
        assert bookie.health.reason == f"a write found no room in {tmp_path / 'ledgers'}"
        assert await statuses(bookie, 4) == [StatusCode.EREADONLY]
        assert (await ask(bookie, read(L1, 1))).status is StatusCode.EOK
        assert (await ask(bookie, read(L1, 2))).status is StatusCode.ENOENTRY
        files.suffixes = ()
        await bookie.look_at_disks()
        assert not bookie.health.is_read_only
        assert await statuses(bookie, 2, 3, 4) == [StatusCode.EOK] * 3
        assert bookie.pending_bytes == 0
        await bookie.close()
        again = await open_small(tmp_path)
        for entry in range(5):
            assert (await ask(again, read(L1, entry))).status is StatusCode.EOK
        await again.close()

    run(story)


@pytest.mark.parametrize("preallocate_mb", [0, 1])
def test_a_fence_is_durable_at_a_full_disk(tmp_path: Path, preallocate_mb: int) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files, preallocate_mb=preallocate_mb)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        files.suffixes = (".log",)
        added = [ask(bookie, add(L1, entry, LARGE)) for entry in (1, 2)]
        fenced = ask(bookie, fence(L1))
        assert {(await one).status for one in added} == {StatusCode.EREADONLY}
        assert (await fenced).entry_id == -1
        assert (await fenced).status is StatusCode.EOK
        await bookie.close()
        again = await open_small(tmp_path)
        assert (await ask(again, add(L1, 1))).status is StatusCode.EFENCED
        await again.close()

    run(story)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_bookie_that_starts_with_little_room_reads_and_fences(
    tmp_path: Path, *, journal_write_data: bool
) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files, journal_write_data=journal_write_data)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        await bookie.close()
        files.suffixes, files.room_bytes = (".log", ".txn"), MIB // 2  # less than a journal's step
        full = await open_small(tmp_path, files, journal_write_data=journal_write_data)
        assert full.health.is_read_only
        assert (await ask(full, read(L1, 0))).status is StatusCode.EOK
        for ledger in range(L1, L1 + 100):
            expected = StatusCode.EOK if ledger == L1 else StatusCode.ENOENTRY
            assert (await ask(full, fence(ledger))).status is expected
        assert await statuses(full, 0, ledger=L1 + 100) == [StatusCode.EREADONLY]
        assert not full.failed.done()
        await full.close()
        again = await open_small(tmp_path)
        assert (await ask(again, add(L1, 1))).status is StatusCode.EFENCED
        assert (await ask(again, read(L1, 0))).status is StatusCode.EOK
        await again.close()

    run(story)


def test_no_room_for_a_new_entry_log_leaves_the_old_one_in_use(tmp_path: Path) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files, log_size_limit=3 * MIB)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        assert await statuses(bookie, 1) == [StatusCode.EOK]
        files.suffixes = (".log",)
        assert await statuses(bookie, 2) == [StatusCode.EREADONLY]
        logs = tmp_path / "ledgers" / "current"
        assert [path.name for path in sorted(logs.glob("*.log"))] == ["0.log"]
        files.suffixes = ()
        await bookie.look_at_disks()
        assert await statuses(bookie, 2, ledger=L2) == [StatusCode.EOK]
        await bookie.close()
        again = await open_small(tmp_path)
        assert (await ask(again, read(L1, 1))).status is StatusCode.EOK
        assert (await ask(again, read(L2, 2))).status is StatusCode.EOK
        await again.close()

    run(story)


class NoRoomForIndexes(SystemFiles):
    """Refuses to write index files while `is_full`."""

    def __init__(self) -> None:
        self.is_full = False
        self.refused = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        if self.is_full and path.suffix == ".idx" and flags & os.O_CREAT:
            self._loop.call_soon_threadsafe(self.refused.set)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, flags)


def test_a_checkpoint_without_room_is_tried_again_and_ends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        files = NoRoomForIndexes()
        bookie = await open_small(tmp_path, files)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        files.is_full = True
        with pytest.raises(OSError, match="no room"):
            await bookie.checkpoint()
        await files.refused.wait()
        assert not bookie.failed.done()
        await bookie.look_at_disks()  # they have room, as far as they know
        assert await statuses(bookie, 1) == [StatusCode.EOK]
        assert (await ask(bookie, read(L1, 0))).status is StatusCode.EOK
        files.is_full = False
        await bookie.checkpoint()
        await bookie.checkpoint()
        await bookie.close()
        again = await open_small(tmp_path)
        for entry in (0, 1):
            assert (await ask(again, read(L1, entry))).status is StatusCode.EOK
        await again.close()

    run(story)


def test_a_bookie_whose_checkpoint_finds_no_room_is_read_only(tmp_path: Path) -> None:
    """Else what no checkpoint covers would grow without bound."""

    async def story() -> None:
        files = NoRoomForIndexes()
        bookie = await open_small(tmp_path, files)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        files.is_full = True
        with pytest.raises(OSError, match="no room"):
            await bookie.checkpoint()
        assert bookie.health.reason == f"a write found no room in {tmp_path / 'ledgers'}"
        assert await statuses(bookie, 1) == [StatusCode.EREADONLY]
        files.is_full = False
        await bookie.checkpoint()
        await bookie.close()

    run(story)


def test_a_flush_without_room_makes_the_bookie_read_only(tmp_path: Path) -> None:
    async def story() -> None:
        files = FullDisk()
        bookie = await open_small(tmp_path, files, journal_write_data=True)
        assert await statuses(bookie, 0) == [StatusCode.EOK]
        files.suffixes = (".log",)
        with pytest.raises(OSError, match="no room"):
            await bookie.checkpoint()
        assert await statuses(bookie, 1) == [StatusCode.EREADONLY]
        files.suffixes = ()
        await bookie.checkpoint()
        await bookie.close()

    run(story)


class FullDirectory(CrashFiles):
    """Has no room in one directory."""

    full = Path()

    @override
    def allocate(self, fd: int, position: Position, size: int) -> None:
        if self._paths[fd].parent == self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(fd, position, size)


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_found_no_room_does_not_come_back_beside_its_successor(
    tmp_path: Path, seed: int
) -> None:
    """Two logs of one id: a start would take the empty one for the last, and lose the other."""
    files = FullDirectory()
    dirs = LedgerDirs(files, [tmp_path / "a", tmp_path / "b"])
    for current in dirs.all:
        files.make_directory(current)
    files.full = dirs.all[0]
    log = EntryLog(files, dirs, None)
    with pytest.raises(NoRoom):
        log.append([bytes(100)], 100, synced=True)
    dirs.mark_full(dirs.directories[0])
    assert log.append([bytes(100)], 100, synced=True).file_id == 0
    log.close()
    files.lose_power(random.Random(seed))
    assert not list(files.full.glob("*.log"))
    assert (dirs.all[1] / "0.log").exists()
