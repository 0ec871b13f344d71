"""What keeps requests from claiming a stream again and again. Pure.

A claim takes reads and writes of the metadata store, and one that succeeds a recovery. So the
answer of one that found another owner is kept for a while, or until that one is gone, as is that of
a stream on probation; and two claims of one stream have a pause between them, however often its
session flaps. One that found another owner has recovered nothing: it counts for no pause.
Source: reference DistributedLog 9.2; StreamImpl.nextAcquireWaitTimeMs, handleServiceTimeout.
"""

from typing import Final, NamedTuple

from tailrace.proxy.owner.operations import Answer

REFUSALS_MAX: Final = 100_000
"""Answers that are kept; beyond it the oldest goes, and its stream may be claimed earlier."""


class _Kept(NamedTuple):
    answer: Answer
    until_s: float
    owner: str


class Refusals:
    """Answers that are given without a claim, for a time. Unit: seconds of a monotonic clock."""

    __slots__ = ("_kept", "_limit")

    def __init__(self, limit: int = REFUSALS_MAX) -> None:
        self._kept: dict[str, _Kept] = {}
        self._limit = limit

    def __len__(self) -> int:
        """Return how many are kept, with some that are over."""
        return len(self._kept)

    def add(
        self, stream: str, answer: Answer, now_s: float, length_s: float, owner: str = ""
    ) -> None:
        """Answer so for `length_s` from now on; an answer that was kept longer stays.

        `owner`: the location of the proxy that has the stream.
        Cost: constant, on average: those that are over go from the oldest on.
        """
        last = self._kept.pop(stream, None)
        kept = _Kept(answer, now_s + length_s, owner)
        if last is not None and last.until_s > kept.until_s:
            kept = last
        self._kept[stream] = kept
        while len(self._kept) > self._limit or self._is_oldest_over(now_s):
            del self._kept[next(iter(self._kept))]

    def find(self, stream: str, now_s: float) -> Answer | None:
        """Return what to answer; None: the stream may be claimed. The end is exclusive."""
        kept = self._kept.get(stream)
        if kept is None:
            return None
        if now_s >= kept.until_s:
            del self._kept[stream]
            return None
        return kept.answer

    def forget_owner(self, owner: str) -> None:
        """Give none of the answers any more that are kept for this owner. Cost: a look at all."""
        for stream in [stream for stream, kept in self._kept.items() if kept.owner == owner]:
            del self._kept[stream]

    def _is_oldest_over(self, now_s: float) -> bool:
        oldest = next(iter(self._kept), None)
        return oldest is not None and now_s >= self._kept[oldest].until_s


class ClaimPace:
    """When each stream may be claimed again. Bounds: those that were claimed within one pause."""

    __slots__ = ("_last_s", "_pause_s")

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self._last_s: dict[str, float] = {}

    def begin(self, stream: str, now_s: float) -> float:
        """Take note of a claim; return how long it has to wait first. Unit: seconds.

        Several claims at once come one pause after the other.
        """
        last_s = self._last_s.pop(stream, None)
        begins_s = now_s if last_s is None else max(now_s, last_s + self._pause_s)
        self._last_s[stream] = begins_s
        while self._last_s:
            oldest = next(iter(self._last_s))
            if self._last_s[oldest] + self._pause_s > now_s:
                break
            del self._last_s[oldest]
        return begins_s - now_s

    def refused(self, stream: str) -> None:
        """Take note that the last claim found another owner: the next one has not to wait."""
        self._last_s.pop(stream, None)
