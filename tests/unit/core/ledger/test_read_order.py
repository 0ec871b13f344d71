from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from core.ledger.read_order import BOOKIES_MAX, Distance, ReadHistory, Standing, reorder
from protocol.ids import BookieId

BOOKIES = tuple(BookieId(f"b{i}") for i in range(5))
B0, B1, B2, B3, B4 = BOOKIES


def near(bookie: BookieId) -> Distance:
    return Distance.SAME_RACK


def there(bookie: BookieId) -> Standing:
    return Standing.AVAILABLE


def order(history: ReadHistory, now_s: float, bookies: tuple[BookieId, ...] = BOOKIES) -> str:
    return " ".join(reorder(bookies, history, near, there, now_s))


def test_order_stays_when_nothing_is_known() -> None:
    for bookies in permutations(BOOKIES[:3]):
        assert reorder(bookies, ReadHistory(60), near, there, 0) == bookies


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
    found = reorder(BOOKIES, history, near, lambda b: standings.get(b, there(b)), 1)
    assert found == (B4, B1, B3, B2, B0)


def test_near_ones_come_first_and_one_of_another_region_is_third() -> None:
    where = {B0: Distance.ELSEWHERE, B1: Distance.ELSEWHERE, B2: Distance.SAME_REGION}
    found = reorder(BOOKIES, ReadHistory(60), lambda b: where.get(b, near(b)), there, 0)
    assert found == (B3, B4, B0, B2, B1)


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
        history.on_latency(BookieId(f"x{i}"), 0.1, 0)
    assert len(history._failed) == len(history._latencies) == BOOKIES_MAX


def test_no_history_at_all() -> None:
    history = ReadHistory(0)
    history.on_failure(B0, 0)
    history.on_latency(B0, 10, 0)
    assert order(history, 0) == "b0 b1 b2 b3 b4"


@given(
    st.permutations(BOOKIES),
    st.lists(st.tuples(st.sampled_from(BOOKIES), st.booleans(), st.integers(0, 200)), max_size=8),
    st.lists(st.sampled_from(Distance), min_size=5, max_size=5),
    st.lists(st.sampled_from(Standing), min_size=5, max_size=5),
)
def test_against_sorting_by_what_is_known(
    write_set: list[BookieId],
    marks: list[tuple[BookieId, bool, int]],
    distances: list[Distance],
    standings: list[Standing],
) -> None:
    distance = dict(zip(BOOKIES, distances, strict=True))
    standing = dict(zip(BOOKIES, standings, strict=True))
    history, now = ReadHistory(60), 200
    failed: dict[BookieId, int] = {}
    slow: dict[BookieId, int] = {}
    for bookie, is_slow, at in sorted(marks, key=lambda mark: mark[2]):
        (history.on_slow if is_slow else history.on_failure)(bookie, at)
        (slow if is_slow else failed)[bookie] = at

    def trouble(bookie: BookieId) -> tuple[int, int]:
        if standing[bookie] is Standing.GONE:
            return (4, 0)
        if slow.get(bookie, -999) > now - 60:
            return (3, 0)
        if standing[bookie] is Standing.READ_ONLY:
            return (2, 0)
        if failed.get(bookie, -999) > now - 60:
            return (1, failed[bookie])
        return (0, 0)

    found = reorder(write_set, history, distance.__getitem__, standing.__getitem__, now)
    assert sorted(found) == sorted(write_set)
    assert [trouble(b) for b in found] == sorted(trouble(b) for b in found)
    fine = [b for b in found if trouble(b) == (0, 0)]
    local = [b for b in fine if distance[b] is not Distance.ELSEWHERE]
    remote = [b for b in fine if distance[b] is Distance.ELSEWHERE]
    assert local == sorted(local, key=lambda b: (distance[b], write_set.index(b)))
    assert remote == sorted(remote, key=write_set.index)
    if remote:
        assert fine.index(remote[0]) == min(2, len(local))
    assert remote[1:] == fine[len(fine) - len(remote[1:]) :]
