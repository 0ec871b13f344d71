from collections import Counter
from collections.abc import Callable
from itertools import permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.ledger.read_order import (
    BOOKIES_MAX,
    ReadHistory,
    Standing,
    Surroundings,
    reorder,
)
from tailrace.core.metadata.network_location import NetworkLocation, parse_location
from tailrace.protocol.ids import BookieId

BOOKIES = tuple(BookieId(f"b{i}") for i in range(5))
B0, B1, B2, B3, B4 = BOOKIES


OWN = parse_location("/eu/1")


def place(bookie: BookieId) -> NetworkLocation:
    return OWN


def there(bookie: BookieId) -> Standing:
    return Standing.AVAILABLE


def blind(standing: Callable[[BookieId], Standing] = there) -> Surroundings:
    """Of a reader that does not know where it stands."""
    return Surroundings(None, place, standing, Random(7).random)


def around(places: dict[BookieId, str], seed: int = 7) -> Surroundings:
    where = {bookie: parse_location(path) for bookie, path in places.items()}
    return Surroundings(OWN, where.__getitem__, there, Random(seed).random)


def order(history: ReadHistory, now_s: float, bookies: tuple[BookieId, ...] = BOOKIES) -> str:
    return " ".join(reorder(bookies, history, blind(), now_s))


def test_order_stays_when_nothing_is_known() -> None:
    for bookies in permutations(BOOKIES[:3]):
        assert reorder(bookies, ReadHistory(60), blind(), 0) == bookies


def test_failed_ones_come_later_the_longest_ago_first_and_are_forgiven() -> None:
    history = ReadHistory(60)
    history.on_failure(B1, 10)
    history.on_failure(B0, 20)
    assert order(history, 30) == "b2 b3 b4 b1 b0"
    assert history.next_change_s(30) == 70
    assert order(history, 70) == "b1 b2 b3 b4 b0"
    assert order(history, 80) == "b0 b1 b2 b3 b4"
    assert history.next_change_s(80) == float("inf")


def test_slow_ones_come_after_failed_ones() -> None:
    history = ReadHistory(60)
    history.on_slow(B0, 0)
    history.on_failure(B1, 0)
    assert order(history, 1) == "b2 b3 b4 b1 b0"


def test_registration_counts() -> None:
    history = ReadHistory(60)
    history.on_failure(B1, 0)
    history.on_slow(B2, 0)
    standings = {B0: Standing.GONE, B3: Standing.READ_ONLY}
    found = reorder(BOOKIES, history, blind(lambda b: standings.get(b, there(b))), 1)
    assert found == (B4, B1, B3, B2, B0)


def test_near_ones_come_first_the_second_of_another_rack_the_third_of_another_region() -> None:
    places = {B0: "/us/1", B1: "/eu/1", B2: "/eu/2", B3: "/eu/1", B4: "/us/2"}
    firsts = set()
    for seed in range(40):
        found = reorder(BOOKIES, ReadHistory(60), around(places, seed), 0)
        assert found[0] in (B1, B3), "the own rack"
        assert found[1] == B2, "another rack of the own region"
        assert found[2] in (B0, B4), "another region"
        assert found[3] in (B1, B3)
        firsts.add((found[0], found[2]))
    assert len(firsts) == 4, "chance among those that are equally near"


def test_load_of_few_near_replicas_is_even() -> None:
    """By the write set's own order the last one of two neighbours would get four fifths."""
    places = dict.fromkeys((B0, B4), "/eu/1") | dict.fromkeys((B1, B2, B3), "/us/1")
    surroundings = around(places)
    counts = Counter(
        reorder((*BOOKIES[i % 5 :], *BOOKIES[: i % 5]), ReadHistory(60), surroundings, 0)[0]
        for i in range(1000)
    )
    assert set(counts) == {B0, B4}
    assert 400 < counts[B0] < 600


def test_without_a_near_replica_the_quickest_region_is_near() -> None:
    places = {B0: "/us/1", B1: "/asia/1", B2: "/asia/2", B3: "/us/2", B4: "/af/1"}
    history = ReadHistory(60, "eu")
    for bookie, latency_s in ((B0, 0.2), (B1, 0.09), (B4, 0.3)):
        history.on_latency(bookie, latency_s, 0, places[bookie].split("/")[1])
    for seed in range(10):
        found = reorder(BOOKIES, history, around(places, seed), 1)
        assert set(found[:2]) == {B1, B2}
        assert set(found[2:4]) == {B0, B3}
        assert found[4] == B4


def test_region_that_nobody_knows_is_tried_and_a_known_one_again_after_a_while() -> None:
    places = {B0: "/us/1", B1: "/asia/1"}
    history = ReadHistory(60, "eu")
    history.on_latency(B0, 0.1, 0, "us")
    version = history.version
    assert reorder((B0, B1), history, around(places), 1) == (B1, B0)
    history.on_latency(B1, 0.3, 1, "asia")
    assert history.version > version, "orders must be made anew"
    assert reorder((B0, B1), history, around(places), 2) == (B0, B1)
    assert reorder((B0, B1), history, around(places), 600 - 1) == (B0, B1)
    assert reorder((B0, B1), history, around(places), 600.5) == (B0, B1), "now us is tried again"
    history.on_latency(B0, 0.1, 600.5, "us")
    assert reorder((B0, B1), history, around(places), 602) == (B1, B0), "and then asia"


def test_far_is_not_slow() -> None:
    """A region a hundred milliseconds away, beside a reader's own at one millisecond."""
    history = ReadHistory(60, "eu")
    for now in range(5):
        history.on_latency(B0, 0.001, now, "eu")
        history.on_latency(B1, 0.1, now, "us")
        history.on_latency(B2, 0.12, now, "us")
        history.on_latency(B3, 0.9, now, "us")
        history.on_latency(B4, 0.3, now, "eu")
    assert [history.is_slow(b, 5) for b in BOOKIES] == [False, False, False, True, True]


def test_near_bookie_that_is_slower_than_far_ones_is_slow() -> None:
    history = ReadHistory(60, "eu")
    history.on_latency(B1, 0.1, 0, "us")
    history.on_latency(B0, 0.9, 0, "eu")
    assert history.is_slow(B0, 1)


def test_latency_far_above_the_fastest_is_slow() -> None:
    history = ReadHistory(60)
    for now in range(5):
        history.on_latency(B0, 0.5, now)
        history.on_latency(B1, 0.01, now)
        history.on_latency(B2, 0.06, now)
    assert [history.is_slow(b, 5) for b in (B0, B1)] == [True, False]
    quick = ReadHistory(60)
    quick.on_latency(B0, 0.02, 0)
    quick.on_latency(B1, 0.0001, 0)
    assert not quick.is_slow(B0, 0), "far behind, and yet nothing that matters"


def test_one_outlier_is_forgiven_by_the_average() -> None:
    history = ReadHistory(60)
    for now in range(4):
        history.on_latency(B0, 0.001, now)
        history.on_latency(B1, 0.001, now)
    history.on_latency(B0, 0.1, 5)
    assert not history.is_slow(B0, 5)


def test_version_rises_when_an_order_may_change() -> None:
    history = ReadHistory(60)
    history.on_failure(B0, 0)
    first = history.version
    history.on_failure(B0, 1)
    assert history.version == first
    history.on_slow(B0, 1)
    assert history.version > first
    history.on_failure(B0, 100)
    assert history.version > first + 1


def test_history_is_bounded() -> None:
    history = ReadHistory(60)
    for i in range(BOOKIES_MAX + 10):
        history.on_failure(BookieId(f"x{i}"), 0)
        history.on_latency(BookieId(f"x{i}"), 0.001, 0)  # one that may be slow looks at all others
    assert len(history._failed) == len(history._latencies) == BOOKIES_MAX


def test_no_history_at_all() -> None:
    history = ReadHistory(0)
    history.on_failure(B0, 0)
    history.on_latency(B0, 10, 0)
    assert order(history, 0) == "b0 b1 b2 b3 b4"


REGIONS = ("eu", "us", "asia")


@given(
    st.permutations(BOOKIES),
    st.lists(st.tuples(st.sampled_from(BOOKIES), st.booleans(), st.integers(0, 200)), max_size=8),
    st.lists(st.tuples(st.sampled_from(REGIONS), st.sampled_from("12")), min_size=5, max_size=5),
    st.lists(st.sampled_from(Standing), min_size=5, max_size=5),
    st.dictionaries(st.sampled_from(REGIONS), st.sampled_from((0.01, 0.05, 0.3))),
    st.randoms(use_true_random=False),
)
def test_against_what_the_seed_says(
    write_set: list[BookieId],
    marks: list[tuple[BookieId, bool, int]],
    places: list[tuple[str, str]],
    standings: list[Standing],
    paces: dict[str, float],
    rng: Random,
) -> None:
    where = {b: parse_location("/".join(at)) for b, at in zip(BOOKIES, places, strict=True)}
    standing = dict(zip(BOOKIES, standings, strict=True))
    history, now = ReadHistory(60, "eu"), 200
    failed: dict[BookieId, int] = {}
    slow: dict[BookieId, int] = {}
    for bookie, is_slow, at in sorted(marks, key=lambda mark: mark[2]):
        (history.on_slow if is_slow else history.on_failure)(bookie, at)
        (slow if is_slow else failed)[bookie] = at
    for region, latency_s in paces.items():
        history.on_latency(BookieId(f"of {region}"), latency_s, now, region)

    def trouble(bookie: BookieId) -> tuple[int, int]:
        if standing[bookie] is Standing.GONE:
            return (4, 0)
        if slow.get(bookie, -999) > now - 60:
            return (3, 0)
        if standing[bookie] is Standing.READ_ONLY:
            return (2, 0)
        failed_at = failed.get(bookie, -999)
        return (1, failed_at) if failed_at > now - 60 else (0, 0)

    surroundings = Surroundings(OWN, where.__getitem__, standing.__getitem__, rng.random)
    found = reorder(write_set, history, surroundings, now)
    assert sorted(found) == sorted(write_set)
    assert [trouble(b) for b in found] == sorted(trouble(b) for b in found)
    check_nearness([b for b in found if trouble(b) == (0, 0)], where, paces)


def check_nearness(
    fine: list[BookieId], where: dict[BookieId, NetworkLocation], paces: dict[str, float]
) -> None:
    """The seed's three sentences, and what follows from them for the rest."""

    def distance(bookie: BookieId) -> tuple[bool, float, bool]:
        at = where[bookie]
        return (at.region != "eu", paces.get(at.region, 0), at.rack != OWN.rack)

    near = [b for b in fine if where[b].region == where[fine[0]].region]
    far = [b for b in fine if b not in near]
    assert fine == [*near[:2], *far[:1], *near[2:], *far[1:]]
    assert not fine or distance(fine[0]) == min(map(distance, fine))
    if len({where[b].rack for b in near}) > 1:
        assert where[fine[1]].rack != where[fine[0]].rack
    assert [distance(b)[:2] for b in far] == sorted(distance(b)[:2] for b in far)
