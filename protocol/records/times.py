"""When the records of a batch were made, without taking anything else of them.

For look-ups by time, which may meet a batch of ten thousand records. Source: reference Kafka 3.1.
"""

from collections.abc import Iterator
from typing import Final

from protocol.errors import BadLength, BufferUnderflow
from protocol.ids import Buffer, Offset
from protocol.records.batch import BatchHeader
from protocol.records.record import RECORD_BYTES_MIN
from protocol.varint import read_unsigned32, read_unsigned64, read_varint

_THREE_BYTES: Final = 1 << 14
"""The first two bytes of a longer varint make at least this; a shorter one is less."""

ANY_TIME: Final = -(1 << 64)


def iter_times(
    header: BatchHeader, payload: Buffer, since: int = ANY_TIME
) -> Iterator[tuple[Offset, int]]:
    """Yield offset and timestamp of each record of a decompressed payload, or of those `since`.

    The timestamps are those of the producer: with LogAppendTime they do not count.
    Errors: DecodeError family, possibly after some records; offsets of records that are left out
    are not looked at. Cost: nothing is copied; 0.35 us a record, twice that if it is not left out.
    """
    try:
        yield from _iter_times(header, memoryview(payload), since - header.base_timestamp)
    except IndexError:
        raise BufferUnderflow("the bytes end inside a record") from None


def _iter_times(  # noqa: C901, PLR0912, PLR0915  a call for each number would double its cost
    header: BatchHeader, data: memoryview, since_delta: int
) -> Iterator[tuple[Offset, int]]:
    size, at = len(data), 0
    for _ in range(header.record_count):
        start = at
        word = data[at]
        at += 1
        if word >= 0x80:
            word += (data[at] << 7) - 0x80
            at += 1
            if word >= _THREE_BYTES:
                word, at = read_unsigned32(data, start)
        end = at + (word >> 1 ^ -(word & 1))
        if end - at < RECORD_BYTES_MIN - 1 or end > size:
            raise BadLength(f"a record of {end - at} bytes, with {size - at} left")
        at += 1  # attributes
        start = at
        word = data[at]
        at += 1
        if word >= 0x80:
            word += (data[at] << 7) - 0x80
            at += 1
            if word >= _THREE_BYTES:
                word, at = read_unsigned64(data, start)
        delta = word >> 1 ^ -(word & 1)
        if delta < since_delta and at <= end:
            at = end
            continue
        offset_delta, at = read_varint(data, at)
        if at > end:
            raise BufferUnderflow("a record that ends inside its offset")
        yield header.base_offset + offset_delta, header.base_timestamp + delta
        at = end
    if at != size:
        raise BadLength(f"{size - at} bytes after the last record")
