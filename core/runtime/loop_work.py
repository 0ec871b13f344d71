"""How much of what peers cause is done on the loop itself, and where that ends.

Unit: bytes that are unpacked, 1 to 3 ns each; what else takes time counts as so many bytes. A
request, a client and a step of the loop have a room each. Whoever works on the loop for a peer asks
for the room first, does no more than that, and adds what it did; the rest goes to a lane beside it.
"""

import asyncio
from typing import Final

REQUEST_WORK_MAX: Final = 256 * 1024
CLIENT_WORK_MAX: Final = 1024 * 1024
"""Of one client between two steps of the loop, in which many of its requests may come."""
STEP_WORK_MAX: Final = 1536 * 1024
"""Of all clients between two steps of the loop: usually 1 to 5 ms."""


class LoopWork:
    """The work of one loop, from which all calls come. Cost: 0.3 us for both."""

    __slots__ = ("_client", "_client_from", "_counting", "_loop", "_step_from", "most", "total")

    def __init__(self) -> None:
        self.total = 0
        self.most = 0
        """The most that was done in one step."""
        self._loop = asyncio.get_running_loop()
        self._step_from = 0
        self._client: object = None
        self._client_from = 0
        self._counting = False

    def room(self, client: object, since: int) -> int:
        """Return how much more may be done now for a request; never below 0.

        `since`: what `total` was when the request began.
        """
        total = self.total
        if client is not self._client:
            self._client, self._client_from = client, total
        return max(
            min(
                since + REQUEST_WORK_MAX,
                self._client_from + CLIENT_WORK_MAX,
                self._step_from + STEP_WORK_MAX,
            )
            - total,
            0,
        )

    def spend(self, client: object, since: int, amount: int) -> bool:
        """Count what is going to be done for a request, if there is room for it; see `room`."""
        total = self.total
        if client is not self._client:
            self._client, self._client_from = client, total
        total += amount
        if (
            total > since + REQUEST_WORK_MAX
            or total > self._client_from + CLIENT_WORK_MAX
            or total > self._step_from + STEP_WORK_MAX
        ):
            return False
        self.total = total
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._on_step)
        return True

    def add(self, amount: int) -> None:
        """Count what was done."""
        self.total += amount
        if not self._counting:
            self._counting = True
            self._loop.call_soon(self._on_step)

    def _on_step(self) -> None:
        self._counting = False
        self.most = max(self.most, self.total - self._step_from)
        self._step_from = self.total
        self._client = None
