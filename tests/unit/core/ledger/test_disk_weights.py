from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.ledger.disk_weights import capped_weights, weighted_order
from tailrace.protocol.ids import BookieId

BOOKIES = [BookieId(f"b{i}") for i in range(5)]


def test_weights_are_capped_multiples_of_the_median() -> None:
    free = dict(zip(BOOKIES, [10, 20, 30, 900], strict=False))
    assert capped_weights(BOOKIES, free, 3) == [10 / 25, 20 / 25, 30 / 25, 3.0, 1.0]


def test_nobody_said_anything() -> None:
    assert capped_weights(BOOKIES, {}, 3) == [1.0] * 5
    assert capped_weights(BOOKIES, dict.fromkeys(BOOKIES, 0), 3) == [1.0] * 5
    assert capped_weights([], {}, 3) == []


@given(st.lists(st.integers(0, 10**15), max_size=5), st.randoms(use_true_random=False))
def test_every_bookie_is_in_the_order_once(free: list[int], rng: Random) -> None:
    weights = capped_weights(BOOKIES, dict(zip(BOOKIES, free, strict=False)), 3)
    assert all(0 <= weight <= 3 for weight in weights)
    order = weighted_order(BOOKIES, weights, [rng.random() for _ in BOOKIES])
    assert sorted(order) == BOOKIES
    zero = [b for b, weight in zip(BOOKIES, weights, strict=True) if weight == 0]
    assert order[len(order) - len(zero) :] == zero


def test_first_place_goes_by_weight() -> None:
    """Shares of 10,000 draws against the weights: 5 standard deviations of a fair draw."""
    rng, weights = Random(1), [1.0, 2.0, 3.0, 1.0, 1.0]
    firsts = Counter(
        weighted_order(BOOKIES, weights, [rng.random() for _ in BOOKIES])[0] for _ in range(10_000)
    )
    for bookie, weight in zip(BOOKIES, weights, strict=True):
        share = weight / 8
        assert abs(firsts[bookie] - 10_000 * share) < 5 * (10_000 * share * (1 - share)) ** 0.5
