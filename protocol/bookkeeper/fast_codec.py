"""Adds and reads by hand: no copy of a body, a third of the library's time.

Only the ordinary shape of a message is read: fields by rising number as every protobuf library
writes them, nothing unknown, numbers in their range. Anything else gives None and `protobuf_codec`
decides, so there is one set of rules; property tests hold both equal on every input.
"""

from functools import lru_cache
from typing import TypeVar

from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    OperationType,
    ReadRequest,
    ReadResponse,
    StatusCode,
)
from tailrace.protocol.bookkeeper.protobuf_codec import (
    ENTRY_PIGGYBACK,
    FENCE_LEDGER,
    RECOVERY_ADD,
    VERSION_THREE,
    status_of,
)
from tailrace.protocol.ids import Buffer, LedgerId
from tailrace.protocol.varint import write_unsigned

_Default = TypeVar("_Default", int, None)

_MASK64 = (1 << 64) - 1
_INT32_MAX = (1 << 31) - 1
_SHIFT_MAX = 63
_ADD_ENTRY, _READ_ENTRY = int(OperationType.ADD_ENTRY), int(OperationType.READ_ENTRY)
# Tags: field number << 3 | wire type. Single ones stand where they are used.
_READ, _ADD, _FLAG = b"\xa2\x06", b"\xaa\x06", b"\xa0\x06"
_HEADS = {
    each: bytes((0x08, VERSION_THREE, 0x10, each, 0x18)) for each in (_ADD_ENTRY, _READ_ENTRY)
}
"""Headers up to the transaction id: version, operation, tag."""

LEDGERS_KEPT = 1024
"""Ledgers whose fields are kept encoded."""


def write_add(txn_id: int, request: AddRequest) -> tuple[bytes, tuple[Buffer, ...], bytes]:
    """Return what comes before the body, the body's parts, and what comes after them."""
    body = request.body
    size = len(body[0]) if len(body) == 1 else sum(map(len, body))
    ledger, key = _ledger_fields(request.ledger_id, request.master_key)
    head = ledger + _int64(request.entry_id) + key + write_unsigned(size)
    tail = b""
    if request.write_flags:
        tail += b"\x28" + _int64(request.write_flags)
    if request.recovery:
        tail += _FLAG + bytes((RECOVERY_ADD,))
    header = _header(_ADD_ENTRY, txn_id, request.priority)
    length = write_unsigned(len(head) + size + len(tail))
    return header + _ADD + length + head, body, tail


@lru_cache(maxsize=LEDGERS_KEPT)
def _ledger_fields(ledger_id: LedgerId, key: bytes) -> tuple[bytes, bytes]:
    """Return what is the same in all adds to a ledger: before and after the entry's number."""
    ledger = b"\x08" + _int64(ledger_id) + b"\x10"
    return ledger, b"\x1a" + write_unsigned(len(key)) + key + b"\x22"


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
        out += _FLAG + bytes((FENCE_LEDGER if request.fence else ENTRY_PIGGYBACK,))
    header = _header(_READ_ENTRY, txn_id, request.priority)
    return header + _READ + write_unsigned(len(out)) + out


def write_add_response(txn_id: int, response: AddResponse) -> bytes:
    """Return a whole answer to an add."""
    status = write_unsigned(response.status)
    inner = (
        b"\x08" + status + b"\x10" + _int64(response.ledger_id)
        + b"\x18" + _int64(response.entry_id)
    )  # fmt: skip
    header = _header(_ADD_ENTRY, txn_id, 0)
    return header + b"\x10" + status + _ADD + write_unsigned(len(inner)) + inner


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
    header = _header(_READ_ENTRY, txn_id, 0)
    length = write_unsigned(len(head) + size + len(tail))
    return header + b"\x10" + status + _READ + length + head, body, tail


def _header(operation: int, txn_id: int, priority: int) -> bytes:
    header = _HEADS[operation] + write_unsigned(txn_id)
    if priority:
        header += b"\x20" + write_unsigned(priority)
    return b"\x0a" + write_unsigned(len(header)) + header


def _int64(value: int) -> bytes:
    return write_unsigned(value & _MASK64)


def read_request(message: memoryview) -> tuple[int, AddRequest | ReadRequest] | None:
    """Return (transaction id, request) of an ordinary add or read, else None."""
    try:
        operation, txn_id, priority, at = _read_header(message)
        if operation == _ADD_ENTRY:
            return txn_id, _read_add(message, _enter(message, at, _ADD), priority)
        if operation == _READ_ENTRY:
            return txn_id, _read_read(message, _enter(message, at, _READ), priority)
    except _NOT_ORDINARY:
        pass
    return None


def _read_add(message: memoryview, at: int, priority: int) -> AddRequest:
    ledger_id, at = _number(message, at, 0x08)
    entry_id, at = _number(message, at, 0x10)
    key, at = _bytes(message, at, 0x1A)
    body, at = _bytes(message, at, 0x22)
    write_flags = flag = 0
    if at != len(message):
        write_flags, at = _optional(message, at, 0x28, 0)
        flag, at = _flag(message, at)
        _check_end(message, at)
    return AddRequest(
        LedgerId(_signed(ledger_id)),
        _signed(entry_id),
        bytes(key),
        (body,),
        flag == RECOVERY_ADD,
        _small(write_flags),
        priority,
    )


def _read_read(message: memoryview, at: int, priority: int) -> ReadRequest:
    ledger_id, at = _number(message, at, 0x08)
    entry_id, at = _number(message, at, 0x10)
    ids = LedgerId(_signed(ledger_id)), _signed(entry_id)
    if at == len(message):
        return ReadRequest(*ids, priority=priority)
    key, at = _optional_bytes(message, at, 0x1A)
    previous_lac, at = _optional(message, at, 0x20, None)
    timeout_ms, at = _optional(message, at, 0x28, None)
    flag, at = _flag(message, at)
    _check_end(message, at)
    return ReadRequest(
        *ids,
        flag == FENCE_LEDGER,
        b"" if key is None else bytes(key),
        None if previous_lac is None else _signed(previous_lac),
        None if timeout_ms is None else _signed(timeout_ms),
        flag == ENTRY_PIGGYBACK,
        priority,
    )


def read_response(message: memoryview) -> tuple[int, AddResponse | ReadResponse] | None:
    """Return (transaction id, answer) to an ordinary add or read, else None."""
    try:
        operation, txn_id, _, at = _read_header(message)
        outer_status, at = _number(message, at, 0x10)
        if operation == _ADD_ENTRY:
            return txn_id, _read_add_response(message, _enter(message, at, _ADD), outer_status)
        if operation == _READ_ENTRY:
            return txn_id, _read_read_response(message, _enter(message, at, _READ), outer_status)
    except _NOT_ORDINARY:
        pass
    return None


def _read_add_response(message: memoryview, at: int, outer_status: int) -> AddResponse:
    status, at = _number(message, at, 0x08)
    ledger_id, at = _number(message, at, 0x10)
    entry_id, at = _number(message, at, 0x18)
    _check_end(message, at)
    return AddResponse(
        _status(outer_status, status), LedgerId(_signed(ledger_id)), _signed(entry_id)
    )


def _read_read_response(message: memoryview, at: int, outer_status: int) -> ReadResponse:
    status, at = _number(message, at, 0x08)
    ledger_id, at = _number(message, at, 0x10)
    entry_id, at = _number(message, at, 0x18)
    body, at = _optional_bytes(message, at, 0x22)
    max_lac, at = _optional(message, at, 0x28, None)
    timestamp, at = _optional(message, at, 0x30, None)
    _check_end(message, at)
    return ReadResponse(
        _status(outer_status, status),
        LedgerId(_signed(ledger_id)),
        _signed(entry_id),
        body,
        None if max_lac is None else _signed(max_lac),
        None if timestamp is None else _signed(timestamp),
    )


class _NotOrdinaryError(Exception):
    """A message for the protobuf library."""


_NOT_ORDINARY = (_NotOrdinaryError, IndexError)
"""IndexError: the bytes end too early."""


def _read_header(message: memoryview) -> tuple[int, int, int, int]:
    """Return operation, transaction id, priority, and the place after the header."""
    if (
        message[0] != 0x0A
        or message[2] != 0x08
        or message[3] != VERSION_THREE
        or message[4] != 0x10
        or message[6] != 0x18
    ):
        raise _NotOrdinaryError
    end = 2 + message[1]
    txn_id, at = _number(message, 6, 0x18)
    priority = 0
    if at != end:
        priority, at = _number(message, at, 0x20)
        if at != end:
            raise _NotOrdinaryError
    return message[5], txn_id, _small(priority), at


def _enter(message: memoryview, at: int, tag: bytes) -> int:
    """Return where the inner message begins; it must be the last thing."""
    if message[at] != tag[0]:
        raise _NotOrdinaryError
    length, at = _number(message, at + 1, tag[1])
    if at + length != len(message):
        raise _NotOrdinaryError
    return at


def _number(message: memoryview, at: int, tag: int) -> tuple[int, int]:
    """Read the number that must be here, unsigned."""
    if message[at] != tag:
        raise _NotOrdinaryError
    value = message[at + 1]
    if value < 0x80:
        return value, at + 2
    byte = message[at + 2]
    value = value & 0x7F | (byte & 0x7F) << 7
    at += 3
    shift = 14
    while byte >= 0x80:
        if shift > _SHIFT_MAX:
            raise _NotOrdinaryError
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    if value > _MASK64:
        raise _NotOrdinaryError
    return value, at


def _bytes(message: memoryview, at: int, tag: int) -> tuple[memoryview, int]:
    """Take the bytes that must be here, as a view."""
    length, at = _number(message, at, tag)
    end = at + length
    if end > len(message):
        raise _NotOrdinaryError
    return message[at:end], end


def _optional(
    message: memoryview, at: int, tag: int, default: _Default
) -> tuple[int | _Default, int]:
    if at < len(message) and message[at] == tag:
        return _number(message, at, tag)
    return default, at


def _optional_bytes(message: memoryview, at: int, tag: int) -> tuple[memoryview | None, int]:
    if at < len(message) and message[at] == tag:
        return _bytes(message, at, tag)
    return None, at


def _flag(message: memoryview, at: int) -> tuple[int, int]:
    """Read field 100, which comes last because of its number; 0 if it is not there."""
    if at == len(message):
        return 0, at
    if message[at : at + 2] != _FLAG or message[at + 2] >= 0x80:
        raise _NotOrdinaryError
    return message[at + 2], at + 3


def _check_end(message: memoryview, at: int) -> None:
    if at != len(message):
        raise _NotOrdinaryError


def _small(value: int) -> int:
    """Return a value that the library would not cut to 32 bits."""
    if value > _INT32_MAX:
        raise _NotOrdinaryError
    return value


def _status(outer: int, inner: int) -> StatusCode:
    """Return the inner status if the outer one is EOK (0), else the outer one."""
    return status_of(_small(outer) or _small(inner))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
