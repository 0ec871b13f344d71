"""Adds and reads by hand: no copy of a body, a third of the library's time.

Only the ordinary shape of a message is taken: every field at most once, numbers in their range.
Anything else returns None and `protobuf_codec` decides, so there is one set of rules; property
tests hold both equal on every input.
"""

from typing import TypeAlias

from protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    StatusCode,
)
from protocol.bookkeeper.protobuf_codec import (
    ENTRY_PIGGYBACK,
    FENCE_LEDGER,
    RECOVERY_ADD,
    VERSION_THREE,
    status_of,
)
from protocol.errors import DecodeError
from protocol.ids import Buffer, LedgerId
from protocol.varint import read_unsigned64, write_unsigned

Fields: TypeAlias = dict[int, int]
"""Tag (number << 3 | wire type) -> the number, or for bytes start << 32 | end."""

_MASK32 = (1 << 32) - 1
_MASK64 = (1 << 64) - 1
_INT32_MAX = (1 << 31) - 1
_VARINT, _BYTES = 0, 2
_READ, _ADD = 100 << 3 | _BYTES, 101 << 3 | _BYTES
_HEADER = 1 << 3 | _BYTES


def write_add(txn_id: int, request: AddRequest) -> tuple[bytes, tuple[Buffer, ...], bytes]:
    """Return what comes before the body, the body's parts, and what comes after them."""
    body = request.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    key = request.master_key
    head = (
        b"\x08" + _int64(request.ledger_id) + b"\x10" + _int64(request.entry_id)
        + b"\x1a" + write_unsigned(len(key)) + key + b"\x22" + write_unsigned(size)
    )  # fmt: skip
    tail = b""
    if request.write_flags:
        tail += b"\x28" + _int64(request.write_flags)
    if request.recovery:
        tail += b"\xa0\x06" + bytes((RECOVERY_ADD,))
    header = _header(OperationType.ADD_ENTRY, txn_id, request.priority)
    length = write_unsigned(len(head) + size + len(tail))
    return header + b"\xaa\x06" + length + head, body, tail


def write_read(txn_id: int, request: ReadRequest) -> bytes:
    """Return a whole read request."""
    out = b"\x08" + _int64(request.ledger_id) + b"\x10" + _int64(request.entry_id)
    if request.master_key:
        out += b"\x1a" + write_unsigned(len(request.master_key)) + request.master_key
    if request.previous_lac is not None:
        out += b"\x20" + _int64(request.previous_lac)
    if request.timeout_ms is not None:
        out += b"\x28" + _int64(request.timeout_ms)
    if request.fence or request.piggyback:
        assert not (request.fence and request.piggyback), "one flag at most"
        out += b"\xa0\x06" + bytes((FENCE_LEDGER if request.fence else ENTRY_PIGGYBACK,))
    header = _header(OperationType.READ_ENTRY, txn_id, request.priority)
    return header + b"\xa2\x06" + write_unsigned(len(out)) + out


def write_add_response(txn_id: int, response: AddResponse) -> bytes:
    """Return a whole answer to an add."""
    status = write_unsigned(response.status)
    inner = (
        b"\x08" + status + b"\x10" + _int64(response.ledger_id)
        + b"\x18" + _int64(response.entry_id)
    )  # fmt: skip
    header = _header(OperationType.ADD_ENTRY, txn_id, 0)
    return header + b"\x10" + status + b"\xaa\x06" + write_unsigned(len(inner)) + inner


def write_read_response(
    txn_id: int, response: ReadResponse
) -> tuple[bytes, tuple[Buffer, ...], bytes]:
    """Return what comes before the body, the body, and what comes after it."""
    status = write_unsigned(response.status)
    head = (
        b"\x08" + status + b"\x10" + _int64(response.ledger_id)
        + b"\x18" + _int64(response.entry_id)
    )  # fmt: skip
    body: tuple[Buffer, ...] = ()
    size = 0
    if response.body is not None:
        size = len(response.body)
        body = (response.body,)
        head += b"\x22" + write_unsigned(size)
    tail = b""
    if response.max_lac is not None:
        tail += b"\x28" + _int64(response.max_lac)
    if response.lac_update_timestamp is not None:
        tail += b"\x30" + _int64(response.lac_update_timestamp)
    header = _header(OperationType.READ_ENTRY, txn_id, 0)
    length = write_unsigned(len(head) + size + len(tail))
    return header + b"\x10" + status + b"\xa2\x06" + length + head, body, tail


def _header(operation: int, txn_id: int, priority: int) -> bytes:
    header = b"\x08\x03\x10" + write_unsigned(operation) + b"\x18" + write_unsigned(txn_id)
    if priority:
        header += b"\x20" + write_unsigned(priority)
    return b"\x0a" + write_unsigned(len(header)) + header


def _int64(value: int) -> bytes:
    return write_unsigned(value & _MASK64)


def read_request(message: memoryview) -> tuple[int, AddRequest | ReadRequest] | None:
    """Return (transaction id, request) of an ordinary add or read, else None."""
    try:
        outer = _scan(message, 0, len(message))
        header = _sub(message, outer[_HEADER])
        priority = header.get(0x20, 0)
        if header[0x08] != VERSION_THREE or priority > _INT32_MAX or len(outer) != 2:
            return None
        operation = header[0x10]
        request: AddRequest | ReadRequest
        if operation == OperationType.ADD_ENTRY:
            request = _read_add(message, _sub(message, outer[_ADD]), priority)
        elif operation == OperationType.READ_ENTRY:
            request = _read_read(message, _sub(message, outer[_READ]), priority)
        else:
            return None
        return header[0x18], request
    except _NOT_ORDINARY:
        return None


def _read_add(message: memoryview, inner: Fields, priority: int) -> AddRequest:
    return AddRequest(
        LedgerId(_signed(inner[0x08])),
        _signed(inner[0x10]),
        bytes(_slice(message, inner[0x1A])),
        (_slice(message, inner[0x22]),),
        _small(inner, 0x320) == RECOVERY_ADD,
        _small(inner, 0x28),
        priority,
    )


def _read_read(message: memoryview, inner: Fields, priority: int) -> ReadRequest:
    flag = _small(inner, 0x320)
    return ReadRequest(
        LedgerId(_signed(inner[0x08])),
        _signed(inner[0x10]),
        flag == FENCE_LEDGER,
        bytes(_slice(message, inner[0x1A])) if 0x1A in inner else b"",
        _signed(inner[0x20]) if 0x20 in inner else None,
        _signed(inner[0x28]) if 0x28 in inner else None,
        flag == ENTRY_PIGGYBACK,
        priority,
    )


def read_response(message: memoryview) -> tuple[int, AddResponse | ReadResponse] | None:
    """Return (transaction id, answer) to an ordinary add or read, else None."""
    try:
        outer = _scan(message, 0, len(message))
        header = _sub(message, outer[_HEADER])
        if 0x08 not in header or len(outer) != 3:
            return None
        operation = header[0x10]
        response: AddResponse | ReadResponse
        if operation == OperationType.ADD_ENTRY:
            inner = _sub(message, outer[_ADD])
            ledger_id = LedgerId(_signed(inner[0x10]))
            response = AddResponse(_status(outer, inner), ledger_id, _signed(inner[0x18]))
        elif operation == OperationType.READ_ENTRY:
            inner = _sub(message, outer[_READ])
            response = _read_read_response(message, inner, _status(outer, inner))
        else:
            return None
        return header[0x18], response
    except _NOT_ORDINARY:
        return None


def _read_read_response(message: memoryview, inner: Fields, status: StatusCode) -> ReadResponse:
    return ReadResponse(
        status,
        LedgerId(_signed(inner[0x10])),
        _signed(inner[0x18]),
        _slice(message, inner[0x22]) if 0x22 in inner else None,
        _signed(inner[0x28]) if 0x28 in inner else None,
        _signed(inner[0x30]) if 0x30 in inner else None,
    )


def _status(outer: Fields, inner: Fields) -> StatusCode:
    """Return the inner status if the outer one is EOK (0), else the outer one."""
    if 0x10 not in outer or 0x08 not in inner:
        raise _NotOrdinaryError
    inner_status = _small(inner, 0x08)
    return status_of(_small(outer, 0x10) or inner_status)


class _NotOrdinaryError(Exception):
    """A message for the protobuf library."""


_NOT_ORDINARY = (_NotOrdinaryError, DecodeError, LookupError)
"""LookupError: a field that must be there is not, or the bytes end."""


def _scan(buf: memoryview, at: int, end: int) -> Fields:
    """Return the fields between `at` and `end`, each with its tag; unknown ones are in it too."""
    fields: Fields = {}
    while at < end:
        tag = buf[at]
        if tag >= 0x80:
            at += 1
            tag = (tag & 0x7F) | buf[at] << 7
        at += 1
        if tag in fields or not 8 <= tag < 1 << 14:
            raise _NotOrdinaryError
        value = buf[at]
        at += 1
        if value >= 0x80:
            value, at = read_unsigned64(buf, at - 1)
        wire_type = tag & 7
        if wire_type == _BYTES:
            fields[tag] = at << 32 | (at + value)
            at += value
        elif wire_type == _VARINT:
            fields[tag] = value
        else:
            raise _NotOrdinaryError
    if at != end:
        raise _NotOrdinaryError
    return fields


def _sub(message: memoryview, place: int) -> Fields:
    return _scan(message, place >> 32, place & _MASK32)


def _slice(message: memoryview, place: int) -> memoryview:
    return message[place >> 32 : place & _MASK32]


def _small(fields: Fields, tag: int) -> int:
    value = fields.get(tag, 0)
    if value > _INT32_MAX:
        raise _NotOrdinaryError
    return value


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
