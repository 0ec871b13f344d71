"""Waiting for one entry beyond the LAC: whom to ask, and what the answers prove.

Every bookie of the ensemble may be the first to hear that the LAC moved, so all of them are asked:
first the write set of the entry, then the others. Done is done when

    ENTRY      a replica gave the entry
    ADVANCED   the LAC is at or beyond the entry, which has to be read elsewhere
    EMPTY      E - Qa + 1 bookies know of no higher LAC: there is none, or nobody heard of it
    ABSENT     more than E - Qa of the write set know neither entry nor ledger
    FAILED     everybody answered, and the above cannot be said

Source: BookKeeper ReadLastConfirmedAndEntryOp.
"""

from enum import Enum

from tailrace.core.errors import CoreError
from tailrace.core.ledger.outcomes import worse
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import BookieId, EntryId


class Outcome(Enum):
    """What is known of the entry that is waited for."""

    PENDING = "pending"
    ENTRY = "entry"
    ADVANCED = "advanced"
    EMPTY = "empty"
    ABSENT = "absent"
    FAILED = "failed"


class LongPoll:
    """One wait. Shape: `order` has each bookie of the ensemble once."""

    __slots__ = (
        "_absent", "_empty", "_outstanding", "_slack", "_tried", "_write_set", "entry_id", "error",
        "order", "outcome",
    )  # fmt: skip

    def __init__(self, schedule: Schedule, entry_id: EntryId, order: tuple[BookieId, ...]) -> None:
        self.entry_id = entry_id
        self.order = order
        self.outcome = Outcome.PENDING
        self.error: CoreError | None = None
        """What the caller hears after FAILED."""
        self._write_set = frozenset(schedule.write_bookies(entry_id))
        self._slack = len(schedule.ensemble) - schedule.ack_quorum
        self._tried = self._outstanding = self._empty = self._absent = 0

    @property
    def asked(self) -> tuple[BookieId, ...]:
        """Who was asked so far."""
        return self.order[: self._tried]

    def next(self) -> BookieId | None:
        """Return whom to ask now: at the beginning, and when those who were asked are silent."""
        if self.outcome is not Outcome.PENDING or self._tried == len(self.order):
            return None
        self._tried += 1
        self._outstanding += 1
        return self.order[self._tried - 1]

    def on_entry(self) -> None:
        """Count an answer with the entry."""
        self._finish(Outcome.ENTRY)

    def on_lac(self, lac: EntryId) -> BookieId | None:
        """Count an answer that has only a LAC; return whom to ask now, if anybody."""
        if lac >= self.entry_id:
            self._finish(Outcome.ADVANCED)
            return None
        self._empty += 1
        if self._empty > self._slack:
            self._finish(Outcome.EMPTY)
        return self._after_answer()

    def on_absent(self, bookie: BookieId, error: CoreError) -> BookieId | None:
        """Count "no such entry" or "no such ledger"; return whom to ask now, if anybody."""
        if bookie in self._write_set:
            self._absent += 1
            if self._absent > self._slack:
                self._finish(Outcome.ABSENT)
        return self.on_failure(error)

    def on_failure(self, error: CoreError) -> BookieId | None:
        """Count an answer that says nothing; return whom to ask now, if anybody."""
        self.error = worse(self.error, error)
        return self._after_answer()

    def _after_answer(self) -> BookieId | None:
        self._outstanding -= 1
        if self._outstanding:
            return None  # those who are still asked may say it all
        bookie = self.next()
        if bookie is None:
            self._finish(Outcome.FAILED if self.error is not None else Outcome.EMPTY)
        return bookie

    def _finish(self, outcome: Outcome) -> None:
        if self.outcome is Outcome.PENDING:
            self.outcome = outcome
