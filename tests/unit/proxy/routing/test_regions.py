"""Local hosts first, regions that take nothing passed over."""

import pytest

from tailrace.proxy.routing.regions import DEFAULT_REGION, REGIONS_MAX, Regions, region_of
from tailrace.proxy.routing.ring import Host, Ring, ShardHost

EU = [Host(f"eu-r1-proxy-{number}.example.com", 1) for number in range(3)]
US = [Host(f"us-r1-proxy-{number}", 1) for number in range(3)]
BY_ADDRESS = [Host(f"10.0.0.{number}", 1) for number in range(3)]


def ring(hosts: list[Host]) -> Ring:
    return Ring(ShardHost(shard, host) for shard, host in enumerate(hosts))


@pytest.mark.parametrize(
    ("name", "region"),
    [
        ("eu-r1-proxy-7.example.com", "eu"),
        ("eu-r1-proxy-7", "eu"),
        ("eu-r1-proxy", DEFAULT_REGION),
        ("eu-r1-a-proxy-7", DEFAULT_REGION),
        ("proxy.eu-r1-a-7.example.com", DEFAULT_REGION),
        ("10.0.0.1", DEFAULT_REGION),
        ("localhost", DEFAULT_REGION),
    ],
)
def test_the_region_is_in_the_first_label(name: str, region: str) -> None:
    assert region_of(Host(name, 1)) == region
    assert region_of(Host(name, 1), {Host(name, 1): "other", Host(name, 2): "none"}) == "other"


def test_local_hosts_come_first_each_ring_in_its_order() -> None:
    eu, us = ring(EU), ring(US)
    found = list(Regions([("eu", eu), ("us", us)]).candidates("s"))
    assert found == [*eu.candidates("s"), *us.candidates("s")]
    assert Regions([("us", us), ("eu", eu)]).first("s") == us.first("s")


def test_a_region_that_is_unavailable_is_passed_over() -> None:
    regions = Regions([("eu", ring(EU)), ("us", ring(US))])
    first = regions.first("s")
    assert first is not None
    unavailable = {regions.region_of(first)}
    assert list(regions.candidates("s", {first}, unavailable)) == list(ring(US).candidates("s"))
    assert regions.first("s", (), {"eu", "us"}) is None


def test_tried_hosts_never_come() -> None:
    regions = Regions([("eu", ring(EU)), ("us", ring(US))])
    assert set(regions.candidates("s", {*EU, US[0]})) == set(US[1:])
    assert regions.first("s", {*EU, *US}) is None


def test_a_host_without_a_region_is_in_that_of_its_ring() -> None:
    regions = Regions([("eu", ring(BY_ADDRESS)), ("us", ring(US))], {BY_ADDRESS[0]: "other"})
    assert [regions.region_of(host) for host in BY_ADDRESS] == ["other", "eu", "eu"]
    assert regions.region_of(Host("10.9.9.9", 1)) == DEFAULT_REGION
    assert set(regions.candidates("s", (), {"eu"})) == {BY_ADDRESS[0], *US}


def test_an_override_may_say_that_there_is_none() -> None:
    regions = Regions([("eu", ring(BY_ADDRESS))], {BY_ADDRESS[0]: DEFAULT_REGION})
    assert regions.region_of(BY_ADDRESS[0]) == DEFAULT_REGION


def test_a_ring_may_have_hosts_of_several_regions() -> None:
    regions = Regions([("mixed", ring([*EU, *US]))])
    assert set(regions.candidates("s", (), {"eu"})) == set(US)


def test_a_host_on_two_rings_comes_once() -> None:
    regions = Regions([("eu", ring(EU)), ("all", ring([*EU, *US]))])
    found = list(regions.candidates("s"))
    assert found[:3] == list(ring(EU).candidates("s"))
    assert sorted(found) == sorted([*EU, *US])


def test_there_is_a_bound() -> None:
    with pytest.raises(ValueError, match="at most 100"):
        Regions([("r", Ring())] * (REGIONS_MAX + 1))
