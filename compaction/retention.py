"""Which records of a log may go: by age, by size, by what was deleted already. Pure.

Whole segments from the oldest on. The newest segment goes by age only, and then its owner first
ends it. Source: reference Kafka 5.9; UnifiedLog.deleteOldSegments.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tailrace.protocol.ids import Offset

UNLIMITED = -1


class RetainedSegment(NamedTuple):
    """One segment with records, as retention judges it."""

    first_offset: Offset
    next_offset: Offset
    size_bytes: int
    newest_ms: int
    """Largest timestamp of its records, or when it ended if none has one.

    -1 for one in progress that has none: age does not remove it yet.
    """
    in_progress: bool


class Limits(NamedTuple):
    """What a topic allows; -1 is no limit."""

    retention_ms: int
    retention_bytes: int
    deletes: bool
    """Whether `cleanup.policy` has "delete"; without it only what lies before the start goes."""


class Verdict(NamedTuple):
    """What is to be done about a log."""

    log_start: Offset
    """Where the log is to begin; what it begins with today if nothing has to go."""
    roll_first: bool
    """Whether the segment in progress has to end, because it goes as well."""


def judge(
    segments: Sequence[RetainedSegment], limits: Limits, log_start: Offset, now_ms: int
) -> Verdict:
    """Say where a log is to begin. Shape: `segments` oldest first, consecutive."""
    kept = [each for each in segments if each.next_offset > log_start]
    gone = 0
    if limits.deletes:
        gone = _by_size(kept, limits)
        gone += _by_age(kept[gone:], limits, now_ms)
    if not gone:
        return Verdict(log_start, roll_first=False)
    last = kept[gone - 1]
    return Verdict(last.next_offset, roll_first=last.in_progress)


def has_work(segments: Sequence[RetainedSegment], verdict: Verdict, log_start: Offset) -> bool:
    """Tell whether a verdict changes anything: the start, or segments that lie before it.

    The newest segment stays in any case, so it lying before the start is no work.
    """
    begins_late = any(each.next_offset <= verdict.log_start for each in segments[:-1])
    return verdict.log_start > log_start or begins_late


def _by_size(kept: Sequence[RetainedSegment], limits: Limits) -> int:
    """Return how many of the oldest go so that what is left is still at least the limit."""
    if limits.retention_bytes == UNLIMITED:
        return 0
    excess = sum(each.size_bytes for each in kept) - limits.retention_bytes
    gone = 0
    for segment in kept[:-1]:
        if segment.size_bytes > excess:
            break
        excess -= segment.size_bytes
        gone += 1
    return gone


def _by_age(kept: Sequence[RetainedSegment], limits: Limits, now_ms: int) -> int:
    """Return how many of the oldest hold nothing that is young enough."""
    if limits.retention_ms == UNLIMITED:
        return 0
    gone = 0
    for segment in kept:
        if segment.newest_ms < 0 or now_ms - segment.newest_ms <= limits.retention_ms:
            break
        gone += 1
    return gone
