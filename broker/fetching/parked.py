"""Fetches that wait, for as long as they do: they look again when what may be read changes."""

import asyncio
from collections import deque
from typing import Final, Protocol

WOKEN_AT_ONCE: Final = 50
"""Each then asks for its topics again, so others have their turns in between."""


class Sleeper(Protocol):
    """A fetch that waits."""

    def wake(self) -> None:
        """Look again now."""


class ParkedFetches:
    """All of one broker that an authorizer has a say in. All calls come from the loop."""

    def __init__(self) -> None:
        self._parked: dict[Sleeper, None] = {}
        self._woken: deque[Sleeper] = deque()  # in one of the next turns of the loop
        self._changed = self._going_on = False

    def __len__(self) -> int:
        return len(self._parked)

    def join(self, sleeper: Sleeper) -> None:
        """Wake it when something changes from now on."""
        self._parked[sleeper] = None

    def leave(self, sleeper: Sleeper) -> None:
        """Wake it no more."""
        del self._parked[sleeper]

    def wake_all(self) -> None:
        """Wake all, `WOKEN_AT_ONCE` in a turn of the loop; those first that wait longest.

        Changes of one moment wake them once.
        """
        self._changed = True
        if self._parked and not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        if self._changed and not self._woken:
            self._woken, self._changed = deque(self._parked), False
        for _ in range(min(len(self._woken), WOKEN_AT_ONCE)):
            self._woken.popleft().wake()
        self._going_on = bool(self._woken) or self._changed
        if self._going_on:
            asyncio.get_running_loop().call_soon(self._wake_some)
