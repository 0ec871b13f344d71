from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.owner.rates import RateLimits, Rates, TokenBucket


def test_a_bucket_holds_one_second() -> None:
    bucket = TokenBucket(10, 0.0)
    for _ in range(10):
        assert not bucket.is_empty(0.0)
        bucket.take(1)
    assert bucket.is_empty(0.0)
    assert not bucket.is_empty(0.5)
    bucket.take(5)
    assert bucket.is_empty(0.5)
    assert not bucket.is_empty(100.0)
    bucket.take(10)
    assert bucket.is_empty(100.0)


def test_a_request_that_is_larger_than_the_bucket_passes_and_is_waited_for() -> None:
    bucket = TokenBucket(10, 0.0)
    assert not bucket.is_empty(0.0)
    bucket.take(35)
    assert bucket.is_empty(2.5)
    assert not bucket.is_empty(2.75)


def test_no_limit_is_never_reached() -> None:
    for limit in (0, -1):
        bucket = TokenBucket(limit, 0.0)
        bucket.take(10**12)
        assert not bucket.is_empty(0.0)


def test_a_clock_that_goes_back_stands_still() -> None:
    bucket = TokenBucket(10, 5.0)
    bucket.take(10)
    assert bucket.is_empty(4.0)
    assert bucket.is_empty(5.0)
    assert not bucket.is_empty(6.0)


def test_a_soft_limit_counts_and_a_hard_one_refuses() -> None:
    rates = Rates(RateLimits(records_soft=2, records_hard=4, bytes_hard=100), 0.0)
    assert [rates.take(1, 10, 0.0) for _ in range(4)] == [False, False, True, True]
    assert rates.is_over(0.0)
    assert not rates.is_over(0.5)
    assert rates.take(1, 1000, 0.5) is False  # the soft one has filled up, too
    assert rates.is_over(1.0)  # by its bytes
    assert not rates.is_over(30.0)


@given(
    limit=st.integers(1, 20),
    requests=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), max_size=40),
)
def test_no_span_gets_more_than_its_time_a_second_ahead_and_one_request(
    limit: int, requests: list[tuple[int, int]]
) -> None:
    """The dumb oracle: sums over all spans, in exact fractions of 1/8 s."""
    bucket = TokenBucket(limit, 0.0)
    now, served = Fraction(0), list[tuple[Fraction, int]]()
    for steps, amount in requests:
        now += Fraction(steps, 8)
        if not bucket.is_empty(float(now)):
            bucket.take(amount)
            served.append((now, amount))
    for first in range(len(served)):
        for last in range(first, len(served)):
            before_last = sum(amount for _, amount in served[first:last])
            span = served[last][0] - served[first][0]
            assert before_last < limit * (span + 1)
