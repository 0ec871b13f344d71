"""Giving up the oldest part of a log: which segments change, which go.

Truncating marks, purging deletes. Segments in progress are never touched; the last completed one is
never purged, because the next segment counts on from it.
Source: reference DistributedLog 8.
"""

from dataclasses import replace
from itertools import takewhile

from core.log.segments import SegmentList, last_dlsn, min_active
from core.metadata.segment_metadata import SegmentMetadata, Truncation
from protocol.distributedlog.dlsn import DLSN


def plan_truncation(segments: SegmentList, before: DLSN) -> list[SegmentMetadata]:
    """Return the new metadata of the completed segments that hold records before `before`."""
    changed: list[SegmentMetadata] = []
    for segment in takewhile(lambda s: not s.in_progress, segments):
        if last_dlsn(segment) < before:
            if segment.truncation is not Truncation.TRUNCATED:
                changed.append(replace(segment, truncation=Truncation.TRUNCATED))
            continue
        is_active = segment.truncation is not Truncation.TRUNCATED
        if is_active and min_active(segment) < before:
            changed.append(_cut(segment, before))
        break
    return changed


def plan_purge(segments: SegmentList, before_lssn: int) -> list[SegmentMetadata]:
    """Return the segments to delete, oldest first: those below `before_lssn` that may go."""
    completed = list(takewhile(lambda s: not s.in_progress, segments))
    return [segment for segment in completed[:-1] if segment.lssn < before_lssn]


def _cut(segment: SegmentMetadata, before: DLSN) -> SegmentMetadata:
    return replace(
        segment,
        truncation=Truncation.PARTIALLY_TRUNCATED,
        min_active_entry_id=before.entry_id,
        min_active_slot=before.slot,
    )
