"""The records of many batches as columns: where each begins, its key, whether it has a value. Pure.

A compiled loop says where the fields of each record lie (`protocol/records/record_loops.py`); what
follows from that is computed with numpy across all batches of a block. No key or value is copied
alone, and nothing is taken by a number that was not checked: what is wrong raises CorruptBatch.
Source: reference Kafka 3.1; DefaultRecordBatch, DefaultRecord.
"""

from typing import NamedTuple

import numpy as np
from librt.strings import BytesWriter

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import Choice, Headers, Ints
from tailrace.compaction.cleaner.unpacking import unpack
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import HEADER_SIZE
from tailrace.protocol.records.loops import fill, unreadable
from tailrace.protocol.records.record import RECORD_BYTES_MIN
from tailrace.protocol.records.record_loops import COLUMNS

_ROW_BYTES = 8 * COLUMNS


class Columns(NamedTuple):
    """The records of a block of batches; each array has one value per record, in offset order."""

    data: Buffer
    """What holds the records, decompressed, in order; places are counted from its beginning."""
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
    """Negative is null."""
    has_value: Choice
    batch: Ints
    """Which batch of the block it lies in."""
    first: Ints
    """Per batch and one more: its first record's index; the next one's is its end."""


def read_columns(block: Block, headers: Headers) -> Columns:
    """Read the records of whole batches.

    Shape: headers as `read_headers` gives them, base offsets rise. Errors: CorruptBatch. Memory:
    the block once more, and the payloads if a codec packed one of them; 160 bytes a record.
    """
    counts = headers.record_count
    payloads = _payloads(block, headers)
    sizes = payloads.sizes
    too_many = np.flatnonzero(counts > sizes // RECORD_BYTES_MIN)
    if too_many.size:
        index = int(too_many[0])
        what = f"{counts[index]} records in {sizes[index]} bytes"
        raise CorruptBatch(index, headers[index].base_offset, what)
    return _decode(payloads.data, _places(payloads, headers), headers)


def _payloads(block: Block, headers: Headers) -> Block:
    """Return what follows the headers, as records. Errors: CorruptBatch."""
    payloads = Block(block.data, block.starts + HEADER_SIZE, block.ends)
    is_plain = ~headers.has_codec & (headers.record_count > 0)
    return payloads if is_plain.all() else unpack(payloads, headers)


def _places(payloads: Block, headers: Headers) -> Ints:
    """Return the numbers that `fill` finds, a row of each. Errors: CorruptBatch."""
    data, found = bytes(payloads.data), BytesWriter()
    begins, ends = payloads.starts.tolist(), payloads.ends.tolist()
    rows = zip(begins, ends, headers.record_count.tolist(), strict=True)
    wanted = 0
    for index, (begin, end, count) in enumerate(rows):
        at = begin
        wanted += count
        while at >= 0 and (left := wanted - len(found) // _ROW_BYTES):
            at = fill(found, data, at, end, left)
        if at != end:
            nth = count - wanted + len(found) // _ROW_BYTES
            why = f"{end - at} bytes after the last record" if at >= 0 else unreadable(at, nth)
            raise CorruptBatch(index, headers[index].base_offset, str(why))
    places = np.frombuffer(found.getvalue(), np.dtype("<i8")).reshape(-1, COLUMNS)
    return np.ascontiguousarray(places.T.astype(np.int64, copy=False))


def _decode(data: Buffer, places: Ints, headers: Headers) -> Columns:
    (
        at, end, body_at, delta_at, key_at, _, key_size, value_size, timestamp, offset_delta
    ) = places  # fmt: skip
    first = np.concatenate(([0], np.cumsum(headers.record_count)))
    batch = np.repeat(np.arange(len(headers)), headers.record_count)
    timestamp = headers.base_timestamp[batch] + timestamp
    if headers.is_log_append_time.any():
        is_appended = headers.is_log_append_time[batch]
        timestamp = np.where(is_appended, headers.max_timestamp[batch], timestamp)
    offset_delta = _in_order(offset_delta, batch, first, headers)
    return Columns(
        data, at, end, body_at, delta_at, timestamp, headers.base_offset[batch] + offset_delta,
        key_at, key_size, value_size >= 0, batch, first,
    )  # fmt: skip


def _in_order(offset_delta: Ints, batch: Ints, first: Ints, headers: Headers) -> Ints:
    """Return the deltas, and for batches where they do not rise or leave it, the records' places.

    Brokers take such a batch of a producer, Kafka's too. Its records go by their places then, here
    and in every later pass, as the log has them in this order. Errors: CorruptBatch.
    """
    last = headers.last_offset_delta[batch]
    is_bad = (offset_delta < 0) | (offset_delta > last)
    is_bad[1:] |= (offset_delta[1:] <= offset_delta[:-1]) & (batch[1:] == batch[:-1])
    if not is_bad.any():
        return offset_delta
    places: Ints = np.arange(len(batch)) - first[batch]
    deltas: Ints = np.where(np.isin(batch, batch[is_bad]), places, offset_delta)
    outside = np.flatnonzero(deltas > last)
    if outside.size:
        index = int(batch[outside[0]])
        raise CorruptBatch(index, headers[index].base_offset, "more records than offsets")
    return deltas
