"""Records as readers give them out, and where readers begin."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.sequence_ids import sequence_start
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import POSITION_MAX
from tailrace.protocol.ids import TxId


class LogRecord(NamedTuple):
    """A record of a log. Source: LogRecordWithDLSN.

    Shape: `dlsn` rises strictly from record to record, `txid` never falls.
    """

    dlsn: DLSN
    """Where it is. A reader from `dlsn.next_slot()` on begins behind it."""
    txid: TxId
    """The number that its writer gave it."""
    sequence_id: int | None
    """How many records the log had before it; None where that is not counted: in segments of old
    versions, and in one whose predecessor is not completed yet."""
    payload: bytes
    """A copy, valid for good."""


class Edge(Enum):
    """A position that is found when a reader opens."""

    START = "start"
    """The oldest record that is kept."""
    TAIL = "tail"
    """Behind the last record that can be read: only what comes is read."""


START = Edge.START
TAIL = Edge.TAIL


def log_records(segments: SegmentList, entries: Sequence[EntryRecords]) -> Iterator[LogRecord]:
    """Yield the records of entries. Cost: a microsecond each, and a copy of the payload."""
    for entry in entries:
        start = sequence_start(segments, entry.lssn)
        columns = entry.columns
        for slot, txid, payload, number in zip(
            entry.slots, columns.txids, columns.payloads, columns.metadata, strict=True
        ):
            before = (number >> 16 & POSITION_MAX) - 1
            sequence_id = start + before if start >= 0 else None
            dlsn = DLSN(entry.lssn, entry.entry_id, slot)
            yield LogRecord(dlsn, txid, sequence_id, bytes(payload))
