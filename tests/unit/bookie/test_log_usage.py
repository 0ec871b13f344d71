"""Ledgers maps say what is in their logs: one that misses a ledger would let its entries go."""

import errno
import os
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.entry_log_format import HEADER_SIZE, read_header, read_ledgers_map
from tailrace.bookie.record_scan import scan_records
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import LedgerId, Position
from tests.unit.bookie.test_compaction import World
from tests.unit.bookie.world import L1, L2, add, ask, open_small, read, run

EOK = StatusCode.EOK


def mapped(path: Path) -> dict[int, int] | None:
    """Return what the ledgers map of a log says, None without one."""
    image = path.read_bytes()
    header = read_header(image)
    if not header.map_offset:
        return None
    return read_ledgers_map(image[header.map_offset :], header.ledgers)


def counted(path: Path) -> dict[int, int]:
    """Return what is in a log."""
    image = path.read_bytes()
    usage: dict[int, int] = {}
    for ledger_id, _, _, _, size in scan_records(
        lambda length, at: image[at : at + length], HEADER_SIZE, str(path)
    ):
        if ledger_id >= 0:
            usage[ledger_id] = usage.get(ledger_id, 0) + size + 4
    return usage


def logs_of(directory: Path) -> list[Path]:
    return sorted(directory.glob("ledgers/current/*.log"))


class FullOnce(SystemFiles):
    """Has no room once: for a file with this name to grow behind its header."""

    def __init__(self) -> None:
        self.name = ""
        self._paths: dict[int, Path] = {}

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def _refuse(self, fd: int) -> None:
        if self._paths[fd].name == self.name:
            self.name = ""
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @override
    def allocate(self, fd: int, position: Position, size: int) -> None:
        if position:
            self._refuse(fd)
        super().allocate(fd, position, size)

    @override
    def write_at(self, fd: int, parts: object, position: Position) -> None:
        if self._paths[fd].name == "lastId":
            self._refuse(fd)
        super().write_at(fd, parts, position)  # type: ignore[arg-type]


def test_a_ledger_that_was_removed_while_its_log_was_written_is_in_the_map(tmp_path: Path) -> None:
    async def story() -> None:
        directories = (tmp_path / "ledgers",)
        world = World(tmp_path, ledger_directories=directories, log_size_limit=20_000)
        async with world.opened():
            await world.write(range(1, 3), range(5))
            world.living.discard(L1)
            assert (await world.collector.collect()).ledgers == [L1]
            await world.write(range(2, 3), range(5, 30))
            await world.bookie.checkpoint()
            first = logs_of(tmp_path)[0]
            assert mapped(first) == counted(first)
            assert set(counted(first)) == {L1, L2}
            world.living.add(LedgerId(3))
            collected = await world.collector.collect(force=True)
            assert 0 in collected.entry_logs  # a fifth of it was dead

    run(story)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_log_whose_last_group_is_damaged_gets_no_map(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        changes = {"log_size_limit": 3000, "preallocate_mb": 0}
        changes |= {"journal_write_data": journal_write_data}
        bookie = await open_small(tmp_path, **changes)
        for entry_id in range(2):
            await ask(bookie, add(L1, entry_id, bytes(500)))
            await bookie.checkpoint()
        await ask(bookie, add(L2, 0, bytes(500)))
        await bookie.close()
        log = logs_of(tmp_path)[0]
        image = bytearray(log.read_bytes())
        image[-100] ^= 1  # of L2's entry
        log.write_bytes(image)
        bookie = await open_small(tmp_path, **changes)
        for entry_id in range(2, 6):
            await ask(bookie, add(L1, entry_id, bytes(500)))
            await bookie.checkpoint()
        await bookie.close()
        assert len(logs_of(tmp_path)) > 1
        assert set(counted(log)) == {L1, L2}
        assert mapped(log) is None

    run(story)


def test_a_log_is_sealed_also_when_there_is_no_room_in_the_one_behind_it(tmp_path: Path) -> None:
    async def story() -> None:
        files = FullOnce()
        bookie = await open_small(
            tmp_path, files, log_size_limit=3000, journal_write_data=True, preallocate_mb=1
        )
        await ask(bookie, add(L1, 0, bytes(1500)))
        await bookie.checkpoint()
        files.name = "1.log"
        await ask(bookie, add(L2, 0, bytes(1500)))
        with pytest.raises(OSError, match="no room"):
            await bookie.checkpoint()
        await bookie.checkpoint()
        await bookie.look_at_disks()  # which have room again
        for entry_id in range(1, 4):
            assert (await ask(bookie, add(L2, entry_id, bytes(1500)))).status is EOK
            await bookie.checkpoint()
        await bookie.close()

    run(story)
    *sealed, _ = logs_of(tmp_path)
    assert len(sealed) == 4
    assert [mapped(path) for path in sealed] == [counted(path) for path in sealed]


def test_no_room_for_the_hint_on_the_newest_log_ends_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        files = FullOnce()
        bookie = await open_small(tmp_path, files, log_size_limit=3000, preallocate_mb=0)
        await ask(bookie, add(L1, 0, bytes(1500)))
        files.name = "lastId"
        asked = ask(bookie, add(L1, 1, bytes(1500)))
        while not (asked.done() or bookie.failed.done()):
            await bookie.room()
        assert not bookie.failed.done()
        assert (await asked).status is EOK
        await bookie.close()

    run(story)


def test_a_header_that_denies_its_map_does_not_let_the_log_go(tmp_path: Path) -> None:
    """One flipped bit makes 0 ledgers of 1."""

    async def story() -> None:
        directories = (tmp_path / "ledgers",)
        world = World(tmp_path, ledger_directories=directories)
        async with world.opened():
            await world.write(range(1, 2), range(20))
            await world.bookie.checkpoint()
            first = logs_of(tmp_path)[0]
            image = bytearray(first.read_bytes())
            assert read_header(image).ledgers == 1
            image[19] ^= 1
            first.write_bytes(image)
            assert (await world.collector.collect()).entry_logs == []
            for entry_id in range(20):
                assert (await ask(world.bookie, read(L1, entry_id))).status is EOK

    run(story)
