"""From a ledger's entries to a log's records. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tailrace.core.errors import CorruptData, InvalidEnvelopedEntry
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.envelope import (
    Slots,
    open_envelope,
    unpack_columns,
    unpack_envelope,
)
from tailrace.protocol.distributedlog.record import (
    CONTROL,
    HEADER_SIZE,
    POSITION_MAX,
    RECORD_SET,
    LogRecord,
    RecordColumns,
    read_columns,
)
from tailrace.protocol.distributedlog.record_set import count_records, expand
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

_ENVELOPED_SINCE = 4


class LogRecordWithDLSN(NamedTuple):
    """A record and where it is."""

    dlsn: DLSN
    record: LogRecord


class EntryRecords(NamedTuple):
    """What readers see of an entry, or of a part of it; maybe nothing.

    No control records; record sets are taken apart unless the reader wants them whole. Records are
    made when somebody asks for them: a consumer wants payloads only.
    """

    lssn: int
    entry_id: EntryId
    slots: Sequence[int]
    columns: RecordColumns
    size_bytes: int
    """Payloads with the headers of their records."""
    is_last: bool
    """Whether the log was sealed here, behind these records."""
    ledger_id: LedgerId
    """In which `entry_id` counts."""

    def records(self) -> Iterator[LogRecordWithDLSN]:
        """Return the records one by one."""
        for slot, record in zip(self.slots, self.columns.records(), strict=True):
            yield LogRecordWithDLSN(DLSN(self.lssn, self.entry_id, slot), record)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payloads alone."""
        return self.size_bytes - HEADER_SIZE * len(self.columns.payloads)

    @property
    def first_position(self) -> int:
        """Position of the first record; 0 where they are not counted."""
        return self.columns.metadata[0] >> 16 & POSITION_MAX

    @property
    def last_position(self) -> int:
        """Position of the last record, of the last one in it if that is a record set."""
        last = self.columns.metadata[-1] >> 16 & POSITION_MAX
        return last + (self._sizes()[-1] if self.columns.flags else 1) - 1

    @property
    def positions(self) -> int:
        """How many positions the records take: one each, a whole record set as many as it has."""
        return sum(self._sizes()) if self.columns.flags else len(self.slots)

    def _sizes(self) -> list[int]:
        return [count_records(record) for record in self.columns.records()]

    def behind(self, count: int) -> "EntryRecords":
        """Return what is left without the first `count` records."""
        if count == 0:
            return self
        metadata, txids, payloads, flags = self.columns
        rest = RecordColumns(metadata[count:], txids[count:], payloads[count:], flags)
        size = _size_of(rest.payloads)
        return self._replace(slots=self.slots[count:], columns=rest, size_bytes=size)

    def before(self, count: int) -> "EntryRecords":
        """Return the first `count` records alone."""
        metadata, txids, payloads, flags = self.columns
        first = RecordColumns(metadata[:count], txids[:count], payloads[:count], flags)
        size = _size_of(first.payloads)
        slots = self.slots[:count]
        return self._replace(slots=slots, columns=first, size_bytes=size, is_last=False)

    def from_slot(self, slot: int) -> "EntryRecords":
        """Return the records at `slot` and behind it."""
        return self.behind(bisect_left(self.slots, slot))


def read_slots(segment: SegmentMetadata, entry: Entry) -> Slots:
    """Return an entry's records with their slots, control records too. Errors: CorruptData."""
    try:
        return unpack_envelope(entry.payload, segment.version >= _ENVELOPED_SINCE)
    except DecodeError as error:
        raise _corrupt(entry, error) from error


def control_records(segment: SegmentMetadata, entry: Entry) -> list[LogRecord]:
    """Return the control records of an entry. Errors: CorruptData. Cost: 0.3 us a record."""
    try:
        columns = unpack_columns(entry.payload, segment.version >= _ENVELOPED_SINCE)
    except DecodeError as error:
        raise _corrupt(entry, error) from error
    if not columns.flags & CONTROL:
        return []
    at = [at for at, word in enumerate(columns.metadata) if word & CONTROL]
    metadata, txids, payloads, flags = columns
    return RecordColumns(
        [metadata[i] for i in at], [txids[i] for i in at], [payloads[i] for i in at], flags
    ).records()


def visible_records(
    segment: SegmentMetadata, entry: Entry, *, expands_sets: bool = True
) -> EntryRecords:
    """Return what readers see of an entry. Errors: InvalidEnvelopedEntry.

    `expands_sets`: False gives a record set as one record, which takes as many slots as it has
    values. Cost: 0.3 us a record if none has a flag.
    """
    try:
        body, at = open_envelope(entry.payload, segment.version >= _ENVELOPED_SINCE)
        columns = read_columns(body, at)
        size = len(body) - at
        if columns.flags == CONTROL:
            columns = _without_controls_behind(columns)
            size = _size_of(columns.payloads)
        if columns.flags:
            return _without_hidden(segment, entry, expands_sets=expands_sets)
    except DecodeError as error:
        raise _corrupt(entry, error) from error
    slots = range(len(columns.txids))
    return EntryRecords(
        segment.lssn, entry.entry_id, slots, columns, size, is_last=False,
        ledger_id=entry.ledger_id,
    )  # fmt: skip


def _without_controls_behind(columns: RecordColumns) -> RecordColumns:
    """Leave out what an owner keeps behind the records of an entry; else nothing."""
    metadata, txids, payloads, flags = columns
    count = len(metadata)
    while count and metadata[count - 1] & CONTROL:
        count -= 1
    if any(word & CONTROL for word in metadata[:count]):
        return columns
    return RecordColumns(metadata[:count], txids[:count], payloads[:count], flags & ~CONTROL)


def _without_hidden(segment: SegmentMetadata, entry: Entry, *, expands_sets: bool) -> EntryRecords:
    """Do the same where records have flags. Errors: CorruptData, DecodeError."""
    slots: list[int] = []
    columns = RecordColumns([], [], [], 0 if expands_sets else RECORD_SET)
    is_last = False
    for slot, record in read_slots(segment, entry):
        if record.is_control:
            continue
        if record.is_end_of_stream:
            is_last = True
            break
        inners = expand(slot, record) if expands_sets else [(slot, record)]
        for inner_slot, inner in inners:
            slots.append(inner_slot)
            columns.metadata.append(inner.flags | inner.position << 16)
            columns.txids.append(inner.txid)
            columns.payloads.append(inner.payload)
    size = _size_of(columns.payloads)
    lssn, entry_id, ledger_id = segment.lssn, entry.entry_id, entry.ledger_id
    return EntryRecords(lssn, entry_id, slots, columns, size, is_last, ledger_id)


def _size_of(payloads: Sequence[Buffer]) -> int:
    return sum(map(len, payloads)) + HEADER_SIZE * len(payloads)


def _corrupt(entry: Entry, error: DecodeError) -> CorruptData:
    return InvalidEnvelopedEntry(f"entry {entry.entry_id} of ledger {entry.ledger_id}: {error}")
