"""Which streams move from which proxy to which, so that proxies have about as much to do. Pure.

    balance   from a proxy above the average and its tolerance to one below the average, as long as
              that makes the larger of the two smaller
    drain     every stream of some proxies to the others

A stream weighs 1 (by count) or its bytes a second (by load). Each move goes from the proxy that has
most to the one that has least, and takes the stream that makes the two most even. Weights are whole
numbers, and equals are taken by their names: the same input gives the same plan.

Invariants: a stream moves at most once. After each move of a balance the larger of its two proxies
has less than the larger had before, so no move can be followed by its opposite. A proxy that
accepts no new stream is never a target.
Source: DistributedLog ClusterBalancer, SimpleBalancer, CountBasedStreamChooser; reference 9.5.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

PERCENT: Final = 100

Streams: TypeAlias = Mapping[str, int]
"""Stream -> its weight, at least 0."""


@dataclass(frozen=True, slots=True)
class ProxyLoad:
    """A write proxy and what it owns."""

    name: str
    streams: Streams
    accepts: bool = True
    """Whether it claims streams that it does not own yet: else it is never a target."""
    region: str = ""


class Move(NamedTuple):
    """One stream, and where it goes."""

    stream: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Rules:
    """How much is balanced.

    Errors: ValueError for a negative number.
    """

    tolerance_percent: int = 10
    """A proxy above the average by no more than this keeps what it has."""
    moves_max: int | None = None
    """Of one plan; None: as many as it takes."""

    def __post_init__(self) -> None:
        if self.tolerance_percent < 0 or (self.moves_max or 0) < 0:
            raise ValueError("a tolerance and a number of moves are not negative")


def balance(proxies: Iterable[ProxyLoad], rules: Rules = Rules()) -> list[Move]:
    """Return the moves that even out the proxies of each region among themselves.

    Shape: region after region by name, in each in the order of the moves; empty: nothing to do.
    Errors: ValueError for two proxies of one name.
    Cost: O(log) of the proxies and a search in the source's streams for each move.
    """
    regions: dict[str, list[ProxyLoad]] = {}
    for proxy in _checked(proxies):
        regions.setdefault(proxy.region, []).append(proxy)
    moves: list[Move] = []
    for name in sorted(regions):
        members = {proxy.name for proxy in regions[name]}
        moves += _even_out(regions[name], members, members, rules)
    return _cut(moves, rules)


def balance_regions(
    proxies: Iterable[ProxyLoad], source: str, target: str, rules: Rules = Rules()
) -> list[Move]:
    """Return the moves from one region to another, until their proxies have about as much.

    The average is that of the proxies of both. Errors: ValueError for two proxies of one name.
    Source: RegionBalancer (SimpleBalancer of two regions).
    """
    both = [proxy for proxy in _checked(proxies) if proxy.region in (source, target)]
    sources = {proxy.name for proxy in both if proxy.region == source}
    targets = {proxy.name for proxy in both if proxy.region == target}
    return _cut(_even_out(both, sources, targets, rules), rules)


def drain(
    proxies: Iterable[ProxyLoad], drained: Collection[str], moves_max: int | None = None
) -> list[Move]:
    """Return the moves of all streams of the proxies that are drained to the others.

    Heavy streams go first, each to the one that has least then. Targets are proxies of the same
    region if there is one that accepts streams, else of any. Shape: empty also when there is no
    target. Errors: ValueError for two proxies of one name. Cost: as `balance`.
    Source: ClusterBalancer.balanceAll.
    """
    members = _checked(proxies)
    takers = [proxy for proxy in members if proxy.accepts and proxy.name not in drained]
    totals = _Totals(members)
    everywhere = totals.heap(proxy.name for proxy in takers)
    heaps = {
        region: totals.heap(proxy.name for proxy in takers if proxy.region == region)
        for region in {proxy.region for proxy in takers}
    }
    moves: list[Move] = []
    for proxy in members:
        if proxy.name in drained:
            for stream in sorted(proxy.streams, key=lambda each: (-proxy.streams[each], each)):
                target = totals.least(heaps.get(proxy.region, everywhere))
                if target is not None:
                    totals.move(proxy.name, target, proxy.streams[stream])
                    moves.append(Move(stream, proxy.name, target))
    return moves if moves_max is None else moves[:moves_max]


def _checked(proxies: Iterable[ProxyLoad]) -> list[ProxyLoad]:
    found = sorted(proxies, key=lambda proxy: proxy.name)
    for one, other in pairwise(found):
        if one.name == other.name:
            raise ValueError(f"two proxies are called {one.name}")
    return found


def _cut(moves: list[Move], rules: Rules) -> list[Move]:
    return moves if rules.moves_max is None else moves[: rules.moves_max]


_Heap: TypeAlias = list[tuple[int, str]]
"""Totals and names, least first. An entry may be old: it counts if the total is still that."""


class _Totals:
    """What each proxy has by now."""

    def __init__(self, proxies: Sequence[ProxyLoad]) -> None:
        self.of = {proxy.name: sum(proxy.streams.values()) for proxy in proxies}
        self.total = sum(self.of.values())

    def heap(self, names: Iterable[str], sign: int = 1) -> _Heap:
        found = [(sign * self.of[name], name) for name in names]
        heapify(found)
        return found

    def least(self, heap: _Heap, sign: int = 1) -> str | None:
        """Return the proxy that has least, with `sign` -1 most; None: the heap is empty.

        It stays in the heap. Old entries are replaced by what is true now.
        """
        while heap:
            weight, name = heap[0]
            if weight == sign * self.of[name]:
                return name
            heapreplace(heap, (sign * self.of[name], name))
        return None

    def move(self, source: str, target: str, weight: int) -> None:
        self.of[source] -= weight
        self.of[target] += weight

    def is_below_average(self, name: str) -> bool:
        return self.of[name] * len(self.of) < self.total

    def is_above(self, name: str, tolerance_percent: int) -> bool:
        """Tell whether it is above the average by more than the tolerance."""
        limit = self.total * (PERCENT + tolerance_percent)
        return self.of[name] * len(self.of) * PERCENT > limit


def _even_out(
    proxies: list[ProxyLoad], sources: set[str], targets: set[str], rules: Rules
) -> list[Move]:
    """Move from those that have most to those that have least while it helps."""
    totals = _Totals(proxies)
    movable = {p.name: _by_weight(p.streams) for p in proxies if p.name in sources}
    givers = totals.heap(sources, -1)
    accepting = {p.name for p in proxies if p.accepts} & targets
    takers = totals.heap(accepting)
    moves: list[Move] = []
    while rules.moves_max is None or len(moves) < rules.moves_max:
        source, target = totals.least(givers, -1), totals.least(takers)
        if source is None or target is None:
            break
        if not (
            totals.is_above(source, rules.tolerance_percent) and totals.is_below_average(target)
        ):
            break
        at = _best(movable[source], totals.of[source] - totals.of[target])
        if at is None:
            heappop(givers)  # no other target has less, and none will
            continue
        weight, stream = movable[source].pop(at)
        totals.move(source, target, weight)
        # A total that came nearer to the top of a heap is not found there otherwise.
        if target in sources:
            heappush(givers, (-totals.of[target], target))
        if source in accepting:
            heappush(takers, (totals.of[source], source))
        moves.append(Move(stream, source, target))
    return moves


def _by_weight(streams: Streams) -> list[tuple[int, str]]:
    return sorted((weight, name) for name, weight in streams.items() if weight > 0)


def _best(streams: list[tuple[int, str]], apart: int) -> int | None:
    """Return which stream makes two proxies most even, whose totals are so far apart.

    None: none helps; one that helps weighs less than `apart`. Best is half of it; of two as good
    the lighter. Shape: `streams` sorted by weight and name.
    """
    at = bisect_left(streams, apart, key=lambda each: 2 * each[0])
    if at > 0:
        lighter = streams[at - 1][0]
        if at == len(streams) or apart - 2 * lighter <= 2 * streams[at][0] - apart:
            at = bisect_left(streams, (lighter, ""))  # the first of its weight by name
    return at if at < len(streams) and streams[at][0] < apart else None
