from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.ledger.quarantine import (
    AVOIDED,
    BOOKIES_MAX,
    QUARANTINED,
    Quarantine,
    doubted_regions,
)
from tailrace.protocol.ids import BookieId

B = BookieId("b")


def quarantine(errors_max: int = 3) -> Quarantine:
    return Quarantine(avoid_s=10, interval_s=60, errors_max=errors_max, quarantine_s=100)


def test_failed_bookie_is_avoided_for_a_while() -> None:
    q = quarantine()
    assert q.rank(B, 0) == 0
    q.on_failure(B, 5, is_error=False, spare=False)
    assert [q.rank(B, now) for now in (5, 14.9, 15)] == [AVOIDED, AVOIDED, 0]


def test_disabled_quarantine() -> None:
    q = quarantine(errors_max=0)
    assert not any(q.on_failure(B, 0, is_error=True, spare=False) for _ in range(1000))


def test_forgets_the_oldest_beyond_its_bound() -> None:
    q = quarantine(errors_max=1)
    for i in range(BOOKIES_MAX + 1):
        q.on_failure(BookieId(f"b{i}"), 0, is_error=True, spare=False)
    assert q.rank(BookieId("b0"), 0) == 0
    assert q.rank(BookieId("b1"), 0) == QUARANTINED


Events = st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=30)


@given(Events)
def test_against_counting_again_from_the_beginning(events: list[tuple[int, bool, bool]]) -> None:
    """Oracle: fixed intervals that begin with the first failure after the former one's end."""
    q, now, until, start, errors = quarantine(), 0.0, -1.0, None, 0
    last_failure = None
    for pause, is_error, spare in events:
        now += pause
        hit = q.on_failure(B, now, is_error=is_error, spare=spare)
        last_failure = now
        start = now if start is None else start
        expected = False
        if is_error:
            if now - start >= 60:
                start, errors = now, 0
            errors += 1
            if errors == 3:
                start, errors = now, 0
                expected = not spare and until <= now
        if expected:
            until = now + 100
        assert hit == expected
        for later in (now, now + 9, now + 10, now + 99, now + 100):
            rank = QUARANTINED if until > later else AVOIDED * (later - last_failure < 10)
            assert q.rank(B, later) == rank


def test_region_is_doubted_when_enough_of_it_failed() -> None:
    regions = {BookieId(f"b{i}"): "eu" if i < 12 else "us" for i in range(14)}

    def doubted(*failed: int) -> set[str]:
        ranks = dict.fromkeys(regions, 0) | {BookieId(f"b{i}"): AVOIDED for i in failed}
        return doubted_regions(regions, ranks)

    assert doubted() == doubted(0, 1) == doubted(12) == set()
    assert doubted(0, 1, 2) == {"eu"}
    assert doubted(12, 13) == {"us"}
