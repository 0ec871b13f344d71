"""A ledger's metadata: what BookKeeper keeps in one node per ledger.

Invariant: E >= Qw >= Qa >= 1; the first fragment begins at entry 0 and each has E bookies; only a
CLOSED ledger has a last entry, and then neither it nor the length ever changes again.
New ledgers have format version 3; others (1: lines, 2: protobuf's text) keep theirs when they are
updated, because clients that made them may know no other. Format 1 knows no digest type, password,
ack quorum or free metadata; format 2 no cToken. Source: BookKeeper LedgerMetadataSerDe,
DataFormats.proto; vectors: tests/golden/zk-layout.md; held byte for byte to Java's classes by
tests/java/test_bookie_metadata.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Any, Final, NamedTuple

from google.protobuf import text_format
from google.protobuf.message import DecodeError as ProtobufError

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.schemas import LedgerMetadataFormat
from tailrace.core.metadata.text_proto import print_message
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

_MAGIC: Final = b"BookieMetadataFormatVersion\t"
_V1_CLOSED: Final = "CLOSED"
_V1_IN_RECOVERY: Final = -102


class LedgerState(Enum):
    """Where a ledger is in its life. OPEN -> IN_RECOVERY -> CLOSED or OPEN -> CLOSED."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


_WIRE_DIGESTS: Final = {
    1: DigestType.CRC32,
    2: DigestType.HMAC,
    3: DigestType.CRC32C,
    4: DigestType.DUMMY,
}
_WIRE_DIGEST_NUMBERS: Final = {digest: number for number, digest in _WIRE_DIGESTS.items()}


class Fragment(NamedTuple):
    """A run of entries with one ensemble; the order of the bookies is the striping order."""

    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMetadata:
    """What the node of one ledger says. Errors: ValueError when the invariant does not hold."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry_id: EntryId = NO_ENTRY
    """Inclusive; meaningful only when CLOSED."""
    length: int = 0
    """Unit: bytes of payload; meaningful only when CLOSED."""
    digest: DigestType = DigestType.CRC32
    password: bytes = b""
    custom: Mapping[str, bytes] = field(default_factory=dict)
    ctime_ms: int | None = None
    """None: the node's own creation time counts."""
    ctoken: int = 0
    """Random number of the create call that made the ledger; 0 after any update."""
    has_digest: bool = True
    """False: the node of an old ledger that says neither digest nor password."""
    format_version: int = 3
    """1 to 3; what the node is written in."""

    def __post_init__(self) -> None:
        if self.format_version not in _ENCODERS:
            raise ValueError(f"format version {self.format_version}")
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError(
                f"quorums E={self.ensemble_size} Qw={self.write_quorum} Qa={self.ack_quorum}"
            )
        firsts = [fragment.first_entry_id for fragment in self.fragments]
        if not firsts or firsts[0] != 0 or any(a >= b for a, b in pairwise(firsts)):
            raise ValueError(f"fragments begin at {firsts}")
        for fragment in self.fragments:
            if len(set(fragment.ensemble)) != len(fragment.ensemble) or (
                len(fragment.ensemble) != self.ensemble_size
            ):
                raise ValueError(f"not {self.ensemble_size} different bookies: {fragment}")

    @property
    def is_closed(self) -> bool:
        """Tell whether the end is fixed."""
        return self.state is LedgerState.CLOSED

    def fragment_of(self, entry_id: EntryId) -> Fragment:
        """Return the fragment that holds an entry, written or not."""
        for fragment in reversed(self.fragments):
            if fragment.first_entry_id <= entry_id:
                return fragment
        raise ValueError(f"no fragment holds entry {entry_id}")

    def in_recovery(self) -> "LedgerMetadata":
        """Return what a recoverer writes first."""
        return replace(self, state=LedgerState.IN_RECOVERY, ctoken=0)

    def closed(self, last_entry_id: EntryId, length: int) -> "LedgerMetadata":
        """Return what fixes the end for good."""
        return replace(
            self, state=LedgerState.CLOSED, last_entry_id=last_entry_id, length=length, ctoken=0
        )


def encode_ledger(metadata: LedgerMetadata) -> bytes:
    """Return the data of a ledger's node in its format, byte for byte as Java writes it.

    Errors: ValueError for what format 1 cannot say.
    """
    version = metadata.format_version
    return _MAGIC + b"%d\n" % version + _ENCODERS[version](metadata)


def _encode_v3(metadata: LedgerMetadata) -> bytes:
    message = _to_message(metadata)
    message.cToken = metadata.ctoken
    binary = bytes(message.SerializeToString())
    return _varint(len(binary)) + binary


def _encode_v2(metadata: LedgerMetadata) -> bytes:
    return print_message(_to_message(metadata)).encode()


def _encode_v1(metadata: LedgerMetadata) -> bytes:
    if metadata.ack_quorum != metadata.write_quorum or metadata.has_digest or metadata.custom:
        raise ValueError("format 1 knows no ack quorum, no digest and no free metadata")
    length = metadata.length if metadata.is_closed else 0
    lines = [str(metadata.write_quorum), str(metadata.ensemble_size), str(length)]
    lines += ["\t".join((str(first), *ensemble)) for first, ensemble in metadata.fragments]
    if metadata.is_closed:
        lines.append(f"{metadata.last_entry_id}\t{_V1_CLOSED}")
    elif metadata.state is LedgerState.IN_RECOVERY:
        lines.append(f"{_V1_IN_RECOVERY}\t{_V1_CLOSED}")
    else:
        lines.append("")
    return "\n".join(lines).encode()


def _to_message(metadata: LedgerMetadata) -> Any:
    closed = metadata.is_closed
    message = LedgerMetadataFormat(
        quorumSize=metadata.write_quorum,
        ensembleSize=metadata.ensemble_size,
        length=metadata.length if closed else 0,
        lastEntryId=metadata.last_entry_id if closed else NO_ENTRY,
        state=metadata.state.value,
        ackQuorumSize=metadata.ack_quorum,
    )
    if metadata.has_digest:
        message.digestType = _WIRE_DIGEST_NUMBERS[metadata.digest]
        message.password = metadata.password
    if metadata.ctime_ms is not None:
        message.ctime = metadata.ctime_ms
    for fragment in metadata.fragments:
        message.segment.add(ensembleMember=fragment.ensemble, firstEntryId=fragment.first_entry_id)
    for key, value in metadata.custom.items():
        message.customMetadata.add(key=key, value=value)
    return message


def decode_ledger(data: bytes) -> LedgerMetadata:
    """Read the data of a ledger's node. Errors: CorruptData."""
    head, newline, body = data.partition(b"\n")
    version = head.removeprefix(_MAGIC)
    if not newline or not head.startswith(_MAGIC) or version not in _DECODERS:
        raise CorruptData(f"not ledger metadata: {data[:80]!r}")
    try:
        return _DECODERS[version](body)
    except (ValueError, IndexError, ProtobufError, text_format.ParseError) as error:
        raise CorruptData(f"ledger metadata of version {version!r}: {error}") from error


def _decode_v3(body: bytes) -> LedgerMetadata:
    size, at = _read_varint(body)
    if size != len(body) - at:
        raise ValueError(f"{size} bytes announced, {len(body) - at} there")
    message = LedgerMetadataFormat()
    message.ParseFromString(body[at:])
    return _from_message(message, 3)


def _decode_v2(body: bytes) -> LedgerMetadata:
    message = LedgerMetadataFormat()
    text_format.Parse(body.decode(), message)
    return _from_message(message, 2)


def _from_message(message: Any, format_version: int) -> LedgerMetadata:
    state = LedgerState(message.state)
    closed = state is LedgerState.CLOSED
    # BookKeeper writes digest and password together, and trusts neither without the other.
    has_digest = message.HasField("password")
    return LedgerMetadata(
        ensemble_size=message.ensembleSize,
        write_quorum=message.quorumSize,
        ack_quorum=message.ackQuorumSize
        if message.HasField("ackQuorumSize")
        else message.quorumSize,
        fragments=tuple(
            Fragment(segment.firstEntryId, tuple(map(BookieId, segment.ensembleMember)))
            for segment in message.segment
        ),
        state=state,
        last_entry_id=message.lastEntryId if closed else NO_ENTRY,
        length=message.length if closed else 0,
        digest=_WIRE_DIGESTS[message.digestType] if has_digest else DigestType.CRC32,
        password=message.password,
        custom={entry.key: entry.value for entry in message.customMetadata},
        ctime_ms=message.ctime if message.HasField("ctime") else None,
        ctoken=message.cToken,
        has_digest=has_digest,
        format_version=format_version,
    )


def _decode_v1(body: bytes) -> LedgerMetadata:
    quorum, ensemble_size, length, *lines = body.decode().removesuffix("\n").split("\n")
    fragments = []
    state, last_entry_id = LedgerState.OPEN, NO_ENTRY
    for line in lines:
        number, *rest = line.split("\t")
        if rest[0] == _V1_CLOSED:
            last_entry_id = _number(number)
            state = LedgerState.CLOSED
            break
        fragments.append(Fragment(_number(number), tuple(map(BookieId, rest))))
    if last_entry_id == _V1_IN_RECOVERY:
        state, last_entry_id = LedgerState.IN_RECOVERY, NO_ENTRY
    return LedgerMetadata(
        ensemble_size=_number(ensemble_size),
        write_quorum=_number(quorum),
        ack_quorum=_number(quorum),
        fragments=tuple(fragments),
        state=state,
        last_entry_id=last_entry_id,
        length=_number(length) if state is LedgerState.CLOSED else 0,
        has_digest=False,
        format_version=1,
    )


def _number(text: str) -> int:
    found = decimal(text, least=-INT64_MAX - 1)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a number")
    return found


_ENCODERS: Final = {1: _encode_v1, 2: _encode_v2, 3: _encode_v3}
_DECODERS: Final = {b"1": _decode_v1, b"2": _decode_v2, b"3": _decode_v3}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value, at + 1
    raise ValueError("the length does not end")
