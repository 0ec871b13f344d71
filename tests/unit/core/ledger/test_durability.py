from itertools import combinations, combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.durability import (
    PROMISE_KEY,
    durability_problem,
    promise_of,
    with_promise,
)


@pytest.mark.parametrize(
    ("write", "ack", "regions", "is_fine"),
    [
        (15, 8, 2, False),  # DistributedLog's bad example
        (15, 9, 2, True),
        (9, 5, 2, False),  # its deployment guide's sample for three regions
        (9, 6, 2, True),
        (3, 2, 2, False),
        (3, 3, 2, True),
        (3, 3, 3, True),
        (2, 2, 3, False),
        (5, 4, 3, False),
        (6, 5, 3, True),
        (3, 1, 1, True),
        (3, 1, 0, True),
    ],
)
def test_examples(write: int, ack: int, regions: int, is_fine: bool) -> None:
    assert (durability_problem(write, ack, regions) is None) == is_fine


@given(st.integers(1, 7), st.integers(1, 7), st.integers(2, 4))
def test_fine_quorums_are_those_that_can_be_placed_in_so_many_regions(
    write: int, ack: int, regions: int
) -> None:
    """The oracle puts the copies into exactly `regions` regions in every way there is."""
    if ack > write:
        return

    def keeps(placed: tuple[int, ...]) -> bool:
        return all(len(set(acked)) >= regions for acked in combinations(placed, ack))

    possible = any(map(keeps, combinations_with_replacement(range(regions), write)))
    assert (durability_problem(write, ack, regions) is None) == possible


def test_ledger_refuses_quorums_that_cannot_keep_its_promise() -> None:
    with pytest.raises(ValueError, match="an ack quorum of 8 of 15 can be had without one of 2"):
        LedgerConfig(ensemble_size=15, write_quorum=15, ack_quorum=8, regions_min=2)
    LedgerConfig(ensemble_size=15, write_quorum=15, ack_quorum=9, regions_min=2)


def test_promise_travels_with_the_ledger() -> None:
    custom = {"application": b"tailrace"}
    assert with_promise(custom, 1) == custom
    assert promise_of(with_promise(custom, 1)) is None
    assert promise_of(with_promise(custom, 2)) == 2
    for bad in (b"", b"two", b"-1", b"1" * 9):
        with pytest.raises(CorruptData, match=PROMISE_KEY):
            promise_of({PROMISE_KEY: bad})
