"""Keeping all uploads of a process together below a number of bytes per second."""

import asyncio


def pause_s(free_at_s: float, now_s: float) -> float:
    """Return how long to wait for a turn that begins at `free_at_s`."""
    return max(free_at_s - now_s, 0.0)


def next_free_s(free_at_s: float, now_s: float, size: int, bytes_per_s: int) -> float:
    """Return when the turn after one of `size` bytes begins. What was not used is not saved up."""
    return max(free_at_s, now_s) + size / bytes_per_s


class Pace:
    """Gives turns, in the order of asking."""

    def __init__(self, bytes_per_s: int) -> None:
        """`bytes_per_s`: 0 is no limit."""
        self._bytes_per_s = bytes_per_s
        self._free_at_s = 0.0

    async def wait_for(self, size: int) -> None:
        """Wait until `size` bytes may be sent. Cancel: the turn is used up all the same."""
        if not self._bytes_per_s:
            return
        now_s = asyncio.get_running_loop().time()
        wait_s = pause_s(self._free_at_s, now_s)
        self._free_at_s = next_free_s(self._free_at_s, now_s, size, self._bytes_per_s)
        if wait_s:
            await asyncio.sleep(wait_s)
