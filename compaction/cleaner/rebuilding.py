"""New bytes for a batch that lost records or got a delete horizon. Pure.

Base offset, last offset delta, producer, sequence, leader epoch, codec and the kind of timestamps
stay; count, largest timestamp, length and CRC are what they are now. Records that stay are copied
as they are, in runs; only a new horizon, which is the base timestamp, has their timestamps written
anew. Without one the base timestamp stays, where Kafka takes that of the first record left: readers
see the same, and the bytes are Kafka's own if that record was the first.
Source: MemoryRecords.buildRetainedRecordsInto, DefaultRecordBatch.writeEmptyHeader.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailrace.compaction.cleaner.columns import Columns
from tailrace.compaction.cleaner.headers import Choice, Headers, Ints
from tailrace.compaction.cleaner.key_summary import Places
from tailrace.protocol.compression import Codec, compress
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.records.batch import (
    CODEC_MASK,
    CRC_AT,
    CRC_FROM,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
)
from tailrace.protocol.varint import write_varint

if TYPE_CHECKING:
    from tailrace.protocol.ids import Buffer

TIGHTEST: Mapping[int, int] = {Codec.GZIP: 9, Codec.LZ4: 12, Codec.ZSTD: 22}
"""Levels that pack best; snappy has none."""


class Kept(NamedTuple):
    """The records of a block that stay, prepared for all of its batches at once."""

    columns: Columns
    chosen: Ints
    """Indexes of the records."""
    first: Ints
    """Per batch and one more: its first place in `chosen`."""
    run_first: Ints
    """Where each run of neighbours begins among the bytes, and where it ends."""
    run_end: Ints
    runs: Ints
    """Per batch and one more: its first run."""
    newest: Ints
    """Per batch: its largest timestamp; 0 if nothing stays."""

    @property
    def counts(self) -> Ints:
        """Per batch: its records that stay."""
        counts: Ints = np.diff(self.first)
        return counts


def choose(columns: Columns, keeps: Choice) -> Kept:
    """Prepare the records that stay."""
    chosen = np.flatnonzero(keeps)
    batch = columns.batch[chosen]
    begins = np.ones(len(chosen), np.bool_)
    begins[1:] = (np.diff(chosen) != 1) | (np.diff(batch) != 0)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(chosen))[: len(starts)] - 1
    batches = np.arange(len(columns.first))
    first = np.searchsorted(batch, batches)
    newest = np.zeros(len(batches) - 1, np.int64)
    filled = np.flatnonzero(np.diff(first))
    if filled.size:
        newest[filled] = np.maximum.reduceat(columns.timestamp[chosen], first[filled])
    return Kept(
        columns, chosen, first, columns.at[chosen[starts]], columns.end[chosen[ends]],
        np.searchsorted(batch[starts], batches), newest,
    )  # fmt: skip


def cut_out(headers: Headers, kept: Kept, places: Places) -> list[memoryview]:
    """Return batches with the records that stay alone, at least one in each; codecs by default.

    `headers`: of these batches; changed. `places`: of them among those of the block. All lie in
    one buffer. Without a codec none becomes larger. Cost: 2 us a batch and 0.2 us a run of
    neighbours, and its codec.
    """
    data, runs = memoryview(kept.columns.data), kept.runs
    run_bytes = np.concatenate(([0], np.cumsum(kept.run_end - kept.run_first)))
    sizes = run_bytes[runs[places + 1]] - run_bytes[runs[places]]
    run_first, run_end = kept.run_first.tolist(), kept.run_end.tolist()
    spans = zip(runs[places].tolist(), runs[places + 1].tolist(), strict=True)
    payloads: list[list[Buffer]] = []
    for (first_run, end_run), codec in zip(spans, headers.codec.tolist(), strict=True):
        some: list[Buffer] = [
            data[run_first[run] : run_end[run]] for run in range(first_run, end_run)
        ]
        if codec != Codec.NONE:
            some = [compress(codec, b"".join(some))]
            sizes[len(payloads)] = len(some[0])
        payloads.append(some)
    headers.change("batch_length", sizes + (HEADER_SIZE - LOG_OVERHEAD))
    headers.change("max_timestamp", kept.newest[places])
    headers.change("record_count", kept.counts[places])
    heads = headers.pack()
    parts: list[Buffer] = []
    for at, payload in enumerate(payloads):
        parts.append(heads[at * HEADER_SIZE : (at + 1) * HEADER_SIZE])
        parts += payload
    written = memoryview(bytearray().join(parts))
    ends = np.cumsum(sizes + HEADER_SIZE).tolist()
    batches = [written[first:end] for first, end in pairwise([0, *ends])]
    for batch in batches:
        batch[CRC_AT:CRC_FROM] = crc32c(batch[CRC_FROM:]).to_bytes(4, "big")
    return batches


def rebuild(
    header: BatchHeader, kept: Kept, place: int, horizon_ms: int | None, level: int | None = None
) -> bytes:
    """Return a batch with the records that stay alone; at least one.

    `place`: of the batch among those of the block. `horizon_ms`: a new delete horizon; None: as it
    is. `level`: of the codec; None: its default, as in Kafka, whatever the topic's configs say.
    """
    if horizon_ms is None:
        payload, attributes, base = _runs(kept, place), header.attributes, header.base_timestamp
    else:
        payload = _rebased(kept, place, horizon_ms)
        attributes, base = header.attributes | DELETE_HORIZON, horizon_ms
    if header.codec != Codec.NONE:
        payload = compress(header.codec, payload, level)
    return _pack(
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=int(kept.newest[place]),
            record_count=int(kept.first[place + 1] - kept.first[place]),
            batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload),
        ),
        payload,
    )


def empty(header: BatchHeader) -> bytes:
    """Return the batch without records: offsets and the producer's sequence are left."""
    return _pack(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
            batch_length=HEADER_SIZE - LOG_OVERHEAD,
        ),
        b"",
    )


def _pack(header: BatchHeader, payload: bytes) -> bytes:
    head = pack_header(header)
    crc = crc32c(payload, crc32c(head[CRC_FROM:]))
    return b"".join((head[:CRC_AT], crc.to_bytes(4, "big"), head[CRC_FROM:], payload))


def _runs(kept: Kept, place: int) -> bytes:
    """Copy records as they are; neighbours go in one slice."""
    data, runs = kept.columns.data, slice(kept.runs[place], kept.runs[place + 1])
    ends = kept.run_end[runs].tolist()
    return b"".join(
        [data[at:end] for at, end in zip(kept.run_first[runs].tolist(), ends, strict=True)]
    )


def _rebased(kept: Kept, place: int, base_ms: int) -> bytes:
    """Write records with timestamps as distances to a new base."""
    columns = kept.columns
    chosen = kept.chosen[kept.first[place] : kept.first[place + 1]]
    data = columns.data
    out: list[Buffer] = []
    rows = zip(
        columns.timestamp[chosen].tolist(), columns.body_at[chosen].tolist(),
        columns.delta_at[chosen].tolist(), columns.end[chosen].tolist(), strict=True,
    )  # fmt: skip
    for timestamp, body_at, delta_at, end in rows:
        delta = write_varint(timestamp - base_ms)
        length = write_varint(1 + len(delta) + end - delta_at)
        out += (length, data[body_at : body_at + 1], delta, data[delta_at:end])
    return b"".join(out)
