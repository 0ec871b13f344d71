"""The records of many batches as columns: where each begins, its key, whether it has a value. Pure.

Only the lengths of records are followed one by one, as each says where the next begins; the rest
is read with numpy across all batches of a block, which costs the same 60 calls for 10 records as
for 10,000. No key or value is copied but those of compressed batches, as they are decompressed.
Every number is checked before anything is taken by it: what is wrong raises CorruptBatch.

Measured with CRCs, 17-byte keys, 1 KiB values, blocks of 1 MiB (2026-11-21): 0.75 us a record in
batches of 16 KB, 0.45 in one of 1 MB; with lz4 1.6 and 0.9. aiokafka's compiled reader takes 0.6
and 1.3 us in the largest, and does not say where a record lies: what stays would be written anew.
Source: reference Kafka 3.1; DefaultRecordBatch, DefaultRecord.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from compaction.cleaner.errors import CorruptBatch
from protocol.compression import decompress
from protocol.crc32c import crc32c
from protocol.errors import DecodeError
from protocol.ids import Buffer
from protocol.records.batch import CRC_FROM, HEADER_SIZE, BatchHeader, read_header, verify_crc
from protocol.records.record import RECORD_BYTES_MIN
from protocol.varint import read_varint

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Choice: TypeAlias = npt.NDArray[np.bool_]

_PADDING = bytes(64)
"""Behind the last record, so that a number that is cut is read as one that ends too late."""


class Columns(NamedTuple):
    """The records of a block of batches; each array has one value per record, in offset order."""

    data: bytes
    """Decompressed payloads, one after the other; places are counted from its beginning."""
    at: Ints
    """First byte of each record, its length included."""
    end: Ints
    body_at: Ints
    """After the length."""
    delta_at: Ints
    """After attributes and timestamp: the offset delta's first byte."""
    timestamp: Ints
    """As a reader sees it."""
    offset: Ints
    key_at: Ints
    key_size: Ints
    """-1 is null."""
    has_value: Choice
    batch: Ints
    """Which batch of the block it lies in."""
    first: Ints
    """Per batch and one more: its first record's index; the next one's is its end."""


def read_headers(batches: Sequence[Buffer]) -> list[BatchHeader]:
    """Read and check whole batches with their CRCs. Errors: CorruptBatch."""
    headers = []
    for index, batch in enumerate(batches):
        try:
            header = read_header(batch)
            if header.size_bytes != len(batch):
                raise CorruptBatch(
                    index, header.base_offset, f"{header.size_bytes} bytes in {len(batch)}"
                )
            if crc32c(memoryview(batch)[CRC_FROM:]) != header.crc:  # the header is read already
                verify_crc(batch)
        except DecodeError as error:
            raise CorruptBatch(index, int.from_bytes(bytes(batch[:8]), "big"), str(error)) from None
        headers.append(header)
    return headers


def read_columns(batches: Sequence[Buffer], headers: Sequence[BatchHeader]) -> Columns:
    """Read the records of whole batches.

    Shape: headers as `read_headers` gives them, base offsets rise. Errors: CorruptBatch. Memory:
    the payloads once more, 100 bytes a record.
    """
    payloads = [_payload(index, batches[index], header) for index, header in enumerate(headers)]
    data = b"".join([*payloads, _PADDING])
    starts: list[int] = []
    first = [0]
    base = 0
    for index, (payload, header) in enumerate(zip(payloads, headers, strict=True)):
        end = base + len(payload)
        _follow(data, base, end, header.record_count, starts)
        if len(starts) - first[-1] != header.record_count or (
            not header.record_count and base != end
        ):
            raise CorruptBatch(
                index, header.base_offset,
                f"{header.record_count} records do not fill {len(payload)} bytes",
            )  # fmt: skip
        first.append(len(starts))
        base = end
    return _decode(data, np.array(starts, np.int64), np.array(first, np.int64), headers)


def _payload(index: int, batch: Buffer, header: BatchHeader) -> Buffer:
    try:
        payload = decompress(header.codec, memoryview(batch)[HEADER_SIZE:])
    except DecodeError as error:
        raise CorruptBatch(index, header.base_offset, str(error)) from None
    if not header.record_count:
        return b""
    if not 0 < header.record_count <= len(payload) // RECORD_BYTES_MIN:
        raise CorruptBatch(
            index, header.base_offset, f"{header.record_count} records in {len(payload)} bytes"
        )
    return payload


def _follow(data: bytes, at: int, end: int, count: int, starts: list[int]) -> None:
    """Note where records begin; fewer than `count` if their lengths do not end at `end`."""
    size, rest = divmod(end - at, count or 1)
    if not rest and size >= RECORD_BYTES_MIN and _are_equal(data, at, end, size):
        starts.extend(range(at, end, size))
        return
    note = starts.append
    for _ in range(count):
        begin = at
        length = data[at]
        if length < 0x80:
            at += 1 + (length >> 1)
        elif (more := data[at + 1]) < 0x80:
            at += 2 + ((length & 0x7F | more << 7) >> 1)
        else:
            try:
                length, at = read_varint(data, at)
            except DecodeError:
                return
            at += length
        if at > end or at - begin < RECORD_BYTES_MIN:
            return
        note(begin)
    if at != end:
        starts.pop()


def _are_equal(data: bytes, at: int, end: int, size: int) -> bool:
    """Say whether records of `size` bytes, their lengths included, lie from `at` to `end`."""
    length, body_at = data[at], at + 1
    if length >= 0x80:
        if data[body_at] >= 0x80:  # large ones are few
            return False
        length = length & 0x7F | data[body_at] << 7
        body_at += 1
    if body_at - at + (length >> 1) != size:
        return False
    count = (end - at) // size
    if data[at:end:size] != data[at : at + 1] * count:
        return False
    return body_at == at + 1 or data[at + 1 : end : size] == data[at + 1 : at + 2] * count


def _decode(data: bytes, at: Ints, first: Ints, headers: Sequence[BatchHeader]) -> Columns:
    raw = np.frombuffer(data, np.uint8)
    batch = np.repeat(np.arange(len(headers)), np.diff(first))
    reader = _Reader(raw, batch, headers)
    length, body_at = reader.read(at)
    end = body_at + length
    timestamp_delta, delta_at = reader.read(body_at + 1)
    offset_delta, place = reader.read(delta_at)
    key_size, key_at = reader.read(place)
    value_at = reader.skip(key_at, key_size, end, "a key")
    value_size, place = reader.read(value_at)
    reader.skip(place, value_size, end, "a value")
    base = _of_batches([header.base_offset for header in headers], batch)
    timestamp = _of_batches([header.base_timestamp for header in headers], batch) + timestamp_delta
    newest = _of_batches([header.max_timestamp for header in headers], batch)
    is_appended = np.array([header.is_log_append_time for header in headers], np.bool_)[batch]
    last = _of_batches([header.last_offset_delta for header in headers], batch)
    reader.check((offset_delta >= 0) & (offset_delta <= last), "a record outside of its batch")
    rises = np.ones(len(at), np.bool_)
    rises[1:] = (offset_delta[1:] > offset_delta[:-1]) | (batch[1:] != batch[:-1])
    reader.check(rises, "offsets that do not rise")
    return Columns(
        data, at, end, body_at, delta_at, np.where(is_appended, newest, timestamp),
        base + offset_delta, key_at, key_size, value_size >= 0, batch, first,
    )  # fmt: skip


def _of_batches(values: list[int], batch: Ints) -> Ints:
    return np.array(values, np.int64)[batch]


class _Reader(NamedTuple):
    """Reads one number of every record at once."""

    raw: Bytes
    batch: Ints
    headers: Sequence[BatchHeader]

    def read(self, at: Ints) -> tuple[Ints, Ints]:
        """Return zigzag numbers of up to ten bytes and the places after them."""
        byte = self.raw[at]
        value = (byte & 0x7F).astype(np.uint64)
        at = at + 1
        goes_on = np.flatnonzero(byte >= 0x80)
        shift = 7
        while goes_on.size:
            self.check_all(goes_on, shift < 70, "a number of more than ten bytes")
            byte = self.raw[at[goes_on]]
            value[goes_on] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[goes_on] += 1
            goes_on = goes_on[byte >= 0x80]
            shift += 7
        return (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64), at

    def skip(self, at: Ints, size: Ints, end: Ints, what: str) -> Ints:
        """Return the places after fields of `size` bytes, -1 for null, in records that go on."""
        fits = (size >= -1) & (size < len(self.raw))
        after = at + np.where(fits, np.maximum(size, 0), 0)
        self.check(fits & (after < end), f"{what} that does not end inside its record")
        return after

    def check(self, good: Choice, reason: str) -> None:
        """Errors: CorruptBatch of the first record that is not good."""
        if not good.all():
            self.check_all(np.flatnonzero(~good), False, reason)  # noqa: FBT003

    def check_all(self, records: npt.NDArray[np.intp], good: bool, reason: str) -> None:  # noqa: FBT001
        """Errors: CorruptBatch of the first of the records, unless they are good."""
        if not good:
            index = int(self.batch[records[0]])
            raise CorruptBatch(index, self.headers[index].base_offset, reason)
