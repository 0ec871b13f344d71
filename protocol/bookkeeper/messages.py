"""What a bookie is asked and what it answers, as values; `codec` turns them into frames and back.

In one process the same values go from ledger writer to bookie without being encoded. Bodies are
opaque here (`entry` knows their layout) and stay the views that they came as.

Source: reference BookKeeper 1.3, 1.4; BookkeeperProtocol.proto of 4.17.3.
"""

from enum import IntEnum, IntFlag
from typing import NamedTuple, TypeAlias

from tailrace.protocol.ids import Buffer, EntryId, LedgerId

HIGH_PRIORITY = 100
"""Priority of recovery's reads and adds."""
LAST_ENTRY: EntryId = -1
"""In a ReadRequest: the entry with the highest id that the bookie has."""


class StatusCode(IntEnum):
    """What became of a request. The negative ones never travel: a client's own words."""

    EOK = 0
    ENOLEDGER = 402
    ENOENTRY = 403
    EBADREQ = 404
    EIO = 501
    EUA = 502
    EBADVERSION = 503
    EFENCED = 504
    EREADONLY = 505
    ETOOMANYREQUESTS = 506
    EUNKNOWNLEDGERSTATE = 507
    LOCAL_UNAVAILABLE = -8
    """The bookie could not be reached, or the connection was lost with the answer outstanding."""
    LOCAL_TIMEOUT = -23
    """No answer in time; the request may still take effect."""


class OperationType(IntEnum):
    """Which request a frame carries."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    RANGE_READ_ENTRY = 3
    RANGE_ADD_ENTRY = 4
    AUTH = 5
    WRITE_LAC = 6
    READ_LAC = 7
    GET_BOOKIE_INFO = 8
    START_TLS = 9
    FORCE_LEDGER = 10
    GET_LIST_OF_ENTRIES_OF_LEDGER = 11
    BATCH_READ_ENTRY = 12


class WriteFlag(IntFlag):
    """Bits of AddRequest.write_flags."""

    NONE = 0
    DEFERRED_SYNC = 1


class BookieInfo(IntFlag):
    """Bits of BookieInfoRequest.requested."""

    TOTAL_DISK_CAPACITY = 1
    FREE_DISK_SPACE = 2


class AddRequest(NamedTuple):
    """Store an entry. The parts of `body` follow each other and are never joined."""

    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes
    body: tuple[Buffer, ...]
    recovery: bool = False
    """From recovery: passes the fence."""
    write_flags: int = 0
    priority: int = 0


class ReadRequest(NamedTuple):
    """Read an entry; with `fence` stop the old writer first; with `previous_lac` wait for news."""

    ledger_id: LedgerId
    entry_id: EntryId
    fence: bool = False
    master_key: bytes = b""
    """Needed with `fence`."""
    previous_lac: EntryId | None = None
    timeout_ms: int | None = None
    piggyback: bool = False
    """Answer with the entry after `previous_lac`. Excludes `fence`."""
    priority: int = 0


class BatchReadRequest(NamedTuple):
    """Read entries that follow each other, in one answer; v2 only."""

    ledger_id: LedgerId
    entry_id: EntryId
    """The first one."""
    count_max: int
    """Not above 0: as many as the bytes allow."""
    bytes_max: int
    """Of the whole answer with its lengths; the first entry comes whatever it takes."""
    fence: bool = False
    master_key: bytes = b""
    """Needed with `fence`."""
    priority: int = 0


class WriteLacRequest(NamedTuple):
    """Store an explicit last add confirmed; `body` is the LAC packet."""

    ledger_id: LedgerId
    lac: EntryId
    master_key: bytes
    body: Buffer
    priority: int = 0


class ReadLacRequest(NamedTuple):
    """Ask for the explicit LAC and the last entry."""

    ledger_id: LedgerId
    priority: int = 0


class ForceLedgerRequest(NamedTuple):
    """Sync every add of the ledger that was answered."""

    ledger_id: LedgerId
    priority: int = 0


class BookieInfoRequest(NamedTuple):
    """Ask for disk space; `requested` is made of BookieInfo bits."""

    requested: int | None = None
    priority: int = 0


class ListEntriesRequest(NamedTuple):
    """Ask which entries of a ledger the bookie has."""

    ledger_id: LedgerId
    priority: int = 0


class AuthRequest(NamedTuple):
    """One round of authentication."""

    plugin: str
    payload: Buffer
    priority: int = 0


class StartTlsRequest(NamedTuple):
    """Go on in TLS on this connection."""

    priority: int = 0


class UnknownRequest(NamedTuple):
    """A request that is well-formed and cannot be served; `status` is the answer it gets."""

    operation: int
    status: StatusCode = StatusCode.EBADREQ
    priority: int = 0


class AddResponse(NamedTuple):
    """Answer to AddRequest."""

    status: StatusCode
    ledger_id: LedgerId
    entry_id: EntryId


class ReadResponse(NamedTuple):
    """Answer to ReadRequest. Times in ms since the epoch."""

    status: StatusCode
    ledger_id: LedgerId
    entry_id: EntryId
    body: Buffer | None = None
    max_lac: EntryId | None = None
    lac_update_timestamp: int | None = None


class BatchReadResponse(NamedTuple):
    """Answer to BatchReadRequest: the entries up to the first that is missing or too much."""

    status: StatusCode
    ledger_id: LedgerId
    entry_id: EntryId
    bodies: tuple[Buffer, ...] = ()


class WriteLacResponse(NamedTuple):
    """Answer to WriteLacRequest."""

    status: StatusCode
    ledger_id: LedgerId


class ReadLacResponse(NamedTuple):
    """Answer to ReadLacRequest: the LAC packet as it was written, and the last entry's body."""

    status: StatusCode
    ledger_id: LedgerId
    lac_body: Buffer | None = None
    last_entry_body: Buffer | None = None


class ForceLedgerResponse(NamedTuple):
    """Answer to ForceLedgerRequest."""

    status: StatusCode
    ledger_id: LedgerId


class BookieInfoResponse(NamedTuple):
    """Answer to BookieInfoRequest. Unit: bytes; None where it was not asked for."""

    status: StatusCode
    total_disk_capacity: int | None = None
    free_disk_space: int | None = None


class ListEntriesResponse(NamedTuple):
    """Answer to ListEntriesRequest; `availability` is what `availability` decodes."""

    status: StatusCode
    ledger_id: LedgerId
    availability: Buffer | None = None


class AuthResponse(NamedTuple):
    """Answer to AuthRequest."""

    status: StatusCode
    plugin: str
    payload: Buffer


class StartTlsResponse(NamedTuple):
    """Answer to StartTlsRequest."""

    status: StatusCode


class ErrorResponse(NamedTuple):
    """An answer of a status only: the way there failed, or the bookie said no more."""

    status: StatusCode
    operation: int


Request: TypeAlias = (
    AddRequest
    | ReadRequest
    | BatchReadRequest
    | WriteLacRequest
    | ReadLacRequest
    | ForceLedgerRequest
    | BookieInfoRequest
    | ListEntriesRequest
    | AuthRequest
    | StartTlsRequest
    | UnknownRequest
)
Response: TypeAlias = (
    AddResponse
    | ReadResponse
    | BatchReadResponse
    | WriteLacResponse
    | ReadLacResponse
    | ForceLedgerResponse
    | BookieInfoResponse
    | ListEntriesResponse
    | AuthResponse
    | StartTlsResponse
    | ErrorResponse
)


OPERATIONS: dict[type[Request] | type[Response], OperationType] = {
    AddRequest: OperationType.ADD_ENTRY,
    AddResponse: OperationType.ADD_ENTRY,
    ReadRequest: OperationType.READ_ENTRY,
    ReadResponse: OperationType.READ_ENTRY,
    BatchReadRequest: OperationType.BATCH_READ_ENTRY,
    BatchReadResponse: OperationType.BATCH_READ_ENTRY,
    WriteLacRequest: OperationType.WRITE_LAC,
    WriteLacResponse: OperationType.WRITE_LAC,
    ReadLacRequest: OperationType.READ_LAC,
    ReadLacResponse: OperationType.READ_LAC,
    ForceLedgerRequest: OperationType.FORCE_LEDGER,
    ForceLedgerResponse: OperationType.FORCE_LEDGER,
    BookieInfoRequest: OperationType.GET_BOOKIE_INFO,
    BookieInfoResponse: OperationType.GET_BOOKIE_INFO,
    ListEntriesRequest: OperationType.GET_LIST_OF_ENTRIES_OF_LEDGER,
    ListEntriesResponse: OperationType.GET_LIST_OF_ENTRIES_OF_LEDGER,
    AuthRequest: OperationType.AUTH,
    AuthResponse: OperationType.AUTH,
    StartTlsRequest: OperationType.START_TLS,
    StartTlsResponse: OperationType.START_TLS,
}


def operation_of(message: Request | Response) -> int:
    """Return the operation number of a request or of its answer."""
    if isinstance(message, UnknownRequest | ErrorResponse):
        return message.operation
    return OPERATIONS[type(message)]
