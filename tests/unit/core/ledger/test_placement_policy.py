"""The policies against an oracle that tries every ensemble there is."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.ledger.arrangement import Candidate, Member
from tailrace.core.ledger.placement_policy import (
    Default,
    PlacementPolicy,
    Quorums,
    RackAware,
    ZoneAware,
    choose,
    replace,
)
from tailrace.core.ledger.region_aware import RegionAware
from tailrace.core.metadata.network_location import (
    DEFAULT_LOCATION,
    NetworkLocation,
    parse_location,
)
from tailrace.protocol.ids import BookieId

RACKS = [parse_location(f"/{region}/{rack}") for region in "xyz" for rack in "12"]


@st.composite
def clusters(draw: st.DrawFn) -> list[Member]:
    where = draw(st.lists(st.sampled_from([*RACKS, DEFAULT_LOCATION]), max_size=6))
    return [Member(BookieId(f"b{i}"), location) for i, location in enumerate(where)]


@st.composite
def all_quorums(draw: st.DrawFn) -> Quorums:
    size = draw(st.integers(1, 5))
    write = draw(st.integers(1, size))
    return Quorums(size, write, draw(st.integers(1, write)))


def write_sets(ensemble: Sequence[Member], write_quorum: int) -> list[list[NetworkLocation]]:
    ring = [member.location for member in (*ensemble, *ensemble)]
    return [ring[i : i + write_quorum] for i in range(len(ensemble))]


def racks_of(ensemble: Sequence[Member], quorums: Quorums) -> int:
    """The fewest racks that a write set spans."""
    return min(len({at.rack for at in run}) for run in write_sets(ensemble, quorums.write))


def ack_quorum_hides(ensemble: Sequence[Member], quorums: Quorums, regions_min: int) -> bool:
    """Whether some ack quorum of some write set may have fewer than `regions_min` regions.

    Members of unknown regions may all stand in one that has a member already.
    """
    return regions_min > 1 and any(
        len({at.region for at in acked if at != DEFAULT_LOCATION}) < regions_min
        for run in write_sets(ensemble, quorums.write)
        for acked in combinations(run, quorums.ack)
    )


def zones_of(ensemble: Sequence[Member], quorums: Quorums) -> int:
    """The fewest zones that a write set spans; 0 when it has an upgrade domain twice."""
    runs = write_sets(ensemble, quorums.write)
    if any(len({at.rack for at in run}) < len(run) for run in runs):
        return 0
    return min(len({at.region for at in run}) for run in runs)


def every_ensemble(cluster: Sequence[Member], size: int) -> list[tuple[Member, ...]]:
    return list(permutations(cluster, size))


def chosen(
    policy: PlacementPolicy, cluster: Sequence[Member], quorums: Quorums
) -> list[Member] | None:
    candidates = [Candidate(m) for m in cluster if policy.admits(m.location)]
    found = choose(policy, candidates, quorums)
    if found is None:
        return None
    by_id = {member.bookie: member for member in cluster}
    assert len(set(found)) == quorums.size == len(found)
    return [by_id[bookie] for bookie in found]


@given(clusters(), all_quorums())
def test_racks_are_as_many_as_any_ensemble_has(cluster: list[Member], quorums: Quorums) -> None:
    best = max((racks_of(e, quorums) for e in every_ensemble(cluster, quorums.size)), default=None)
    found = chosen(RackAware(), cluster, quorums)
    if best is None:
        assert found is None
    else:
        assert found is not None
        assert racks_of(found, quorums) >= min(best, 2)


@given(clusters(), all_quorums())
def test_enforced_racks_or_nothing(cluster: list[Member], quorums: Quorums) -> None:
    named = [member for member in cluster if member.location != DEFAULT_LOCATION]
    wanted = min(2, quorums.write)
    possible = any(racks_of(e, quorums) >= wanted for e in every_ensemble(named, quorums.size))
    found = chosen(RackAware(enforce=True), cluster, quorums)
    assert (found is not None) == possible
    if found is not None:
        assert racks_of(found, quorums) >= wanted
        assert DEFAULT_LOCATION not in [member.location for member in found]


@given(clusters(), all_quorums(), st.integers(0, 3))
def test_no_ack_quorum_fits_into_fewer_regions(
    cluster: list[Member], quorums: Quorums, regions_min: int
) -> None:
    policy = RegionAware(regions_min)
    possible = any(
        not ack_quorum_hides(e, quorums, regions_min) for e in every_ensemble(cluster, quorums.size)
    )
    found = chosen(policy, cluster, quorums)
    if regions_min <= 1:
        assert (found is not None) == (len(cluster) >= quorums.size)
    else:
        assert (found is not None) == possible
        if found is not None:
            assert not ack_quorum_hides(found, quorums, regions_min)


@given(clusters(), all_quorums())
def test_regions_get_even_shares(cluster: list[Member], quorums: Quorums) -> None:
    found = chosen(RegionAware(), cluster, quorums)
    if found is None:
        return
    shares = Counter(member.location.region for member in found)
    there = Counter(member.location.region for member in cluster)
    fullest = max(shares.values())
    # Whoever has two less than the fullest has no bookie left.
    assert all(shares[r] >= fullest - 1 or shares[r] == there[r] for r in there)


@given(clusters(), all_quorums(), st.booleans())
def test_zones_and_upgrade_domains(cluster: list[Member], quorums: Quorums, strict: bool) -> None:
    named = [m for m in cluster if not strict or m.location != DEFAULT_LOCATION]
    ensembles = every_ensemble(named, quorums.size)
    best = max((zones_of(e, quorums) for e in ensembles), default=None)
    found = chosen(ZoneAware(strict=strict), cluster, quorums)
    if best is not None and best >= 2:
        assert found is not None
        assert zones_of(found, quorums) >= min(best, 3)
    else:
        assert (found is not None) == (not strict and best is not None)


POLICIES: dict[str, PlacementPolicy] = {
    "default": Default(),
    "racks": RackAware(),
    "racks enforced": RackAware(enforce=True),
    "regions": RegionAware(),
    "two regions": RegionAware(2),
    "two regions if possible": RegionAware(2, is_hard=False),
    "zones": ZoneAware(strict=False),
}


def anything_goes(ensemble: Sequence[Member], quorums: Quorums) -> bool:
    return True


HARD: dict[str, Callable[[Sequence[Member], Quorums], bool]] = {
    "racks enforced": lambda e, q: racks_of(e, q) >= min(2, q.write),
    "two regions": lambda e, q: not ack_quorum_hides(e, q, 2),
}


@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_as_many_failed_places_are_given_as_can_be(name: str, data: st.DataObject) -> None:
    policy = POLICIES[name]
    quorums = data.draw(all_quorums())
    cluster = [m for m in data.draw(clusters()) if policy.admits(m.location)]
    ensemble = chosen(policy, cluster, quorums)
    if ensemble is None:
        return
    failed = sorted(data.draw(st.sets(st.integers(0, quorums.size - 1), min_size=1)))
    outside = [member for member in cluster if member not in ensemble]
    is_fine = HARD.get(name, anything_goes)
    possible = [
        len(given)
        for count in range(1, len(failed) + 1)
        for given in combinations(failed, count)
        for substitutes in permutations(outside, count)
        if is_fine(_with(ensemble, given, substitutes), quorums)
    ]
    found = replace(policy, [Candidate(m) for m in cluster], quorums, ensemble, failed)
    if not possible:
        assert found is None
        return
    assert found is not None
    by_id = {member.bookie: member for member in cluster}
    changed = [i for i, bookie in enumerate(found) if bookie != ensemble[i].bookie]
    assert set(changed) <= set(failed)
    assert len(changed) == max(possible)
    assert all(by_id[found[i]] in outside for i in changed)
    assert is_fine([by_id[bookie] for bookie in found], quorums)


def _with(
    ensemble: Sequence[Member], places: Sequence[int], substitutes: Sequence[Member]
) -> list[Member]:
    changed = list(ensemble)
    for place, member in zip(places, substitutes, strict=True):
        changed[place] = member
    return changed


@given(clusters(), all_quorums(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_higher_ranks_only_when_lower_ones_make_no_ensemble(
    cluster: list[Member], quorums: Quorums, ranks: list[int]
) -> None:
    candidates = [Candidate(m, rank) for m, rank in zip(cluster, ranks, strict=False)]
    found = choose(RackAware(), candidates, quorums)
    if found is not None:
        taken = [c for c in candidates if c.member.bookie in found]
        highest = max(c.rank for c in taken)
        assert sum(c.rank < highest for c in candidates) < quorums.size
        # Of the highest rank no more than are missing.
        lower = sum(c.rank < highest for c in candidates)
        assert sum(c.rank == highest for c in taken) >= quorums.size - lower


@pytest.mark.parametrize(
    ("policy", "quorums", "is_possible"),
    [
        # DistributedLog's own example: 15 in three regions, with one region down.
        (RegionAware(2), Quorums(15, 15, 9), True),
        (RegionAware(2), Quorums(15, 15, 8), False),
        (RegionAware(3), Quorums(3, 3, 2), False),
        (RegionAware(3, regions=("x", "y")), Quorums(5, 5, 5), False),
        (ZoneAware(), Quorums(4, 3, 2), False),
        (ZoneAware(), Quorums(6, 3, 2), True),
        (ZoneAware(), Quorums(2, 2, 2), False),
        (ZoneAware(strict=False), Quorums(4, 3, 2), True),
    ],
)
def test_quorums_that_can_never_be_placed(
    policy: PlacementPolicy, quorums: Quorums, is_possible: bool
) -> None:
    assert (policy.problem(quorums) is None) == is_possible


def test_example_of_three_regions() -> None:
    """15 bookies, Qa 8 or 9, two of three regions up: 8 of one region would make an ack quorum."""

    def region(name: str) -> list[Member]:
        rack = parse_location(f"/{name}/1")
        return [Member(BookieId(f"{name}{i}"), rack) for i in range(20)]

    two_regions = [*region("x"), *region("y")]
    assert chosen(RegionAware(2), two_regions, Quorums(15, 15, 8)) is None
    assert chosen(RegionAware(2), two_regions, Quorums(15, 15, 9)) is not None
    assert chosen(RegionAware(2), [*two_regions, *region("z")], Quorums(15, 15, 8)) is not None


def test_promise_that_may_be_given_up_is_kept_if_there_is_a_way() -> None:
    x1, x2, x3, y1 = (
        Member(BookieId(name), parse_location(f"/{name[0]}/1")) for name in ("x1", "x2", "x3", "y1")
    )
    quorums, hard = Quorums(2, 2, 2), RegionAware(2)
    soft = RegionAware(2, is_hard=False)
    for policy in (hard, soft):
        candidates = [Candidate(x3), Candidate(y1)]
        assert replace(policy, candidates, quorums, [x1, x2], [1]) == (x1.bookie, y1.bookie)
    assert replace(hard, [Candidate(x3)], quorums, [x1, y1], [1]) is None
    assert replace(soft, [Candidate(x3)], quorums, [x1, y1], [1]) == (x1.bookie, x3.bookie)


def test_replacement_stays_in_the_lost_region_rather_than_in_an_unused_rack() -> None:
    names = ("x1", "x2", "y1", "y2", "x3", "z1")
    places = ("/x/1", "/x/2", "/y/1", "/y/2", "/x/2", "/z/1")
    cluster = [Member(BookieId(n), parse_location(at)) for n, at in zip(names, places, strict=True)]
    candidates = [Candidate(member) for member in cluster]
    found = replace(RegionAware(2), candidates, Quorums(4, 4, 3), cluster[:4], [0])
    assert found is not None
    assert found[0] == "x3"


def test_regions_that_are_closed_take_nothing_new() -> None:
    policy = RegionAware(2, ("x", "y", "z"), disallowed=frozenset({"y"}))
    assert [policy.admits(at) for at in RACKS] == [at.region != "y" for at in RACKS]
    cluster = [Member(BookieId(f"b{i}"), at) for i, at in enumerate(RACKS)]
    found = chosen(policy, cluster, Quorums(4, 4, 3))
    assert found is not None
    assert {member.location.region for member in found} == {"x", "z"}
    assert chosen(policy, cluster, Quorums(5, 5, 4)) is None


def test_unknown_region_promises_nothing() -> None:
    """It may be any: with one known region beside it an ack quorum may be of one region."""
    cluster = [Member(BookieId("b0"), RACKS[0]), Member(BookieId("b1"), DEFAULT_LOCATION)]
    assert chosen(RegionAware(2), cluster, Quorums(2, 2, 2)) is None
    assert not RegionAware(2).acks_suffice([RACKS[0], DEFAULT_LOCATION], 2)
    assert chosen(RegionAware(), cluster, Quorums(2, 2, 2)) is not None


def test_replacement_comes_from_the_lost_rack_first() -> None:
    cluster = [Member(BookieId(f"b{i}"), at) for i, at in enumerate([*RACKS[:3], RACKS[1]])]
    ensemble = cluster[:3]
    found = replace(RackAware(), [Candidate(m) for m in cluster], Quorums(3, 3, 2), ensemble, [1])
    assert found == (BookieId("b0"), BookieId("b3"), BookieId("b2"))


def test_first_bookie_is_near_the_client() -> None:
    cluster = [Member(BookieId(f"b{i}"), at) for i, at in enumerate(RACKS)]
    near = chosen(RackAware(own=RACKS[3]), cluster, Quorums(3, 3, 2))
    assert near is not None
    assert near[0].location == RACKS[3]
    near = chosen(RegionAware(own=RACKS[3]), cluster, Quorums(3, 3, 2))
    assert near is not None
    assert near[0].location.region == RACKS[3].region


@pytest.mark.parametrize(
    ("policy", "few", "enough"),
    [
        (RackAware(), RACKS[:1] * 2, RACKS[:2]),
        (RegionAware(2), RACKS[:2], RACKS[1:3]),
        (ZoneAware(), RACKS[:2], RACKS[1:3]),
        (Default(), [], RACKS[:1]),
    ],
)
def test_acks_of_enough_fault_domains(
    policy: PlacementPolicy, few: list[NetworkLocation], enough: list[NetworkLocation]
) -> None:
    assert policy.acks_suffice(enough, 3)
    assert policy.acks_suffice(few, 3) == isinstance(policy, Default)


def test_a_hopeless_search_ends() -> None:
    """22 racks with one bookie each beside one full rack: many ways, and none keeps the rule."""
    full = [Member(BookieId(f"a{i}"), RACKS[0]) for i in range(40)]
    singles = [Member(BookieId(f"s{i}"), parse_location(f"/x/{i + 10}")) for i in range(9)]
    cluster = [*full, *singles]
    assert chosen(RackAware(enforce=True), cluster, Quorums(20, 2, 2)) is None
