"""How many batches fit, against counting them one by one."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.found import fitting


def one_by_one(batches: list[bytes], room: int, *, at_least_one: bool) -> tuple[int, int]:
    count = size = 0
    for batch in batches:
        if size + len(batch) > room and (count or not at_least_one):
            break
        count += 1
        size += len(batch)
    return count, size


@given(
    st.lists(st.integers(0, 9).map(bytes), max_size=12),
    st.integers(-2, 60),
    st.booleans(),
)
def test_as_many_as_one_by_one(batches: list[bytes], room: int, at_least_one: bool) -> None:
    expected = one_by_one(batches, room, at_least_one=at_least_one)
    assert fitting(batches, room, at_least_one=at_least_one) == expected
