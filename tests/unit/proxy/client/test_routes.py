"""Which hosts a client asks, of lists, server sets and regions."""

from tailrace.proxy.client.routes import Routes, Source
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.regions import DEFAULT_REGION, REGIONS_MAX
from tailrace.proxy.routing.ring import UNKNOWN_SHARD, Host, Ring, ShardHost

EU = [Host(f"eu-r1-proxy-{n}", 8000) for n in range(3)]
US = [Host(f"us-r1-proxy-{n}", 8000) for n in range(3)]
STREAMS = [f"stream-{n}" for n in range(40)]


def members(hosts: list[Host]) -> list[Member]:
    return [Member(number, number, host) for number, host in enumerate(hosts)]


def fixed(hosts: list[Host]) -> list[Member]:
    return [Member(0, UNKNOWN_SHARD, host) for host in hosts]


def order(routes: Routes, stream: str) -> list[Host]:
    found: list[Host] = []
    while (host := routes.first(stream, found)) is not None:
        found.append(host)
    return found


def test_without_a_region_all_hosts_are_on_one_ring() -> None:
    routes = Routes([Source()])
    routes.update(0, members(EU + US))
    ring = Ring(ShardHost(number, host) for number, host in enumerate(EU + US))
    for stream in STREAMS:
        assert order(routes, stream) == list(ring.candidates(stream))
    assert routes.region_of(EU[0]) == "eu"


def test_the_local_region_comes_first() -> None:
    for local, first in (("us", US), ("eu", EU)):
        routes = Routes([Source()], local)
        routes.update(0, members(EU + US))
        for stream in STREAMS:
            assert set(order(routes, stream)[:3]) == set(first)
            assert len(order(routes, stream)) == 6


def test_a_region_that_is_unavailable_is_left_out() -> None:
    routes = Routes([Source()], "us")
    routes.update(0, members(EU + US))
    assert routes.first("s", (), {"us"}) in EU
    assert routes.first("s", (), {"us", "eu"}) is None


def test_a_source_has_the_region_that_it_is_given() -> None:
    one, other = [Host("10.0.0.1", 1)], [Host("10.0.0.2", 1)]
    routes = Routes([Source("eu"), Source("us", is_fixed=True)], "us")
    routes.update(0, members(one))
    routes.update(1, fixed(other))
    assert [order(routes, stream) for stream in STREAMS] == [other + one] * len(STREAMS)
    assert (routes.region_of(one[0]), routes.region_of(other[0])) == ("eu", "us")


def test_overrides_say_the_region_of_an_address() -> None:
    one, other = Host("10.0.0.1", 1), Host("10.0.0.2", 1)
    routes = Routes([Source()], "us", {other: "us"})
    routes.update(0, members([one, other]))
    assert order(routes, "s") == [other, one]
    assert routes.region_of(one) == DEFAULT_REGION


def test_a_host_that_failed_comes_back_after_its_time_and_one_that_refused_with_its_set() -> None:
    routes = Routes([Source()])
    routes.update(0, members(EU))
    routes.failed(EU[0], 0)
    routes.refused(EU[1], 0)
    assert routes.hosts == [EU[2]]
    routes.expire(299_999)
    assert routes.hosts == [EU[2]]
    routes.expire(300_000)
    assert routes.hosts == [EU[0], EU[2]]
    routes.update(0, members(EU))
    assert routes.hosts == EU


def test_a_host_of_a_list_that_refused_comes_back_after_its_time() -> None:
    routes = Routes([Source(is_fixed=True)])
    routes.update(0, fixed(EU))
    routes.refused(EU[1], 0)
    assert routes.hosts == [EU[0], EU[2]]
    routes.expire(300_000)
    assert routes.hosts == EU


def test_when_none_is_left_all_are_taken_back() -> None:
    for source, listed in ((Source(), members(EU)), (Source(is_fixed=True), fixed(EU))):
        routes = Routes([source])
        routes.update(0, listed)
        routes.failed(EU[0], 0)
        routes.refused(EU[1], 0)
        routes.failed(EU[2], 0)
        assert routes.is_empty
        routes.readmit()
        assert routes.hosts == EU


def test_more_regions_than_may_be_share_the_last_one() -> None:
    hosts = [Host(f"r{number:03}-a-b-c", 1) for number in range(REGIONS_MAX + 5)]
    routes = Routes([Source()], "r000")
    routes.update(0, members(hosts))
    assert sorted(order(routes, "s")) == hosts
    assert order(routes, "s")[0] == hosts[0]
