"""The content of one ledger entry: an envelope around whole log records.

    u8 version (1) | i32 flags (low 2 bits codec) | i32 uncompressed | i32 stored | records

Segments of metadata version 3 and older have the bare records. Slots count the records of an entry
from 0; a record set takes as many as it holds. Source: reference DistributedLog 2.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import TypeAlias

from tailrace.protocol.distributedlog.lz4_block import pack_lz4, unpack_lz4
from tailrace.protocol.distributedlog.record import (
    CONTROL,
    HEADER_SIZE,
    POSITION_MAX,
    RECORD_SET,
    LogRecord,
    RecordColumns,
    RecordParts,
    pack_metadata,
    read_columns,
)
from tailrace.protocol.distributedlog.record_set import count_records
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer

ENVELOPE_SIZE = 13

JOINED_BELOW_BYTES = 4096
"""Parts that are smaller than this on the average are joined. Each part costs every copy of the
entry a checksum's call, a place in the system call and its own bookkeeping, about 1 us for three
bookies; copying 4 KiB costs 0.2."""

Slots: TypeAlias = list[tuple[int, LogRecord]]

_VERSION = 1
_CODEC_MASK = 0x3
_ENVELOPE = struct.Struct(">Biii")
_RECORD = struct.Struct(">qqi")


class EnvelopeCodec(IntEnum):
    """How the records of an entry are compressed."""

    NONE = 0
    LZ4 = 1


def pack_envelope(records: Sequence[LogRecord], codec: int = EnvelopeCodec.NONE) -> list[Buffer]:
    """Return the parts of an entry's payload; with codec NONE no payload is copied.

    Shape: at least one record. Keeping to size limits is the caller's part.
    """
    parts = pack_bare(records)
    size = sum(map(len, parts))
    if codec == EnvelopeCodec.NONE:
        return [_ENVELOPE.pack(_VERSION, 0, size, size), *parts]
    assert codec == EnvelopeCodec.LZ4, codec
    stored = pack_lz4(b"".join(parts))
    return [_ENVELOPE.pack(_VERSION, codec, size, len(stored)), stored]


def pack_user_records(
    records: Sequence[RecordParts], position: int, controls: Sequence[Buffer] = ()
) -> tuple[list[Buffer], int]:
    """Return an entry's payload and the position of its last record or value.

    `position`: that of the last one before them in the segment; a record set takes as many as it
    has values. `controls`: payloads of control records behind them, with the last one's txid and
    position. Shape: at least one record. Keeping to size limits is the caller's part.
    Cost: 0.4 us a record.
    """
    parts: list[Buffer] = [b""]
    size = HEADER_SIZE * len(records)
    pack = _RECORD.pack
    for txid, payload, length, values in records:
        position += 1
        size += length
        if values:
            parts.append(pack(position << 16 | RECORD_SET, txid, length))
            position += values - 1
        else:
            parts.append(pack(position << 16, txid, length))
        parts += payload
    for control in controls:
        size += HEADER_SIZE + len(control)
        parts.append(pack(position << 16 | CONTROL, records[-1][0], len(control)))
        parts.append(control)
    assert position <= POSITION_MAX, position
    parts[0] = _ENVELOPE.pack(_VERSION, 0, size, size)
    return parts, position


def join_small(payload: Sequence[Buffer], size: int) -> Sequence[Buffer]:
    """Return an entry's payload of about `size` bytes in one piece if its parts are small.

    Cost: then one copy; else nothing is copied.
    """
    return [b"".join(payload)] if size < JOINED_BELOW_BYTES * len(payload) else payload


def compress_envelope(payload: Sequence[Buffer]) -> Sequence[Buffer]:
    """Return what `pack_user_records` made, with LZ4 where that is shorter, else as it is.

    Cost: one copy of the records, and LZ4 over them.
    """
    plain = b"".join(payload[1:])
    stored = pack_lz4(plain)
    if len(stored) >= len(plain):
        return payload
    return [_ENVELOPE.pack(_VERSION, EnvelopeCodec.LZ4, len(plain), len(stored)), stored]


def pack_bare(records: Sequence[LogRecord]) -> list[Buffer]:
    """Return an entry's payload as segments of metadata version 3 and older have it."""
    parts: list[Buffer] = []
    for record in records:
        metadata = pack_metadata(record.flags, record.position)
        parts.append(_RECORD.pack(metadata, record.txid, len(record.payload)))
        parts.append(record.payload)
    return parts


def unpack_envelope(payload: Buffer, enveloped: bool = True) -> Slots:  # noqa: FBT001, FBT002  the segment's own word for it
    """Return (slot, record) of every record of an entry; payloads are views, not copies.

    A record set comes whole with its first slot; `record_set.expand` takes it apart.
    Errors: DecodeError family.
    """
    slots: Slots = []
    slot = 0
    for record in unpack_columns(payload, enveloped).records():
        slots.append((slot, record))
        slot += count_records(record) if record.flags & RECORD_SET else 1
    return slots


def unpack_columns(payload: Buffer, enveloped: bool = True) -> RecordColumns:  # noqa: FBT001, FBT002  as above
    """Return the records of an entry side by side; slots count only if none is a record set.

    Errors: DecodeError family.
    """
    return read_columns(*open_envelope(payload, enveloped))


def open_envelope(payload: Buffer, enveloped: bool = True) -> tuple[Buffer, int]:  # noqa: FBT001, FBT002  as above
    """Return what holds an entry's records up to its end, and where in it they begin.

    Errors: DecodeError family. Cost: no copy unless they are compressed.
    """
    if not enveloped:
        return payload, 0
    if len(payload) < ENVELOPE_SIZE:
        raise BufferUnderflow("fewer bytes than an envelope")
    version, flags, size, stored = _ENVELOPE.unpack_from(payload)
    if version != _VERSION:
        raise BadValue(f"envelope of version {version}")
    if size < 0 or stored != len(payload) - ENVELOPE_SIZE:
        raise BadLength(f"envelope: {stored} bytes stored, {len(payload) - ENVELOPE_SIZE} there")
    codec = flags & _CODEC_MASK
    if codec == EnvelopeCodec.NONE:
        if size != stored:
            raise BadLength(f"envelope: {size} bytes plain, {stored} stored")
        return payload, ENVELOPE_SIZE
    if codec != EnvelopeCodec.LZ4:
        raise BadValue(f"envelope of codec {codec}")
    return unpack_lz4(memoryview(payload)[ENVELOPE_SIZE:], size), 0
