"""The names in a request, of which there may be very many: which come twice, and their order."""

from collections.abc import Hashable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Final, TypeVar

from tailrace.core.runtime.loop_turns import Pace

K = TypeVar("K", bound=Hashable)

SORTED_AT_ONCE: Final = 2000


async def repeated(names: Iterable[K], pace: Pace) -> set[K]:
    """Return what occurs more than once."""
    seen: set[K] = set()
    twice: set[K] = set()
    async for name in pace.each(names):
        (twice if name in seen else seen).add(name)
    return twice


async def in_order(names: Iterable[str], pace: Pace) -> Iterator[str]:
    """Return names in their order. Cost: 1 us for each more that is taken."""
    rest = iter(names)
    parts = []
    while some := sorted(islice(rest, SORTED_AT_ONCE)):
        parts.append(some)
        await pace.spend(len(some) // 4)
    return merge(*parts)
