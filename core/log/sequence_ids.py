"""The sequence id of a record: how many user records the log had before it. Values only.

Dense over the whole life of a log, from 0. Only readers know it: from the metadata of the segment
and the record's position in it. Source: reference DistributedLog 1.3, 4.5.
"""

from typing import Final

from tailrace.core.log.entries import LogRecordWithDLSN
from tailrace.core.log.segments import SegmentList

_UNKNOWN: Final = -(2**63)


def sequence_start(segments: SegmentList, lssn: int) -> int:
    """Return the sequence id of a segment's first record.

    Negative where nobody counted, in segments of version 4 and older and in one that is written
    behind them, or while the segment before is not completed: it rises with the segments then, and
    is not dense.
    """
    segment, previous = segments.find(lssn), segments.find(lssn - 1)
    if segment is not None and segment.start_sequence_id >= 0:
        return segment.start_sequence_id
    if segment is not None and segment.in_progress:
        if previous is None:
            return 0
        if not previous.in_progress and previous.start_sequence_id >= 0:
            return previous.start_sequence_id + previous.record_count
    return _UNKNOWN + (lssn << 32)


def sequence_id(segments: SegmentList, found: LogRecordWithDLSN) -> int:
    """Return the sequence id of a record that a reader gave out."""
    return sequence_start(segments, found.dlsn.lssn) + found.record.position - 1
