"""What the members of one write set have to keep, for each way of placing them.

Each rule can be asked about a write set that is not full yet: it says no as soon as no member that
may still come could make it good. Source: BookKeeper Rackaware-, Regionaware-, ZoneawareEnsemble-
PlacementPolicyImpl; DistributedLog global-replicated-log, "minRegionsForDurability".
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation


@dataclass(frozen=True, slots=True)
class Anywhere:
    """No rule."""

    def allows(self, locations: Sequence[NetworkLocation], open_places: int) -> bool:
        """Tell that it is."""
        return True

    @override
    def __str__(self) -> str:
        return "anywhere"


@dataclass(frozen=True, slots=True)
class RacksPerWriteQuorum:
    """At least so many racks."""

    racks_min: int

    def allows(self, locations: Sequence[NetworkLocation], open_places: int) -> bool:
        """Tell whether that many can be had."""
        return len({location.rack for location in locations}) + open_places >= self.racks_min

    @override
    def __str__(self) -> str:
        return f"each write quorum in {self.racks_min} racks"


@dataclass(frozen=True, slots=True)
class RegionsForDurability:
    """No ack quorum fits into fewer than `regions_min` regions.

    So an acknowledged entry is in `regions_min` regions without anybody looking at who answered. A
    member whose region nobody knows may stand in any: it counts for the fullest ones.
    """

    regions_min: int
    ack_quorum: int

    def allows(self, locations: Sequence[NetworkLocation], open_places: int) -> bool:
        """Tell whether the fullest `regions_min` - 1 regions have too few members for an ack."""
        known = [at.region for at in locations if at != DEFAULT_LOCATION]
        fullest = Counter(known).most_common(self.regions_min - 1)
        unknown = len(locations) - len(known)
        return unknown + sum(count for _, count in fullest) < self.ack_quorum

    @override
    def __str__(self) -> str:
        return f"each ack quorum of {self.ack_quorum} in {self.regions_min} regions"


@dataclass(frozen=True, slots=True)
class ZonesPerWriteQuorum:
    """At least so many zones, and members of one zone in different upgrade domains."""

    zones_min: int

    def allows(self, locations: Sequence[NetworkLocation], open_places: int) -> bool:
        """Tell whether that many can be had, and no upgrade domain is there twice."""
        zones = len({location.region for location in locations})
        domains = len({location.rack for location in locations})
        return zones + open_places >= self.zones_min and domains == len(locations)

    @override
    def __str__(self) -> str:
        return f"each write quorum in {self.zones_min} zones, one bookie per upgrade domain"
