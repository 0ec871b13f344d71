"""How many records may be appended and unconfirmed: per writer, and per namespace in a process.

Source: DistributedLog's perWriterOutstandingWriteLimit, globalOutstandingWriteLimit and
outstandingWriteLimitDarkmode; WriteLimiter.
"""

from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field

from tailrace.core.errors import OverCapacity

NO_LIMIT = -1


@dataclass(slots=True)
class OutstandingWrites:
    """The records of all limited writers of one namespace that are not confirmed yet."""

    limit: int = NO_LIMIT
    """Most of them; -1: no limit."""
    count: int = 0
    _waiting: dict[Future[None], None] = field(default_factory=dict)
    """In the order of their coming; one of each writer at most."""

    def wait(self, waiter: Future[None]) -> None:
        """Resolve this one when the count falls. Idempotent."""
        self._waiting[waiter] = None

    def release(self, count: int) -> None:
        """Take off records that are confirmed, or whose writer is gone."""
        self.count -= count
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)


class WriteLimits:
    """The limits of one writer, and how much of them is used."""

    __slots__ = ("_is_dark", "_on_exceeded", "_shared", "limit", "outstanding")

    def __init__(
        self,
        limit: int,
        shared: OutstandingWrites,
        *,
        is_dark: bool,
        on_exceeded: Callable[[], None],
    ) -> None:
        """`is_dark`: exceeding a limit is only counted. `on_exceeded`: counts."""
        self.limit = limit
        self.outstanding = 0
        self._shared = shared
        self._is_dark = is_dark
        self._on_exceeded = on_exceeded

    @property
    def has_room(self) -> bool:
        """Whether another record would be taken."""
        return self._is_dark or not self._exceeded()

    def _exceeded(self) -> str:
        shared = self._shared
        if 0 <= self.limit <= self.outstanding:
            return f"{self.outstanding} records of this log"
        if 0 <= shared.limit <= shared.count:
            return f"{shared.count} records of all logs"
        return ""

    def check(self) -> None:
        """Errors: OverCapacity: too many records are unconfirmed already."""
        exceeded = self._exceeded()
        if exceeded:
            self._on_exceeded()
            if not self._is_dark:
                raise OverCapacity(f"{exceeded} are not confirmed yet")

    def add(self, count: int) -> None:
        """Take note of records that were appended."""
        self.outstanding += count
        self._shared.count += count

    def release(self, count: int) -> None:
        """Take note of records that were confirmed."""
        self.outstanding -= count
        self._shared.release(count)

    def close(self) -> None:
        """Give back what the writer used, which is gone."""
        self.release(self.outstanding)

    def wait(self, waiter: Future[None]) -> None:
        """Resolve this one when other writers' records are confirmed."""
        self._shared.wait(waiter)
