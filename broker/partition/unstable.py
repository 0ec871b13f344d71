"""What holds the last stable offset back: open transactions, and markers not yet confirmed. Pure.

A transaction is unstable from its first batch until its marker is confirmed. First offsets rise in
the order in which transactions begin, so the oldest is the first that is kept. With each goes its
position, the bytes appended before it, so that readers can be told how many bytes became stable.
Source: reference Kafka 4.5; ProducerStateManager.firstUnstableOffset.
"""

from bisect import bisect_right
from collections.abc import Iterable

from tailrace.protocol.ids import Offset


class UnstableOffsets:
    """The unstable transactions of one partition."""

    __slots__ = ("_confirmed", "_ended", "_positions", "_stable", "appended")

    def __init__(self, open_since: Iterable[Offset] = ()) -> None:
        """`open_since`: first offsets of open transactions, rising."""
        self._positions = dict.fromkeys(open_since, 0)  # by first offset, rising
        self._ended: list[tuple[Offset, Offset]] = []  # (marker, first offset), rising; few
        self._confirmed = self._stable = 0
        self.appended = 0
        """Bytes of all batches that were appended; their owner counts them."""

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def first(self) -> Offset | None:
        """First offset that is not stable; None if all are."""
        return next(iter(self._positions), None)

    def begin(self, first_offset: Offset, size: int) -> None:
        """Note a transaction that begins with the batch of `size` bytes that was counted last."""
        self._positions[first_offset] = self.appended - size

    def end(self, first_offset: Offset, marker_offset: Offset) -> None:
        """Note the marker of a transaction, which is appended but not confirmed."""
        self._ended.append((marker_offset, first_offset))

    def confirm(self, last_offset: Offset, size: int) -> int:
        """Count `size` more bytes confirmed, up to `last_offset`; return how many became stable."""
        if self._ended:
            count = bisect_right(self._ended, last_offset, key=_marker)
            for _, first_offset in self._ended[:count]:
                del self._positions[first_offset]
            del self._ended[:count]
        self._confirmed += size
        stable = self._confirmed
        if self._positions:
            stable = min(stable, next(iter(self._positions.values())))
        before, self._stable = self._stable, stable
        return stable - before


def _marker(ended: tuple[Offset, Offset]) -> Offset:
    return ended[0]
