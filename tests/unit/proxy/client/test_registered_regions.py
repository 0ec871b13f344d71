"""Regions as proxies register them: which hosts a client asks first."""

from tailrace.proxy.client.routes import Routes, Source
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.regions import DEFAULT_REGION
from tailrace.proxy.routing.ring import Host

HOSTS = [Host("10.0.0.1", 8000), Host("10.0.0.2", 8000), Host("us-r1-proxy-1", 8000)]
STREAMS = [f"stream-{n}" for n in range(20)]


def members(*regions: str) -> list[Member]:
    pairs = zip(HOSTS, regions, strict=False)
    return [Member(number, number, host, region) for number, (host, region) in enumerate(pairs)]


def test_proxies_that_say_their_region_need_no_name_for_it() -> None:
    for local, first in (("eu", HOSTS[0]), ("asia", HOSTS[1]), ("us", HOSTS[2])):
        routes = Routes([Source()], local)
        routes.update(0, members("eu", "asia", ""))
        assert {routes.first(stream) for stream in STREAMS} == {first}
        assert routes.region_of(first) == local


def test_a_registration_goes_before_a_name_and_overrides_before_both() -> None:
    routes = Routes([Source()], "eu", {HOSTS[1]: "mars"})
    routes.update(0, members("eu", "asia", "venus"))
    assert [routes.region_of(host) for host in HOSTS] == ["eu", "mars", "venus"]


def test_a_client_without_a_region_leaves_out_a_stopped_one_only() -> None:
    routes = Routes([Source()])
    routes.update(0, members("eu", "asia"))
    found = {routes.first(stream, (), {"eu"}) for stream in STREAMS}
    assert found == {HOSTS[1]}


def test_a_region_is_kept_with_the_place_and_changes_with_a_registration() -> None:
    routes = Routes([Source()], "eu")
    routes.update(0, members("eu", "asia"))
    routes.update(0, members("eu"))  # the other one may come back
    assert routes.region_of(HOSTS[1]) == "asia"
    routes.update(0, members("asia", "eu"))
    assert {routes.first(stream) for stream in STREAMS} == {HOSTS[1]}
    routes.update(0, members("", "eu"))
    assert routes.region_of(HOSTS[0]) == DEFAULT_REGION
