"""Which bookies hold which entry: round-robin striping, and what a set of answers proves.

    write set of entry e   ensemble indices (e + i) mod E, i = 0 .. Qw-1, in this order
    coverage               an acknowledged entry cannot hide: in every run of Qw neighbours at least
                           (Qw - Qa) + 1 answered

Source: BookKeeper RoundRobinDistributionSchedule (writeSetGet, QuorumCoverageSet).
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tailrace.protocol.ids import BookieId, EntryId


@dataclass(frozen=True, slots=True)
class Schedule:
    """One ensemble with its quorums. Shape: E >= Qw >= Qa >= 1; bookies are distinct."""

    ensemble: tuple[BookieId, ...]
    write_quorum: int
    ack_quorum: int
    _write_sets: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _write_bookies: tuple[tuple[BookieId, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size = len(self.ensemble)
        if not size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError(f"quorums E={size} Qw={self.write_quorum} Qa={self.ack_quorum}")
        if len(set(self.ensemble)) != size:
            raise ValueError(f"a bookie is twice in the ensemble {self.ensemble}")
        sets = tuple(
            tuple((first + i) % size for i in range(self.write_quorum)) for first in range(size)
        )
        bookies = tuple(tuple(self.ensemble[i] for i in indices) for indices in sets)
        object.__setattr__(self, "_write_sets", sets)
        object.__setattr__(self, "_write_bookies", bookies)

    def write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        """Return the ensemble indices that hold an entry, in order of preference."""
        return self._write_sets[entry_id % len(self._write_sets)]

    def write_bookies(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        """Return the bookies that hold an entry, in order of preference."""
        return self._write_bookies[entry_id % len(self._write_bookies)]

    @property
    def absent_quorum(self) -> int:
        """Answers "not here" from one write set that prove that an entry was never acknowledged."""
        return self.write_quorum - self.ack_quorum + 1

    def is_covered(self, answered: Collection[BookieId]) -> bool:
        """Tell whether these bookies together know of every entry that can be acknowledged."""
        return all(
            sum(bookie in answered for bookie in bookies) >= self.absent_quorum
            for bookies in self._write_bookies
        )

    def can_cover(self, failed: Collection[BookieId]) -> bool:
        """Tell whether coverage can still be had when these bookies give no answer."""
        return self.is_covered([bookie for bookie in self.ensemble if bookie not in failed])


class Schedules:
    """The schedules of a ledger's fragments, by entry."""

    __slots__ = ("_firsts", "_schedules")

    def __init__(
        self,
        fragments: Sequence[tuple[EntryId, tuple[BookieId, ...]]],
        write_quorum: int,
        ack_quorum: int,
    ) -> None:
        self._firsts = [first for first, _ in fragments]
        self._schedules = [
            Schedule(ensemble, write_quorum, ack_quorum) for _, ensemble in fragments
        ]

    def of(self, entry_id: EntryId) -> Schedule:
        """Return the schedule of the fragment that holds an entry."""
        return self._schedules[bisect_right(self._firsts, entry_id) - 1]

    @property
    def last(self) -> Schedule:
        """The schedule of the last fragment: where an open ledger is written."""
        return self._schedules[-1]

    @property
    def last_first_entry_id(self) -> EntryId:
        """The first entry of the last fragment: all before it are known to be confirmed."""
        return self._firsts[-1]
