"""Which replica is asked first: near ones, and not those that failed or were slow of late.

    1  nothing against them: a near one, a near one of another rack, one of another region, then
       the other near ones, then the other far ones
    2  failed a read lately, the one that failed longest ago first
    3  read-only bookies          4  slow lately          5  not registered
Near is the own region; without a healthy replica there, the region that answered quickest of late.
Among equals chance decides, so that load is spread: the order of a write set would not do, where
the near ones are few. Who does not know his own place keeps that order, which spreads by itself.

Marks last `history_s` and then count no more, so that everybody gets another chance.
Source: reference BookKeeper 7.5; DistributedLog "Cross Region Speculative Reads".
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from math import frexp
from typing import Final, NamedTuple

from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.protocol.ids import BookieId

BOOKIES_MAX: Final = 10_000
"""Bookies that are remembered; beyond it the oldest mark is forgotten."""

SLOW_FACTOR: Final = 5.0
SLOW_S_MIN: Final = 0.05
"""A bookie is slow when its reads take this long and so many times the fastest one's."""

REGION_MEMORY: Final = 10
"""So many times longer than other marks a region's latency is known; then the region is tried
again, which may cost a slow read."""

REMOTE_NODE_IN_REORDER_SEQUENCE: Final = 2
"""So many near replicas are asked before one of another region. BookKeeper's name."""

_WEIGHT: Final = 0.25
"""Share of the newest latency in a bookie's average."""


class Standing(IntEnum):
    """What is known of a bookie from its registration."""

    AVAILABLE = 0
    READ_ONLY = 1
    GONE = 2


class _Latency(NamedTuple):
    average_s: float
    at_s: float
    region: str


class ReadHistory:
    """What bookies did to reads of late. All times are of one monotonic clock. Unit: s."""

    def __init__(self, history_s: float, own_region: str | None = None) -> None:
        """`history_s` 0: nothing is remembered."""
        self._history_s = history_s
        self._own_region = own_region
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

    def on_latency(
        self, bookie: BookieId, latency_s: float, now_s: float, region: str = ""
    ) -> None:
        """Count an answer's time; a bookie far behind the fastest one is slow.

        One of another region than the own one is compared with its neighbours: far is not slow.
        """
        known = self._latencies.pop(bookie, None)
        if known is not None and now_s - known.at_s < self._history_s:
            latency_s = known.average_s + _WEIGHT * (latency_s - known.average_s)
        is_far = self._own_region not in (None, region)
        before = self.region_pace(region, now_s) if is_far else 0
        self._latencies[bookie] = _Latency(latency_s, now_s, region)
        if len(self._latencies) > BOOKIES_MAX:
            del self._latencies[next(iter(self._latencies))]
        self.version += is_far and self.region_pace(region, now_s) != before
        if latency_s >= SLOW_S_MIN and latency_s >= SLOW_FACTOR * self._fastest_s(region, now_s):
            self._mark(self._slow, bookie, now_s)

    def region_pace(self, region: str, now_s: float) -> int:
        """Return how quickly a region answered of late: smaller is quicker, 0: nobody knows.

        Shape: it rises by one with each doubling above a millisecond, so that small differences
        lead nobody to one region.
        """
        quickest_s = min(
            (
                known.average_s
                for known in self._latencies.values()
                if known.region == region and now_s - known.at_s < REGION_MEMORY * self._history_s
            ),
            default=None,
        )
        return 0 if quickest_s is None else max(frexp(quickest_s * 1000)[1], 0) + 1

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

    def _fastest_s(self, region: str, now_s: float) -> float:
        is_near = self._own_region in (None, region)
        return min(
            latency.average_s
            for latency in self._latencies.values()
            if (is_near or latency.region == region)
            and (now_s - latency.at_s < self._history_s or latency.at_s == now_s)
        )


class Surroundings(NamedTuple):
    """What an order depends on beside the past."""

    own: NetworkLocation | None
    """Where the reader stands; None: nobody said so."""
    locate: Callable[[BookieId], NetworkLocation]
    standing: Callable[[BookieId], Standing]
    draw: Callable[[], float]
    """Chance, from [0, 1)."""


def reorder(
    write_set: Sequence[BookieId], history: ReadHistory, around: Surroundings, now_s: float
) -> tuple[BookieId, ...]:
    """Return the replicas in the order in which they are asked, each once."""
    failed = {b: at for b in write_set if (at := history.failed_s(b, now_s)) is not None}
    slow = {b for b in write_set if history.is_slow(b, now_s)}

    def group(bookie: BookieId) -> int:
        standing = around.standing(bookie)
        if standing is Standing.GONE:
            return 4
        if bookie in slow:
            return 3
        if standing is Standing.READ_ONLY:
            return 2
        return 1 if bookie in failed else 0

    groups: list[list[BookieId]] = [[], [], [], [], []]
    for bookie in write_set:
        groups[group(bookie)].append(bookie)
    if around.own is not None:
        groups[0] = _by_nearness(groups[0], history, around, around.own, now_s)
    groups[1].sort(key=failed.__getitem__)
    return tuple(bookie for bookies in groups for bookie in bookies)


def _by_nearness(
    bookies: Iterable[BookieId],
    history: ReadHistory,
    around: Surroundings,
    own: NetworkLocation,
    now_s: float,
) -> list[BookieId]:
    """Order replicas against which there is nothing: see the module's first group."""
    by_region: dict[str, list[BookieId]] = {}
    for bookie in sorted(bookies, key=lambda b: (around.locate(b).rack != own.rack, around.draw())):
        by_region.setdefault(around.locate(bookie).region, []).append(bookie)
    if not by_region:
        return []

    def nearness(region: str) -> tuple[bool, int, float]:
        return (region != own.region, history.region_pace(region, now_s), around.draw())

    first, *others = sorted(by_region, key=nearness)
    near, far = by_region[first], [b for region in others for b in by_region[region]]
    second = next((b for b in near if around.locate(b).rack != around.locate(near[0]).rack), None)
    if second is not None:
        near.remove(second)
        near.insert(1, second)
    leading = REMOTE_NODE_IN_REORDER_SEQUENCE
    return [*near[:leading], *far[:1], *near[leading:], *far[1:]]
