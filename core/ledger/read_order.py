"""Which replica is asked first: near ones, and not those that failed or were slow of late.

    1  nothing against them: the own region, nearest first; one of another region as the third
    2  the others of other regions          4  read-only bookies
    3  failed a read lately, the one that failed longest ago first
    5  slow lately                          6  not registered
Within a group the write set's own order stays, so that load is spread.

Marks last `history_s` and then count no more, so that everybody gets another chance.
Source: reference BookKeeper 7.5; DistributedLog "Cross Region Speculative Reads".
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from protocol.ids import BookieId

BOOKIES_MAX: Final = 10_000
"""Bookies that are remembered; beyond it the oldest mark is forgotten."""

SLOW_FACTOR: Final = 5.0
SLOW_S_MIN: Final = 0.05
"""A bookie is slow when its reads take this long and so many times the fastest one's."""

_WEIGHT: Final = 0.25
"""Share of the newest latency in a bookie's average."""


class Standing(IntEnum):
    """What is known of a bookie from its registration."""

    AVAILABLE = 0
    READ_ONLY = 1
    GONE = 2


class Distance(IntEnum):
    """How far a bookie is."""

    SAME_RACK = 0
    SAME_REGION = 1
    ELSEWHERE = 2


class _Latency(NamedTuple):
    average_s: float
    at_s: float


class ReadHistory:
    """What bookies did to reads of late. All times are of one monotonic clock. Unit: s."""

    def __init__(self, history_s: float) -> None:
        """`history_s` 0: nothing is remembered."""
        self._history_s = history_s
        self._failed: dict[BookieId, float] = {}
        self._slow: dict[BookieId, float] = {}
        self._latencies: dict[BookieId, _Latency] = {}
        self.version = 0
        """Rises with everything that may change an order, but for the passing of time."""

    def on_failure(self, bookie: BookieId, now_s: float) -> None:
        """Remember that a replica failed a read."""
        self._mark(self._failed, bookie, now_s)

    def on_slow(self, bookie: BookieId, now_s: float) -> None:
        """Remember that a replica was so late that another one won."""
        self._mark(self._slow, bookie, now_s)

    def on_latency(self, bookie: BookieId, latency_s: float, now_s: float) -> None:
        """Count an answer's time; a bookie far behind the fastest one is slow."""
        known = self._latencies.pop(bookie, None)
        if known is not None and now_s - known.at_s < self._history_s:
            latency_s = known.average_s + _WEIGHT * (latency_s - known.average_s)
        self._latencies[bookie] = _Latency(latency_s, now_s)
        if len(self._latencies) > BOOKIES_MAX:
            del self._latencies[next(iter(self._latencies))]
        if latency_s >= SLOW_S_MIN and latency_s >= SLOW_FACTOR * self._fastest_s(now_s):
            self._mark(self._slow, bookie, now_s)

    def failed_s(self, bookie: BookieId, now_s: float) -> float | None:
        """Return when a bookie failed a read, if that still counts."""
        return self._marked(self._failed, bookie, now_s)

    def is_slow(self, bookie: BookieId, now_s: float) -> bool:
        """Tell whether a bookie was slow of late."""
        return self._marked(self._slow, bookie, now_s) is not None

    def next_change_s(self, now_s: float) -> float:
        """Return when the next mark ceases to count; infinity: there is none."""
        marks = [at for marks in (self._failed, self._slow) for at in marks.values()]
        return min(
            (at + self._history_s for at in marks if at + self._history_s > now_s),
            default=float("inf"),
        )

    def _mark(self, marks: dict[BookieId, float], bookie: BookieId, now_s: float) -> None:
        if self._marked(marks, bookie, now_s) is None:
            self.version += 1  # one that counts already changes no order worth the work
        marks.pop(bookie, None)
        marks[bookie] = now_s
        if len(marks) > BOOKIES_MAX:
            del marks[next(iter(marks))]

    def _marked(self, marks: dict[BookieId, float], bookie: BookieId, now_s: float) -> float | None:
        at_s = marks.get(bookie)
        return at_s if at_s is not None and now_s - at_s < self._history_s else None

    def _fastest_s(self, now_s: float) -> float:
        return min(
            latency.average_s
            for latency in self._latencies.values()
            if now_s - latency.at_s < self._history_s or latency.at_s == now_s
        )


Locate: TypeAlias = Callable[[BookieId], Distance]
Register: TypeAlias = Callable[[BookieId], Standing]


def reorder(
    write_set: Sequence[BookieId],
    history: ReadHistory,
    distance: Locate,
    standing: Register,
    now_s: float,
) -> tuple[BookieId, ...]:
    """Return the replicas in the order in which they are asked, each once."""
    failed = {b: at for b in write_set if (at := history.failed_s(b, now_s)) is not None}
    slow = {b for b in write_set if history.is_slow(b, now_s)}

    def group(bookie: BookieId) -> int:
        if standing(bookie) is Standing.GONE:
            return 4
        if bookie in slow:
            return 3
        if standing(bookie) is Standing.READ_ONLY:
            return 2
        return 1 if bookie in failed else 0

    groups: list[list[BookieId]] = [[], [], [], [], []]
    for bookie in write_set:
        groups[group(bookie)].append(bookie)
    near = sorted((b for b in groups[0] if distance(b) < Distance.ELSEWHERE), key=distance)
    far = [b for b in groups[0] if distance(b) is Distance.ELSEWHERE]
    groups[1].sort(key=failed.__getitem__)
    rest = [bookie for bookies in groups[1:] for bookie in bookies]
    return (*near[:2], *far[:1], *near[2:], *far[1:], *rest)
