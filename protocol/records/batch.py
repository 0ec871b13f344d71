"""The header of a record batch (magic 2), and what a broker does with it without reading records.

    0 base offset i64 | 8 batch length i32 | 12 leader epoch i32 | 16 magic i8 | 17 crc u32
    21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64
    43 producer id i64 | 51 producer epoch i16 | 53 base sequence i32 | 57 count i32 | 61 records

The CRC covers 21 to the end, so base offset and leader epoch are stamped in place and the rest
of a batch is stored and served as it came. Source: reference Kafka 3.1; DefaultRecordBatch.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadChecksum, BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, Offset

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes that `batch_length` does not count: base offset and itself."""
MAGIC = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
CRC_AT = 17
CRC_FROM = 21
"""What the CRC covers begins here."""
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_SEQUENCE_MODULUS = 1 << 31


class TimestampType(IntEnum):
    """Who set the timestamps of a batch's records."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order."""

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record that the batch was made with; compaction keeps it."""
        return self.base_offset + self.last_offset_delta

    @property
    def size_bytes(self) -> int:
        """Length of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def codec(self) -> int:
        """Kafka's codec id, 0 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME))

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's time is the broker's, `max_timestamp`."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker for brokers and not users' records."""
        return bool(self.attributes & CONTROL)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer made it."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; after 2^31-1 comes 0. NO_SEQUENCE without a sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS


def unpack_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Read the 61 bytes as they are, whatever they say. Errors: BufferUnderflow."""
    try:
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(buf, at))  # _make, less a call
    except struct.error:
        raise BufferUnderflow("fewer bytes than a batch header") from None


def read_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Read the header of a batch of magic 2; the records after it need not be there yet.

    Errors: BufferUnderflow (fewer than 61 bytes), BadValue (magic), BadLength (batch length).
    """
    header = unpack_header(buf, at)
    if header.magic != MAGIC:
        raise BadValue(f"record batch of magic {header.magic}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise BadLength(f"record batch of length {header.batch_length}")
    return header


def pack_header(header: BatchHeader) -> bytes:
    """Return the 61 bytes."""
    return _HEADER.pack(*header)


def stamp(buf: bytearray | memoryview, base_offset: Offset, leader_epoch: int, at: int = 0) -> None:
    """Write what the broker assigns into the batch at `at`, in place and outside its CRC."""
    _INT64.pack_into(buf, at, base_offset)
    _INT32.pack_into(buf, at + 12, leader_epoch)


def stamp_log_append_time(buf: bytearray | memoryview, now_ms: int, at: int = 0) -> None:
    """Turn a batch into one of the broker's time: bit 3, max timestamp, and a new CRC.

    Shape: `buf` holds the whole batch. Base timestamp and deltas stay, readers ignore them.
    Cost: one pass of CRC over the batch.
    """
    buf[at + _ATTRIBUTES_AT] = 0  # no bit there means anything, nor the lower byte's highest
    buf[at + _ATTRIBUTES_AT + 1] = buf[at + _ATTRIBUTES_AT + 1] & 0x7F | LOG_APPEND_TIME
    _INT64.pack_into(buf, at + _MAX_TIMESTAMP_AT, now_ms)
    stamp_crc(buf, at)


def is_headed(buf: Buffer, header: BatchHeader) -> bool:
    """Whether the batch in `buf` says of its size and time what a header does.

    One of another codec was made from what the header is of, and says what it should.
    """
    newest, attributes = _INT64.unpack_from(buf, _MAX_TIMESTAMP_AT)[0], buf[_ATTRIBUTES_AT + 1]
    differ = attributes ^ header.attributes & 0xFF
    if not differ and newest == header.max_timestamp:
        return len(buf) == LOG_OVERHEAD + header.batch_length
    return bool(differ & CODEC_MASK)


def with_header(buf: memoryview, header: BatchHeader) -> memoryview:
    """Write another header into the batch in `buf`, in place, and a new CRC; return its new bytes.

    Shape: `buf` holds the whole batch; the header's size is that, or less. Cost: one pass of CRC.
    """
    _HEADER.pack_into(buf, 0, *header)
    batch = buf[: header.size_bytes]
    stamp_crc(batch)
    return batch


def stamp_crc(buf: bytearray | memoryview, at: int = 0) -> None:
    """Write the CRC that the batch's bytes have now."""
    crc = compute_crc(buf, at)
    buf[at + CRC_AT : at + CRC_FROM] = crc.to_bytes(4, "big")


def compute_crc(buf: Buffer, at: int = 0) -> int:
    """Return the CRC that the batch at `at` should carry. Errors: BufferUnderflow, BadLength."""
    end = at + LOG_OVERHEAD + read_header(buf, at).batch_length
    if end > len(buf):
        raise BufferUnderflow("the bytes end before the batch does")
    return crc32c(memoryview(buf)[at + CRC_FROM : end])


def verify_crc(buf: Buffer, at: int = 0) -> None:
    """Check the CRC of the whole batch at `at`. Errors: BadChecksum, and those of compute_crc."""
    _compare_crc(read_header(buf, at).crc, compute_crc(buf, at))


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Check the CRC of a whole batch whose header was read before. Errors: BadChecksum."""
    _compare_crc(header.crc, crc32c(memoryview(batch)[CRC_FROM:]))


def _compare_crc(stored: int, computed: int) -> None:
    if computed != stored:
        raise BadChecksum(f"record batch: stored crc {stored:#x}, computed {computed:#x}")


def split_batches(buf: Buffer) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of every whole batch; a cut one at the end is left out.

    Errors: BadLength, BadValue where a header is no header.
    """
    at, size = 0, len(buf)
    while size - at >= HEADER_SIZE:
        end = at + LOG_OVERHEAD + read_header(buf, at).batch_length
        if end > size:
            return
        yield at, end
        at = end
