"""Responses as bytes: records encoded once for all readers of a stream. Pure.

    entries of core -> `take_message` -> one `Message` of at most 64 KiB, or of one larger record

The bytes of a message end with `at_tail` while nothing that is known comes after it; a message that
got a successor loses that end. A reader that wants a part of a message has it encoded again, which
happens to a reader at its start and at its end.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.resume import Place, Resume
from tailrace.core.log.segments import SegmentList, last_dlsn
from tailrace.core.log.sequence_ids import sequence_start
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import POSITION_MAX
from tailrace.protocol.ids import LedgerId, TxId
from tailrace.protocol.proxy.common_pb2 import ResponseHeader
from tailrace.protocol.proxy.read_proxy_pb2 import LogRecord, ReadResponse
from tailrace.proxy.owner.codes import StatusCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.protocol.ids import Buffer

MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Of a response with more than one record."""

RECORD_OVERHEAD_BYTES: Final = 80
"""More than what the numbers of a record take beside its payload."""

NO_LEDGER: Final = LedgerId(-1)
"""Of a position at the beginning of a segment: it is the same in whatever ledger that has."""

MESSAGE_OVERHEAD_BYTES: Final = 1_000
"""What a message takes in memory beside its bytes."""

_SUCCESS: Final = ResponseHeader(code=StatusCode.SUCCESS.name)
_AT_TAIL_END: Final = b"\x18\x01"
"""Field 3, true: fields may come in any order, so it can be put behind the records."""

AT_TAIL_RESPONSE: Final = ReadResponse(header=_SUCCESS, at_tail=True).SerializeToString()
"""What a reader gets that has had all records."""


class Message:
    """Some records of one ledger that follow each other, encoded."""

    __slots__ = (
        "count", "data", "end", "first", "given", "is_at_tail", "last", "ledger_id", "txids",
    )  # fmt: skip

    def __init__(self, data: bytes, span: "_Span", given: Resume, *, is_at_tail: bool) -> None:
        """`given`: what a reader has had that has had this one."""
        self.data = data
        self.count = span.records
        self.first = span.first
        self.last = span.last
        self.txids = span.txids
        """Of the first and the last record."""
        self.ledger_id = span.ledger_id
        self.end = span.end
        """Where the next message begins, or later."""
        self.given = given
        self.is_at_tail = is_at_tail

    @property
    def size_bytes(self) -> int:
        """What counts for it."""
        return len(self.data) + MESSAGE_OVERHEAD_BYTES

    def get_successor(self) -> None:
        """Say no longer that nothing comes after it. Its size counts as before."""
        if self.is_at_tail:
            self.is_at_tail = False
            self.data = self.data[: -len(_AT_TAIL_END)]


class _Span(NamedTuple):
    records: int
    first: DLSN
    last: DLSN
    txids: tuple[TxId, TxId]
    ledger_id: LedgerId
    end: Place


class Part(NamedTuple):
    """Which records of a message a reader wants."""

    from_place: Place | None = None
    """Those from here on; in another ledger of its segment all, as they come by txid there."""
    from_txid: TxId | None = None
    records_max: int = 0
    """0: all."""


ALL: Final = Part()


def take_message(
    entries: deque[EntryRecords], segments: SegmentList, given: Resume, *, is_caught_up: bool
) -> Message:
    """Encode the first of some records, and take them out of `entries`.

    `given`: what was given out before. `is_caught_up`: nothing more than `entries` is known.
    Shape: `entries` has one, and none is empty. Cost: 3 us a record, 3 ms at most; a larger record
    costs two copies of it.
    """
    first_part = last_part = entries[0]
    response = ReadResponse(header=_SUCCESS, ledger_id=first_part.ledger_id)
    left = MESSAGE_BYTES_MAX
    count = 0
    while entries and (entry := entries[0]).ledger_id == first_part.ledger_id:
        taken, left = _fitting(entry.columns.payloads, left, is_first=count == 0)
        if taken == 0:
            break
        last_part = entry if taken == len(entry.slots) else entry.before(taken)
        _add(response, last_part, sequence_start(segments, entry.lssn))
        given = given.moved_by(last_part)
        count += taken
        if last_part is not entry:
            entries[0] = entry.behind(taken)
            break
        entries.popleft()
    last = DLSN(last_part.lssn, last_part.entry_id, last_part.slots[-1])
    span = _Span(
        count,
        DLSN(first_part.lssn, first_part.entry_id, first_part.slots[0]),
        last,
        (first_part.columns.txids[0], last_part.columns.txids[-1]),
        first_part.ledger_id,
        place_behind(last, first_part.ledger_id, segments),
    )
    is_at_tail = is_caught_up and not entries
    data = response.SerializeToString() + (_AT_TAIL_END if is_at_tail else b"")
    return Message(data, span, given, is_at_tail=is_at_tail)


def part_of(message: Message, part: Part) -> tuple[bytes, int]:
    """Return the wanted records of a message as a response, and how many they are.

    Shape: (b"", 0) when it has none of them. Cost: that of decoding and encoding, unless all or
    none of the message is wanted.
    """
    place, from_txid, records_max = part
    from_dlsn = None if place is None or is_of_another(message, place) else place.dlsn
    is_behind = from_dlsn is None or message.first >= from_dlsn
    is_above = from_txid is None or message.txids[0] >= from_txid
    if is_behind and is_above and (records_max == 0 or message.count <= records_max):
        return message.data, message.count
    if from_dlsn is not None and message.last < from_dlsn:
        return b"", 0
    if from_txid is not None and message.txids[1] < from_txid:
        return b"", 0
    response = ReadResponse.FromString(message.data)
    records = response.records
    skipped = 0 if is_behind and is_above else _skipped(records, from_dlsn, from_txid)
    end = len(records) if records_max == 0 else min(len(records), skipped + records_max)
    if end < len(records):
        response.at_tail = False
    del records[end:]
    del records[:skipped]
    return response.SerializeToString(), len(records)


def is_of_another(message: Message, place: Place) -> bool:
    """Tell whether a position is in a message's segment, and counts in another ledger of it."""
    dlsn, ledger_id = place
    if dlsn.lssn != message.first.lssn or begins_segment(dlsn):
        return False
    return ledger_id not in (NO_LEDGER, message.ledger_id)


def begins_segment(dlsn: DLSN) -> bool:
    """Tell whether a position is the same in whatever ledger its segment has."""
    return dlsn.entry_id <= 0 and dlsn.slot <= 0


def failure_response(code: StatusCode, error: str) -> ReadResponse:
    """Return the last response of a read that ends with an error."""
    return ReadResponse(header=ResponseHeader(code=code.name, error=error))


def dlsn_of(record: LogRecord) -> DLSN:
    """Return where a record is."""
    found = record.dlsn
    return DLSN(found.log_segment_sequence_number, found.entry_id, found.slot_id)


def add_records(records: "Sequence[EntryRecords]", segments: SegmentList) -> list[LogRecord]:
    """Return entries' records as messages."""
    response = ReadResponse()
    for entry in records:
        _add(response, entry, sequence_start(segments, entry.lssn))
    return list(response.records)


def place_behind(last: DLSN, ledger_id: LedgerId, segments: SegmentList) -> Place:
    """Return where the record behind one may be: in the next segment, if its own has no more.

    So that a reader which stands there does not need a segment that is purged.
    """
    segment = segments.find(last.lssn)
    is_end = segment is not None and not segment.in_progress and last >= last_dlsn(segment)
    if segment is not None and is_end and segment.ledger_id == ledger_id:
        return Place(last.next_segment(), NO_LEDGER)
    return Place(last.next_slot(), ledger_id)


def _fitting(payloads: "Sequence[Buffer]", room: int, *, is_first: bool) -> tuple[int, int]:
    """Return how many payloads fit, and the room that is left; at least one if it is the first."""
    for count, payload in enumerate(payloads):
        room -= len(payload) + RECORD_OVERHEAD_BYTES
        if room < 0 and (count or not is_first):
            return count, room
    return len(payloads), room


def _add(response: ReadResponse, entry: EntryRecords, first_sequence_id: int) -> None:
    metadata, txids, payloads, _ = entry.columns
    lssn, entry_id = entry.lssn, entry.entry_id
    add = response.records.add
    for slot, word, txid, payload in zip(entry.slots, metadata, txids, payloads, strict=True):
        record = add(transaction_id=txid, payload=bytes(payload))
        dlsn = record.dlsn
        dlsn.log_segment_sequence_number = lssn
        dlsn.entry_id = entry_id
        dlsn.slot_id = slot
        position = word >> 16 & POSITION_MAX
        if position and first_sequence_id >= 0:
            record.sequence_id = first_sequence_id + position - 1


def _skipped(records: "Sequence[LogRecord]", dlsn: DLSN | None, txid: TxId | None) -> int:
    """Return how many records come before both positions."""
    for number, record in enumerate(records):
        if (dlsn is None or dlsn_of(record) >= dlsn) and (
            txid is None or record.transaction_id >= txid
        ):
            return number
    return len(records)
