"""What a read of a partition found. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tailrace.protocol.ids import Buffer


class Found(NamedTuple):
    """Whole batches, consecutive."""

    parts: Sequence[Buffer]
    size: int
    """Bytes of all parts together."""
    limited: bool
    """Whether more is there than the limit let through."""


NOTHING = Found((), 0, limited=False)
NOTHING_FITS = Found((), 0, limited=True)


def fitting(batches: Sequence[Buffer], room: int, *, at_least_one: bool) -> tuple[int, int]:
    """Return how many of the first batches fit into `room` bytes, and how many bytes they are.

    `at_least_one`: the first counts even if it is larger.
    """
    size = sum(map(len, batches))
    if size <= room or not batches:
        return len(batches), size
    sizes = list(accumulate(map(len, batches)))
    count = bisect_right(sizes, room)
    if count == 0:
        return (1, sizes[0]) if at_least_one else (0, 0)
    return count, sizes[count - 1]
