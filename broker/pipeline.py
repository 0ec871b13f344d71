"""Answers leave in the order of their requests, however they are finished. Pure.

Kafka matches answers to requests by order alone, so an answer that is ready early waits for those
before it.
"""

from collections import deque
from typing import Generic, Protocol, TypeVar

from protocol.ids import Buffer


class Turn(Protocol):
    """A request in flight: `parts` is None until its answer is ready, empty if there is none."""

    parts: list[Buffer] | None


T = TypeVar("T", bound=Turn)


class Pipeline(Generic[T]):
    """The requests of one connection in flight, in order of arrival."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def begin(self, turn: T) -> None:
        """Add a request that has just arrived."""
        self._turns.append(turn)

    def take_ready(self) -> list[T]:
        """Remove and return the requests at the front whose answers may leave now, in order."""
        turns = self._turns
        ready = []
        while turns and turns[0].parts is not None:
            ready.append(turns.popleft())
        return ready

    def pending(self) -> list[T]:
        """Return the requests without an answer, oldest first."""
        return [turn for turn in self._turns if turn.parts is None]

    def clear(self) -> list[T]:
        """Remove and return everything: the connection is gone."""
        turns = list(self._turns)
        self._turns.clear()
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
