"""Answers of BookKeeper's protocol v2 as frames.

    answer = u8 2 | u8 opcode | u16 0 | i32 code | i64 ledger | i64 entry | what the opcode says
    READ   = the entry          BATCH = i64 request id | (u32 length | entry)*
    AUTH   = AuthMessage (protobuf) right after the first four bytes

The codes are v2's own. Source: reference BookKeeper 1.11.
"""

import struct
from typing import Final

from tailrace.protocol.bookkeeper.messages import (
    AddResponse,
    AuthResponse,
    BatchReadResponse,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.bookkeeper.protobuf_codec import read_auth_message, write_auth_message
from tailrace.protocol.bookkeeper.v2_requests import (
    AUTH_ORIGIN,
    HEAD,
    OPERATIONS,
    VERSION,
    Opcode,
    Origin,
    frame_of,
)
from tailrace.protocol.errors import BadValue, BufferUnderflow, UnsupportedVersion
from tailrace.protocol.ids import Buffer

ANSWER_BYTES: Final = 24
"""An answer before its entry."""

_ANSWER = struct.Struct(">BBHiqq")
_REQUEST_ID = struct.Struct(">q")
_LENGTH = struct.Struct(">I")
_IDS_BYTES: Final = 16
"""The least that a bookie stores: ids. A frame of empty ones would be a million values."""

_CODES = {
    StatusCode.EOK: 0,
    StatusCode.ENOLEDGER: 1,
    StatusCode.ENOENTRY: 2,
    StatusCode.EBADREQ: 100,
    StatusCode.EIO: 101,
    StatusCode.EUA: 102,
    StatusCode.EBADVERSION: 103,
    StatusCode.EFENCED: 104,
    StatusCode.EREADONLY: 105,
    StatusCode.ETOOMANYREQUESTS: 106,
    StatusCode.EUNKNOWNLEDGERSTATE: 107,
}
_STATUSES = {code: status for status, code in _CODES.items()}


def encode_response(origin: Origin, response: Response) -> list[Buffer]:
    """Return the parts of a frame; none for an AUTH that failed, which has no words in v2.

    Errors: FrameTooLarge.
    """
    if origin.opcode is Opcode.AUTH:
        if not isinstance(response, AuthResponse):
            return []
        head = HEAD.pack(VERSION, Opcode.AUTH, 0)
        return frame_of(head + write_auth_message(response.plugin, response.payload))
    opcode, ledger_id, entry_id, request_id = origin
    head = _ANSWER.pack(VERSION, opcode, 0, _CODES[response.status], ledger_id, entry_id)
    if opcode is Opcode.BATCH_READ_ENTRY:
        bodies = response.bodies if isinstance(response, BatchReadResponse) else ()
        return frame_of(head + _REQUEST_ID.pack(request_id), _delimited(bodies))
    if isinstance(response, ReadResponse) and response.body is not None:
        return frame_of(head, (response.body,))
    return frame_of(head)


def _delimited(bodies: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    parts: list[Buffer] = []
    for body in bodies:
        parts += (_LENGTH.pack(len(body)), body)
    return tuple(parts)


def decode_response(frame: Buffer) -> tuple[Origin, Response]:
    """Return an answer and what it repeats of its request; bodies are views of the frame.

    Errors: UnsupportedVersion, DecodeError family: close the connection.
    """
    view = memoryview(frame)
    try:
        version, number, _ = HEAD.unpack_from(view)
        if version != VERSION or number not in OPERATIONS:
            raise UnsupportedVersion(f"an answer of version {version} to opcode {number}")
        opcode = Opcode(number)
        if opcode is Opcode.AUTH:
            plugin, payload = read_auth_message(view[HEAD.size :])
            return AUTH_ORIGIN, AuthResponse(StatusCode.EOK, plugin, payload)
        return _read_answer(view, opcode)
    except struct.error:
        raise BufferUnderflow(f"an answer of {len(frame)} bytes") from None


def _read_answer(view: memoryview, opcode: Opcode) -> tuple[Origin, Response]:
    _, _, _, code, ledger_id, entry_id = _ANSWER.unpack_from(view)
    status = _STATUSES.get(code, StatusCode.EIO)
    origin = Origin(opcode, ledger_id, entry_id)
    if opcode is Opcode.ADD_ENTRY:
        return origin, AddResponse(status, ledger_id, entry_id)
    if opcode is Opcode.BATCH_READ_ENTRY:
        (request_id,) = _REQUEST_ID.unpack_from(view, ANSWER_BYTES)
        bodies = _read_delimited(view, ANSWER_BYTES + _REQUEST_ID.size)
        answer = BatchReadResponse(status, ledger_id, entry_id, bodies)
        return origin._replace(request_id=request_id), answer
    body = view[ANSWER_BYTES:] if status is StatusCode.EOK else None
    return origin, ReadResponse(status, ledger_id, entry_id, body)


def _read_delimited(view: memoryview, at: int) -> tuple[Buffer, ...]:
    bodies: list[Buffer] = []
    while at < len(view):
        (length,) = _LENGTH.unpack_from(view, at)
        if length < _IDS_BYTES:
            raise BadValue(f"an entry of {length} bytes has no ids")
        at += _LENGTH.size + length
        if at > len(view):
            raise BufferUnderflow(f"an entry of {length} bytes is cut")
        bodies.append(view[at - length : at])
    return tuple(bodies)
