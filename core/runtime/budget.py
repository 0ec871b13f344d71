"""A bound on bytes (or requests) that are in flight, with a queue of those who wait for room.

Invariant: `used` is what was taken and not given back. Whoever takes while there is room may go
over the limit by that one piece, so that no piece is too large to pass; the next one waits.
Flow: a source of work asks `full`, then `take`s; if full it stops reading its socket and leaves a
callback with `when_free`; whoever finishes work `give`s back and so wakes those who wait, in order.
"""

from collections.abc import Callable


class Budget:
    """A named bound, shared by everything that may hold a piece of it.

    Unit: whatever the name says, usually bytes. Not thread-safe: one loop owns it.
    """

    __slots__ = ("_waiting", "_waking", "full_total", "limit", "name", "used", "used_max")

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        self.used_max = 0
        """The most that was ever in use: what tells whether the limit is ever near."""
        self.full_total = 0
        """How often somebody had to wait."""
        self._waiting: dict[Callable[[], None], None] = {}  # keeps the order, forgets fast
        self._waking = False

    @property
    def full(self) -> bool:
        """Whether the next piece has to wait."""
        return self.used >= self.limit

    @property
    def room(self) -> int:
        """How much is left, never below 0."""
        return max(self.limit - self.used, 0)

    def take(self, amount: int) -> None:
        """Take a piece; ask `full` first. Never waits, may go over the limit by this piece."""
        self.used += amount
        if self.used > self.used_max:
            self.used_max = self.used

    def give(self, amount: int) -> None:
        """Give a piece back, and wake those who wait, first come first served."""
        self.used -= amount
        assert self.used >= 0, f"budget {self.name} got back more than it gave"
        if self._waiting and not self._waking:
            self._wake()

    def when_free(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once, when there is room. The same callback waits only once."""
        if callback not in self._waiting:
            self.full_total += 1
            self._waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        """Drop a waiting callback; unknown ones are ignored."""
        self._waiting.pop(callback, None)

    def _wake(self) -> None:
        self._waking = True  # a callback that gives in turn must not wake in a nested loop
        try:
            while self._waiting and not self.full:
                callback = next(iter(self._waiting))
                del self._waiting[callback]
                callback()
        finally:
            self._waking = False
