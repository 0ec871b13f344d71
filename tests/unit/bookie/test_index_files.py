from pathlib import Path

from typing_extensions import override

from bookie.index_files import IndexFiles
from bookie.index_format import IndexHeader
from bookie.ledger_dirs import LedgerDirs
from bookie.ledger_state import LocationTable
from core.runtime.files import SystemFiles
from protocol.ids import Position
from tests.unit.bookie.world import L1, L2


class CountedReads(SystemFiles):
    reads = 0

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
    assert files.reads < 100
    assert indexes.entry_ids(L2) == []
