"""What is under way is counted: each write is taken out as often as it was put in."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordinator.records import OffsetUpdate
from tailrace.broker.coordinator.under_way import UnderWay

UPDATE = st.builds(
    OffsetUpdate, st.sampled_from("gh"), st.just("t"), st.integers(0, 2), st.just(None)
)


@given(st.lists(st.lists(UPDATE, max_size=4), max_size=6), st.integers(0, 6))
def test_it_knows_what_was_added_and_not_removed(
    writes: list[list[OffsetUpdate]], confirmed: int
) -> None:
    under_way = UnderWay()
    for write in writes:
        under_way.add(write)
    for write in writes[:confirmed]:
        under_way.remove(write)
    left = Counter(update.name for write in writes[confirmed:] for update in write)
    assert {name for group_id in under_way for name in under_way.of_group(group_id)} == set(left)
    assert set(under_way) == {name.group_id for name in left}
