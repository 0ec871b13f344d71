"""Settings of placement: where bookies stand, and which ones are avoided for a while."""

from dataclasses import dataclass
from enum import StrEnum

from tailrace.core.ledger.placement_policy import (
    Default,
    PlacementPolicy,
    RackAware,
    ZoneAware,
)
from tailrace.core.ledger.region_aware import RegionAware
from tailrace.core.metadata.network_location import (
    NetworkLocation,
    parse_location,
    parse_table,
)
from tailrace.core.metadata.region_rules import NO_RULES, REGION_RULES_PATH, RegionRules
from tailrace.core.runtime.config import setting
from tailrace.protocol.ids import BookieId


class PolicyName(StrEnum):
    """BookKeeper's names of the policies, without the package."""

    DEFAULT = "DefaultEnsemblePlacementPolicy"
    RACK_AWARE = "RackawareEnsemblePlacementPolicy"
    REGION_AWARE = "RegionAwareEnsemblePlacementPolicy"
    ZONE_AWARE = "ZoneawareEnsemblePlacementPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementConfig:
    """Which bookies take which copies."""

    policy: PolicyName = setting(
        "ensemblePlacementPolicy",
        PolicyName.RACK_AWARE,
        "How bookies are chosen; rack-aware with all bookies in one rack is by chance",
    )
    own_location: str = setting(
        "clientNetworkLocation",
        "",
        "Where this process stands, as /region/rack: near bookies are written and read first",
    )
    locations: tuple[str, ...] = setting(
        "bookieNetworkLocations",
        (),
        "Where bookies stand: bookie=/region/rack,...; wins over the rack mapping",
    )
    rack_mapping_path: str = setting(
        "bookieRackMappingPath",
        "/bookies",
        "Metadata node with the racks of bookies as Pulsar keeps them; empty: not read",
    )
    racks_min: int = setting(
        "minNumRacksPerWriteQuorum", 2, "Racks that each write quorum spans, if there is a way"
    )
    enforce_racks: bool = setting(
        "enforceMinNumRacksPerWriteQuorum",
        False,
        "Refuse an ensemble with fewer racks, and bookies whose rack is not known",
    )
    regions: tuple[str, ...] = setting(
        "reppRegionsToWrite", (), "Regions that may be written; empty: all. BookKeeper: with ;"
    )
    regions_min: int | None = setting(
        "reppMinimumRegionsForDurability",
        None,
        "Regions that hold every acknowledged entry, unless a ledger asks for another number; 0 or"
        " 1: no promise. Default: 2 with reppRegionsToWrite, else 0",
    )
    enforce_in_replace: bool = setting(
        "reppEnableDurabilityEnforcementInReplace",
        True,
        "Replace no bookie rather than break that promise; if false, writing goes first",
    )
    region_rules_path: str = setting(
        "reppRegionRulesPath",
        REGION_RULES_PATH,
        "Metadata node with the regions that are open or closed to new copies at this time; empty:"
        " not read",
    )
    zones_min: int = setting("minNumZonesPerWriteQuorum", 2, "Zones that each write quorum spans")
    zones_desired: int = setting(
        "desiredNumZonesPerWriteQuorum", 3, "Zones that each write quorum spans, if there is a way"
    )
    strict_zones: bool = setting(
        "enforceStrictZoneawarePlacement",
        True,
        "Refuse an ensemble with fewer zones, and bookies whose zone is not known",
    )
    enforce_fault_domains: bool = setting(
        "enforceMinNumFaultDomainsForWrite",
        False,
        "Confirm an entry only when bookies of enough racks, regions or zones acknowledged it",
    )
    weighted: bool = setting(
        "diskWeightBasedPlacementEnabled", False, "Choose bookies with more free disk more often"
    )
    weight_multiple_max: int = setting(
        "bookieMaxMultipleForWeightBasedPlacement",
        3,
        "Largest weight of a bookie as a multiple of the median",
    )
    free_disk_interval_s: int = setting(
        "getBookieInfoIntervalSeconds",
        86_400,
        "How often bookies are asked for their free disk, in s",
    )

    def __post_init__(self) -> None:
        parse_table(self.locations)
        if self.own_location:
            parse_location(self.own_location)
        if self.racks_min < 1 or self.weight_multiple_max < 1 or self.free_disk_interval_s < 1:
            raise ValueError("racks, weights and intervals must be at least 1")
        if not 1 <= self.zones_min <= self.zones_desired:
            raise ValueError("1 <= minNumZonesPerWriteQuorum <= desiredNumZonesPerWriteQuorum")
        if self.regions and len(self.regions) < self.promise:
            raise ValueError("reppRegionsToWrite has fewer than reppMinimumRegionsForDurability")

    @property
    def promise(self) -> int:
        """Regions that hold every acknowledged entry of a ledger that asks for no number."""
        if self.regions_min is None:
            return 2 if self.regions else 0
        return self.regions_min

    def own(self) -> NetworkLocation | None:
        """Return where this process stands, if anybody said so."""
        return parse_location(self.own_location) if self.own_location else None

    def table(self) -> dict[BookieId, NetworkLocation]:
        """Return where bookies stand as far as the configuration says."""
        return parse_table(self.locations)

    def make_policy(
        self, rules: RegionRules = NO_RULES, promise: int | None = None
    ) -> PlacementPolicy:
        """Return the policy that is asked for, or the one that can keep a ledger's own promise."""
        if self.policy is PolicyName.REGION_AWARE or (promise or 0) > 1:
            regions_min = self.promise if promise is None else promise
            regions = self.regions if rules.to_write is None else rules.to_write
            return RegionAware(regions_min, regions, self.own(), rules.disallowed)
        if self.policy is PolicyName.RACK_AWARE:
            return RackAware(self.racks_min, self.enforce_racks, self.own())
        if self.policy is PolicyName.ZONE_AWARE:
            return ZoneAware(self.zones_min, self.zones_desired, self.strict_zones)
        return Default()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineConfig:
    """When bookies that fail are left out of new ensembles."""

    enabled: bool = setting(
        "bookieHealthCheckEnabled", False, "Leave bookies with many errors out of new ensembles"
    )
    interval_s: int = setting(
        "bookieHealthCheckIntervalSeconds", 60, "Time over which errors are counted, in s"
    )
    errors_max: int = setting(
        "bookieErrorThresholdPerInterval", 100, "Errors in that time that put a bookie aside"
    )
    quarantine_s: int = setting(
        "bookieQuarantineTimeSeconds", 1800, "How long it is left out, in s"
    )
    ratio: float = setting(
        "bookieQuarantineRatio", 1.0, "Chance that a bookie with that many errors is put aside"
    )
    avoid_s: int = setting(
        "bookieAvoidAfterFailureSeconds",
        60,
        "How long a bookie that failed an add is chosen only if others do not do, in s",
    )

    def __post_init__(self) -> None:
        if min(self.interval_s, self.errors_max, self.quarantine_s) < 1 or self.avoid_s < 0:
            raise ValueError("quarantine needs positive times and a positive number of errors")
        if not 0 <= self.ratio <= 1:
            raise ValueError("bookieQuarantineRatio is a probability")
