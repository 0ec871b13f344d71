"""What holds the last stable offset, against a list of all transactions searched from the start."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.unstable import UnstableOffsets


def test_a_transaction_is_unstable_until_its_marker_is_confirmed() -> None:
    unstable = UnstableOffsets()
    unstable.appended += 100
    unstable.appended += 50
    unstable.begin(1, 50)
    assert unstable.first == 1
    assert unstable.confirm(1, 150) == 100
    unstable.end(1, 2)
    unstable.appended += 78
    assert unstable.first == 1
    assert unstable.confirm(2, 78) == 128
    assert unstable.first is None


def test_what_was_open_at_the_start_holds_everything_back() -> None:
    unstable = UnstableOffsets([5, 9])
    unstable.appended += 10
    assert unstable.confirm(20, 10) == 0
    unstable.end(5, 21)
    unstable.appended += 10
    assert unstable.confirm(21, 10) == 0
    assert unstable.first == 9
    unstable.end(9, 22)
    unstable.appended += 10
    assert unstable.confirm(22, 10) == 30


steps = st.lists(
    st.tuples(st.sampled_from(["plain", "begin", "end", "confirm"]), st.integers(0, 5)), max_size=50
)


@given(steps)
def test_stable_bytes_and_offset_are_the_oracles(steps: list[tuple[str, int]]) -> None:
    unstable = UnstableOffsets()
    batches: list[int] = []  # sizes; one offset each
    transactions: dict[int, int | None] = {}  # first offset -> marker
    confirmed = told = 0

    def append() -> None:
        batches.append(len(batches) * 7 + 1)
        unstable.appended += batches[-1]

    for action, pick in steps:
        open_ones = [first for first, marker in transactions.items() if marker is None]
        if action == "begin":
            transactions[len(batches)] = None
            append()
            unstable.begin(len(batches) - 1, batches[-1])
        elif action == "end" and open_ones:
            first = open_ones[pick % len(open_ones)]
            transactions[first] = len(batches)
            unstable.end(first, len(batches))
            append()
        elif action == "confirm":
            upto = min(confirmed + pick, len(batches))
            told += unstable.confirm(upto - 1, sum(batches[confirmed:upto]))
            confirmed = upto
        else:
            append()
        held = [f for f, m in transactions.items() if m is None or m >= confirmed]
        assert unstable.first == (min(held) if held else None)
        if action == "confirm":
            stable = min([confirmed, *held])
            assert told == sum(batches[:stable])
