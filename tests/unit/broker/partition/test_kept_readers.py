"""Which readers stay: all that there is room for, those of consumers who are back before others."""

from collections import OrderedDict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.bookmarks import Bookmarks
from tailrace.broker.partition.kept_readers import NEW_SHARE, Cursor, KeptReaders

LIMIT = 8
QUOTA = LIMIT // NEW_SHARE


def cursor(*, is_new: bool, read_number: int) -> Cursor:
    nobody: Any = None
    made = Cursor(nobody, 0, 0, Bookmarks())
    made.is_new, made.read_number = is_new, read_number
    return made


def key(name: str) -> Any:
    return (name, 0)


def names(kept: Any) -> list[str]:
    return [name for (name, _), _ in kept]


def test_a_pass_over_many_partitions_takes_no_reader_from_who_reads_on() -> None:
    kept = KeptReaders(LIMIT)
    for number in range(LIMIT):
        assert kept.keep(key(f"known{number}"), cursor(is_new=False, read_number=number)) == []
    for number in range(100):
        gone = kept.keep(key(f"new{number}"), cursor(is_new=True, read_number=8 + number))
        assert names(gone) == [f"new{number}"]
    assert sorted(names(kept.items())) == [f"known{number}" for number in range(LIMIT)]


def test_new_ones_take_a_quarter_and_go_first_and_when_they_are_stale() -> None:
    kept = KeptReaders(LIMIT)
    gone = [names(kept.keep(key(f"{n}"), cursor(is_new=True, read_number=n))) for n in range(4)]
    assert gone == [[], [], ["2"], ["3"]]
    assert names(kept.keep(key("4"), cursor(is_new=True, read_number=LIMIT))) == ["4"]
    assert names(kept.keep(key("5"), cursor(is_new=True, read_number=LIMIT + 1))) == ["0"]
    for number in range(LIMIT - QUOTA):
        known = cursor(is_new=False, read_number=LIMIT + 1)
        assert kept.keep(key(f"known{number}"), known) == []
    more = cursor(is_new=False, read_number=LIMIT + 1)
    assert names(kept.keep(key("more"), more)) == ["1"]
    assert len(kept) == LIMIT


def test_who_is_back_is_known() -> None:
    kept = KeptReaders(LIMIT)
    kept.keep(key("a"), cursor(is_new=True, read_number=1))
    back = kept.take(key("a"))
    assert back is not None
    assert not back.is_new
    assert kept.take(key("a")) is None


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=60))
def test_any_order_keeps_to_the_limits_and_loses_nobody(
    steps: list[tuple[int, bool, bool]],
) -> None:
    """The oracle: one list of all, oldest first, and what is said of them in words."""
    kept = KeptReaders(LIMIT)
    oracle: OrderedDict[str, tuple[bool, int]] = OrderedDict()
    for number, (name, is_new, takes) in enumerate(steps):
        if takes:
            was_there = oracle.pop(str(name), None) is not None
            assert (kept.take(key(str(name))) is not None) == was_there
            continue
        expected = [str(name)] if oracle.pop(str(name), None) else []
        stale = [n for n, (new, at) in oracle.items() if new and number - at > LIMIT]
        expected += [n for n in stale if oracle.pop(n)]
        new_ones = [n for n, (new, _) in oracle.items() if new]
        if is_new and (len(new_ones) >= QUOTA or len(oracle) >= LIMIT):
            expected.append(str(name))
        else:
            if len(oracle) >= LIMIT:
                first = (new_ones or list(oracle))[0]
                expected += [first]
                del oracle[first]
            oracle[str(name)] = (is_new, number)
        gone = kept.keep(key(str(name)), cursor(is_new=is_new, read_number=number))
        assert names(gone) == expected
        assert sorted(names(kept.items())) == sorted(oracle)
    assert len(kept.clear()) == len(oracle)
    assert len(kept) == 0
