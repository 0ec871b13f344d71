"""The next deadline of each key (a group, a transactional id), in one heap.

A key only ever says "nothing of mine happens before T"; a later T needs no work here (the key is
woken early once and says so again), so a group's heartbeats cost nothing.
"""

from heapq import heappop, heappush

from tailrace.broker.replicated.effects import NEVER


class Deadlines:
    """Wakes each key at most once per deadline. Unit: monotonic ms."""

    __slots__ = ("_at", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._at: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    def schedule(self, key: str, at_ms: int) -> bool:
        """Wake `key` no later than `at_ms`; return whether this is the earliest deadline of all."""
        if at_ms >= self._at.get(key, NEVER):
            return False
        self._at[key] = at_ms
        heappush(self._heap, (at_ms, key))
        return self._heap[0] == (at_ms, key)

    def pop_due(self, now_ms: int) -> list[str]:
        """Return the keys whose deadline has come, earliest first, and forget them."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, key = heappop(self._heap)
            if self._at.get(key) == at_ms:
                del self._at[key]
                due.append(key)
        return due

    def next_ms(self) -> int:
        """Return the earliest deadline, NEVER if there is none."""
        while self._heap:
            at_ms, key = self._heap[0]
            if self._at.get(key) == at_ms:
                return at_ms
            heappop(self._heap)
        return NEVER
