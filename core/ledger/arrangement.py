"""Filling the open places of an ensemble so that every write set keeps a rule.

A write set is a run of Qw neighbours of the ring; the rule looks at one run at a time. The search
goes place by place, the preferred location first, and turns back where a rule is broken. Bookies
of one location are alike to every rule, so only the first free one of each is tried: what the
search branches over is locations, not bookies.

Invariant: what is returned keeps the rule in every run that has an open place; runs that were full
before are none of its business. No clock, no chance: the order of the candidates decides.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.protocol.ids import BookieId

STEPS_MAX: Final = 1000
"""Places tried before the search gives up; few ensembles need more than one try per place."""


class Member(NamedTuple):
    """A bookie and where it stands."""

    bookie: BookieId
    location: NetworkLocation


class Candidate(NamedTuple):
    """A bookie that may be taken, and how gladly."""

    member: Member
    rank: int = 0
    """0: gladly; more: only if the lower ones do not do."""


class Rule(Protocol):
    """What a write set has to keep."""

    def allows(self, locations: Sequence[NetworkLocation], open_places: int) -> bool:
        """Tell whether the rule can still be kept when `open_places` more members come."""


Places: TypeAlias = list[Member | None]
Prefer: TypeAlias = Callable[[int, NetworkLocation, Places], tuple[int, ...]]
"""(place, location, the ensemble so far) -> what is compared; the smallest is tried first."""


def arrange(
    places: Sequence[Member | None],
    candidates: Sequence[Candidate],
    write_quorum: int,
    rule: Rule,
    prefer: Prefer,
) -> tuple[Member, ...] | None:
    """Return the ensemble with its open places (None) filled, or None when no way was found.

    Cost: one step per place when the first choice does, at most `STEPS_MAX` steps.
    """
    search = _Search(places, candidates, write_quorum, rule, prefer)
    return search.found() if search.fill(0) else None


class _Search:
    __slots__ = (
        "_alike", "_ends", "_open", "_places", "_prefer", "_rule", "_size", "_steps", "_used",
        "_window",
    )  # fmt: skip

    def __init__(
        self,
        places: Sequence[Member | None],
        candidates: Sequence[Candidate],
        write_quorum: int,
        rule: Rule,
        prefer: Prefer,
    ) -> None:
        self._places: Places = list(places)
        self._open = [place for place, member in enumerate(places) if member is None]
        self._alike: dict[tuple[int, NetworkLocation], list[tuple[int, Member]]] = {}
        for order, (member, rank) in enumerate(candidates):
            self._alike.setdefault((rank, member.location), []).append((order, member))
        self._used = {member.bookie for member in places if member is not None}
        self._window = min(write_quorum, len(places))
        self._size = len(places)
        # With Qw = E all runs have the same members: one look is enough.
        self._ends = 1 if self._window == self._size else self._window
        self._rule = rule
        self._prefer = prefer
        self._steps = 0

    def found(self) -> tuple[Member, ...]:
        return tuple(member for member in self._places if member is not None)

    def fill(self, depth: int) -> bool:
        """Fill the open places from the `depth`-th on; leave them open again on failure."""
        if depth == len(self._open):
            return True
        place = self._open[depth]
        for candidate in self._choices(place):
            self._steps += 1
            if self._steps > STEPS_MAX:
                return False
            self._places[place] = candidate
            self._used.add(candidate.bookie)
            if self._is_allowed(place) and self.fill(depth + 1):
                return True
            self._places[place] = None
            self._used.remove(candidate.bookie)
        return False

    def _choices(self, place: int) -> list[Member]:
        """Return one free bookie per location and rank, the preferred one first."""
        ranked = []
        for (rank, location), alike in self._alike.items():
            first = next((each for each in alike if each[1].bookie not in self._used), None)
            if first is not None:
                ranked.append(((rank, *self._prefer(place, location, self._places)), *first))
        return [member for _, _, member in sorted(ranked)]

    def _is_allowed(self, place: int) -> bool:
        return all(self._run_is_allowed(place - back) for back in range(self._ends))

    def _run_is_allowed(self, first: int) -> bool:
        run = [self._places[(first + i) % self._size] for i in range(self._window)]
        locations = [member.location for member in run if member is not None]
        return self._rule.allows(locations, self._window - len(locations))
