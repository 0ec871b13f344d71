"""The ring against a dumb one, and against DistributedLog's own numbers."""

from functools import cache
from hashlib import md5
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.proxy.routing import ring as module
from tailrace.proxy.routing.ring import (
    HOSTS_MAX,
    POINTS,
    UNKNOWN_SHARD,
    Host,
    Ring,
    ShardHost,
    host_text,
    ring_hash,
)

hosts = st.builds(Host, st.sampled_from(["10.0.0.1", "::1", "eu-r-p-1.x"]), st.integers(1, 2))
shard_hosts = st.builds(ShardHost, st.integers(UNKNOWN_SHARD, 2), hosts)
sets = st.sets(shard_hosts, max_size=4)
streams = st.text(max_size=8)


@cache
def dumb_points(at: ShardHost) -> list[int]:
    keys = [f"shard-{at.shard}-{i}-{host_text(at.host)}" for i in range(POINTS)]
    digests = [md5(key.encode("utf-16-le")).digest() for key in keys]
    return [int.from_bytes(digest[:8], "little", signed=True) for digest in digests]


def dumb_candidates(on: set[ShardHost], stream: str, tried: set[Host]) -> list[Host]:
    """Sort all points; those at or behind the stream come first."""
    wanted = md5(stream.encode("utf-16-le")).digest()[:8]
    place = int.from_bytes(wanted, "little", signed=True)
    circle = sorted((point, at) for at in on for point in dumb_points(at))
    around = [at for point, at in circle if point >= place]
    around += [at for point, at in circle if point < place]
    return [host for host in dict.fromkeys(at.host for at in around) if host not in tried]


def twelve() -> list[ShardHost]:
    return [ShardHost(shard, Host(f"10.0.0.{shard}", 8000)) for shard in range(12)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shard-0-0-/127.0.0.1:8000", -7325253382921814292),
        ("stream-1", 1693258692362581055),
    ],
)
def test_hashes_are_distributedlogs(key: str, value: int) -> None:
    assert ring_hash(key) == value


def test_the_first_point_of_a_shard_is_distributedlogs() -> None:
    points = module.shard_points(ShardHost(0, Host("127.0.0.1", 8000)))
    assert len(points) == 8 * POINTS
    assert int.from_bytes(points[:8], "little", signed=True) == -7325253382921814292


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("127.0.0.1", "/127.0.0.1:80"),
        ("::1", "/0:0:0:0:0:0:0:1:80"),
        ("2001:db8::a0", "/2001:db8:0:0:0:0:0:a0:80"),
        ("::ffff:10.0.0.1", "/10.0.0.1:80"),
        ("proxy-1.example.com", "proxy-1.example.com:80"),
        ("10.0.0.256", "10.0.0.256:80"),
    ],
)
def test_addresses_are_written_as_java_does(name: str, text: str) -> None:
    assert host_text(Host(name, 80)) == text


@settings(max_examples=25, deadline=None)
@given(sets, streams, st.sets(hosts, max_size=3))
def test_candidates_are_those_of_the_dumb_ring(
    on: set[ShardHost], stream: str, tried: set[Host]
) -> None:
    ring = Ring(on)
    assert list(ring.candidates(stream, tried)) == dumb_candidates(on, stream, tried)
    assert ring.first(stream, tried) == next(iter(dumb_candidates(on, stream, tried)), None)


@settings(max_examples=25, deadline=None)
@given(sets, streams)
def test_every_host_is_a_candidate_exactly_once(on: set[ShardHost], stream: str) -> None:
    found = list(Ring(on).candidates(stream))
    assert sorted(found) == sorted({at.host for at in on})


@settings(max_examples=25, deadline=None)
@given(sets, shard_hosts, st.lists(streams, max_size=20))
def test_a_shard_that_joins_moves_only_streams_to_itself(
    on: set[ShardHost], new: ShardHost, names: list[str]
) -> None:
    before = Ring(on)
    after = Ring({*on, new}, before)
    for name in names:
        assert after.first(name) in (before.first(name), new.host)


def test_a_former_ring_saves_work_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = twelve()
    former = Ring(shards[:11])
    made: list[ShardHost] = []
    points = module.shard_points

    def counted(at: ShardHost) -> bytes:
        made.append(at)
        return points(at)

    monkeypatch.setattr(module, "shard_points", counted)
    grown = Ring(shards[1:], former)
    assert made == [shards[11]]
    fresh = Ring(reversed(shards[1:]))
    for number in range(50):
        stream = f"stream-{number}"
        assert list(grown.candidates(stream)) == list(fresh.candidates(stream))


def test_streams_are_spread_over_the_shards() -> None:
    ring = Ring(twelve())
    owned = [ring.first(f"stream-{number}") for number in range(1200)]
    assert {owned.count(at.host) > 50 for at in twelve()} == {True}


def test_the_walk_goes_round_the_end_in_signed_order() -> None:
    """A stream behind the last point belongs to the lowest point, which is negative."""
    at = [ShardHost(shard, Host("127.0.0.1", 8000 + shard)) for shard in range(2)]
    ring = Ring(at)
    points = sorted((point, each.host) for each in at for point in dumb_points(each))
    behind = next(name for name in map(str, range(100_000)) if ring_hash(name) > points[-1][0])
    assert points[0][0] < 0
    assert ring.first(behind) == points[0][1]


def test_a_point_belongs_to_itself() -> None:
    at = ShardHost(0, Host("127.0.0.1", 8000))
    ring = Ring([at, ShardHost(1, Host("127.0.0.1", 8001))])
    assert {ring.first(f"shard-0-{i}-/127.0.0.1:8000") for i in range(POINTS)} == {at.host}


def test_what_is_tried_while_one_iterates_does_not_come() -> None:
    ring, tried = Ring(twelve()), set[Host]()
    order = list(ring.candidates("s"))
    walk = ring.candidates("s", tried)
    assert list(islice(walk, 2)) == order[:2]
    tried.add(order[3])
    assert list(walk) == [order[2], *order[4:]]
    assert ring.first("s", set(order)) is None


def test_nothing_is_there() -> None:
    assert list(Ring().candidates("s")) == []
    assert Ring().first("s") is None


def test_unknown_shards_are_all_minus_one() -> None:
    host = Host("127.0.0.1", 8000)
    assert module.shard_points(ShardHost(-9, host)) == module.shard_points(ShardHost(-1, host))
    assert dumb_points(ShardHost(-1, host))[0] == ring_hash("shard--1-0-/127.0.0.1:8000")


def test_beyond_the_bound_it_refuses() -> None:
    many = [ShardHost(shard, Host("h", 1)) for shard in range(HOSTS_MAX + 1)]
    with pytest.raises(ValueError, match="at most 10000"):
        Ring(many)
