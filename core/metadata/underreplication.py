"""What auto-recovery notes in the metadata: BookKeeper's own bytes.

Pure. Text is protobuf's text format, as Java prints it; times of checks are binary.
Source: BookKeeper ZkLedgerUnderreplicationManager, DataFormats.proto; captured in
tests/golden/zk-layout.md.
"""

from typing import Any, Final, NamedTuple

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.schemas import (
    AuditorVoteFormat,
    CheckAllLedgersFormat,
    LedgerRereplicationLayoutFormat,
    LockDataFormat,
    UnderreplicatedLedgerFormat,
)
from tailrace.core.metadata.text_proto import print_message
from tailrace.protocol.ids import BookieId

LAYOUT_BYTES: Final = b'type: "BASIC"\nversion: 1\n'


class Mark(NamedTuple):
    """A ledger's replicas that are missing, as one node says."""

    missing: tuple[BookieId, ...]
    ctime_ms: int | None = None
    """When it was noted last; None by who does not tell (Java's
    storeSystemTimeAsLedgerUnderreplicatedMarkTime=false)."""


def encode_mark(mark: Mark) -> bytes:
    """Return a mark's bytes."""
    message = UnderreplicatedLedgerFormat(replica=mark.missing, ctime=mark.ctime_ms)
    return print_message(message).encode()


def decode_mark(data: bytes) -> Mark:
    """Return what a mark says. Errors: CorruptData."""
    message = _parsed(data, UnderreplicatedLedgerFormat())
    ctime_ms = message.ctime if message.HasField("ctime") else None
    return Mark(tuple(BookieId(replica) for replica in message.replica), ctime_ms)


def check_underreplication_layout(data: bytes) -> None:
    """Refuse marks that are kept in another way. Errors: CorruptData names what was found."""
    message = _parsed(data, LedgerRereplicationLayoutFormat())
    if (message.type, message.version) != ("BASIC", 1):
        raise CorruptData(
            f"the layout of underreplicated ledgers is {message.type!r} {message.version}; "
            "only BASIC 1 is known"
        )


def encode_lock(owner: str) -> bytes:
    """Return what a lock says of its owner; told to people only."""
    return print_message(LockDataFormat(bookieId=owner)).encode()


def decode_lock(data: bytes) -> str:
    """Return the owner of a lock, or nothing. Errors: CorruptData."""
    return str(_parsed(data, LockDataFormat()).bookieId)


def encode_vote(candidate: str) -> bytes:
    """Return a candidate's vote, which is also how the elected auditor is named."""
    return print_message(AuditorVoteFormat(bookieId=candidate)).encode()


def decode_vote(data: bytes) -> str:
    """Return who voted, or nothing. Errors: CorruptData."""
    return str(_parsed(data, AuditorVoteFormat()).bookieId)


class CheckTime:
    """The bytes of the time at which a periodic check ended last."""

    def __init__(self, message_class: Any, field: str) -> None:
        self._class = message_class
        self._field = field

    def encode(self, at_ms: int) -> bytes:
        """Return the bytes of a time in milliseconds since the epoch."""
        return bytes(self._class(**{self._field: at_ms}).SerializeToString())

    def decode(self, data: bytes) -> int | None:
        """Return the time, None if none is told. Errors: CorruptData."""
        message = self._class()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise CorruptData(f"not the time of a check: {error}") from None
        return int(getattr(message, self._field)) if message.HasField(self._field) else None


CHECK_ALL_LEDGERS: Final = CheckTime(CheckAllLedgersFormat, "checkAllLedgersCTime")


def _parsed(data: bytes, message: Any) -> Any:
    try:
        return text_format.Parse(data, message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise CorruptData(f"not a {message.DESCRIPTOR.name}: {error}") from None
