"""Where an add becomes durable: the seam between the store and its two ways of writing.

`journalWriteData=false`: `direct_adds`: a group of adds is synced in the entry log, which is its
own journal. `journalWriteData=true`: `journaled_adds`: BookKeeper's way: a group is synced in the
journal of its ledger, entries wait in a memtable, and a checkpoint flushes that, sorted, to the
entry log. Recovery, checkpoints, reads and removal are the same for both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tailrace.bookie.group_wait import Item
from tailrace.bookie.known_ledgers import KnownLedgers
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.marks import Mark
from tailrace.bookie.sorted_flush import Flushed
from tailrace.protocol.ids import EntryId, LedgerId

if TYPE_CHECKING:
    import asyncio

    from tailrace.bookie.errors import NoRoom, StorageFailed


class Covered(NamedTuple):
    """What a checkpoint that begins now will cover."""

    flush: Callable[[], Flushed]
    """To be run in the checkpoint's thread, before all else it does; again if that failed."""
    journal_marks: list[Mark]
    """Of each journal directory: all before it is in the index files after the checkpoint."""


class AddPath(Protocol):
    """Makes adds and journal records durable. Call from the loop; `put*` never wait."""

    put: Callable[[Item], None]
    """Make an entry durable, then show it and call its reply. In order for each ledger."""

    def put_record(self, ledger_id: LedgerId, record: bytes, durable: Callable[[], Any]) -> None:
        """Journal a record; an empty one only waits.

        `durable` is called when all that was put so far for this ledger is on disk and shown.
        """

    def put_copy(
        self, state: LedgerState, entry_id: EntryId, body: bytes, taken: Callable[[bool], Any]
    ) -> None:
        """Write an entry that is stored already to another place, for compaction.

        `taken` is called when more may be put: with True, the next checkpoint covers the new place;
        with False there was no room for it.
        """

    def find(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return the body of a durable entry that has no location yet, None without one."""

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of the durable entries of a ledger that have no location yet."""

    def forget(self, ledger_id: LedgerId) -> None:
        """Drop the entries without a location of a ledger in memory that is being removed."""

    def marks(self) -> tuple[Mark, ...]:
        """Return where the next groups will be: of the entry log, then of each journal."""

    def wants_checkpoint(self) -> bool:
        """Return whether a checkpoint should follow now."""

    def begin_checkpoint(self) -> Covered:
        """Return what a checkpoint will cover. One at a time."""

    def end_checkpoint(self, flushed: Flushed) -> None:
        """Take note that the checkpoint is complete."""

    def start(self) -> None:
        """Start the threads."""

    def stop(self) -> None:
        """Let the threads end once all that was put is done."""

    def join(self) -> None:
        """Wait for the threads. Blocks."""

    def close(self) -> None:
        """Close the files, after the last checkpoint."""


@dataclass(frozen=True, slots=True)
class AddHooks:
    """What an AddPath uses of the store."""

    known: KnownLedgers
    failed: "asyncio.Future[StorageFailed]"
    """Done once nothing may be acknowledged any more."""
    fail: Callable[[Exception], None]
    """End all service: a write or sync failed."""
    consider: Callable[[], None]
    """Look whether it is time for a checkpoint."""
    no_room: "Callable[[NoRoom], None]"
    """A disk is full: entries were refused."""
