"""The owner's end of one log segment: records into entries, acknowledgements into watermarks.

Invariant: positions of user records are 1, 2, 3, ... in the order of `add_records`, and a record
set takes one for each value; a control record carries the count and the last user txid, and has an
entry of its own, or is behind the records of an entry (`state_deltas.py`): their slots are as
without it. The end of the stream has an entry of its own, too, behind which come control records
only.
Flow: the log writer hands over what fits into one entry; the ledger confirms entries in order; the
log writer hears the highest confirmed txid.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from tailrace.core.errors import CoreError
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.config import record_bytes_in
from tailrace.core.log.context import LogContext
from tailrace.core.log.owner import DeltaState, SegmentState
from tailrace.core.log.segments import SegmentEnd
from tailrace.core.log.state_deltas import NO_CONTROLS, StateDeltas
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.envelope import (
    compress_envelope,
    join_small,
    pack_envelope,
    pack_user_records,
)
from tailrace.protocol.distributedlog.record import (
    CONTROL_PAYLOAD,
    END_OF_STREAM_TXID,
    RecordParts,
    control_record,
    end_of_stream_record,
)
from tailrace.protocol.ids import NO_ENTRY, Buffer, EntryId, TxId


class SegmentListener(Protocol):
    """Who owns segment writers."""

    def on_segment_confirmed(self, segment: "SegmentWriter") -> None:
        """Hear that the last add confirmed moved."""

    def on_segment_failed(self, segment: "SegmentWriter", error: CoreError) -> None:
        """Hear that its ledger failed."""


class SegmentWriter:
    """One segment in progress. Made before its ledger, whose listener it is; then `attach`."""

    __slots__ = (
        "_codec",
        "_config",
        "_deltas",
        "_ledger",
        "_listener",
        "_metrics",
        "_next_entry",
        "_state",
        "_told_lac",
        "_unacked",
        "confirmed_records",
        "confirmed_txid",
        "is_ended",
        "lac",
        "last_txid",
        "last_user",
        "metadata",
        "records",
        "size_bytes",
        "started_ms",
        "unacked_bytes",
    )

    metadata: SegmentMetadata
    _ledger: LedgerWriter

    def __init__(self, listener: SegmentListener, state: SegmentState, context: LogContext) -> None:
        self._listener = listener
        self._state = state
        self._deltas = StateDeltas(state) if isinstance(state, DeltaState) else None
        self._config = context.config
        self._metrics = context.metrics
        self._codec = context.config.compression.codec
        self._next_entry: EntryId = 0
        self._unacked: deque[tuple[EntryId, TxId, int, int]] = deque()
        """(entry, txid of its last record, user records up to it, bytes); control: 0 bytes."""
        self.unacked_bytes = 0
        self.lac: EntryId = NO_ENTRY
        self._told_lac: EntryId = NO_ENTRY
        self.records = 0
        self.confirmed_records = 0
        self.confirmed_txid: TxId = NO_ENTRY
        self.last_txid: TxId = NO_ENTRY
        self.last_user = DLSN(0, NO_ENTRY, NO_ENTRY)
        self.is_ended = False
        """Whether the end of the stream was written here."""
        self.size_bytes = 0
        self.started_ms = 0

    def attach(self, ledger: LedgerWriter, metadata: SegmentMetadata, now_ms: int) -> None:
        """Begin to write: the segment is started in the metadata."""
        self._ledger = ledger
        self.metadata = metadata
        self.last_txid = metadata.first_txid
        self.started_ms = now_ms

    @property
    def record_bytes_max(self) -> int:
        """The largest record that its ledger takes."""
        return record_bytes_in(self._ledger.entry_bytes_max)

    @property
    def has_room(self) -> bool:
        """Whether another entry may be sent now."""
        return (
            len(self._unacked) < self._config.unacked_entries_max
            and self.unacked_bytes < self._config.unacked_bytes_max
        )

    @property
    def is_confirmed(self) -> bool:
        """Whether nothing is on its way."""
        return not self._unacked

    @property
    def last_sent(self) -> EntryId:
        """The last entry that was sent; -1 before the first."""
        return self._next_entry - 1

    @property
    def is_published(self) -> bool:
        """Whether an entry was sent that tells other processes of every record there is."""
        return self.last_user.entry_id <= self._told_lac

    @property
    def end(self) -> SegmentEnd:
        """What the completion says: the last user record, or that there is none."""
        return SegmentEnd(
            self.last_txid, self.records, self.last_user.entry_id, self.last_user.slot
        )

    def add_records(self, records: Sequence[RecordParts], size_bytes: int) -> None:
        """Send these records as one entry. Errors: CoreError when the ledger has failed."""
        entry_id = self._next_entry
        lssn = self.metadata.lssn
        self._state.observe(lssn, entry_id, records)
        controls = NO_CONTROLS if self._deltas is None else self._deltas.controls(size_bytes)
        payload: Sequence[Buffer]
        payload, position = pack_user_records(records, self.records, controls.inside)
        payload = compress_envelope(payload) if self._codec else join_small(payload, size_bytes)
        self.last_user = DLSN(lssn, entry_id, position - self.records - 1)
        self.records = position
        self.last_txid = txid = records[-1][0]
        self._told_lac = self.lac
        self.size_bytes += size_bytes
        self.unacked_bytes += size_bytes
        self._next_entry = entry_id + 1
        self._unacked.append((entry_id, txid, position, size_bytes))
        metrics = self._metrics
        metrics.entries_total += 1
        metrics.records_total += len(records)
        metrics.record_bytes_total += size_bytes
        self._ledger.add(payload)
        if controls is not NO_CONTROLS:
            metrics.control_records_total += len(controls.inside)
            for part in controls.behind:
                self.add_control(part)

    def add_control(self, payload: Buffer = CONTROL_PAYLOAD) -> None:
        """Send a control record, in an entry of its own. Errors: as `add_records`."""
        entry_id = self._next_entry
        self._next_entry = entry_id + 1
        self._unacked.append((entry_id, self.last_txid, self.records, 0))
        self._told_lac = self.lac
        self._metrics.control_records_total += 1
        self._ledger.add(pack_envelope([control_record(self.last_txid, self.records, payload)]))

    def add_end_of_stream(self) -> None:
        """Send the record after which no user record comes. Errors: as `add_records`."""
        entry_id = self._next_entry
        self._next_entry = entry_id + 1
        self._unacked.append((entry_id, self.last_txid, self.records, 0))
        self._told_lac = self.lac
        self.last_txid = END_OF_STREAM_TXID
        self.last_user = DLSN(self.metadata.lssn, entry_id, 0)
        self.is_ended = True
        self._ledger.add(pack_envelope([end_of_stream_record(self.records)]))

    async def close_ledger(self) -> None:
        """Wait for what is on its way and fix the ledger's end. Errors: CoreError."""
        await self._ledger.close()

    def abort(self) -> None:
        """Leave the ledger as a crash would."""
        self._ledger.abort()

    def on_confirmed(self, lac: EntryId) -> None:
        """Entries up to `lac` are confirmed (LedgerListener)."""
        unacked = self._unacked
        while unacked and unacked[0][0] <= lac:
            _, txid, records, size_bytes = unacked.popleft()
            self.confirmed_records = records
            self.unacked_bytes -= size_bytes
            if records:
                self.confirmed_txid = txid
        self.lac = lac
        self._listener.on_segment_confirmed(self)

    def on_failed(self, error: CoreError) -> None:
        """Nothing more can be written (LedgerListener)."""
        self._listener.on_segment_failed(self, error)
