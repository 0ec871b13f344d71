"""Reading records one after the other, as Java's bookie does: without groups and their proof.

For files that Java's bookie wrote, and for what needs no proof. Source: reference BookKeeper 5.2
and 5.6 (BookieImpl.readJournal, DefaultEntryLogger.scanEntryLog).
"""

import struct
from collections.abc import Callable, Iterator

from tailrace.bookie.group_format import MIN_BODY_SIZE, RECORD_HEAD_SIZE, Record
from tailrace.bookie.journal_format import PADDING
from tailrace.core.errors import CorruptData
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.ids import Position

WINDOW_BYTES = 8 * 1024 * 1024

_I32 = struct.Struct(">i")
_HEAD = struct.Struct(">iqqq")
_LAC_END = 24
_PADDING_HEAD = 8

Read = Callable[[int, Position], bytes]
"""(size, position) -> bytes, fewer only at the end of the file."""


def scan_records(
    read: Read, start: Position, name: str, window_bytes: int = WINDOW_BYTES
) -> Iterator[Record]:
    """Yield the records from `start` on, also those of negative ledger ids; padding is skipped.

    Ends at the end of the file, at a size of 0 (reserved room), or at a record that is cut: a torn
    tail is normal. Errors: CorruptData for a size that no record has. Cost: 0.3 us a record.
    """
    origin, window = start, read(window_bytes, start)
    at = start
    while True:
        if at + _HEAD.size > origin + len(window) and at > origin:
            origin, window = at, read(window_bytes, at)
        head = window[at - origin : at - origin + _HEAD.size]
        if len(head) < _PADDING_HEAD:
            return
        size, ledger_id, entry_id, lac = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
        if size == PADDING:
            at += _PADDING_HEAD + _padding_length(head, at, name)
            continue
        if not _is_record(size, at, name):
            return
        at += RECORD_HEAD_SIZE
        if at + size > origin + len(window):
            origin, window = at, read(max(window_bytes, size), at)
            if len(window) < size:
                return
        yield ledger_id, entry_id, lac if size >= _LAC_END else -1, at, size
        at += size


def _is_record(size: int, at: Position, name: str) -> bool:
    if size and not MIN_BODY_SIZE <= size <= FRAME_BYTES_LIMIT:
        raise CorruptData(f"{name}: a record of {size} bytes at position {at}")
    return size > 0


def _padding_length(head: bytes, at: Position, name: str) -> int:
    length: int = _I32.unpack_from(head, RECORD_HEAD_SIZE)[0]
    if not 0 <= length <= FRAME_BYTES_LIMIT:
        raise CorruptData(f"{name}: padding of {length} bytes at position {at}")
    return length
