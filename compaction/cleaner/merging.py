"""Putting the oldest segments of a log together, as Kafka's cleaner groups small ones.

Only the oldest: DistributedLog's readers end at a hole in the segments' numbers, so what goes is a
prefix, into the last segment of it. A pass leaves what it shrank as it is; this follows a pass, on
segments that are all clean, and copies their batches as they are. What it copies is bounded by what
it saves, so that a large old segment is not written again for each small one behind it.
"""

import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

from tailrace.compaction.cleaner.cleanable import CleanableLog, CleanableSegment
from tailrace.compaction.cleaner.errors import CleanAborted
from tailrace.compaction.cleaner.means import PassMeans
from tailrace.core.errors import CannotRewrite, CorruptData
from tailrace.protocol.ids import Offset

logger = logging.getLogger(__name__)

SEGMENTS_MAX: Final = 100
"""Merged at once: their nodes change in one transaction of the metadata."""
COPIED_PER_SEGMENT: Final = 16 * 1024 * 1024
"""Bytes that may be copied for each segment that ends by it."""


def mergeable(
    segments: Sequence[CleanableSegment], segment_bytes: int, clean_end: Offset
) -> list[CleanableSegment]:
    """Return the oldest segments that are worth being put together; [] if there are none. Pure.

    Shape: `segments` oldest first; what lies before `clean_end` is clean. `segment_bytes`: what
    they may have together, as in Kafka; 0: nothing is merged.
    """
    taken: list[CleanableSegment] = []
    best = size = 0
    for segment in segments[:SEGMENTS_MAX]:
        size += segment.size_bytes
        if segment.in_progress or segment.next_offset > clean_end or size > segment_bytes:
            break
        taken.append(segment)
        if size <= COPIED_PER_SEGMENT * (len(taken) - 1):
            best = len(taken)
    return taken[:best]


async def merge_oldest(log: CleanableLog, means: PassMeans, clean_end: Offset) -> int:
    """Merge the oldest segments if that is worth it; return how many ended by it.

    Errors: CleanAborted; CorruptData: a segment does not give what its index counts; CoreError.
    Cancel: as a crash, the new ledger is deleted. Cost: their batches are read and written once.
    """
    group = mergeable(await log.segments(), log.settings.segment_bytes, clean_end)
    if len(group) < 2:
        return 0
    lssns = [each.lssn for each in group]
    try:
        rewrite = await log.merge(lssns)
    except CannotRewrite as error:  # it is truncated in the middle, or begins in cold storage
        logger.info("segments not merged log=%s %s", log.name, error)
        return 0
    try:
        for segment in group:
            size = 0
            async with aclosing(log.read(segment.lssn, means.block_bytes)) as parts:
                async for part in parts:
                    means.check()
                    if not log.may_clean:
                        raise CleanAborted(f"{log.name}: its owner, its policy or the topic went")
                    read = sum(map(len, part.batches))
                    await means.throttle(2 * read)
                    await rewrite.append(segment.lssn, part.batches)
                    size += read
            if size != segment.size_bytes:
                raise CorruptData(
                    f"{log.name}: segment {segment.lssn} gave {size} bytes of batches where its "
                    f"index counts {segment.size_bytes}; it is not merged until the two agree"
                )
        await rewrite.finish_all()
        await rewrite.commit()
    finally:
        await rewrite.abort()
    logger.info("segments merged log=%s lssns=%d..%d", log.name, lssns[0], lssns[-1])
    return len(group) - 1
