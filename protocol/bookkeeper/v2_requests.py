"""Requests of BookKeeper's protocol v2 (Pulsar's default) as frames; `v2_answers` has the answers.

    frame   = u32 length | u8 2 | u8 opcode | u16 flags | what the opcode says
    ADD     = master key (20) | body            READ  = i64 ledger | i64 entry [| master key]
    BATCH   = i64 ledger | i64 first entry | i64 request id | i32 count | i64 bytes [| master key]
    AUTH    = AuthMessage (protobuf)            a master key follows only when FENCE is set

There are no transaction ids: an answer repeats ledger, entry and opcode, here an `Origin`, and
everything else stays as in v3. Further opcodes exist by name only: Java's bookie closes the
connection, so they are errors here. Source: reference BookKeeper 1.11.
"""

import struct
from collections.abc import Callable
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    AuthRequest,
    BatchReadRequest,
    OperationType,
    ReadRequest,
    Request,
    StatusCode,
    UnknownRequest,
)
from tailrace.protocol.bookkeeper.protobuf_codec import read_auth_message, write_auth_message
from tailrace.protocol.errors import BadValue, BufferUnderflow, FrameTooLarge, UnsupportedVersion
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

VERSION: Final = 2
MASTER_KEY_BYTES: Final = 20


class Opcode(IntEnum):
    """What a frame asks, of those that a bookie takes."""

    ADD_ENTRY = 1
    READ_ENTRY = 2
    AUTH = 3
    BATCH_READ_ENTRY = 7


class Flag(IntFlag):
    """Bits of a request's flags."""

    NONE = 0
    DO_FENCING = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class Origin(NamedTuple):
    """What an answer repeats of its request; all zero for AUTH."""

    opcode: Opcode
    ledger_id: LedgerId
    entry_id: EntryId
    request_id: int = 0
    """Of a batch read only."""


_V3_HEADER_TAG: Final = 0x0A
HEAD = struct.Struct(">BBH")
_IDS = struct.Struct(">qq")
_READ = struct.Struct(">BBHqq")
_BATCH = struct.Struct(">BBHqqqiq")
_BODY_AT = HEAD.size + MASTER_KEY_BYTES

OPERATIONS = {
    Opcode.ADD_ENTRY: OperationType.ADD_ENTRY,
    Opcode.READ_ENTRY: OperationType.READ_ENTRY,
    Opcode.AUTH: OperationType.AUTH,
    Opcode.BATCH_READ_ENTRY: OperationType.BATCH_READ_ENTRY,
}


def is_v2(frame: Buffer) -> bool:
    """Whether a frame cannot be v3: every v3 message begins with the tag of its header."""
    return len(frame) > 0 and frame[0] != _V3_HEADER_TAG


def decode_request(frame: Buffer) -> tuple[Origin, Request]:
    """Return a request and what its answer must repeat; bodies are views of the frame.

    Trailing bytes are ignored, as Java's decoder does (its client may send a key without FENCE).
    A version above 2 comes as UnknownRequest with EBADVERSION. Errors: UnsupportedVersion (0, 1),
    BadValue (an opcode that is not served), BufferUnderflow: close the connection.
    """
    view = memoryview(frame)
    try:
        version, number, flags = HEAD.unpack_from(view)
        read = _READERS.get(number)
        if version < VERSION:
            raise UnsupportedVersion(f"BookKeeper protocol version {version}")
        if read is None:
            raise BadValue(f"opcode {number} is not served")
        origin, request = read(view, flags)
    except struct.error:
        raise BufferUnderflow(f"a request of {len(frame)} bytes") from None
    if version > VERSION:
        return origin, UnknownRequest(OPERATIONS[origin.opcode], StatusCode.EBADVERSION)
    return origin, request


def _read_add(view: memoryview, flags: int) -> tuple[Origin, Request]:
    ledger_id, entry_id = _IDS.unpack_from(view, _BODY_AT)
    request = AddRequest(
        ledger_id,
        entry_id,
        bytes(view[HEAD.size : _BODY_AT]),
        (view[_BODY_AT:],),
        bool(flags & Flag.RECOVERY_ADD),
        priority=_priority(flags),
    )
    return Origin(Opcode.ADD_ENTRY, ledger_id, entry_id), request


def _read_read(view: memoryview, flags: int) -> tuple[Origin, Request]:
    _, _, _, ledger_id, entry_id = _READ.unpack_from(view)
    request = ReadRequest(
        ledger_id,
        entry_id,
        bool(flags & Flag.DO_FENCING),
        _key(view, _READ.size, flags),
        priority=_priority(flags),
    )
    return Origin(Opcode.READ_ENTRY, ledger_id, entry_id), request


def _read_batch(view: memoryview, flags: int) -> tuple[Origin, Request]:
    _, _, _, ledger_id, entry_id, request_id, count, size = _BATCH.unpack_from(view)
    request = BatchReadRequest(
        ledger_id,
        entry_id,
        count,
        size,
        bool(flags & Flag.DO_FENCING),
        _key(view, _BATCH.size, flags),
        priority=_priority(flags),
    )
    return Origin(Opcode.BATCH_READ_ENTRY, ledger_id, entry_id, request_id), request


def _read_auth(view: memoryview, flags: int) -> tuple[Origin, Request]:
    plugin, payload = read_auth_message(view[HEAD.size :])
    return AUTH_ORIGIN, AuthRequest(plugin, payload, priority=_priority(flags))


AUTH_ORIGIN: Final = Origin(Opcode.AUTH, LedgerId(0), 0)
_READERS: dict[int, Callable[[memoryview, int], tuple[Origin, Request]]] = {
    Opcode.ADD_ENTRY: _read_add,
    Opcode.READ_ENTRY: _read_read,
    Opcode.AUTH: _read_auth,
    Opcode.BATCH_READ_ENTRY: _read_batch,
}


def _priority(flags: int) -> int:
    return HIGH_PRIORITY if flags & Flag.HIGH_PRIORITY else 0


def _key(view: memoryview, at: int, flags: int) -> bytes:
    if not flags & Flag.DO_FENCING:
        return b""
    key = bytes(view[at : at + MASTER_KEY_BYTES])
    if len(key) < MASTER_KEY_BYTES:
        raise BufferUnderflow(f"a master key of {len(key)} bytes")
    return key


def encode_request(request: Request, request_id: int = 0) -> list[Buffer]:
    """Return the parts of a frame. What v2 has no words for is left out (`write_flags`).

    Errors: FrameTooLarge, UnsupportedVersion (a request that v2 does not have).
    """
    if isinstance(request, AddRequest):
        flags = Flag.RECOVERY_ADD if request.recovery else Flag.NONE
        head = _head(Opcode.ADD_ENTRY, flags, request.priority)
        assert len(request.master_key) == MASTER_KEY_BYTES, "a master key is a SHA-1"
        return frame_of(head + request.master_key, request.body)
    if isinstance(request, ReadRequest) and request.previous_lac is None:
        head = _head(Opcode.READ_ENTRY, _fence(request), request.priority)
        ids = _IDS.pack(request.ledger_id, request.entry_id)
        return frame_of(head + ids + _key_if_fence(request))
    if isinstance(request, BatchReadRequest):
        head = _BATCH.pack(
            *HEAD.unpack(_head(Opcode.BATCH_READ_ENTRY, _fence(request), request.priority)),
            request.ledger_id,
            request.entry_id,
            request_id,
            request.count_max,
            request.bytes_max,
        )
        return frame_of(head + _key_if_fence(request))
    if isinstance(request, AuthRequest):
        head = _head(Opcode.AUTH, Flag.NONE, request.priority)
        return frame_of(head + write_auth_message(request.plugin, request.payload))
    raise UnsupportedVersion(f"protocol v2 has no {type(request).__name__}")


def _head(opcode: Opcode, flags: Flag, priority: int) -> bytes:
    return HEAD.pack(VERSION, opcode, flags | Flag.HIGH_PRIORITY if priority else flags)


def _fence(request: ReadRequest | BatchReadRequest) -> Flag:
    return Flag.DO_FENCING if request.fence else Flag.NONE


def _key_if_fence(request: ReadRequest | BatchReadRequest) -> bytes:
    return request.master_key if request.fence else b""


def frame_of(head: bytes, body: tuple[Buffer, ...] = ()) -> list[Buffer]:
    """Return the parts of a frame of either direction. Errors: FrameTooLarge."""
    size = len(head) + sum(map(len, body))
    if size + 4 > FRAME_BYTES_LIMIT:
        raise FrameTooLarge(f"a frame of {size} bytes")
    return [size.to_bytes(4, "big") + head, *body]
