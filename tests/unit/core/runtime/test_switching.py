"""The interpreter's switch interval: short while somebody wants it, else the process' own."""

import sys

import pytest

from tailrace.core.runtime.switching import QUICK_S, quick_switches


def test_the_interval_is_short_until_the_last_block_ends() -> None:
    usual_s = sys.getswitchinterval()
    assert usual_s > QUICK_S
    with quick_switches():
        with pytest.raises(ZeroDivisionError), quick_switches():
            raise ZeroDivisionError
        assert sys.getswitchinterval() == pytest.approx(QUICK_S)
    assert sys.getswitchinterval() == pytest.approx(usual_s)
