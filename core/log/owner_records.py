"""What the owner of a log keeps in control records: a snapshot first in a segment, an index last.

    magic "TRS1" (snapshot) or "TRX1" (index) | u32 part | u32 parts | bytes of this part
    the joined bytes of an index: u32 length of the end snapshot | end snapshot | index
    magic "TRD1" (delta) | what the records before it in its entry change (`state_deltas.py`)

A payload above one record's limit is split over several control records, one entry each. Part 0 of
a snapshot is entry 0 of its segment; the last part of an index is the segment's last entry. The end
snapshot in the index is what `SegmentState.snapshot` returned when the segment ended, so that a new
owner reads one entry. Readers never see control records, Java's included (ARCHITECTURE D6).
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.protocol.errors import BadLength, BufferUnderflow
from tailrace.protocol.ids import Buffer

SNAPSHOT_MAGIC: Final = b"TRS1"
INDEX_MAGIC: Final = b"TRX1"
DELTA_MAGIC: Final = b"TRD1"
PART_BYTES_MAX: Final = 1_000_000
"""Bytes of one part: below DistributedLog's limit for a record, so that any library copies it."""

PARTS_MAX: Final = 1024

_HEAD: Final = struct.Struct(">4sII")
_LENGTH: Final = struct.Struct(">I")


class OwnerPart(NamedTuple):
    """One part of a snapshot or an index."""

    magic: bytes
    number: int
    total: int
    body: memoryview


class SegmentIndex(NamedTuple):
    """What the last control record of a completed segment says."""

    end_snapshot: bytes
    """The owner's state at the end of the segment."""
    segment_index: bytes
    """The segment's index, opaque to the log."""


def pack_snapshot(snapshot: bytes) -> list[bytes]:
    """Return the payloads of the control records that carry a snapshot; none for an empty one."""
    return _split(SNAPSHOT_MAGIC, snapshot) if snapshot else []


def pack_index(index: SegmentIndex) -> list[bytes]:
    """Return the payloads of the control records that carry an index; none for an empty one."""
    if not index.end_snapshot and not index.segment_index:
        return []
    joined = _LENGTH.pack(len(index.end_snapshot)) + index.end_snapshot + index.segment_index
    return _split(INDEX_MAGIC, joined)


def read_part(payload: Buffer) -> OwnerPart | None:
    """Return the part that a control record carries; None when it is an ordinary control record.

    Errors: BufferUnderflow, BadLength.
    """
    magic = bytes(payload[:4])
    if magic not in (SNAPSHOT_MAGIC, INDEX_MAGIC):
        return None
    if len(payload) < _HEAD.size:
        raise BufferUnderflow("fewer bytes than an owner record's head")
    _, part, parts = _HEAD.unpack_from(payload)
    if not 0 <= part < parts <= PARTS_MAX:
        raise BadLength(f"part {part} of {parts}")
    return OwnerPart(magic, part, parts, memoryview(payload)[_HEAD.size :])


def pack_delta(delta: bytes) -> bytes:
    """Return the payload of the control record that carries a delta."""
    return DELTA_MAGIC + delta


def read_delta(payload: Buffer) -> memoryview | None:
    """Return the delta that a control record carries; None when it carries none."""
    view = memoryview(payload)
    at = len(DELTA_MAGIC)
    return view[at:] if bytes(view[:at]) == DELTA_MAGIC else None


def join_snapshot(parts: Sequence[OwnerPart]) -> bytes:
    """Return the snapshot that all its parts, in order, carry. Errors: BadLength."""
    return _join(SNAPSHOT_MAGIC, parts)


def join_index(parts: Sequence[OwnerPart]) -> SegmentIndex:
    """Return the index that all its parts, in order, carry. Errors: BufferUnderflow, BadLength."""
    joined = _join(INDEX_MAGIC, parts)
    if len(joined) < _LENGTH.size:
        raise BufferUnderflow("fewer bytes than an index's head")
    end = _LENGTH.size + _LENGTH.unpack_from(joined)[0]
    if end > len(joined):
        raise BadLength(f"an end snapshot of {end - _LENGTH.size} bytes in {len(joined)}")
    return SegmentIndex(joined[_LENGTH.size : end], joined[end:])


def _split(magic: bytes, joined: bytes) -> list[bytes]:
    parts = -(-len(joined) // PART_BYTES_MAX)
    if parts > PARTS_MAX:
        raise BadLength(f"{len(joined)} bytes of owner's state, {PARTS_MAX * PART_BYTES_MAX} fit")
    return [
        _HEAD.pack(magic, part, parts) + joined[part * PART_BYTES_MAX : (part + 1) * PART_BYTES_MAX]
        for part in range(parts)
    ]


def _join(magic: bytes, parts: Sequence[OwnerPart]) -> bytes:
    expected = [(magic, part, len(parts)) for part in range(len(parts))]
    if not parts or [(p.magic, p.number, p.total) for p in parts] != expected:
        raise BadLength("parts of an owner record are missing or out of order")
    return b"".join(p.body for p in parts)
