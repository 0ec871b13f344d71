"""How long a restore goes on without getting any further."""

from collections.abc import Callable
from typing import TypeVar

from tailrace.compaction.restoring.errors import Transient, Unreachable
from tailrace.core.runtime.clock import Clock

T = TypeVar("T")

_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 1.0


class Patience:
    """Counts time since the last progress, and waits between attempts: 0.1 s, doubled up to 1 s."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None], timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._sleep = sleep
        self._since_s = clock.monotonic_s()
        self._backoff_s = _BACKOFF_S

    def progressed(self) -> None:
        """Start to count anew."""
        self._since_s = self._clock.monotonic_s()
        self._backoff_s = _BACKOFF_S

    @property
    def is_over(self) -> bool:
        """Whether it has been too long."""
        return self._clock.monotonic_s() - self._since_s >= self.timeout_s

    def wait(self, error: Transient) -> None:
        """Wait before the next attempt. Errors: Unreachable when it has been too long."""
        if self.is_over:
            raise Unreachable(
                f"{error.cause}; no progress for {self.timeout_s:g} s",
                place=error.place,
                remedy="is the broker where it advertises itself? a longer timeout waits longer; "
                "the restore goes on from its checkpoint",
            ) from error
        self._sleep(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, _BACKOFF_MAX_S)

    def retry(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns once it does. Errors: Unreachable, and its own."""
        while True:
            try:
                return attempt()
            except Transient as error:
                self.wait(error)
