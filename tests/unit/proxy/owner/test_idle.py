"""Which streams are idle, against a plain table of the times of all requests."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.owner.idle import LastAsked

IDLE_S = 10.0
STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 7)), max_size=30)


@given(STEPS, st.integers(1, 5))
def test_the_longest_idle_come_first(steps: list[tuple[str, bool, int]], count: int) -> None:
    last, table, now_s = LastAsked(IDLE_S), dict[str, float](), 0.0
    for stream, is_asked, pause_s in steps:
        now_s += pause_s
        if is_asked:
            last.asked(stream, now_s)
            table[stream] = now_s
        else:
            last.forget(stream)
            table.pop(stream, None)
        found = last.idle(now_s, count)
        expected = sorted(at_s for at_s in table.values() if at_s + IDLE_S <= now_s)
        assert [table[each] for each in found] == expected[:count]
        assert last.due_s(now_s) == min(table.values(), default=now_s) + IDLE_S
        assert bool(found) == (last.due_s(now_s) <= now_s)
