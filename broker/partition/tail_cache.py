"""The newest batches of all partitions, as they came from the socket, for consumers at the tail.

Bounded in bytes and in number over all partitions; the oldest batch of all goes first, so a quiet
partition does not hold what a busy one needs. Only confirmed batches are put in. A batch is kept as
the slice of its request, or copied if it is not large; reading hands out what is kept, uncopied.

Behind it a consumer costs the bookie's reads, a digest and Python's objects for each entry, in here
next to nothing: CPU for a GB of 16 KB batches 1.8 -> 0.4 s (100 partitions, an entry each) and 0.7
-> 0.3 (6). 512 MiB read back, with 128 MiB cached and with all of it, in turn with Kafka: 473, 582
and 553 MB/s, and 853, 1100 and 889 (medians of 3 and 4, 2026-11-24).
"""

from bisect import bisect_left
from collections import deque
from typing import Final

from tailrace.broker.partition.found import Found
from tailrace.protocol.ids import Buffer, Offset

BATCH_OVERHEAD_BYTES = 400
"""What Python's objects around a batch cost; counted, so that tiny batches stay bounded too."""

COPIED_BYTES_MAX: Final = 64 * 1024
"""A batch up to this size is copied (16 KiB: 1 us). As `bytes` it is nothing that the collector of
garbage goes through: 0.4 us for each view, all of them at once, and again and again."""

BATCHES_MAX: Final = 256 * 1024
"""Of all partitions: bounds what a full collection of garbage goes through (13 ms)."""

_SHARE_OF_MEMORY: Final = 32
_BYTES_MIN: Final = 128 * 1024 * 1024
_BYTES_MAX: Final = 1024 * 1024 * 1024

_SLACK = 1024
"""Dropped places at the front of a list before it is cut: cutting costs a copy of the rest."""


class PartitionTail:
    """The cached batches of one partition: consecutive, the newest last."""

    __slots__ = ("_batches", "_cache", "_gone", "_head", "_lasts")

    def __init__(self, cache: "TailCache") -> None:
        self._cache = cache
        self._batches: list[Buffer | None] = []
        self._lasts: list[Offset] = []  # last offset of each batch
        self._head = 0  # places before it were dropped
        self._gone = 0  # batches that went before the cache asked for it

    def append(self, last_offset: Offset, batch: memoryview) -> None:
        """Add the batch that follows the newest one."""
        self._lasts.append(last_offset)
        self._batches.append(bytes(batch) if len(batch) <= COPIED_BYTES_MAX else batch)
        self._cache.count(self, len(batch) + BATCH_OVERHEAD_BYTES)

    def read(
        self, offset: Offset, max_bytes: int, *, at_least_one: bool, end: Offset | None = None
    ) -> Found | None:
        """Return batches from the one that holds `offset` on; None if it is not here.

        Shape: whole batches up to `max_bytes`; the first even above it if `at_least_one`; none from
        offset `end` on, where a batch begins.
        """
        lasts, batches = self._lasts, self._batches
        at = bisect_left(lasts, offset, self._head)
        if at == len(lasts) or (at == self._head and not self._begins_by(at, offset)):
            return None
        found: list[Buffer] = []
        size = 0
        stop = len(batches) if end is None else bisect_left(lasts, end, at)
        for place in range(at, stop):
            batch = batches[place]
            assert batch is not None
            if size + len(batch) > max_bytes and (found or not at_least_one):
                return Found(found, size, limited=True)
            size += len(batch)
            found.append(batch)
        return Found(found, size, limited=False)

    def holds(self, offset: Offset) -> bool:
        """Whether reading may begin at `offset`, or will once there is more."""
        return self._head < len(self._lasts) and self._begins_by(self._head, offset)

    def drop_oldest(self) -> int:
        """Drop one batch; return the bytes that this frees."""
        return 0 if self._gone and self.takes_back() else self._drop()

    def takes_back(self) -> bool:
        """Whether the oldest place in the cache is of a batch that went already; it is, then."""
        if not self._gone:
            return False
        self._gone -= 1
        self._cache.left_places -= 1
        return True

    def drop_before(self, offset: Offset) -> None:
        """Drop all batches that end before `offset`: other bytes are there in the log now."""
        lasts, freed, count = self._lasts, 0, 0
        while self._head < len(lasts) and lasts[self._head] < offset:
            freed += self._drop()
            count += 1
        if count:
            self._cache.used -= freed
            self._leave(count)

    def _drop(self) -> int:
        head = self._head
        batch = self._batches[head]
        assert batch is not None
        self._batches[head] = None
        self._head = head + 1
        if self._head > _SLACK and self._head * 2 > len(self._batches):
            del self._batches[: self._head]
            del self._lasts[: self._head]
            self._head = 0
        return len(batch) + BATCH_OVERHEAD_BYTES

    def clear(self) -> None:
        """Drop everything: the partition is closed."""
        freed = sum(len(b) + BATCH_OVERHEAD_BYTES for b in self._batches if b is not None)
        left = len(self._batches) - self._head
        self._batches, self._lasts, self._head = [], [], 0
        self._cache.used -= freed
        self._leave(left)

    def _leave(self, count: int) -> None:
        """Note that the next places of ours are of batches that went."""
        self._gone += count
        self._cache.left_places += count
        self._cache.tidy()

    def _begins_by(self, at: int, offset: Offset) -> bool:
        """Whether the batch at this place begins at or before `offset`."""
        batch = self._batches[at]
        assert batch is not None
        return int.from_bytes(batch[:8], "big") <= offset


class TailCache:
    """The bound that all partitions share."""

    __slots__ = ("_ages", "evicted_total", "left_places", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.evicted_total = 0
        self.left_places = 0
        """Of batches that went before the cache asked for them."""
        self._ages: deque[PartitionTail] = deque()  # one place per batch, in order of arrival

    def __len__(self) -> int:
        """Return how many places there are: one per batch, and no more than as many left ones."""
        return len(self._ages)

    def tidy(self) -> None:
        """Forget places of batches that went, once they are most of all."""
        if self.left_places > _SLACK and self.left_places * 2 > len(self._ages):
            self._ages = deque([tail for tail in self._ages if not tail.takes_back()])

    def partition(self) -> PartitionTail:
        """Return an empty cache for a partition."""
        return PartitionTail(self)

    def count(self, tail: PartitionTail, size: int) -> None:
        """Count a batch that `tail` took; drop the oldest ones of all until the limit holds."""
        self._ages.append(tail)
        self.used += size
        while (self.used > self.limit or len(self._ages) > BATCHES_MAX) and self._ages:
            self.used -= self._ages.popleft().drop_oldest()
            self.evicted_total += 1


def bytes_of(memory_bytes: int) -> int:
    """Return how much a cache may hold in a process that may use so much memory."""
    return min(max(memory_bytes // _SHARE_OF_MEMORY, _BYTES_MIN), _BYTES_MAX)
