from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.replicated.deadlines import Deadlines
from tailrace.broker.replicated.effects import NEVER


def test_only_an_earlier_deadline_counts() -> None:
    deadlines = Deadlines()
    assert deadlines.schedule("a", 20)
    assert not deadlines.schedule("a", 30)
    assert not deadlines.schedule("b", 25)
    assert deadlines.schedule("b", 5)
    assert deadlines.next_ms() == 5
    assert deadlines.pop_due(20) == ["b", "a"]
    assert deadlines.pop_due(100) == []
    assert deadlines.next_ms() == NEVER
    assert len(deadlines) == 0


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 30)), max_size=30))
def test_each_key_is_woken_once_at_its_earliest(events: list[tuple[str, int]]) -> None:
    deadlines = Deadlines()
    earliest: dict[str, int] = {}
    for key, at_ms in events:
        deadlines.schedule(key, at_ms)
        earliest[key] = min(at_ms, earliest.get(key, NEVER))
    assert deadlines.next_ms() == min(earliest.values(), default=NEVER)
    woken = {key: now for now in range(31) for key in deadlines.pop_due(now)}
    assert woken == earliest
