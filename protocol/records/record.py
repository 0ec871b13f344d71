"""Records inside a batch: read one by one where somebody asks for them, and built.

    record  = varint length | i8 attributes (0) | varlong timestamp delta | varint offset delta
              varint key length (-1 null) | key | varint value length (-1 null) | value
              varint header count | (varint length | utf-8 key | varint length (-1 null) | value)*

Bounded: a hostile count or length is refused before anything is built from it. Not for the produce
and fetch paths, which make no objects of records. Source: reference Kafka 3.1.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from librt.strings import BytesWriter

from tailrace.protocol.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow, UnexpectedNull
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
    pack_header,
    read_header,
    stamp_crc,
)
from tailrace.protocol.records.loops import fill, unreadable
from tailrace.protocol.records.record_loops import COLUMNS
from tailrace.protocol.varint import read_varint, write_varint

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN = 7
"""Six one-byte numbers and the attributes."""
_HEADER_BYTES_MIN = 2
_AT_ONCE = 1000
_PLACES = Struct(f"<{COLUMNS}q")


class Record(NamedTuple):
    """One record, with the offset and time that a consumer sees."""

    offset: Offset = 0
    timestamp: int = NO_TIMESTAMP
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class Producer(NamedTuple):
    """Who made a batch, for idempotence."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER = Producer()


def payload_of(
    batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> tuple[BatchHeader, Buffer]:
    """Return the header and the records' bytes, decompressed; the CRC is not checked.

    Errors: DecodeError family. Cost: one copy for a compressed batch, none for a plain one.
    """
    header = read_header(batch)
    if header.size_bytes > len(batch):
        raise BufferUnderflow("the bytes end before the batch does")
    return header, read_payload(header, memoryview(batch)[: header.size_bytes], max_bytes)


def read_payload(
    header: BatchHeader, batch: memoryview, max_bytes: int = DECOMPRESSED_BYTES_MAX
) -> Buffer:
    """Return the same of a whole batch whose header was read before. Errors, Cost: as above."""
    payload = decompress(header.codec, batch[HEADER_SIZE:], max_bytes)
    if not 0 <= header.record_count <= len(payload) // RECORD_BYTES_MIN:
        raise BadLength(f"{header.record_count} records in {len(payload)} bytes")
    return payload


def iter_records(batch: Buffer, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of a whole batch; its CRC is not checked here.

    Shape: `max_bytes` bounds the decompressed payload. Control batches are yielded as they are.
    Errors: DecodeError family, possibly after some records. Cost: copies keys and values.
    """
    header, payload = payload_of(batch, max_bytes)
    kind = header.timestamp_type
    data = bytes(payload)
    at, left = 0, header.record_count
    while left:
        places = BytesWriter()
        at = fill(places, data, at, len(data), min(left, _AT_ONCE))
        if at < 0:
            raise unreadable(at, header.record_count - left)
        for row in _PLACES.iter_unpack(places.getvalue()):
            _, end, _, _, key_at, value_at, key_size, value_size, time_delta, offset_delta = row
            left -= 1
            key = data[key_at : key_at + key_size] if key_size >= 0 else None
            value = data[value_at : value_at + value_size] if value_size >= 0 else None
            headers = _read_headers(data, value_at + max(value_size, 0), end)
            timestamp = _timestamp(header, time_delta)
            yield Record(header.base_offset + offset_delta, timestamp, kind, key, value, headers)
    if at != len(data):
        raise BadLength(f"{len(data) - at} bytes after the last record")


def _timestamp(header: BatchHeader, time_delta: int) -> int:
    if header.is_log_append_time:
        return header.max_timestamp
    return header.base_timestamp + time_delta


def _read_headers(data: bytes, at: int, end: int) -> Headers:
    count, at = read_varint(data, at)
    if not 0 <= count <= (end - at) // _HEADER_BYTES_MIN:
        raise BadLength(f"{count} headers in {end - at} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        header, at = _read_record_header(data, at, end)
        headers.append(header)
    if at != end:
        raise BadLength("a record's length is not what its fields take")
    return tuple(headers)


def _read_record_header(data: bytes, at: int, end: int) -> tuple[tuple[str, bytes | None], int]:
    length, at = read_varint(data, at)
    name, at = _take(data, length, at, end)
    if name is None:
        raise UnexpectedNull("a header without a key")
    length, at = read_varint(data, at)
    value, at = _take(data, length, at, end)
    try:
        return (name.decode(), value), at
    except UnicodeDecodeError:
        raise BadValue("a header key that is not UTF-8") from None


def _take(data: bytes, length: int, at: int, end: int) -> tuple[bytes | None, int]:
    if length < 0:
        return None, at
    if at + length > end:
        raise BadLength(f"a field of {length} bytes in a record that ends sooner")
    return data[at : at + length], at + length


def key_value_records(
    pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp: int
) -> list[Record]:
    """Return records with offsets 0, 1, 2... for `build_batch`, all of one time."""
    return [
        Record(offset=index, timestamp=timestamp, key=key, value=value)
        for index, (key, value) in enumerate(pairs)
    ]


def build_batch(
    records: Sequence[Record],
    codec: int = Codec.NONE,
    base_offset: Offset = 0,
    producer: Producer = NO_PRODUCER,
    attributes: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return a whole batch with its CRC; a bytearray, so that it can be stamped in place.

    Shape: a record's offset minus `base_offset` is its delta, so a batch that will be stamped has
    offsets 0, 1, 2... and base offset 0. Offsets rise, gaps are kept. At least one record.
    `attributes`: TRANSACTIONAL, CONTROL, LOG_APPEND_TIME; the codec's bits come from `codec`.
    """
    assert records, "a batch without records"
    first_timestamp = records[0].timestamp
    payload = bytearray()
    last_delta = -1
    for record in records:
        delta = record.offset - base_offset
        assert last_delta < delta < 1 << 31, f"offset {record.offset} does not rise"
        last_delta = delta
        _append_record(payload, record, record.timestamp - first_timestamp, delta)
    packed = payload if codec == Codec.NONE else compress(codec, payload)
    header = BatchHeader(
        base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(packed),
        leader_epoch,
        MAGIC,
        0,
        (attributes & ~CODEC_MASK) | codec,
        last_delta,
        first_timestamp,
        max(record.timestamp for record in records),
        *producer,
        len(records),
    )
    batch = bytearray(pack_header(header))
    batch += packed
    stamp_crc(batch)
    return batch


def _append_record(out: bytearray, record: Record, timestamp_delta: int, delta: int) -> None:
    body = bytearray(1)
    body += write_varint(timestamp_delta)
    body += write_varint(delta)
    _append_field(body, record.key)
    _append_field(body, record.value)
    body += write_varint(len(record.headers))
    for name, value in record.headers:
        _append_field(body, name.encode())
        _append_field(body, value)
    out += write_varint(len(body))
    out += body


def _append_field(out: bytearray, field: bytes | None) -> None:
    if field is None:
        out += b"\x01"  # -1
    else:
        out += write_varint(len(field))
        out += field
