"""Every request and answer through the protobuf library: complete, and the oracle of `fast_codec`.

Rules beside the schema: an operation or message that we do not know becomes UnknownRequest with
the status that it deserves; an answer's status is the inner one when the outer is EOK, else the
outer. Source: reference BookKeeper 1.2, 1.4.
"""

from typing import Any

from google.protobuf.message import DecodeError as WireError

from tailrace.protocol.bookkeeper.messages import (
    OPERATIONS,
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    OperationType,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StartTlsRequest,
    StartTlsResponse,
    StatusCode,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
    operation_of,
)
from tailrace.protocol.bookkeeper.schema import MESSAGES
from tailrace.protocol.errors import BadValue
from tailrace.protocol.ids import Buffer

VERSION_THREE = 3
FENCE_LEDGER = 1
ENTRY_PIGGYBACK = 2
RECOVERY_ADD = 1

# class -> (field of the outer message, its fields in the order of the class's own)
_REQUESTS: dict[Any, tuple[str, tuple[str, ...]]] = {
    WriteLacRequest: ("writeLacRequest", ("ledgerId", "lac", "masterKey", "body")),
    ReadLacRequest: ("readLacRequest", ("ledgerId",)),
    ForceLedgerRequest: ("forceLedgerRequest", ("ledgerId",)),
    BookieInfoRequest: ("getBookieInfoRequest", ("requested",)),
    ListEntriesRequest: ("getListOfEntriesOfLedgerRequest", ("ledgerId",)),
    AuthRequest: ("authRequest", ("authPluginName", "payload")),
    StartTlsRequest: ("startTLSRequest", ()),
}
_RESPONSES: dict[Any, tuple[str, tuple[str, ...]]] = {
    AddResponse: ("addResponse", ("status", "ledgerId", "entryId")),
    ReadResponse: (
        "readResponse",
        ("status", "ledgerId", "entryId", "body", "maxLAC", "lacUpdateTimestamp"),
    ),
    WriteLacResponse: ("writeLacResponse", ("status", "ledgerId")),
    ReadLacResponse: ("readLacResponse", ("status", "ledgerId", "lacBody", "lastEntryBody")),
    ForceLedgerResponse: ("forceLedgerResponse", ("status", "ledgerId")),
    BookieInfoResponse: (
        "getBookieInfoResponse",
        ("status", "totalDiskCapacity", "freeDiskSpace"),
    ),
    ListEntriesResponse: (
        "getListOfEntriesOfLedgerResponse",
        ("status", "ledgerId", "availabilityOfEntriesOfLedger"),
    ),
    AuthResponse: ("authResponse", ("authPluginName", "payload")),
    StartTlsResponse: ("startTLSResponse", ()),
}
_REQUEST_BY_OPERATION = {OPERATIONS[kind]: kind for kind in _REQUESTS}
_RESPONSE_BY_OPERATION = {OPERATIONS[kind]: kind for kind in _RESPONSES}
_WITHOUT_STATUS = (AuthResponse, StartTlsResponse)
"""Answers whose inner message has no status of its own."""


def write_request(txn_id: int, request: Request) -> bytes:
    """Return a request's message, without the length before it."""
    outer = MESSAGES["Request"]()
    _fill_header(outer.header, txn_id, operation_of(request))
    if request.priority:
        outer.header.priority = request.priority
    if isinstance(request, AddRequest):
        _fill_add(outer.addRequest, request)
    elif isinstance(request, ReadRequest):
        _fill_read(outer.readRequest, request)
    elif not isinstance(request, UnknownRequest):
        assert type(request) in _REQUESTS, f"v3 has no {type(request).__name__}"
        field, names = _REQUESTS[type(request)]
        _fill(getattr(outer, field), names, request)
    return _serialize(outer)


def write_response(txn_id: int, response: Response) -> bytes:
    """Return an answer's message, without the length before it."""
    assert response.status >= 0, f"{response.status!r} is not for the wire"
    outer = MESSAGES["Response"]()
    _fill_header(outer.header, txn_id, operation_of(response))
    outer.status = response.status
    if not isinstance(response, ErrorResponse):
        field, names = _RESPONSES[type(response)]
        values = response[1:] if isinstance(response, _WITHOUT_STATUS) else response
        _fill(getattr(outer, field), names, values)
    return _serialize(outer)


def write_auth_message(plugin: str, payload: Buffer) -> bytes:
    """Return an AuthMessage, which protocol v2 sends bare."""
    return _serialize(MESSAGES["AuthMessage"](authPluginName=plugin, payload=bytes(payload)))


def read_auth_message(message: Buffer) -> tuple[str, bytes]:
    """Return (plug-in, payload) of an AuthMessage. Errors: BadValue."""
    plugin, payload = _values(_parse("AuthMessage", message), ("authPluginName", "payload"))
    return plugin, payload


def _serialize(outer: Any) -> bytes:
    message: bytes = outer.SerializeToString()
    return message


def _fill_header(header: Any, txn_id: int, operation: int) -> None:
    header.version = VERSION_THREE
    header.operation = operation
    header.txnId = txn_id


def _fill(inner: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    inner.SetInParent()  # an empty message is present too
    for name, value in zip(names, values, strict=False):  # a request's priority is left over
        if value is not None:
            plain = bytes(value) if isinstance(value, memoryview | bytearray) else value
            setattr(inner, name, plain)


def _fill_add(inner: Any, request: AddRequest) -> None:
    inner.ledgerId = request.ledger_id
    inner.entryId = request.entry_id
    inner.masterKey = request.master_key
    inner.body = b"".join(request.body)
    if request.write_flags:
        inner.writeFlags = request.write_flags
    if request.recovery:
        inner.flag = RECOVERY_ADD


def _fill_read(inner: Any, request: ReadRequest) -> None:
    inner.ledgerId = request.ledger_id
    inner.entryId = request.entry_id
    if request.master_key:
        inner.masterKey = request.master_key
    if request.previous_lac is not None:
        inner.previousLAC = request.previous_lac
    if request.timeout_ms is not None:
        inner.timeOut = request.timeout_ms
    if request.fence or request.piggyback:
        assert not (request.fence and request.piggyback), "one flag at most"
        inner.flag = FENCE_LEDGER if request.fence else ENTRY_PIGGYBACK


def read_request(message: Buffer) -> tuple[int, Request]:
    """Return (transaction id, request). Errors: BadValue."""
    outer = _parse("Request", message)
    header = outer.header
    kind = _REQUEST_BY_OPERATION.get(header.operation)
    request: Request
    if header.version != VERSION_THREE:
        request = UnknownRequest(header.operation, StatusCode.EBADVERSION, header.priority)
    elif header.operation == OperationType.ADD_ENTRY and outer.HasField("addRequest"):
        request = _read_add(outer.addRequest, header.priority)
    elif header.operation == OperationType.READ_ENTRY and outer.HasField("readRequest"):
        request = _read_read(outer.readRequest, header.priority)
    elif kind is not None and outer.HasField(_REQUESTS[kind][0]):
        field, names = _REQUESTS[kind]
        request = kind(*_values(getattr(outer, field), names), priority=header.priority)
    else:
        request = UnknownRequest(header.operation, priority=header.priority)
    return header.txnId, request


def _read_add(inner: Any, priority: int) -> AddRequest:
    return AddRequest(
        inner.ledgerId,
        inner.entryId,
        inner.masterKey,
        (inner.body,),
        inner.flag == RECOVERY_ADD,
        inner.writeFlags,
        priority,
    )


def _read_read(inner: Any, priority: int) -> ReadRequest:
    return ReadRequest(
        inner.ledgerId,
        inner.entryId,
        inner.flag == FENCE_LEDGER,
        inner.masterKey,
        inner.previousLAC if inner.HasField("previousLAC") else None,
        inner.timeOut if inner.HasField("timeOut") else None,
        inner.flag == ENTRY_PIGGYBACK,
        priority,
    )


def read_response(message: Buffer) -> tuple[int, Response]:
    """Return (transaction id, answer). Errors: BadValue."""
    outer = _parse("Response", message)
    txn_id, operation = outer.header.txnId, outer.header.operation
    outer_status = status_of(outer.status)
    kind = _RESPONSE_BY_OPERATION.get(operation)
    if kind is None or not outer.HasField(_RESPONSES[kind][0]):
        if outer_status == StatusCode.EOK:
            raise BadValue(f"an answer to operation {operation} says EOK and nothing else")
        return txn_id, ErrorResponse(outer_status, operation)
    field, names = _RESPONSES[kind]
    values = _values(getattr(outer, field), names)
    if kind in _WITHOUT_STATUS:
        return txn_id, kind(outer_status, *values)
    status = status_of(values[0]) if outer_status == StatusCode.EOK else outer_status
    return txn_id, kind(status, *values[1:])


def status_of(number: int) -> StatusCode:
    """Return the status of a number; one that we do not know is a generic failure, EIO."""
    status = _STATUS.get(number)
    return StatusCode.EIO if status is None else status


_STATUS = {int(status): status for status in StatusCode if status >= 0}


def _parse(name: str, message: Buffer) -> Any:
    outer = MESSAGES[name]()
    try:
        outer.ParseFromString(message)
    except WireError as error:
        raise BadValue(f"{name}: {error}") from None
    if not outer.IsInitialized():
        raise BadValue(f"{name}: a required field is missing")
    return outer


def _values(inner: Any, names: tuple[str, ...]) -> list[Any]:
    values = [getattr(inner, name) if inner.HasField(name) else None for name in names]
    if names[:1] == ("authPluginName",) and not isinstance(values[0], str):
        raise BadValue("a name that is not UTF-8")  # the library hands out the bytes then
    return values
