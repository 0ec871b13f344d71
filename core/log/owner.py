"""What the owner of a log implements to hear of its records and to keep its state with them."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from tailrace.core.errors import CoreError
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, RecordParts
from tailrace.protocol.ids import EntryId, LedgerId, TxId


class LogListener(Protocol):
    """Hears how far a log writer came. Called on the loop; must not raise."""

    def on_confirmed(self, txid: TxId) -> None:
        """Hear that all records up to this txid, inclusive, are on disk at their ack quorum."""

    def on_failed(self, error: CoreError) -> None:
        """Hear, once, that the writer is dead: unconfirmed records may or may not be there.

        `abort` or `close` it soon: until then this process' readers take it for the one who writes.
        """


class SegmentState(Protocol):
    """What the owner derives from a log's records and keeps in the log itself (ARCHITECTURE D6).

    The bytes are opaque here. At open: `restore`, then for each segment that was not covered by it
    `begin_segment` and `replay` of its records in order. Afterwards `begin_segment` for each new
    segment and `observe` for each entry. `snapshot` and `index` are asked when a segment ends.

    `snapshot` must know exactly the records that were replayed or observed, never one that was
    appended and still waits: it is written before that one, and may outlive it.
    """

    def snapshot(self) -> bytes:
        """Return the state now; b"" when there is nothing to keep. Given back to `restore`."""

    def begin_segment(self, lssn: int, ledger_id: LedgerId) -> None:
        """Begin a new index: what follows is in this segment."""

    def observe(self, lssn: int, entry_id: EntryId, records: Sequence[RecordParts]) -> None:
        """Take note of all records of an entry, in order. They are not confirmed yet.

        Slots count from 0; a record set takes one for each of its `values`.
        """

    def index(self) -> bytes:
        """Return the index of the segment that ends; `Log.read_index` finds it."""

    def restore(self, snapshot: bytes | None) -> None:
        """Forget everything and begin with this state; None: before the first record."""

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        """Take note of a record of the log, in order; what a set holds comes one by one."""


@runtime_checkable
class DeltaState(SegmentState, Protocol):
    """A state that is kept in the log beside the records: no record is replayed (write proxies).

    What the records of an entry change is written with them, in the entry; snapshots come often
    enough that the next owner reads a bounded part of one segment (`state_deltas.py`). At open:
    `restore(None)`, then `restoring` a snapshot if there is one, and `apply` of each delta behind
    it, in order. `snapshot` is never empty: a segment that does not begin with one is another
    owner's and changes nothing.
    """

    @property
    def keep_ms(self) -> int:
        """How long what a record changed counts, by the records' txids, which are times."""

    def delta(self) -> bytes:
        """Return what the entry changes that was observed last; b"" for nothing."""

    def restoring(self, snapshot: bytes) -> Iterator[None]:
        """Restore a snapshot in steps, between which the loop turns.

        Errors: CorruptData; DLIllegalState: it is another kind of owner's.
        """

    def apply(self, lssn: int, entry_id: EntryId, txid: TxId, delta: memoryview) -> None:
        """Take note of what an entry changed; `txid`: that of its last record.

        Errors: DecodeError family.
        """


class NoState:
    """The state of a log whose owner keeps none: no control records, no replay."""

    def snapshot(self) -> bytes:
        """Return nothing."""
        return b""

    def begin_segment(self, lssn: int, ledger_id: LedgerId) -> None:
        """Do nothing."""

    def observe(self, lssn: int, entry_id: EntryId, records: Sequence[RecordParts]) -> None:
        """Do nothing."""

    def index(self) -> bytes:
        """Return nothing."""
        return b""

    def restore(self, snapshot: bytes | None) -> None:
        """Do nothing."""

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        """Do nothing."""
