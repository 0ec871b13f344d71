"""When the records of a batch were made, without taking anything else of them.

For look-ups by time. The times are those of the producer: with LogAppendTime they do not count.
A walk is made in bounded steps, so any thread may make it. Source: reference Kafka 3.1.
"""

from typing import Final, NamedTuple

from tailrace.protocol.errors import BadLength
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader
from tailrace.protocol.records.loops import scan, unreadable
from tailrace.protocol.records.record_loops import CUT, FOUND, NO_TIME
from tailrace.protocol.records.window import Window

_NEVER: Final = (1 << 63) - 1
_EARLIEST: Final = -(1 << 63)
_DELTA_MAX: Final = (1 << 31) - 1


class TimedRecord(NamedTuple):
    """A record, as it is found by time."""

    offset: Offset
    timestamp: int


def first_since(
    header: BatchHeader, payload: Buffer, since: int, first: Offset = 0
) -> TimedRecord | None:
    """Return the first record from offset `first` on that is not older than `since`.

    Shape: a decompressed payload. Errors: DecodeError family; records behind it are not looked at.
    Cost: 20 ns a record, and a copy of the payload where it is not bytes.
    """
    return _scan(header, payload, min(max(since, _EARLIEST), _NEVER), first)[0]


def newest_from(header: BatchHeader, payload: Buffer, first: Offset) -> int:
    """Return the newest time of the records from offset `first` on, at least NO_TIMESTAMP.

    Shape, Errors, Cost: as above; all records are looked at.
    """
    at_newest, newest = _scan(header, payload, _NEVER, first)
    return newest if at_newest is None else at_newest.timestamp


def _scan(
    header: BatchHeader, payload: Buffer, since: int, first: Offset
) -> tuple[TimedRecord | None, int]:
    first_delta = min(max(first - header.base_offset, -_DELTA_MAX), _DELTA_MAX)
    count, base_time = header.record_count, header.base_timestamp
    window = Window(payload)
    at = index = 0
    newest = NO_TIME
    while index < count:
        at, index, newest, fault, delta, time = scan(
            window.data, count, base_time, since, first_delta, at, index, newest
        )
        if fault == FOUND:
            return TimedRecord(header.base_offset + delta, time), newest
        if fault == CUT and not window.is_last:
            window.move(at)
            at = 0
        elif fault:
            raise unreadable(fault, index)
    if at != len(window.data) or not window.is_last:
        raise BadLength("bytes after the last record")
    return None, newest
