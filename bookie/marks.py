"""Marks: where a replay has to begin. BookKeeper's lastMark, and one like it for the entry logs.

Everything before a mark is in the index files and synced. A mark is i64 file id, i64 position, u32
CRC32C of its name and these; it is replaced whole, and only moves forward. There is one for each
journal directory (lastMark, lastMark.1, ...) and one for the entry logs; every ledger directory
carries them all. Java's bookie reads the first 16 bytes of lastMark, and writes no more than these:
such a mark is taken as it is. Source: LastLogMark of BookKeeper's Journal.
"""

import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files, write_atomically
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import Position

logger = logging.getLogger(__name__)

JOURNAL_MARK = "lastMark"
ENTRY_LOG_MARK = "entryLogMark"
JAVA_LOG_MARK = "javaLogMark"
"""The highest entry log that Java's bookie made in these directories; position 0."""

_MARK = struct.Struct(">qq")
_CRC = struct.Struct(">I")


REMEDY = (
    "erase this bookie (tailrace bookie format), which other replicas then fill again "
    "(tailrace bookie decommission)"
)


class Mark(NamedTuple):
    """A place in a series of numbered files; (0, 0) is before all of them."""

    file_id: int = 0
    position: Position = 0


def pack_mark(name: str, mark: Mark) -> bytes:
    """Return the 20 bytes of the mark of that name."""
    data = _MARK.pack(*mark)
    return data + _CRC.pack(crc32c(name.encode() + data))


def journal_mark_name(index: int) -> str:
    """Return the name of the mark of a journal directory, by its place in the configuration."""
    return f"{JOURNAL_MARK}.{index}" if index else JOURNAL_MARK


def read_mark(files: Files, directories: Sequence[Path], name: str) -> Mark | None:
    """Return the highest mark of that name, None if none was ever written.

    All directories carry the same one, unless a crash left some behind; a lower one only makes a
    replay longer, so one that is whole suffices. Errors: CorruptData: there are damaged ones only.
    """
    found: list[Mark] = []
    damage: CorruptData | None = None
    for directory in directories:
        try:
            mark = _read(files, directory / name)
        except CorruptData as error:
            logger.error("mark_damaged error=%s", error)  # noqa: TRY400 - it says where
            damage = error
        else:
            if mark is not None:
                found.append(mark)
    if damage is not None and not found:
        raise damage
    return max(found, default=None)


def _read(files: Files, path: Path) -> Mark | None:
    data = files.read_file(path)
    if data is None:
        return None
    mark = data[: _MARK.size]
    if len(mark) < _MARK.size:
        raise CorruptData(f"{path}: a mark of {len(data)} bytes; {REMEDY}")
    if data[_MARK.size :] not in (b"", _CRC.pack(crc32c(path.name.encode() + mark))):
        raise CorruptData(f"{path}: the mark does not match its checksum; {REMEDY}")
    return Mark(*_MARK.unpack(mark))


def write_mark(files: Files, directories: Sequence[Path], name: str, mark: Mark) -> None:
    """Replace a mark in all directories."""
    for directory in directories:
        write_atomically(files, directory / name, pack_mark(name, mark))
