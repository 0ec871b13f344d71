"""Which bookies a ledger gets and who replaces a failed one: policies over one search.

    policy     who may be taken, the rules of a write set (strictest first), who is preferred
    choose     a whole ensemble
    replace    as many of the failed places as possible

Invariant: a policy's hard rules hold in every ensemble that comes out; soft ones are given up, the
strictest first, only when no ensemble of the candidates keeps them. Chance is the caller's: it
brings the candidates in random order. Source: reference BookKeeper 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final, NamedTuple, Protocol

from tailrace.core.ledger.arrangement import Candidate, Member, Places, Prefer, Rule, arrange
from tailrace.core.ledger.placement_rules import (
    Anywhere,
    RacksPerWriteQuorum,
    ZonesPerWriteQuorum,
)
from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation
from tailrace.protocol.ids import BookieId

_SUBSETS_MAX: Final = 32
"""Which of several failed places are given when not all can be: so many ways are tried."""


class Quorums(NamedTuple):
    """What is asked for. Shape: E >= Qw >= Qa >= 1."""

    size: int
    write: int
    ack: int


class PlacementPolicy(Protocol):
    """A way of placing."""

    def problem(self, quorums: Quorums) -> str | None:
        """Return why such an ensemble can never be placed; None: it can."""

    def admits(self, location: NetworkLocation) -> bool:
        """Tell whether bookies of a location may be taken."""

    def rules(self, quorums: Quorums, locations: Sequence[NetworkLocation]) -> list[Rule]:
        """Return the rules to try, strictest first, that these locations might keep."""

    def preference(self, place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        """Return how badly a location suits a place of a new ensemble: smaller is better."""

    def farness(self, location: NetworkLocation, lost: NetworkLocation) -> tuple[int, ...]:
        """Return how badly a location takes the place of a lost one: smaller is better."""

    def acks_suffice(self, locations: Sequence[NetworkLocation], write_quorum: int) -> bool:
        """Tell whether an entry at these locations is spread enough to be confirmed."""


@dataclass(frozen=True, slots=True)
class Default:
    """By chance."""

    def problem(self, quorums: Quorums) -> str | None:
        """Nothing can be wrong."""
        return None

    def admits(self, location: NetworkLocation) -> bool:
        """All may be taken."""
        return True

    def rules(self, quorums: Quorums, locations: Sequence[NetworkLocation]) -> list[Rule]:
        """Return the rule that is none."""
        return [Anywhere()]

    def preference(self, place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        """Prefer nothing."""
        return ()

    def farness(self, location: NetworkLocation, lost: NetworkLocation) -> tuple[int, ...]:
        """Prefer the rack that lost a member."""
        return (location.rack != lost.rack,)

    def acks_suffice(self, locations: Sequence[NetworkLocation], write_quorum: int) -> bool:
        """Any will do."""
        return True


@dataclass(frozen=True, slots=True)
class RackAware:
    """Each write quorum spans `racks_min` racks; fewer when there is no way, unless enforced."""

    racks_min: int = 2
    enforce: bool = False
    own: NetworkLocation | None = None
    """Where this client stands: the first bookie of an ensemble is taken from its rack."""

    def problem(self, quorums: Quorums) -> str | None:
        """Nothing can be wrong: a write quorum of one has one rack."""
        return None

    def admits(self, location: NetworkLocation) -> bool:
        """Enforced, a bookie must stand somewhere."""
        return not (self.enforce and location == DEFAULT_LOCATION)

    def rules(self, quorums: Quorums, locations: Sequence[NetworkLocation]) -> list[Rule]:
        """Return `racks_min` racks first, then fewer."""
        wanted = min(quorums.write, self.racks_min)
        there = len({location.rack for location in locations})
        if self.enforce:
            return [RacksPerWriteQuorum(wanted)] if there >= wanted else []
        return [*map(RacksPerWriteQuorum, range(min(wanted, there), 1, -1)), Anywhere()]

    def preference(self, place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        """Prefer the own rack for the first place, then racks that have few members."""
        if place == 0 and self.own is not None:
            return (location.rack != self.own.rack, location.region != self.own.region)
        return (sum(m is not None and m.location.rack == location.rack for m in places),)

    def farness(self, location: NetworkLocation, lost: NetworkLocation) -> tuple[int, ...]:
        """Prefer the rack that lost a member."""
        return (location.rack != lost.rack,)

    def acks_suffice(self, locations: Sequence[NetworkLocation], write_quorum: int) -> bool:
        """Tell whether `racks_min` racks answered, or as many as a write quorum has."""
        return len({at.rack for at in locations}) >= min(write_quorum, self.racks_min)


@dataclass(frozen=True, slots=True)
class ZoneAware:
    """Each write quorum spans the desired zones, else the minimum, each in its upgrade domain."""

    zones_min: int = 2
    zones_desired: int = 3
    strict: bool = True

    def problem(self, quorums: Quorums) -> str | None:
        """Compare the quorums with the zones, as BookKeeper does for each ensemble."""
        if not self.strict:
            return None
        if quorums.size % quorums.write:
            return f"an ensemble of {quorums.size} is no multiple of the write quorum"
        if quorums.write <= self.zones_min:
            return f"a write quorum of {quorums.write} is not above {self.zones_min} zones"
        return None

    def admits(self, location: NetworkLocation) -> bool:
        """Only bookies whose zone is known, if strict."""
        return not self.strict or location.region != DEFAULT_LOCATION.region

    def rules(self, quorums: Quorums, locations: Sequence[NetworkLocation]) -> list[Rule]:
        """Return the desired zones first, then fewer, then no rule unless strict."""
        most = min(quorums.write, len({location.region for location in locations}))
        wanted = min(self.zones_desired, most)
        rules: list[Rule] = [*map(ZonesPerWriteQuorum, range(wanted, self.zones_min - 1, -1))]
        return rules if self.strict else [*rules, Anywhere()]

    def preference(self, place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        """Prefer zones with few members, then upgrade domains with few."""
        members = [member.location for member in places if member is not None]
        return (
            sum(at.region == location.region for at in members),
            sum(at.rack == location.rack for at in members),
        )

    def farness(self, location: NetworkLocation, lost: NetworkLocation) -> tuple[int, ...]:
        """Prefer the rack that lost a member."""
        return (location.rack != lost.rack,)

    def acks_suffice(self, locations: Sequence[NetworkLocation], write_quorum: int) -> bool:
        """Tell whether `zones_min` zones answered."""
        return len({at.region for at in locations}) >= min(write_quorum, self.zones_min)


def choose(
    policy: PlacementPolicy, candidates: Sequence[Candidate], quorums: Quorums
) -> tuple[BookieId, ...] | None:
    """Return an ensemble in striping order, or None when the candidates make none.

    Candidates of a higher rank are taken only if those below do not make one at all.
    """
    return _fill(policy, candidates, quorums, [None] * quorums.size, policy.preference)


def replace(
    policy: PlacementPolicy,
    candidates: Sequence[Candidate],
    quorums: Quorums,
    ensemble: Sequence[Member],
    failed: Sequence[int],
) -> tuple[BookieId, ...] | None:
    """Return the ensemble with as many of the `failed` places as possible given to candidates.

    None when not one can be. Candidates that are in the ensemble, failed or not, are left out.
    """
    members = {member.bookie for member in ensemble}
    pool = [candidate for candidate in candidates if candidate.member.bookie not in members]

    def prefer(place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        lost = ensemble[place].location
        taken = any(m is not None and m.location.rack == location.rack for m in places)
        return (
            *policy.farness(location, lost), taken, *policy.preference(place, location, places)
        )  # fmt: skip

    for count in range(min(len(pool), len(failed)), 0, -1):
        for given in islice(combinations(failed, count), _SUBSETS_MAX):
            places = [None if i in given else member for i, member in enumerate(ensemble)]
            found = _fill(policy, pool, quorums, places, prefer)
            if found is not None:
                return found
    return None


def _fill(
    policy: PlacementPolicy,
    candidates: Sequence[Candidate],
    quorums: Quorums,
    places: Sequence[Member | None],
    prefer: Prefer,
) -> tuple[BookieId, ...] | None:
    members = [member.location for member in places if member is not None]
    for rank in sorted({candidate.rank for candidate in candidates}):
        pool = [candidate for candidate in candidates if candidate.rank <= rank]
        if len(pool) + len(members) < quorums.size:
            continue
        locations = [*members, *(candidate.member.location for candidate in pool)]
        for rule in policy.rules(quorums, locations):
            found = arrange(places, pool, quorums.write, rule, prefer)
            if found is not None:
                return tuple(member.bookie for member in found)
    return None
