import errno
from collections.abc import Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LocationTable
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import Buffer, LedgerId, Position
from tests.unit.bookie.world import L1, L2


class CountedReads(SystemFiles):
    reads = 0
    listed = 0
    is_broken = False

    @override
    def names(self, directory: Path) -> list[str]:
        self.listed += 1
        return super().names(directory)

    @override
    def write_at(self, fd: int, parts: Sequence[Buffer], position: Position) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "broken")
        super().write_at(fd, parts, position)

    @override
    def remove(self, path: Path) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "broken")
        super().remove(path)

    @override
    def read_at(self, fd: int, size: int, position: Position) -> bytes:
        self.reads += 1
        return super().read_at(fd, size, position)


def test_holes_are_skipped_when_a_ledger_is_listed(tmp_path: Path) -> None:
    files = CountedReads()
    dirs = LedgerDirs(files, [tmp_path])
    files.make_directory(dirs.all[0])
    indexes = IndexFiles(files, dirs)
    wanted = [0, 1, 1023, 1024, 131_071, 131_072, 2**23]
    table = LocationTable()
    for entry_id in wanted:
        table.put(entry_id, entry_id + 5)
    indexes.write(L1, IndexHeader(b"key"), [table])
    files.reads = 0
    assert indexes.entry_ids(L1) == wanted
    assert files.reads < 200  # of both files
    assert indexes.entry_ids(L2) == []


def test_ledgers_are_listed_once_and_known_from_then_on(tmp_path: Path) -> None:
    files = CountedReads()
    dirs = LedgerDirs(files, [tmp_path / "a", tmp_path / "b"])
    former, indexes = IndexFiles(files, dirs), IndexFiles(files, dirs)
    ids = [LedgerId(number) for number in (*range(20), 2**40)]
    for ledger_id in ids[:10]:
        former.write(ledger_id, IndexHeader(b"key"), [])
    indexes.write(ids[10], IndexHeader(b"key"), [])
    assert indexes.ledger_ids() == set(ids[:11])
    files.listed = 0
    for ledger_id in ids:
        indexes.write(ledger_id, IndexHeader(b"key"), [])
    assert indexes.ledger_ids() == set(ids)
    for ledger_id in ids[5:]:
        indexes.remove(ledger_id)
    assert indexes.ledger_ids() == set(ids[:5])
    assert not files.listed
    assert indexes.list_ledger_ids() == set(ids[:5])


def test_what_may_be_there_is_known(tmp_path: Path) -> None:
    """A log is removed for ledgers that are not here: one too many is no harm, one too few is."""
    files = CountedReads()
    indexes = IndexFiles(files, LedgerDirs(files, [tmp_path]))
    assert indexes.ledger_ids() == set()
    files.is_broken = True
    with pytest.raises(OSError, match="broken"):
        indexes.write(L1, IndexHeader(b"key"), [])
    assert indexes.ledger_ids() == indexes.list_ledger_ids() == {L1}
    with pytest.raises(OSError, match="broken"):
        indexes.remove(L1)
    assert indexes.ledger_ids() == {L1}
    files.is_broken = False
    indexes.ledger_ids().add(L2)  # a copy
    indexes.remove(L1)
    assert indexes.ledger_ids() == set()
