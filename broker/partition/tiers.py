"""Offsets at the border of the two tiers: what is on bookies, what is in cold storage.

Kafka's words: "local" is what the bookies have, "tiered" or "remote" what cold storage has. The
segments' metadata says it, because a segment's last transaction id is its last offset; no segment
is read. What is there counts, not `remote.storage.enable`: when that is taken back, cold segments
stay and are read until retention takes them. (Kafka deletes them then, or refuses.)
Source: UnifiedLog.fetchOffsetByTimestamp (KIP-405, KIP-1005, KIP-1023).
"""

from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.timestamps import TimestampedOffset
from tailrace.core.log.trimmer import SegmentTier
from tailrace.protocol.ids import Offset

NOTHING_TIERED: Offset = -1


async def earliest_local(log: PartitionLog) -> TimestampedOffset:
    """Return the first offset that the bookies have. Errors: CoreError."""
    return _at(log, _local_start(log, await _tiers(log)))


async def latest_tiered(log: PartitionLog) -> TimestampedOffset | None:
    """Return the last offset in cold storage; None if there is none. Errors: CoreError."""
    offset = _highest_tiered(await _tiers(log))
    return None if offset == NOTHING_TIERED else _at(log, offset)


async def earliest_pending_upload(log: PartitionLog) -> TimestampedOffset | None:
    """Return the first offset that is not in cold storage, but will be; None if none ever will.

    Errors: CoreError.
    """
    if not log.settings.remote_storage_enable:
        return None
    highest = _highest_tiered(await _tiers(log))
    return _at(log, max(highest + 1, log.log_start_offset))


async def _tiers(log: PartitionLog) -> list[SegmentTier]:
    """Return where each segment is; [] for a topic that has no tiers and never had."""
    trimmer = log.log.upkeep.trimmer
    if log.settings.remote_storage_enable or await trimmer.has_cold():
        return await trimmer.tiers()
    return []


def _local_start(log: PartitionLog, tiers: list[SegmentTier]) -> Offset:
    start = log.log_start_offset
    for tier in tiers:
        if tier.on_bookies:
            break
        start = max(start, tier.metadata.last_txid + 1)
    return start


def _highest_tiered(tiers: list[SegmentTier]) -> Offset:
    return max((each.metadata.last_txid for each in tiers if each.in_cold), default=NOTHING_TIERED)


def _at(log: PartitionLog, offset: Offset) -> TimestampedOffset:
    return TimestampedOffset(offset, -1, log.epochs.epoch_of(offset))
