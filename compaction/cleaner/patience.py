"""When to give up waiting for free cores: where there are none, idle work is done 800 times slower.

How much clients write says nothing of consumers, and of others on the machine. So it is tried: a
block that took long has the next ones computed with a share of a core, for so many times as long
that trying costs a pass little. Pure.
"""

from typing import Final

LONG_S: Final = 0.25
"""A block takes some ms where a core is free, and four may wait for each other."""
TIMES: Final = 30
"""So many times as long as a block took, nobody waits again."""


class Patience:
    """Fed with how long blocks took that were computed on a free core."""

    def __init__(self) -> None:
        self._ended_until_s = 0.0

    def lasts(self, now_s: float) -> bool:
        """Tell whether a block may wait for a free core now."""
        return now_s >= self._ended_until_s

    def took(self, seconds: float, now_s: float) -> None:
        """Learn from a block that waited, whether it was computed in the end or not."""
        if seconds > LONG_S:
            self._ended_until_s = max(self._ended_until_s, now_s + TIMES * seconds)
