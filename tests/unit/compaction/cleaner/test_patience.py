"""How long a pass goes without waiting for free cores, once it waited in vain."""

from tailrace.compaction.cleaner.patience import LONG_S, TIMES, Patience


def test_it_lasts_while_blocks_are_soon_computed() -> None:
    patience = Patience()
    assert patience.lasts(0.0)
    patience.took(LONG_S, 5.0)
    assert patience.lasts(5.0)


def test_it_ends_with_a_block_that_took_long_for_many_times_as_long() -> None:
    patience = Patience()
    patience.took(2.0, 100.0)
    assert not patience.lasts(100.0)
    assert not patience.lasts(100.0 + 2.0 * TIMES - 0.01)
    assert patience.lasts(100.0 + 2.0 * TIMES)


def test_a_shorter_wait_does_not_bring_it_back() -> None:
    patience = Patience()
    patience.took(10.0, 100.0)
    patience.took(LONG_S + 0.1, 101.0)
    patience.took(0.0, 102.0)
    assert not patience.lasts(100.0 + 10.0 * TIMES - 0.01)
