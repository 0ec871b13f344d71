"""Giving up the oldest part of a log: which segments change, which go.

Truncating marks, purging deletes. In a segment in progress its writer alone marks, up to what is
confirmed; the last completed one is never purged, because the next segment counts on from it. Who
goes is always a prefix of the list.
Source: reference DistributedLog 8.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from tailrace.core.log.segments import SegmentList, last_dlsn, min_active
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId, TxId

_PARTIAL_SINCE: Final = 3
"""The first version of segment metadata that can name a position inside."""


class Expiry(NamedTuple):
    """When segments expire."""

    age_ms: int
    """Time since completion; 0: they never expire."""
    only_truncated: bool = False
    """Whether only what the application truncated expires (explicitTruncationByApp)."""


def plan_truncation(segments: SegmentList, before: DLSN) -> list[SegmentMetadata]:
    """Return the new metadata of the completed segments that hold records before `before`."""
    changed: list[SegmentMetadata] = []
    for segment in takewhile(lambda s: not s.in_progress, segments):
        if last_dlsn(segment) < before:
            if segment.truncation is not Truncation.TRUNCATED:
                changed.append(replace(segment, truncation=Truncation.TRUNCATED))
            continue
        is_active = segment.truncation is not Truncation.TRUNCATED
        can_say = segment.version >= _PARTIAL_SINCE
        if is_active and can_say and min_active(segment) < before:
            changed.append(_cut(segment, before))
        break
    return changed


def plan_open_truncation(
    segment: SegmentMetadata, before: DLSN, confirmed: EntryId
) -> SegmentMetadata | None:
    """Return the new metadata of a segment in progress; None: nothing of it is given up.

    `confirmed`: its last confirmed entry; what comes behind is not known yet, and kept.
    """
    before = min(before, DLSN(segment.lssn, confirmed + 1, 0))
    if segment.version < _PARTIAL_SINCE or before <= min_active(segment):
        return None
    return _cut(segment, before)


def plan_purge(segments: SegmentList, before_lssn: int) -> list[SegmentMetadata]:
    """Return the segments to delete, oldest first: those below `before_lssn` that may go."""
    return _leading(segments, lambda segment: segment.lssn < before_lssn)


def plan_purge_older_than(segments: SegmentList, txid: TxId) -> list[SegmentMetadata]:
    """Return the segments to delete that hold only records below `txid` (purgeLogsOlderThan)."""
    return _leading(segments, lambda segment: segment.last_txid < txid)


def plan_expired(segments: SegmentList, expiry: Expiry, now_ms: int) -> list[SegmentMetadata]:
    """Return the segments to delete because they were completed too long ago (logsegment TTL)."""

    def has_expired(segment: SegmentMetadata) -> bool:
        is_free = segment.truncation is Truncation.TRUNCATED or not expiry.only_truncated
        return is_free and segment.completion_time_ms < now_ms - expiry.age_ms

    return _leading(segments, has_expired) if expiry.age_ms else []


def _leading(
    segments: SegmentList, goes: Callable[[SegmentMetadata], bool]
) -> list[SegmentMetadata]:
    """Return the oldest segments as long as they go; never the last completed one."""
    completed = list(takewhile(lambda s: not s.in_progress, segments))
    return list(takewhile(goes, completed[:-1]))


def _cut(segment: SegmentMetadata, before: DLSN) -> SegmentMetadata:
    return replace(
        segment,
        truncation=Truncation.PARTIALLY_TRUNCATED,
        min_active_entry_id=before.entry_id,
        min_active_slot=before.slot,
    )
