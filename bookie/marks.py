"""Marks: where a replay has to begin. BookKeeper's lastMark, and one like it for the entry log.

Everything before a mark is in the index files and synced. A mark is 16 bytes, i64 file id and i64
position, replaced whole, and only moves forward.
"""

import struct
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


def read_mark(files: Files, path: Path) -> Mark | None:
    """Return a mark, None if none was ever written. Errors: CorruptData."""
    data = files.read_file(path)
    if data is None:
        return None
    if len(data) != _MARK.size:
        raise CorruptData(f"{path}: a mark of {len(data)} bytes")
    return Mark(*_MARK.unpack(data))


def write_mark(files: Files, path: Path, mark: Mark) -> None:
    """Replace a mark."""
    write_atomically(files, path, pack_mark(mark))
