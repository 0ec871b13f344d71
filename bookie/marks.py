"""Marks: where a replay has to begin. BookKeeper's lastMark, and one like it for the entry logs.

Everything before a mark is in the index files and synced. A mark is 16 bytes, i64 file id and i64
position, replaced whole, and only moves forward. There is one for each journal directory (lastMark,
lastMark.1, ...) and one for the entry logs; every ledger directory carries them all.
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from core.errors import CorruptData
from core.runtime.files import Files, write_atomically
from protocol.ids import Position

JOURNAL_MARK = "lastMark"
ENTRY_LOG_MARK = "entryLogMark"

_MARK = struct.Struct(">qq")


class Mark(NamedTuple):
    """A place in a series of numbered files; (0, 0) is before all of them."""

    file_id: int = 0
    position: Position = 0


def pack_mark(mark: Mark) -> bytes:
    """Return the 16 bytes."""
    return _MARK.pack(*mark)


def journal_mark_name(index: int) -> str:
    """Return the name of the mark of a journal directory, by its place in the configuration."""
    return f"{JOURNAL_MARK}.{index}" if index else JOURNAL_MARK


def read_mark(files: Files, directories: Sequence[Path], name: str) -> Mark | None:
    """Return the highest mark of that name, None if none was ever written. Errors: CorruptData.

    All directories carry the same one, unless a crash left some behind.
    """
    found = [_read(files, directory / name) for directory in directories]
    return max((mark for mark in found if mark is not None), default=None)


def _read(files: Files, path: Path) -> Mark | None:
    data = files.read_file(path)
    if data is None:
        return None
    if len(data) != _MARK.size:
        raise CorruptData(f"{path}: a mark of {len(data)} bytes")
    return Mark(*_MARK.unpack(data))


def write_mark(files: Files, directories: Sequence[Path], name: str, mark: Mark) -> None:
    """Replace a mark in all directories."""
    for directory in directories:
        write_atomically(files, directory / name, pack_mark(mark))
