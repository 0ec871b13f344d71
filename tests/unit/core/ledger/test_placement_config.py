from typing import Any

import pytest

from tailrace.core.ledger.config import LedgerClientConfig, ReadConfig
from tailrace.core.ledger.placement_config import PlacementConfig, PolicyName, QuarantineConfig
from tailrace.core.ledger.placement_policy import Default, RackAware, ZoneAware
from tailrace.core.ledger.region_aware import RegionAware
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.region_rules import RegionRules
from tailrace.core.runtime.config import Assignment, ConfigError, load
from tailrace.protocol.ids import BookieId

RACK = NetworkLocation("eu", "/eu/r1")


def loaded(**settings: str) -> LedgerClientConfig:
    given = [Assignment(key, value, "test") for key, value in settings.items()]
    return load(LedgerClientConfig, given).config


def test_settings_have_bookkeepers_names() -> None:
    config = loaded(
        ensemblePlacementPolicy="RegionAwareEnsemblePlacementPolicy",
        reppRegionsToWrite="eu,us,asia",
        reppMinimumRegionsForDurability="2",
        bookieNetworkLocations="b1:3181=/eu/r1, b2:3181=/us/r1",
        clientNetworkLocation="/eu/r1",
        speculativeReadTimeout="500",
        bookieHealthCheckEnabled="true",
    )
    assert config.placement.make_policy() == RegionAware(2, ("eu", "us", "asia"), RACK)
    assert config.placement.table()[BookieId("b1:3181")] == RACK
    assert config.read.speculative_timeout_ms == 500
    assert config.quarantine.enabled


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PolicyName.DEFAULT, Default()),
        (PolicyName.RACK_AWARE, RackAware(2, True, RACK)),
        (PolicyName.REGION_AWARE, RegionAware(0, (), RACK)),
        (PolicyName.ZONE_AWARE, ZoneAware(2, 3, True)),
    ],
    ids=[policy.name for policy in PolicyName],
)
def test_each_name_makes_its_policy(policy: PolicyName, expected: object) -> None:
    config = PlacementConfig(policy=policy, enforce_racks=True, own_location="eu/r1")
    assert config.make_policy() == expected


@pytest.mark.parametrize(
    ("settings", "promise"),
    [
        ({}, 0),
        ({"reppRegionsToWrite": "eu,us,asia"}, 2),
        ({"reppRegionsToWrite": "eu", "reppMinimumRegionsForDurability": "1"}, 1),
        ({"reppMinimumRegionsForDurability": "3"}, 3),
    ],
    ids=str,
)
def test_promise_is_two_regions_once_regions_are_listed(
    settings: dict[str, Any], promise: int
) -> None:
    assert loaded(**settings).placement.promise == promise


def test_a_ledgers_own_promise_makes_its_placement_region_aware() -> None:
    config = PlacementConfig(own_location="eu/r1")
    assert config.make_policy(promise=2) == RegionAware(2, (), RACK)
    assert config.make_policy(promise=1) == RackAware(2, False, RACK)
    regional = PlacementConfig(policy=PolicyName.REGION_AWARE, regions=("eu", "us"))
    assert regional.make_policy(promise=0) == RegionAware(0, ("eu", "us"))


def test_rules_of_the_moment_win_over_the_configuration() -> None:
    config = PlacementConfig(policy=PolicyName.REGION_AWARE, regions=("eu", "us"))
    rules = RegionRules(to_write=("eu", "us", "asia"), disallowed=frozenset({"us"}))
    expected = RegionAware(2, ("eu", "us", "asia"), None, frozenset({"us"}))
    assert config.make_policy(rules) == expected
    assert config.make_policy(RegionRules(to_write=())) == RegionAware(2)


@pytest.mark.parametrize(
    "settings",
    [
        {"bookieNetworkLocations": "b1"},
        {"clientNetworkLocation": "//"},
        {"minNumRacksPerWriteQuorum": "0"},
        {"minNumZonesPerWriteQuorum": "4"},
        {"reppRegionsToWrite": "eu", "reppMinimumRegionsForDurability": "2"},
        {"reppRegionsToWrite": "eu"},
        {"bookieQuarantineRatio": "1.5"},
        {"bookieErrorThresholdPerInterval": "0"},
        {"ensemblePlacementPolicy": "Random"},
        {"speculativeReadTimeout": "-1"},
        {"speculativeReadTimeoutBackoffMultiplier": "0.5"},
        {"bookieFailureHistoryExpirationMSec": "-1"},
    ],
    ids=",".join,
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        loaded(**settings)


def test_defaults_are_bookkeepers() -> None:
    assert LedgerClientConfig().read == ReadConfig()
    assert PlacementConfig().make_policy() == RackAware(2, False, None)
    assert not QuarantineConfig().enabled
