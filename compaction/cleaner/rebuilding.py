"""New bytes for a batch that lost records or got a delete horizon. Pure.

Base offset, last offset delta, producer, sequence, leader epoch, codec and the kind of timestamps
stay; count, largest timestamp, length and CRC are what they are now. Records that stay are copied
as they are, in runs; only a new horizon, which is the base timestamp, has their timestamps written
anew. Without one the base timestamp stays, where Kafka takes that of the first record left: readers
see the same, and the bytes are Kafka's own if that record was the first.
Source: MemoryRecords.buildRetainedRecordsInto, DefaultRecordBatch.writeEmptyHeader.
"""

from collections.abc import Mapping

import numpy as np

from compaction.cleaner.columns import Columns, Ints
from protocol.compression import Codec, compress
from protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
    stamp_crc,
)
from protocol.varint import write_varint


def rebuild(
    header: BatchHeader,
    columns: Columns,
    kept: Ints,
    horizon_ms: int | None,
    levels: Mapping[int, int],
) -> bytes:
    """Return the batch with the records at the indexes `kept` alone; at least one.

    `horizon_ms`: a new delete horizon; None: as it is. `levels`: of codecs where the topic has
    one, Kafka's defaults elsewhere.
    """
    if horizon_ms is None:
        payload, attributes, base = _runs(columns, kept), header.attributes, header.base_timestamp
    else:
        payload = _rebased(columns, kept, horizon_ms)
        attributes, base = header.attributes | DELETE_HORIZON, horizon_ms
    if header.codec != Codec.NONE:
        payload = compress(header.codec, payload, levels.get(header.codec))
    return _pack(
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=int(columns.timestamp[kept].max()),
            record_count=len(kept),
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
        ),
        b"",
    )


def _pack(header: BatchHeader, payload: bytes) -> bytes:
    out = bytearray(pack_header(header._replace(batch_length=_length(payload))))
    out += payload
    stamp_crc(out)
    return bytes(out)


def _length(payload: bytes) -> int:
    return HEADER_SIZE - LOG_OVERHEAD + len(payload)


def _runs(columns: Columns, kept: Ints) -> bytes:
    """Copy records; neighbours go in one slice."""
    breaks = np.flatnonzero(np.diff(kept) != 1) + 1
    first = columns.at[kept[np.r_[0, breaks]]].tolist()
    end = columns.end[kept[np.r_[breaks - 1, len(kept) - 1]]].tolist()
    data = columns.data
    return b"".join([data[a:b] for a, b in zip(first, end, strict=True)])


def _rebased(columns: Columns, kept: Ints, base_ms: int) -> bytes:
    """Write records with timestamps as distances to a new base."""
    data = columns.data
    out: list[bytes] = []
    rows = zip(
        columns.timestamp[kept].tolist(), columns.body_at[kept].tolist(),
        columns.delta_at[kept].tolist(), columns.end[kept].tolist(), strict=True,
    )  # fmt: skip
    for timestamp, body_at, delta_at, end in rows:
        delta = write_varint(timestamp - base_ms)
        length = write_varint(1 + len(delta) + end - delta_at)
        out += (length, data[body_at : body_at + 1], delta, data[delta_at:end])
    return b"".join(out)
