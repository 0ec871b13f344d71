"""The requests of one connection that run one at a time, as all do in Kafka: who runs, who waits.

Only produces run beside them. What waits is kept as it came, so it counts in the request budget; a
connection that keeps much waiting while others need that memory hoards.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.broker.answer_order import Watch
from tailrace.core.runtime.net import HURRY_S

if TYPE_CHECKING:
    from tailrace.broker.in_flight import InFlight

WAITING_BYTES_SPARED: Final = 64 * 1024
"""Requests of a connection that may wait behind a slow one even when memory is short."""


class SerialRequests:
    """One runs, the others wait in the order in which they came."""

    def __init__(self, run: Callable[["InFlight"], None], may_run: Callable[[], bool]) -> None:
        """`run` starts a request and may raise. `may_run`: whether the client is ready for it."""
        self._run = run
        self._may_run = may_run
        self._current: InFlight | None = None
        self._waiting: deque[InFlight] = deque()
        self._watch = Watch()
        self._draining = False  # `go_on` runs: its loop takes whatever comes, no recursion

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def add(self, item: "InFlight") -> None:
        """Run a request now, or when its turn comes. Errors: what `run` raises."""
        if self._current is None and not self._waiting:
            self._current = item
            self._run(item)
        else:
            self._waiting.append(item)

    def finish(self, item: "InFlight") -> bool:
        """Note that a request is answered; return whether it was the one that ran."""
        if item is not self._current:
            return False
        self._current = None
        return True

    def go_on(self) -> None:
        """Start the next, unless one runs or the client is not ready. Errors: what `run` raises."""
        if self._draining:
            return
        self._draining = True
        try:
            while self._waiting and self._current is None and self._may_run():
                item = self._current = self._waiting.popleft()
                self._run(item)
        finally:
            self._draining = False

    def clear(self) -> None:
        """Forget those that wait: the connection is gone."""
        self._waiting.clear()

    def hoards(self, now_s: float, *, is_throttled: bool) -> bool:
        """Whether much waits for long behind one request, or a quota. Call it now and then."""
        if not self._waiting:
            return False
        blocker = self._current or (self._waiting[0] if is_throttled else None)
        waits_s = self._watch.age_s(blocker, now_s)
        if blocker is None or waits_s < HURRY_S:
            return False
        return sum(item.size for item in self._waiting) > WAITING_BYTES_SPARED
