"""Which hosts keep a place on the ring, lose it, or are away for a while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.routing import hosts as module
from tailrace.proxy.routing.hosts import AWAY_MS, Change, Member, RingHosts
from tailrace.proxy.routing.ring import UNKNOWN_SHARD, Host, ShardHost

A, B, C, D = (Host(f"10.0.0.{last}", 8000) for last in range(4))
NOTHING = Change((), ())


def at(shard: int, host: Host) -> ShardHost:
    return ShardHost(shard, host)


def on(hosts: RingHosts) -> list[ShardHost]:
    return list(hosts.hosts)


def returns_ms(hosts: RingHosts) -> int | None:
    return hosts.returns_ms


def two() -> RingHosts:
    """Shard 0 at A (member 1), shard 1 at B (member 2)."""
    hosts = RingHosts()
    assert hosts.update([Member(1, 0, A), Member(2, 1, B)]) == Change((at(0, A), at(1, B)), ())
    return hosts


def test_a_shard_keeps_its_place_when_its_member_goes() -> None:
    hosts = two()
    assert hosts.update([Member(2, 1, B)]) == NOTHING
    assert hosts.update([]) == NOTHING
    assert on(hosts) == [at(0, A), at(1, B)]


def test_a_new_address_takes_the_shards_place() -> None:
    hosts = two()
    hosts.update([Member(2, 1, B)])
    assert hosts.update([Member(2, 1, B), Member(3, 0, C)]) == Change((at(0, C),), (at(0, A),))
    assert on(hosts) == [at(0, C), at(1, B)]


def test_of_two_members_of_one_shard_the_newest_counts() -> None:
    both = [Member(1, 0, A), Member(7, 0, C)]
    hosts = RingHosts()
    for order in (both, both[::-1]):
        hosts = RingHosts()
        hosts.update(order)
        assert on(hosts) == [at(0, C)]
    assert hosts.update(both[:1]) == Change((at(0, A),), (at(0, C),))  # it is what is there


def test_an_address_is_one_shard_that_of_its_newest_member() -> None:
    hosts = two()
    assert hosts.update([Member(1, 0, A), Member(2, 1, B), Member(3, 2, A)]) == Change(
        (at(2, A),), (at(0, A),)
    )
    assert on(hosts) == [at(1, B), at(2, A)]


def test_two_shards_change_their_addresses_with_each_other() -> None:
    hosts = two()
    assert hosts.update([Member(3, 0, B), Member(4, 1, A)])
    assert on(hosts) == [at(0, B), at(1, A)]


def test_a_host_that_cannot_be_connected_to_is_away_for_its_time() -> None:
    hosts = two()
    assert returns_ms(hosts) is None
    assert hosts.failed(A, 1_000) == Change((), (at(0, A),))
    assert returns_ms(hosts) == 1_000 + AWAY_MS == 301_000
    assert hosts.failed(A, 2_000) == NOTHING  # the first failure counts
    assert hosts.expire(300_999) == NOTHING
    assert hosts.expire(301_000) == Change((at(0, A),), ())
    assert returns_ms(hosts) is None


def test_a_change_elsewhere_does_not_bring_it_back() -> None:
    hosts = two()
    hosts.failed(A, 0)
    members = [Member(1, 0, A), Member(2, 1, B), Member(3, 2, C)]
    assert hosts.update(members) == Change((at(2, C),), ())
    assert hosts.update([]) == NOTHING
    assert hosts.expire(AWAY_MS) == Change((at(0, A),), ())  # its shard has kept its place


@pytest.mark.parametrize("host", [A, C])
def test_a_new_registration_of_its_shard_ends_its_time(host: Host) -> None:
    hosts = two()
    hosts.failed(A, 0)
    assert hosts.update([Member(2, 1, B), Member(3, 0, host)]) == Change((at(0, host),), ())
    assert returns_ms(hosts) is None
    assert hosts.expire(AWAY_MS) == NOTHING


def test_an_older_registration_does_not_end_its_time() -> None:
    hosts = RingHosts()
    hosts.update([Member(1, 0, A), Member(2, 0, A)])
    hosts.failed(A, 0)
    assert hosts.update([Member(1, 0, A)]) == NOTHING


def test_an_address_that_another_shard_has_meanwhile_does_not_come_back() -> None:
    hosts = two()
    hosts.failed(A, 0)
    hosts.update([Member(2, 1, B), Member(3, 2, A)])
    assert hosts.expire(AWAY_MS) == NOTHING
    assert on(hosts) == [at(1, B), at(2, A)]


def test_a_host_that_refuses_is_gone_until_the_set_lists_it() -> None:
    hosts = two()
    assert hosts.refused(A) == Change((), (at(0, A),))
    assert hosts.refused(A) == NOTHING
    assert hosts.expire(10 * AWAY_MS) == NOTHING
    assert hosts.update([Member(2, 1, B)]) == NOTHING
    assert hosts.update([Member(1, 0, A)]) == Change((at(0, A),), ())


def test_hosts_that_are_not_on_the_ring_change_nothing() -> None:
    hosts = two()
    assert not hosts.failed(D, 0)
    assert not hosts.refused(D)
    assert returns_ms(hosts) is None


def test_hosts_without_a_shard_leave_with_their_list() -> None:
    hosts = RingHosts()
    fixed = [Member(0, UNKNOWN_SHARD, host) for host in (A, B, C)]
    hosts.update(fixed)
    assert on(hosts) == [at(UNKNOWN_SHARD, host) for host in (A, B, C)]
    hosts.failed(A, 0)
    assert hosts.update(fixed) == NOTHING
    assert hosts.update(fixed[2:]) == Change((), (at(UNKNOWN_SHARD, B),))
    assert returns_ms(hosts) is None
    assert hosts.expire(AWAY_MS) == NOTHING


def test_beyond_the_bound_the_newest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOSTS_MAX", 2)
    hosts = RingHosts()
    members = [Member(5, 0, A), Member(6, 1, B), Member(7, 2, C)]
    hosts.update(members)
    assert on(hosts) == [at(1, B), at(2, C)]
    hosts.failed(C, 0)
    hosts.update([Member(8, 3, D)])  # of those that went the oldest loses its place
    assert on(hosts) == [at(3, D)]
    assert hosts.expire(AWAY_MS) == Change((at(2, C),), ())


class Dumb:
    """The same rules for shards that never share an address: a list of facts, read each time."""

    def __init__(self) -> None:
        self.places: dict[int, Host] = {}
        self.numbers: dict[int, int] = {}
        self.away: list[tuple[int, Host, int, int]] = []

    def update(self, members: list[Member]) -> None:
        for shard in {each.shard for each in members}:
            best = max(each for each in members if each.shard == shard)
            if any(s == shard and h == best.host and best.number <= n for s, h, n, _ in self.away):
                continue
            self.away = [each for each in self.away if each[0] != shard]
            self.places[shard], self.numbers[shard] = best.host, best.number

    def failed(self, host: Host, now_ms: int) -> None:
        for shard in [shard for shard, at in self.places.items() if at == host]:
            del self.places[shard]
            self.away.append((shard, host, self.numbers[shard], now_ms + AWAY_MS))

    def expire(self, now_ms: int) -> None:
        for shard, host, _, until_ms in list(self.away):
            if until_ms <= now_ms:
                self.places[shard] = host
        self.away = [each for each in self.away if each[3] > now_ms]


def host_of(shard: int, which: int) -> Host:
    return Host(f"10.0.{shard}.{which}", 1)


members = st.builds(
    lambda number, shard, which: Member(number, shard, host_of(shard, which)),
    st.integers(1, 6),
    st.integers(0, 2),
    st.integers(0, 1),
)
events = st.one_of(
    st.tuples(st.just("update"), st.lists(members, max_size=4, unique_by=lambda m: m.number)),
    st.tuples(st.just("failed"), st.builds(host_of, st.integers(0, 2), st.integers(0, 1))),
    st.tuples(st.just("wait"), st.integers(1, AWAY_MS)),
)


@given(st.lists(events, max_size=12))
def test_any_story_ends_as_by_the_dumb_rules(story: list[tuple[str, object]]) -> None:
    hosts, dumb, now_ms = RingHosts(), Dumb(), 0
    there: set[ShardHost] = set()
    change = NOTHING
    for kind, value in story:
        match kind, value:
            case "update", list():
                change = hosts.update(value)
                dumb.update(value)
            case "failed", Host():
                change = hosts.failed(value, now_ms)
                dumb.failed(value, now_ms)
            case _, int():
                now_ms += value
                change = hosts.expire(now_ms)
                dumb.expire(now_ms)
        assert set(change.left) <= there
        assert not set(change.joined) & there
        there = there - set(change.left) | set(change.joined)
        assert set(hosts.hosts) == there == {at(*each) for each in dumb.places.items()}
        assert bool(dumb.away) == (hosts.returns_ms is not None)
