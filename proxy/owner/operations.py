"""What is asked of a stream, and what is answered. Pure values."""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.errors import CoreError, OwnershipAcquireFailed
from tailrace.core.log.receipts import Run
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record_set import unpack_record_set
from tailrace.protocol.errors import DecodeError
from tailrace.proxy.owner.codes import StatusCode, status_code
from tailrace.proxy.owner.location import ProxyLocation, parse_location

WRITER_ID_BYTES_MAX: Final = 64


class WriterSequence(NamedTuple):
    """A writer that numbers its records, and the number of the first record of a request.

    Those behind it count on; a record set has one number.
    """

    writer_id: bytes
    """1 to 64 bytes, different for each writer."""
    sequence: int
    """From 0, below 2^63."""

    def problem(self, count: int) -> str:
        """Return why `count` records cannot have these numbers; "" if they can."""
        if not 1 <= len(self.writer_id) <= WRITER_ID_BYTES_MAX:
            return f"a writer id has 1 to {WRITER_ID_BYTES_MAX} bytes, not {len(self.writer_id)}"
        if not 0 <= self.sequence < 2**63 - count:
            return f"{self.sequence} is not a valid sequence: it begins with 0 and ends below 2^63"
        return ""


@dataclass(frozen=True, slots=True)
class Write:
    """One record, or one record set. Source: WriteOp."""

    payload: bytes
    values: int = 0
    """How many values the record set in the payload has; 0: it is none."""
    writer: WriterSequence | None = None
    """The writer that numbers it, so that a resend is known; None: it has no number."""

    @property
    def records(self) -> int:
        """How many records the limits count."""
        return self.values or 1

    @property
    def size_bytes(self) -> int:
        """How many bytes the limits count."""
        return len(self.payload)


class WriteChain:
    """Bulks of one caller that are in flight together: none is written behind one that failed.

    So what a caller gets of its bulks is, in their order, successes, one failure, and nothing.
    """

    __slots__ = ("_failed", "_taken")

    def __init__(self) -> None:
        self._taken = 0
        self._failed: int | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a record of it was not written, or perhaps not: no further bulk is taken."""
        return self._failed is not None

    def take(self) -> int:
        """Return the number of the next bulk."""
        self._taken += 1
        return self._taken

    def fail(self, number: int) -> None:
        """Take note that a bulk failed."""
        if self._failed is None or number < self._failed:
            self._failed = number

    def may_write(self, number: int) -> bool:
        """Tell whether no bulk before this one failed, and it did not fail itself."""
        return self._failed is None or number < self._failed


@dataclass(frozen=True, slots=True)
class WriteBulk:
    """Records that follow each other. Source: BulkWriteOp."""

    payloads: tuple[bytes, ...]
    writer: WriterSequence | None = None
    """The writer that numbers them, and the first number; None: they have no numbers."""
    chain: WriteChain | None = None
    number: int = 0
    """Its place in the chain."""

    @property
    def records(self) -> int:
        """How many records the limits count."""
        return len(self.payloads)

    @property
    def size_bytes(self) -> int:
        """How many bytes the limits count."""
        return sum(map(len, self.payloads))


@dataclass(frozen=True, slots=True)
class Truncate:
    """Give up every record before a position. Source: TruncateOp."""

    before: DLSN
    records: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Own the stream, and show that it is alive. Source: HeartbeatOp."""

    to_readers: bool = False
    """Write a control record in any case (`sendHeartBeatToReader`)."""
    records: int = 0
    size_bytes: int = 0


Operation: TypeAlias = Write | WriteBulk | Truncate | Heartbeat


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request. Source: ResponseHeader, WriteResponse, BulkWriteResponse."""

    code: StatusCode
    error: str = ""
    """Why, for people; "" with SUCCESS."""
    location: str = ""
    """With FOUND: where the owner is."""
    dlsn: DLSN | None = None
    """With SUCCESS of a write: where the record is."""
    each: "tuple[Answer, ...]" = ()
    """With SUCCESS of a bulk: what became of each record, in order."""
    runs: tuple[Run, ...] = ()
    """Of a bulk of a chain, with any code: where the records are before the first that failed;
    at UNKNOWN_DLSN one that was resent, and whose position is not kept any more."""


UNKNOWN_DLSN: Final = DLSN(0, 0, 0)
"""No record's: segments are counted from 1."""
SUCCESS: Final = Answer(StatusCode.SUCCESS)
CHAIN_BROKEN: Final = Answer(
    StatusCode.WRITE_CANCELLED_EXCEPTION, "a record before it was not written"
)

_OF_ALL: Final = frozenset(
    {
        StatusCode.FOUND,
        StatusCode.LOCKING_EXCEPTION,
        StatusCode.ALREADY_CLOSED_EXCEPTION,
        StatusCode.STREAM_UNAVAILABLE,
    }
)
"""What the first record of a bulk says for all: the client has to ask elsewhere."""


def set_values(payload: bytes) -> "int | Answer":
    """Return how many values a record set has, or why it is refused. Cost: it is decoded."""
    try:
        values = len(unpack_record_set(payload))
    except DecodeError as error:
        return Answer(StatusCode.REQUEST_DENIED, str(error))
    return values or Answer(StatusCode.REQUEST_DENIED, "an empty record set")


def answer_of(error: CoreError, own: ProxyLocation) -> Answer:
    """Return what a client gets for an error of core.

    A stream with an owner gives FOUND and the owner's location. An owner that is not a write proxy
    gives LOCKING_EXCEPTION: no client can ask it. A lock that names this proxy, which does not hold
    it, gives STREAM_UNAVAILABLE: FOUND would send the client here again.
    Errors: none. Source: ResponseUtils.exceptionToHeader, ownerToHeader.
    """
    answer = Answer(status_code(error), str(error) or type(error).__name__)
    if not isinstance(error, OwnershipAcquireFailed):
        return answer
    owner = parse_location(error.current_owner)
    if owner is None:
        return replace(answer, code=StatusCode.LOCKING_EXCEPTION)
    if owner == own:
        return replace(answer, code=StatusCode.STREAM_UNAVAILABLE)
    return replace(answer, location=owner.text)


def is_own_lock(error: OwnershipAcquireFailed, own: ProxyLocation) -> bool:
    """Tell whether the lock that was refused names this proxy itself: it contradicts itself."""
    return parse_location(error.current_owner) == own


def break_chain(operation: Operation, answer: Answer) -> None:
    """Let nothing be written behind an operation that was answered so, if it has a chain."""
    if answer.code is StatusCode.SUCCESS or not isinstance(operation, WriteBulk):
        return
    if operation.chain is not None:
        operation.chain.fail(operation.number)


def bulk_answer(each: tuple[Answer, ...]) -> Answer:
    """Return the answer to a bulk: the first record's, if that speaks for all, else SUCCESS.

    Shape: `each` has one answer a record, in order. Source: BulkWriteOp.isDefiniteFailure.
    """
    if each and each[0].code in _OF_ALL:
        return replace(each[0], each=())
    return Answer(StatusCode.SUCCESS, each=each)
