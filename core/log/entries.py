"""From a ledger's entries to a log's records."""

from collections.abc import Iterator
from typing import NamedTuple

from core.errors import CorruptData
from core.metadata.segment_metadata import SegmentMetadata
from protocol.bookkeeper.entry import Entry
from protocol.distributedlog.dlsn import DLSN
from protocol.distributedlog.envelope import Slots, unpack_envelope
from protocol.distributedlog.record import LogRecord
from protocol.distributedlog.record_set import expand
from protocol.errors import DecodeError

_ENVELOPED_SINCE = 4


class LogRecordWithDLSN(NamedTuple):
    """A record and where it is."""

    dlsn: DLSN
    record: LogRecord


def read_slots(segment: SegmentMetadata, entry: Entry) -> Slots:
    """Return an entry's records with their slots, control records too. Errors: CorruptData."""
    try:
        return unpack_envelope(entry.payload, segment.version >= _ENVELOPED_SINCE)
    except DecodeError as error:
        raise CorruptData(f"entry {entry.entry_id} of ledger {entry.ledger_id}: {error}") from error


def visible_records(segment: SegmentMetadata, entry: Entry) -> list[LogRecordWithDLSN]:
    """Return what readers see of an entry: no control records, record sets taken apart.

    The end-of-stream record is visible. Errors: CorruptData.
    """
    lssn, entry_id = segment.lssn, entry.entry_id
    visible: list[LogRecordWithDLSN] = []
    for slot, record in read_slots(segment, entry):
        if not record.flags:
            visible.append(LogRecordWithDLSN(DLSN(lssn, entry_id, slot), record))
        elif not record.is_control:
            visible.extend(_expanded(lssn, entry, slot, record))
    return visible


def _expanded(lssn: int, entry: Entry, slot: int, record: LogRecord) -> Iterator[LogRecordWithDLSN]:
    try:
        inner = expand(slot, record)
    except DecodeError as error:
        raise CorruptData(
            f"record set in entry {entry.entry_id} of ledger {entry.ledger_id}: {error}"
        ) from error
    for inner_slot, inner_record in inner:
        yield LogRecordWithDLSN(DLSN(lssn, entry.entry_id, inner_slot), inner_record)
