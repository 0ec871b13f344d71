"""Confirms the adds of one ledger in order: which acknowledgements make which entries final.

Invariant: `lac` never moves back, and an entry is confirmed only after all before it, when at least
Qa bookies *of its present write set* acknowledged it; never while an ensemble change is in flight
(else an entry could land in a fragment whose write set never had it).
Source: BookKeeper protocol.md "Writing to ledgers", PendingAddOp, LedgerHandle.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

_NOTHING = range(0)

AckRule: TypeAlias = Callable[[Collection[BookieId]], bool]
"""Tells of a write set's bookies whether they suffice, if they are Qa (fault domains)."""


class WriteQuorumTracker:
    """Counts acknowledgements of one open ledger. No clock, no socket, no task.

    Shape: `lac` is inclusive, -1 before the first confirm; `last_add` is the highest entry begun.
    Cost: an in-order acknowledgement with Qa = 1 touches no container.
    """

    __slots__ = ("_acks", "_failures", "_rule", "frozen", "lac", "last_add", "schedule")

    def __init__(
        self, schedule: Schedule, lac: EntryId = NO_ENTRY, rule: AckRule | None = None
    ) -> None:
        self.schedule = schedule
        self._rule = rule
        self.lac = lac
        self.last_add = lac
        self.frozen = False
        """An ensemble change is in flight: nothing is confirmed until it is installed."""
        self._acks: dict[EntryId, set[BookieId]] = {}
        """Members of the entry's present write set only."""
        self._failures: dict[EntryId, set[BookieId]] = {}

    def begin_add(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        """Expect acknowledgements of the next entry; return the bookies to send it to, in order."""
        if entry_id != self.last_add + 1:
            raise AssertionError(f"add {entry_id} after {self.last_add}")
        self.last_add = entry_id
        return self.schedule.write_bookies(entry_id)

    def on_ack(self, entry_id: EntryId, bookie: BookieId) -> range:
        """Count one acknowledgement; return the entries it newly confirms (often none)."""
        if not self.lac < entry_id <= self.last_add:
            return _NOTHING  # a late one of a confirmed entry is normal
        schedule = self.schedule
        if bookie not in schedule.write_bookies(entry_id):
            return _NOTHING  # it was replaced
        acks = self._acks.get(entry_id)
        if acks is None:
            if (
                schedule.ack_quorum == 1
                and self._rule is None
                and entry_id == self.lac + 1
                and not self.frozen
            ):
                return self._confirm_alone(entry_id)
            acks = self._acks[entry_id] = set()
        acks.add(bookie)
        if self._failures:  # a bookie that came back was sent it twice, and has it
            self._failures.get(entry_id, set()).discard(bookie)
        if entry_id != self.lac + 1:
            return _NOTHING  # one before it waits
        return self._confirm()

    def on_failure(self, entry_id: EntryId, bookie: BookieId) -> bool:
        """Count one failed add; return True when the entry cannot reach Qa with these bookies.

        Then the caller changes the ensemble or gives up; waiting longer would help nobody.
        """
        if not self.lac < entry_id <= self.last_add:
            return False
        if bookie not in self.schedule.write_bookies(entry_id):
            return False  # it was replaced
        if bookie in self._acks.get(entry_id, ()):
            return False  # it has it: it was replaced, came back, and was sent it twice
        self._failures.setdefault(entry_id, set()).add(bookie)
        return self._is_out_of_reach(entry_id)

    def is_stuck(self) -> bool:
        """Tell whether any entry cannot reach Qa with the present ensemble."""
        return any(map(self._is_out_of_reach, self._failures))

    def failed_bookies(self) -> tuple[BookieId, ...]:
        """Return the bookies of the ensemble that failed an unconfirmed entry, in its order."""
        failed = set().union(*self._failures.values())
        return tuple(bookie for bookie in self.schedule.ensemble if bookie in failed)

    def freeze(self) -> None:
        """Begin an ensemble change: acknowledgements are counted, nothing is confirmed."""
        self.frozen = True

    def on_ensemble_changed(self, schedule: Schedule) -> range:
        """Install the ensemble that is now in the metadata; return what that confirms.

        Acknowledgements of replaced bookies stop counting, because the entries above the LAC belong
        to the new fragment, which readers will ask; those of bookies that stayed keep counting.
        """
        for answers in (self._acks, self._failures):
            for entry_id, answered in answers.items():
                answered.intersection_update(schedule.write_bookies(entry_id))
        self.schedule = schedule
        self.frozen = False
        return self._confirm()

    def missing(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        """Return the bookies of the write set that have not answered for an entry."""
        answered = self._acks.get(entry_id, set()) | self._failures.get(entry_id, set())
        return tuple(b for b in self.schedule.write_bookies(entry_id) if b not in answered)

    def unconfirmed(self) -> Iterable[EntryId]:
        """Return the entries that were begun and are not confirmed, in order."""
        return range(self.lac + 1, self.last_add + 1)

    def _confirm_alone(self, entry_id: EntryId) -> range:
        self.lac = entry_id
        if self._failures:
            self._failures.pop(entry_id, None)
        if self._acks:  # a later entry may have been acknowledged first
            self._confirm()
        return range(entry_id, self.lac + 1)

    def _confirm(self) -> range:
        first = self.lac + 1
        while not self.frozen and self._is_acked(self.lac + 1):
            self.lac += 1
            self._acks.pop(self.lac, None)
            self._failures.pop(self.lac, None)
        return range(first, self.lac + 1)

    def _is_out_of_reach(self, entry_id: EntryId) -> bool:
        failures = self._failures[entry_id]
        write_set = self.schedule.write_bookies(entry_id)
        return not self._suffice([bookie for bookie in write_set if bookie not in failures])

    def _suffice(self, bookies: Collection[BookieId]) -> bool:
        enough = len(bookies) >= self.schedule.ack_quorum
        return enough and (self._rule is None or self._rule(bookies))

    def _is_acked(self, entry_id: EntryId) -> bool:
        acks = self._acks.get(entry_id)
        return acks is not None and self._suffice(acks)
