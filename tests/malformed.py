"""Batches with a right header and CRC whose records are wrong, and what Kafka makes of them."""

from typing import NamedTuple

from tailrace.protocol.compression import Codec, compress
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    pack_header,
    stamp_crc,
)
from tailrace.protocol.varint import write_varint

TIME_MS = 1_700_000_000_000


class Malformed(NamedTuple):
    """A batch of `count` records, and whether Kafka 4.3.1 takes it."""

    name: str
    payload: bytes
    count: int
    is_taken: bool = False
    packed: bool = True
    """Whether Kafka also says so when it is compressed."""


def record(
    delta: int = 0,
    key: bytes = b"k",
    value: bytes = b"v",
    *,
    headers: bytes = b"\0",
    length: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    """Return a record with the lengths that it should have, or those given."""
    body = b"\0\0" + write_varint(delta)
    body += write_varint(len(key) if key_length is None else key_length) + key
    body += write_varint(len(value) if value_length is None else value_length) + value
    body += headers
    return write_varint(len(body) if length is None else length) + body


def sealed(payload: bytes, count: int, codec: int = Codec.NONE, attributes: int = 0) -> bytearray:
    """Return a payload as a batch with a right header; all records have TIME_MS."""
    packed = payload if codec == Codec.NONE else compress(codec, payload)
    header = BatchHeader(
        0, HEADER_SIZE - LOG_OVERHEAD + len(packed), -1, MAGIC, 0, attributes | codec,
        count - 1, TIME_MS, TIME_MS, -1, -1, -1, count,
    )  # fmt: skip
    batch = bytearray(pack_header(header)) + packed
    stamp_crc(batch)
    return batch


def _headers(count: int, fields: bytes = b"") -> bytes:
    return record(headers=write_varint(count) + fields)


MALFORMED = [
    Malformed("two right ones", record(0) + record(1), 2, is_taken=True),
    Malformed("one of two", record(value=b"v" * 30), 2),
    Malformed("two of one", record(0) + record(1), 1),
    Malformed("bytes behind the last", record() + b"\x05\x05\x05", 1),
    Malformed("a length too large", record(length=60), 1, packed=False),
    Malformed("a length too small", record(length=4), 1, packed=False),
    Malformed("a negative length", record(length=-3), 1, packed=False),
    Malformed("a length of too many bytes", b"\xff" * 5 + record(), 1),
    Malformed("a key beyond the record", record(key_length=50), 1),
    Malformed("a key length of -2", record(key=b"", key_length=-2), 1, is_taken=True),
    Malformed("a value beyond the record", record(value_length=50), 1),
    Malformed("a value length of -9", record(value=b"", value_length=-9), 1, is_taken=True),
    Malformed("headers that are not there", _headers(9), 1),
    Malformed("a negative number of headers", _headers(-1), 1),
    Malformed("a header without a name", _headers(1, b"\x01\x01"), 1),
    Malformed("a header's name is not UTF-8", _headers(1, b"\x04\xff\xfe\x01"), 1, is_taken=True),
    Malformed("a header's value beyond", _headers(1, b"\x02n\x50"), 1),
    Malformed("bytes behind the headers", record(headers=b"\0\0"), 1),
    Malformed("a time of 11 bytes", write_varint(20) + b"\0" + b"\xff" * 10 + b"\1" + bytes(8), 1),
    Malformed("garbage", b"\xff" * 40, 2),
    Malformed("zeros", bytes(40), 2),
    Malformed("nothing", b"", 1),
    Malformed("half a record", record()[:-3], 1),
    Malformed("offsets 0, 0", record(0) + record(0), 2, is_taken=True, packed=False),
    Malformed("offsets 5, 9", record(5) + record(9), 2, is_taken=True, packed=False),
    Malformed("offsets 0, 7", record(0) + record(7), 2, is_taken=True, packed=False),
    Malformed("offsets 1, 0", record(1) + record(0), 2, is_taken=True, packed=False),
]
"""`packed=False`: Kafka does the opposite with a compressed one. It reads that by its fields, so it
takes lengths that are wrong; and it refuses offsets that are not 0, 1, 2."""


class Case(NamedTuple):
    """A batch as it is sent."""

    name: str
    batch: bytes
    is_taken: bool


def _case(each: Malformed, codec: Codec) -> Case:
    is_packed = codec != Codec.NONE
    is_taken = each.is_taken ^ (is_packed and not each.packed)
    batch = bytes(sealed(each.payload, each.count, codec))
    return Case(f"{codec.name.lower()}: {each.name}", batch, is_taken)


CASES = [_case(each, codec) for codec in Codec for each in MALFORMED]
