"""The memory of a frame whose size is known and whose bytes are still coming.

A size is only what a peer says, so memory follows the bytes, and is counted in a budget that all
connections of a loop share and that only unfinished frames use: half a frame never keeps a whole
one of somebody else waiting. The first `FIRST_BYTES` are given to everybody; for more the frame is
let in, with all of its size, as soon as there is room, so that what was begun can be finished.
"""

from tailrace.core.runtime.budget import Budget

FIRST_BYTES = 64 * 1024
"""Memory for a frame that was not let in yet; peers that are not known yet get less."""

AHEAD_BYTES_MAX = 2 * 1024 * 1024
"""How far memory for a frame may run ahead of its bytes; beyond it the buffer doubles."""

UNFINISHED_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of all unfinished frames of a loop that are let in."""

PROGRESS_BYTES_MIN = 64 * 1024
"""What must come within the time that a peer has: who drips is stalled like who stops."""


class UnfinishedFrame:
    """One frame on its way in: `body[:have]` came, of `size`."""

    __slots__ = ("_budget", "_counted", "_mark_have", "_mark_s", "body", "have", "size")

    def __init__(
        self,
        size: int,
        came: memoryview,
        budget: Budget,
        now_s: float,
        first_bytes: int = FIRST_BYTES,
    ) -> None:
        """`first_bytes`: what it may have before it was let in."""
        self.size = size
        self.have = have = len(came)
        self._budget = budget
        let_in = have >= first_bytes and not budget.full
        self.body = bytearray(
            min(size, have + AHEAD_BYTES_MAX if let_in else max(have, first_bytes))
        )
        self.body[:have] = came
        self._counted = size if let_in else len(self.body)
        budget.take(self._counted)
        self._mark_have, self._mark_s = have, now_s

    @property
    def is_full(self) -> bool:
        """Whether there is no room for the next byte: call `make_room`."""
        return self.have == len(self.body) < self.size

    def make_room(self) -> bool:
        """Let the frame in and trust it with as much again; False if the budget is full."""
        have, size = self.have, self.size
        if self._counted < size:
            if self._budget.full:
                return False
            self._budget.take(size - self._counted)
            self._counted = size
        grown = bytearray(min(size, have + max(have, AHEAD_BYTES_MAX)))
        grown[:have] = self.body
        self.body = grown
        return True

    def give_back(self) -> None:
        """Count it out: it is whole, or it never will be. Idempotent."""
        self._budget.give(self._counted)
        self._counted = 0

    def hold(self, now_s: float) -> None:
        """Restart the peer's time: it is not read just now."""
        self._mark_s = now_s

    def is_stalled(self, now_s: float, stall_s: float) -> bool:
        """Whether too little came since the last mark; sets the next mark."""
        if now_s - self._mark_s <= stall_s:
            return False
        if self.have - self._mark_have < PROGRESS_BYTES_MIN:
            return True
        self._mark_have, self._mark_s = self.have, now_s
        return False
