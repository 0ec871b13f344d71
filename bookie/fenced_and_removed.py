"""Ledgers that were fenced when they were removed: a late writer must still be refused.

Remembered in memory for seven days, as by Java's bookie, and forgotten at a restart.
"""

from core.runtime.clock import Clock
from protocol.ids import LedgerId

KEPT_S = 7 * 86_400.0
COUNT_MAX = 100_000


class FencedAndRemoved:
    """A set of ledgers that forgets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s: dict[LedgerId, float] = {}

    def add(self, ledger_id: LedgerId) -> None:
        """Remember a ledger from now on; with too many the oldest goes."""
        self._since_s.pop(ledger_id, None)
        self._since_s[ledger_id] = self._clock.monotonic_s()
        if len(self._since_s) > COUNT_MAX:
            del self._since_s[next(iter(self._since_s))]

    def __contains__(self, ledger_id: LedgerId) -> bool:
        since_s = self._since_s.get(ledger_id)
        return since_s is not None and self._clock.monotonic_s() - since_s < KEPT_S
