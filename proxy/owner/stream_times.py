"""When what a stream does has taken too long: `StreamTimes`, which is pure, and its timer.

A claim has a time of its own, and an operation that waited for it begins when the stream is owned.
Else a limit for operations below a claim's length would cut off each claim, and the next one would
begin again: the stream would never be owned.
Source: StreamImpl.scheduleTimeout, which lets the claim count.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.stream_state import StreamStatus

EARLY_S: Final = 0.001
"""How much earlier than asked for a loop's timer may fire."""


class StreamTimes:
    """The times of one stream. Unit: seconds of a clock that never goes back."""

    __slots__ = ("_claim_s", "_claimed_s", "_operation_s", "_owned_s")

    def __init__(self, config: OwnerConfig) -> None:
        self._claim_s = config.claim_timeout_ms / 1000
        self._operation_s = config.service_timeout_ms / 1000
        self._claimed_s = self._owned_s = 0.0

    def claims(self, now_s: float) -> None:
        """Take note that the claim begins, with its pause."""
        self._claimed_s = now_s

    def owns(self, now_s: float) -> None:
        """Take note that the stream is owned."""
        self._owned_s = now_s

    def due_s(self, status: StreamStatus, oldest_s: float | None) -> float | None:
        """Return when the stream is to be given up; None: nothing of it is limited now.

        `oldest_s`: when its oldest unanswered operation came; None: there is none.
        """
        if status is StreamStatus.INITIALIZING:
            return self._claimed_s + self._claim_s
        if status is StreamStatus.INITIALIZED and oldest_s is not None and self._operation_s:
            return max(oldest_s, self._owned_s) + self._operation_s
        return None


class StreamTimer:
    """Calls back once that time has come. All calls come from the loop."""

    __slots__ = ("_due_s", "_handle", "_loop", "_on_late")

    def __init__(self, due_s: Callable[[], float | None], on_late: Callable[[], None]) -> None:
        """`due_s`: what `StreamTimes.due_s` says, in the loop's time."""
        self._due_s = due_s
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Wait for the time that is due now, unless an earlier one is waited for. Cost: constant.

        A time that moved later is seen when the earlier one has come.
        """
        due_s = self._due_s() if self._handle is None else None
        if due_s is not None:
            self._handle = self._loop.call_at(due_s, self._fire)

    def stop(self) -> None:
        """Wait no more; `set` begins again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        due_s = self._due_s()
        if due_s is not None and due_s <= self._loop.time() + EARLY_S:
            self._on_late()
        else:
            self.set()
