"""Giving up the oldest part of a partition: DeleteRecords and retention.

Invariant: the log start offset is on disk before anybody is told, and never falls. Records go in
two steps: the offset hides them at once, whole segments are deleted after it; a crash between the
two leaves segments that the next call deletes. The last completed segment always stays, and with
it the place where offsets go on.
Source: reference Kafka 5.8, 5.9; reference DistributedLog 8.
"""

import logging
from itertools import pairwise
from typing import NamedTuple

from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.offsets import NO_TIMESTAMP, Totals
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.errors import BadVersion, Unavailable
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Offset

logger = logging.getLogger(__name__)

UP_TO_HIGH_WATERMARK = -1


class SegmentFacts(NamedTuple):
    """One segment, as retention judges it."""

    lssn: int
    first_offset: Offset
    next_offset: Offset
    size_bytes: int
    newest_ms: int
    """Largest timestamp; where no record has one, when the segment ended, -1 until then."""
    in_progress: bool


async def delete_records(log: PartitionLog, offset: Offset) -> Offset:
    """Give up every record before `offset` (-1: the high watermark); return the new log start.

    Errors: KafkaError OFFSET_OUT_OF_RANGE, POLICY_VIOLATION; CoreError, then try again.
    """
    if log.settings.compacted and not log.settings.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy has no 'delete'")
    if offset == UP_TO_HIGH_WATERMARK:
        offset = log.high_watermark
    if not 0 <= offset <= log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"high watermark {log.high_watermark}")
    await delete_segments_before(log, offset)
    return log.log_start_offset


async def delete_segments_before(log: PartitionLog, offset: Offset) -> None:
    """Raise the log start to `offset` and delete the segments that lie before it.

    Errors: CoreError; the offset may have been raised, the segments go the next time.
    """
    await raise_log_start(log, offset)
    first_kept = await _first_segment_behind(log, log.log_start_offset)
    _check_owned(log)
    purged = await log.log.purge_segments(first_kept)
    if purged:
        log.segments.forget_missing()
        logger.info(
            "segments deleted partition=%s segments=%d start=%d",
            log.partition, len(purged), log.log_start_offset,
        )  # fmt: skip


async def release_segments_before(log: PartitionLog, offset: Offset) -> None:
    """Leave the segments that lie before `offset` to cold storage, as far as they are there.

    They stay readable. Errors: CoreError.
    """
    first_kept = await _first_segment_behind(log, offset)
    _check_owned(log)
    released = await log.log.upkeep.trimmer.release(first_kept)
    if released:
        logger.info("segments released partition=%s segments=%d", log.partition, len(released))


async def _first_segment_behind(log: PartitionLog, offset: Offset) -> int:
    """Return the LSSN of the first segment that reaches beyond `offset`; the last if none does."""
    async for lssn, totals in log.segments.totals_to_trim():
        if totals.next_offset > offset:
            return lssn
    segments = list(log.log.segments)
    return segments[-1].lssn if segments else 0


async def raise_log_start(log: PartitionLog, offset: Offset) -> None:
    """Move the log start to `offset`, on disk first. Errors: CoreError."""
    _check_owned(log)
    offset = log.claim_start(offset)
    if offset > log.log_start_offset:
        await _note_start(log, offset)
        log.move_start(offset)
        await log.log.truncate_before(log.log_start_offset, lambda: _check_owned(log))


async def _note_start(log: PartitionLog, offset: Offset) -> None:
    """Put the start on disk. Errors: BadVersion when it is not what we knew: try again."""
    try:
        await log.note(log_start_offset=offset)
    except BadVersion:
        log.claim_start(log.notes.log_start_offset)  # the next attempt is not below what is there
        raise


def _check_owned(log: PartitionLog) -> None:
    """Refuse to trim for an owner that gave the partition up. Errors: Unavailable.

    Its stream may have another owner by now, or its name another topic: their start and segments.
    """
    if log.failure is not None:
        raise Unavailable(f"partition {log.partition} was given up")


async def segments_for_retention(log: PartitionLog) -> list[SegmentFacts]:
    """Return the segments that hold batches, oldest first. Errors: CoreError."""
    metadata = {segment.lssn: segment for segment in log.log.segments}
    facts = [
        _facts(lssn, totals, metadata.get(lssn))
        async for lssn, totals in log.segments.totals_to_trim()
    ]
    for older, newer in reversed(list(pairwise(range(len(facts))))):
        if not facts[older].size_bytes:
            # Nobody knows its timestamps, and it may be readable again: it goes with the next one.
            newest_ms = max(facts[older].newest_ms, facts[newer].newest_ms)
            facts[older] = facts[older]._replace(newest_ms=newest_ms)
    return facts


def _facts(lssn: int, totals: Totals, metadata: SegmentMetadata | None) -> SegmentFacts:
    in_progress = metadata is not None and metadata.in_progress
    newest_ms = totals.max_timestamp
    if newest_ms == NO_TIMESTAMP and metadata is not None and not in_progress:
        newest_ms = metadata.completion_time_ms
    return SegmentFacts(
        lssn, totals.first_offset, totals.next_offset, totals.size_bytes, newest_ms, in_progress
    )
