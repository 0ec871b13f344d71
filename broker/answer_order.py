"""Answers leave in the order of their requests, however they are finished. Pure.

Kafka matches answers to requests by order alone, so an answer that is ready early waits for those
before it.
"""

from collections import deque
from typing import Generic, Protocol, TypeVar

from tailrace.protocol.ids import Buffer


class Turn(Protocol):
    """A request in flight: `parts` is None until its answer is ready, empty if there is none."""

    parts: list[Buffer] | None


T = TypeVar("T", bound=Turn)


class AnswerOrder(Generic[T]):
    """The requests of one connection in flight, in order of arrival."""

    __slots__ = ("turns",)

    def __init__(self) -> None:
        self.turns: deque[T] = deque()
        """Oldest first. A request that arrives is appended."""

    def __len__(self) -> int:
        return len(self.turns)

    def take_ready(self) -> list[T]:
        """Remove and return the requests at the front whose answers may leave now, in order."""
        turns = self.turns
        ready = []
        while turns and turns[0].parts is not None:
            ready.append(turns.popleft())
        return ready

    def pending(self) -> list[T]:
        """Return the requests without an answer, oldest first."""
        return [turn for turn in self.turns if turn.parts is None]

    def clear(self) -> list[T]:
        """Remove and return everything: the connection is gone."""
        turns = list(self.turns)
        self.turns.clear()
        return turns


class Watch:
    """Tells since when the same thing is under way, for one who looks now and then."""

    __slots__ = ("_seen", "_since_s")

    def __init__(self) -> None:
        self._seen: object = None
        self._since_s = 0.0

    def age_s(self, thing: object, now_s: float) -> float:
        """Return how long ago `thing` was first seen in an unbroken row of looks."""
        if thing is not self._seen:
            self._seen, self._since_s = thing, now_s
        return now_s - self._since_s
