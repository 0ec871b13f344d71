"""What of a log can be cleaned, and whether it is due: Kafka's rules over plain values. Pure.

Source: LogCleanerManager.cleanableOffsets, grabFilthiestCompactedLog (reference Kafka 9.3).
"""

from collections.abc import Sequence
from typing import NamedTuple

from tailrace.compaction.cleaner.cleanable import CleanableSegment, CleanSettings
from tailrace.protocol.ids import Offset


class Look(NamedTuple):
    """A log as the cleaner found it."""

    name: str
    first_dirty: Offset
    """Where the head begins: what lies before it was cleaned."""
    first_uncleanable: Offset
    """Where it may not be cleaned yet: open transactions, the active segment, too young."""
    clean_bytes: int
    cleanable_bytes: int
    """Of segments of the head that may be cleaned."""
    total_bytes: int
    ratio: float
    """Head to whole, without what may not be cleaned; 0 where there is nothing."""
    delay_ms: int
    """How long its oldest head is older than max.compaction.lag.ms; 0: it is not."""
    is_due: bool
    is_reset: bool
    """Whether the noted end of what is clean lies outside the log."""


def judge(
    name: str,
    segments: Sequence[CleanableSegment],
    settings: CleanSettings,
    offsets: tuple[Offset, Offset, Offset],
    now_ms: int,
) -> Look:
    """Say what can be cleaned.

    `segments`: all, the active one last; `offsets`: log start, noted end of what is clean, last
    stable offset.
    """
    start, noted, stable = offsets
    end = segments[-1].next_offset if segments else start
    is_reset = not start <= noted <= end
    first_dirty = start if is_reset else noted
    dirty = [each for each in segments if each.next_offset > first_dirty and not each.in_progress]
    bound = _first_uncleanable(segments, dirty, settings, stable, now_ms)
    first_uncleanable = max(bound, first_dirty)
    clean = sum(e.size_bytes for e in segments if e.next_offset <= first_dirty)
    cleanable = sum(e.size_bytes for e in dirty if e.next_offset <= first_uncleanable)
    ratio = cleanable / (clean + cleanable) if cleanable else 0.0
    oldest = min((_first_time(e) for e in dirty if _first_time(e) >= 0), default=None)
    delay = 0
    if oldest is not None:
        delay = max(now_ms - settings.max_compaction_lag_ms - oldest, 0)
    is_due = cleanable > 0 and (delay > 0 or ratio > settings.min_cleanable_dirty_ratio)
    return Look(
        name,
        first_dirty,
        first_uncleanable,
        clean,
        cleanable,
        sum(each.size_bytes for each in segments),
        ratio,
        delay,
        is_due,
        is_reset,
    )


def _first_uncleanable(
    segments: Sequence[CleanableSegment],
    dirty: Sequence[CleanableSegment],
    settings: CleanSettings,
    stable: Offset,
    now_ms: int,
) -> Offset:
    bounds = [stable, *(each.base_offset for each in segments if each.in_progress)]
    if settings.min_compaction_lag_ms > 0:
        young_ms = now_ms - settings.min_compaction_lag_ms
        bounds += [each.base_offset for each in dirty if each.max_timestamp > young_ms][:1]
    return min(bounds)


def _first_time(segment: CleanableSegment) -> int:
    known = segment.first_timestamp
    return known if known >= 0 else segment.max_timestamp
