"""What the answers of bookies prove about the end of a ledger that nobody closed.

    LacSearch     fence or READ_LAC answers -> the highest LAC, once no Qa bookies can hide a higher
    EntrySearch   answers about one entry   -> it exists, or it cannot have been acknowledged

Only "no such entry" and "no such ledger" count as absent. A time-out, a lost connection, an I/O
error or a wrong checksum says nothing: too many of them and recovery fails, to be tried again.
Source: BookKeeper ReadLastConfirmedOp, LedgerRecoveryOp, ReadOpBase; QuorumCoverageSet.
"""

from enum import Enum

from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId


class LacSearch:
    """Finds the last add confirmed from answers of an ensemble.

    Shape: `lac` is inclusive and only rises; `floor` is what is known without asking.
    """

    __slots__ = ("_answered", "_failed", "_schedule", "lac")

    def __init__(self, schedule: Schedule, floor: EntryId = NO_ENTRY) -> None:
        self._schedule = schedule
        self._answered: set[BookieId] = set()
        self._failed: set[BookieId] = set()
        self.lac = floor

    def on_answer(self, bookie: BookieId, lac: EntryId | None) -> None:
        """Count a valid answer; None says that the bookie holds nothing of the ledger."""
        self._answered.add(bookie)
        self._failed.discard(bookie)
        if lac is not None and lac > self.lac:
            self.lac = lac

    def on_failure(self, bookie: BookieId) -> None:
        """Count an answer that says nothing."""
        if bookie not in self._answered:
            self._failed.add(bookie)

    @property
    def is_covered(self) -> bool:
        """Whether `lac` can be trusted: every ack quorum has a bookie that answered."""
        return self._schedule.is_covered(self._answered)

    @property
    def is_hopeless(self) -> bool:
        """Whether coverage cannot be had any more."""
        return not self._schedule.can_cover(self._failed)


class Verdict(Enum):
    """What is known about one entry."""

    PENDING = "pending"
    EXISTS = "exists"
    ABSENT = "absent"
    UNDECIDABLE = "undecidable"


class EntrySearch:
    """Decides about one entry from the answers of its write set.

    The first proof stands: a copy that turns up after the entry was proven unacknowledged changes
    nothing, and whichever recoverer closes the ledger first decides for all.
    """

    __slots__ = ("_absent", "_failed", "_needed", "_write_set", "verdict")

    def __init__(self, schedule: Schedule, entry_id: EntryId) -> None:
        self._write_set = frozenset(schedule.write_bookies(entry_id))
        self._needed = schedule.absent_quorum
        self._absent: set[BookieId] = set()
        self._failed: set[BookieId] = set()
        self.verdict = Verdict.PENDING

    def on_entry(self, bookie: BookieId) -> None:
        """Count a valid copy: one is enough, recovery makes the others."""
        if self.verdict is Verdict.PENDING and bookie in self._write_set:
            self.verdict = Verdict.EXISTS

    def on_absent(self, bookie: BookieId) -> None:
        """Count an explicit "no such entry" or "no such ledger"."""
        self._note(self._absent, bookie)

    def on_failure(self, bookie: BookieId) -> None:
        """Count an answer that says nothing."""
        self._note(self._failed, bookie)

    def _note(self, answers: set[BookieId], bookie: BookieId) -> None:
        if self.verdict is not Verdict.PENDING or bookie not in self._write_set:
            return
        answers.add(bookie)
        if len(self._absent) >= self._needed:
            self.verdict = Verdict.ABSENT
        elif self._absent | self._failed == self._write_set:
            self.verdict = Verdict.UNDECIDABLE
