"""Placement over regions: evenly, and so that no few of them can lose what was acknowledged.

Source: BookKeeper RegionAwareEnsemblePlacementPolicy; the differences are in DESIGN.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.core.ledger.arrangement import Places, Rule
from tailrace.core.ledger.durability import durability_problem
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.core.ledger.placement_rules import Anywhere, RegionsForDurability
from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation


@dataclass(frozen=True, slots=True)
class RegionAware:
    """Spread evenly over regions, and inside each over racks.

    With `regions_min` above 1 no ack quorum fits into fewer regions; without exception.
    """

    regions_min: int = 0
    regions: tuple[str, ...] = ()
    """The regions that may be written; empty: all."""
    own: NetworkLocation | None = None
    """Where this client stands: ensembles start in its region."""
    disallowed: frozenset[str] = frozenset()
    """Regions that take nothing new: they are to be removed, or not to be trusted."""
    is_hard: bool = True
    """Whether no ensemble is better than one that does not keep `regions_min`."""

    def problem(self, quorums: Quorums) -> str | None:
        """Compare the quorums with `regions_min`, as BookKeeper does when it places."""
        wanted = self.regions_min
        if wanted > 1 and self.regions and len(self.regions) < wanted:
            return f"{wanted} regions for durability, {len(self.regions)} may be written"
        return durability_problem(quorums.write, quorums.ack, wanted)

    def admits(self, location: NetworkLocation) -> bool:
        """Only regions that may be written."""
        region = location.region
        return region not in self.disallowed and (not self.regions or region in self.regions)

    def rules(self, quorums: Quorums, locations: Sequence[NetworkLocation]) -> list[Rule]:
        """Return the invariant, if it is asked for."""
        if self.regions_min <= 1:
            return [Anywhere()]
        there = len({at.region for at in locations if at != DEFAULT_LOCATION})
        rules: list[Rule] = []
        if there >= self.regions_min:
            rules.append(RegionsForDurability(self.regions_min, quorums.ack))
        return rules if self.is_hard else [*rules, Anywhere()]

    def preference(self, place: int, location: NetworkLocation, places: Places) -> tuple[int, ...]:
        """Prefer regions with few members, the own one among equals, then racks with few."""
        members = [member.location for member in places if member is not None]
        return (
            sum(at.region == location.region for at in members),
            self.own is not None and location.region != self.own.region,
            sum(at.rack == location.rack for at in members),
        )

    def farness(self, location: NetworkLocation, lost: NetworkLocation) -> tuple[int, ...]:
        """Prefer the rack that lost a member, then its region."""
        return (location.rack != lost.rack, location.region != lost.region)

    def acks_suffice(self, locations: Sequence[NetworkLocation], write_quorum: int) -> bool:
        """Tell whether `regions_min` regions answered."""
        regions = {at.region for at in locations if at != DEFAULT_LOCATION}
        return self.regions_min <= 1 or len(regions) >= min(write_quorum, self.regions_min)
