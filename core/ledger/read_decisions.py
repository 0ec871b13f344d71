"""Reading one entry from its replicas: whom to ask, when to ask another one, when to give up.

    first replica -> answer with the entry: done
                  -> it fails, and nobody else is asked: the next one; none is left: lost
                  -> it is silent for a while: the next one too (speculation)

Speculation stops where one of those who were asked has just answered other reads: it lives, and
its answer will come or its time-out will. Source: BookKeeper PendingReadOp, ReadOpBase,
DefaultSpeculativeRequestExecutionPolicy.
"""

from collections.abc import Collection
from dataclasses import dataclass

from tailrace.core.errors import CoreError
from tailrace.core.ledger.outcomes import worse
from tailrace.protocol.ids import BookieId


@dataclass(frozen=True, slots=True)
class Speculation:
    """How long to wait for an answer before another replica is asked as well. Unit: s.

    `first_s` 0: never ask another one because of silence. It grows up to `max_s`, never shrinks.
    """

    first_s: float
    max_s: float
    multiplier: float

    def pause_s(self, asked: int) -> float:
        """Return the wait after the `asked`-th replica was asked (1, 2, ...)."""
        # The exponent is bounded: no ensemble is large enough to matter beyond it.
        grown_s = self.first_s * self.multiplier ** min(asked - 1, 64)
        return min(grown_s, max(self.first_s, self.max_s))


class EntryRead:
    """One entry. Shape: `order` has each replica once; one answer for each that was asked."""

    __slots__ = ("_silent", "_tried", "error", "order")

    def __init__(self, order: tuple[BookieId, ...], asked: int) -> None:
        """`asked`: how many of `order` were asked already, at least one."""
        self.order = order
        self._tried = asked
        self._silent = list(order[:asked])
        self.error: CoreError | None = None
        """What the caller hears if the entry is lost: the answer that says most."""

    @property
    def asked(self) -> tuple[BookieId, ...]:
        """Who was asked so far."""
        return self.order[: self._tried]

    @property
    def is_lost(self) -> bool:
        """Whether everybody failed."""
        return not self._silent

    def on_failure(self, bookie: BookieId, error: CoreError) -> BookieId | None:
        """Count a failed answer; return whom to ask now, if anybody."""
        self._silent.remove(bookie)
        self.error = worse(self.error, error)
        return self._next() if not self._silent else None

    def on_silence(self, heard: Collection[BookieId]) -> BookieId | None:
        """Return whom to ask beside those who are silent; `heard`: who answered other reads."""
        if any(bookie in heard for bookie in self._silent):
            return None
        return self._next()

    def outrun_by(self, winner: BookieId) -> tuple[BookieId, ...]:
        """Return who was asked before the replica that gave the entry, and is silent still."""
        earlier = self.order[: self.order.index(winner)]
        return tuple(bookie for bookie in earlier if bookie in self._silent)

    def _next(self) -> BookieId | None:
        if self._tried == len(self.order):
            return None
        self._tried += 1
        bookie = self.order[self._tried - 1]
        self._silent.append(bookie)
        return bookie
