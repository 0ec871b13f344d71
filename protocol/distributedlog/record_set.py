"""A record set: many values in the payload of one log record (flag 0x4).

    i32 metadata (0x1000 version, low 2 bits codec) | i32 count | i32 body | i32 stored length
    body = count x (i32 length, bytes); only the body is compressed

Inner records take the set's txid; slot and position rise by one each.
Source: reference DistributedLog 1.4.
"""

import struct
from collections.abc import Sequence

from tailrace.protocol.distributedlog.lz4_block import pack_lz4, unpack_lz4
from tailrace.protocol.distributedlog.record import RECORD_SET, LogRecord
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, TxId

HEADER_SIZE = 16
_HEADER = struct.Struct(">iiii")
_VERSION = 0x1000
_VERSION_MASK = 0xF000
_CODEC_MASK = 0x3
_NONE, _LZ4 = 0, 1


def pack_record_set(values: Sequence[Buffer], codec: int = _NONE) -> bytes:
    """Return the payload of a record set."""
    body = b"".join(part for value in values for part in (len(value).to_bytes(4, "big"), value))
    stored = pack_lz4(body) if codec == _LZ4 else body
    return _HEADER.pack(_VERSION | codec, len(values), len(body), len(stored)) + stored


def unpack_record_set(payload: Buffer) -> list[memoryview]:
    """Return the values of a record set, as views. Errors: DecodeError family."""
    count, body = _open(payload)
    if not 0 <= count <= len(body) // 4:
        raise BadLength(f"record set of {count} values in {len(body)} bytes")
    values: list[memoryview] = []
    at = 0
    for _ in range(count):
        start = at + 4
        at = start + int.from_bytes(body[at:start], "big")
        if at > len(body):
            raise BadLength("a value of a record set ends after the set")
        values.append(body[start:at])
    if at != len(body):
        raise BadLength(f"{len(body) - at} bytes after the last value of a record set")
    return values


def announced_size(payload: Buffer) -> tuple[int, int]:
    """Return how many values a set says it has, and how many bytes they take unpacked.

    To refuse a set before it is unpacked. Errors: DecodeError family.
    """
    if len(payload) < HEADER_SIZE:
        raise BufferUnderflow("fewer bytes than a record set's header")
    _, count, size, _ = _HEADER.unpack_from(payload)
    return count, size


def count_records(record: LogRecord) -> int:
    """Return how many slots and positions a record takes. Errors: DecodeError family."""
    if not record.is_record_set:
        return 1
    if len(record.payload) < HEADER_SIZE:
        raise BufferUnderflow("fewer bytes than a record set's header")
    metadata, count, _, _ = _HEADER.unpack_from(record.payload)
    if metadata & _VERSION_MASK != _VERSION:
        return 1  # as Java's getLastPosition does with a version that it does not know
    if count < 0:
        raise BadLength(f"record set of {count} values")
    return int(count)


def expand(slot: int, record: LogRecord) -> list[tuple[int, LogRecord]]:
    """Return the inner records of a set with their slots; any other record as it is.

    Errors: DecodeError family.
    """
    if not record.is_record_set:
        return [(slot, record)]
    flags = record.flags & ~RECORD_SET
    return [
        (slot + index, LogRecord(record.txid, value, flags, record.position + index))
        for index, value in enumerate(unpack_record_set(record.payload))
    ]


def record_set(
    txid: TxId, values: Sequence[Buffer], position: int, codec: int = _NONE
) -> LogRecord:
    """Return the log record that carries `values`; `position` is that of its first value."""
    return LogRecord(txid, pack_record_set(values, codec), RECORD_SET, position)


def _open(payload: Buffer) -> tuple[int, memoryview]:
    if len(payload) < HEADER_SIZE:
        raise BufferUnderflow("fewer bytes than a record set's header")
    metadata, count, size, stored = _HEADER.unpack_from(payload)
    if metadata & _VERSION_MASK != _VERSION:
        raise BadValue(f"record set of version {metadata & _VERSION_MASK:#x}")
    body = memoryview(payload)[HEADER_SIZE:]
    if stored != len(body):
        raise BadLength(f"record set: {stored} bytes stored, {len(body)} there")
    codec = metadata & _CODEC_MASK
    if codec == _LZ4:
        return count, memoryview(unpack_lz4(body, size))
    if codec != _NONE:
        raise BadValue(f"record set of codec {codec}")
    if size != stored:
        raise BadLength(f"record set: {size} bytes plain, {stored} stored")
    return count, body
