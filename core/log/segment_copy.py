"""One segment on its way into a new ledger, under the number that it has.

What stays: the sequence number, first and last txid, completion time, how much was given up; so a
search by txid finds the segment as before, and the log's end is where it was. What changes: entry
ids, positions (1, 2, 3, ... again, as DistributedLog's readers expect it), count, last DLSN. Shape:

    TRS1 (as it was) | records ... | TRX1      a segment without any of them: one control record

The numbers of the records' sequence end where they ended: those of later segments stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tailrace.core.errors import TransactionIdOutOfOrder
from tailrace.core.log.noted_ledger import NotedLedger
from tailrace.core.log.owner_records import SegmentIndex, pack_index, pack_snapshot
from tailrace.core.metadata.segment_metadata import LATEST_VERSION, SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.envelope import (
    compress_envelope,
    pack_envelope,
    pack_user_records,
)
from tailrace.protocol.distributedlog.record import (
    CONTROL_PAYLOAD,
    HEADER_SIZE,
    RecordParts,
    control_record,
    record_parts,
)
from tailrace.protocol.ids import NO_ENTRY, Buffer, EntryId, TxId

ENTRY_BYTES = 64 * 1024
"""Records that go together into one entry have so many bytes at most; a larger one goes alone."""


class CopySource(NamedTuple):
    """What a segment is before it is rewritten."""

    metadata: SegmentMetadata
    snapshot: bytes | None
    """Of the owner's state before it (`SegmentState.snapshot`)."""
    end: SegmentIndex | None
    """What its last control record says."""
    active_from: TxId | None
    """Partially truncated: txid of the first record that is kept; None: nothing is."""


class SegmentCopy:
    """The new ledger of one segment."""

    def __init__(self, source: CopySource, ledger: NotedLedger, *, compresses: bool) -> None:
        self.ledger = ledger
        self.metadata: SegmentMetadata | None = None
        """What the segment is to become, once it is finished."""
        self._source = source
        self._compresses = compresses
        self._pending: list[RecordParts] = []
        self._pending_bytes = 0
        self._next_entry: EntryId = 0
        self._records = 0
        self._last_txid: TxId = source.metadata.first_txid - 1
        self._last = (NO_ENTRY, NO_ENTRY)
        self._active: tuple[EntryId, int] | None = None

    async def begin(self) -> None:
        """Write the snapshot that the segment began with. Errors: as NotedLedger.add."""
        for part in pack_snapshot(self._source.snapshot or b""):
            await self._add_control(self._source.metadata.first_txid, part)

    async def append(self, txid: TxId, parts: Sequence[Buffer], length: int) -> EntryId:
        """Write a record; return its entry. Errors: TransactionIdOutOfOrder; NotedLedger.add's."""
        if not self._last_txid < txid <= self._source.metadata.last_txid:
            raise TransactionIdOutOfOrder(
                f"txid {txid} behind {self._last_txid} in segment {self._source.metadata.lssn},"
                f" which ends at {self._source.metadata.last_txid}"
            )
        size = HEADER_SIZE + length
        if self._pending and self._pending_bytes + size > ENTRY_BYTES:
            await self._flush()
        active_from = self._source.active_from
        if self._active is None and active_from is not None and txid >= active_from:
            self._active = (self._next_entry, len(self._pending))
        self._pending.append(record_parts(txid, parts, length))
        self._pending_bytes += size
        self._last_txid = txid
        return self._next_entry

    async def finish(self, end: SegmentIndex) -> None:
        """Write what is left and the last control record, close. Errors: as NotedLedger's."""
        await self._flush()
        last_txid = self._source.metadata.last_txid
        for part in pack_index(end):
            await self._add_control(last_txid, part)
        if not self._next_entry:
            await self._add_control(last_txid, CONTROL_PAYLOAD)
        await self.ledger.close()
        self.metadata = self._rewritten()

    async def _flush(self) -> None:
        records = self._pending
        if not records:
            return
        payload, self._records = pack_user_records(records, self._records)
        self._last = (self._next_entry, len(records) - 1)
        self._pending, self._pending_bytes = [], 0
        await self._add(compress_envelope(payload) if self._compresses else payload)

    async def _add_control(self, txid: TxId, payload: Buffer) -> None:
        await self._add(pack_envelope([control_record(txid, self._records, payload)]))

    async def _add(self, payload: Sequence[Buffer]) -> None:
        added = await self.ledger.add(payload)
        assert added == self._next_entry, (added, self._next_entry)
        self._next_entry += 1

    def _rewritten(self) -> SegmentMetadata:
        old = self._source.metadata
        sequence = old.start_sequence_id
        if sequence >= 0:
            sequence += old.record_count - self._records
        last_entry, last_slot = self._last
        new = replace(
            old,
            ledger_id=self.ledger.ledger_id,
            version=LATEST_VERSION,
            record_count=self._records,
            last_entry_id=last_entry,
            last_slot=last_slot,
            start_sequence_id=sequence,
            min_active_entry_id=0,
            min_active_slot=0,
        )
        if old.truncation is not Truncation.PARTIALLY_TRUNCATED:
            return new
        if self._active is None:
            return replace(new, truncation=Truncation.TRUNCATED)
        entry, slot = self._active
        return replace(new, min_active_entry_id=entry, min_active_slot=slot)
