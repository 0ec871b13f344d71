"""Where a reader begins, by the list of segments as it opens. Values only.

    truncated ... truncated | partially truncated | kept ... kept | in progress

What was given up lies at the beginning. A reader begins behind it and never hears of it again, even
if it is truncated further. Source: reference DistributedLog 7.3.
"""

from tailrace.core.errors import AlreadyTruncatedTransaction
from tailrace.core.log.segments import SegmentList, min_active
from tailrace.core.metadata.segment_metadata import Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN


def first_readable(segments: SegmentList, start: DLSN, *, ignores_truncation: bool = False) -> DLSN:
    """Return the position at which a reader that asks for `start` begins.

    Shape: `start` itself while nothing is there that is not older; behind the newest segment when
    all was truncated. Errors: AlreadyTruncatedTransaction: something behind kept segments was.
    """
    if ignores_truncation:
        return start
    begin: DLSN | None = None
    for segment in segments:
        if segment.lssn < start.lssn:
            continue
        is_cut = segment.truncation is not Truncation.ACTIVE
        if begin is not None:
            if is_cut:
                raise AlreadyTruncatedTransaction(
                    f"segment {segment.lssn} is {segment.truncation.name}, {begin.lssn} is not"
                )
        elif segment.truncation is not Truncation.TRUNCATED:
            begin = max(start, min_active(segment))
    if begin is not None:
        return begin
    newest = segments.last
    return start if newest is None else max(start, DLSN(newest.lssn + 1, 0, 0))
