"""An entry's body: what a bookie stores, the same bytes on every replica.

    i64 ledger id | i64 entry id | i64 LAC that the writer knew | i64 cumulative payload length
    digest over these 32 bytes and the payload | payload

An explicit LAC packet is ledger id | lac | digest over both. Source: reference BookKeeper 2.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.errors import BadChecksum, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

MAX_FRAME_BYTES = 5 * 1024 * 1024
"""A frame with its four bytes of length; the default of both sides' nettyMaxFrameSizeBytes."""
FRAME_OVERHEAD_BYTES = 500
"""What a bookie sets aside for everything in a frame but the body."""
MAX_ENTRY_BYTES = MAX_FRAME_BYTES - FRAME_OVERHEAD_BYTES
"""A body that both a frame and a bookie's scan of its entry logs take: of every bookie."""
FRAME_BYTES_LIMIT = 72 * 1024 * 1024
"""The largest nettyMaxFrameSizeBytes here: 64 MiB, and room for headers of every layer."""
ENTRY_BYTES_LIMIT = FRAME_BYTES_LIMIT - FRAME_OVERHEAD_BYTES
"""The largest body that a bookie may take."""
HEADER_SIZE = 32

_HEADER = struct.Struct(">qqqq")
_LAC = struct.Struct(">qq")
_IDS = struct.Struct(">qq")


class Entry(NamedTuple):
    """An entry whose digest was right."""

    ledger_id: LedgerId
    entry_id: EntryId
    lac: EntryId
    """Last add confirmed that its writer knew."""
    length: int
    """Payload bytes of the ledger up to this entry, inclusive."""
    payload: memoryview


def pack_entry(
    ledger_id: LedgerId,
    entry_id: EntryId,
    lac: EntryId,
    length: int,
    payload: Sequence[Buffer],
    digest: Digest,
) -> tuple[Buffer, ...]:
    """Return the parts of a body: header with digest, then the payload's parts untouched.

    Cost: the digest's pass over the payload.
    """
    header = _HEADER.pack(ledger_id, entry_id, lac, length)
    return (header + digest.compute((header, *payload)), *payload)


def read_entry(
    body: Buffer, ledger_id: LedgerId, entry_id: EntryId | None, digest: Digest
) -> Entry:
    """Check a body and take it apart; `entry_id` None takes whichever entry it is.

    Errors: BufferUnderflow, BadChecksum, BadValue (another ledger's or entry's bytes): this replica
    failed, try the next one.
    """
    start = HEADER_SIZE + digest.size
    if len(body) < start:
        raise BufferUnderflow(f"an entry of {len(body)} bytes is less than its header")
    view = memoryview(body)
    payload = view[start:]
    if digest.compute((view[:HEADER_SIZE], payload)) != view[HEADER_SIZE:start]:
        raise BadChecksum(f"entry {entry_id} of ledger {ledger_id}: the digest does not match")
    owner, number, lac, length = _HEADER.unpack_from(body)
    if owner != ledger_id:
        raise BadValue(f"an entry of ledger {owner} instead of {ledger_id}")
    if entry_id is not None and number != entry_id:
        raise BadValue(f"entry {number} instead of {entry_id} of ledger {ledger_id}")
    return Entry(ledger_id, number, lac, length, payload)


def read_ids(body: Buffer) -> tuple[LedgerId, EntryId]:
    """Return (ledger id, entry id) as a bookie takes them from a body. Errors: BufferUnderflow."""
    try:
        ledger_id, entry_id = _IDS.unpack_from(body)
    except struct.error:
        raise BufferUnderflow(f"an entry of {len(body)} bytes has no ids") from None
    return LedgerId(ledger_id), entry_id


def pack_lac(ledger_id: LedgerId, lac: EntryId, digest: Digest) -> bytes:
    """Return an explicit LAC packet."""
    packet = _LAC.pack(ledger_id, lac)
    return packet + digest.compute((packet,))


def read_lac(packet: Buffer, ledger_id: LedgerId, digest: Digest) -> EntryId:
    """Check an explicit LAC packet and return its LAC. Errors: as read_entry."""
    if len(packet) != _LAC.size + digest.size:
        raise BufferUnderflow(f"a LAC packet of {len(packet)} bytes")
    view = memoryview(packet)
    if digest.compute((view[: _LAC.size],)) != view[_LAC.size :]:
        raise BadChecksum(f"LAC packet of ledger {ledger_id}: the digest does not match")
    owner, lac = _LAC.unpack_from(packet)
    if owner != ledger_id:
        raise BadValue(f"a LAC packet of ledger {owner} instead of {ledger_id}")
    return int(lac)
