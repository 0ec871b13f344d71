"""Partitions as `compaction` sees them."""

import logging
from collections.abc import AsyncIterator, Sequence

from broker.cluster.settings import AS_WHOLE
from broker.cluster.topics import TopicRegistry
from broker.errors import KafkaError
from broker.partition.config import PartitionConfig
from broker.partition.partition_log import PartitionLog
from broker.partition.partition_logs import PartitionLogs
from broker.partition.trimming import (
    delete_segments_before,
    release_segments_before,
    segments_for_retention,
)
from compaction.retention import Limits, RetainedSegment
from protocol.ids import Offset, TopicPartition

logger = logging.getLogger(__name__)


class RetainedPartition:
    """One partition, for one round of retention."""

    __slots__ = ("_expiration_ms", "_log")

    def __init__(self, log: PartitionLog, config: PartitionConfig) -> None:
        self._log = log
        self._expiration_ms = config.producer_id_expiration_ms

    @property
    def name(self) -> str:
        """Topic and partition."""
        return str(self._log.partition)

    @property
    def limits(self) -> Limits:
        """What the topic's configs say now."""
        settings = self._log.settings
        return Limits(settings.retention_ms, settings.retention_bytes, settings.deletes)

    @property
    def local_limits(self) -> Limits | None:
        """What the topic allows on the bookies; None if it is not in cold storage as well."""
        settings = self._log.settings
        if not settings.remote_storage_enable:
            return None
        return Limits(
            _local(settings.local_retention_ms, settings.retention_ms),
            _local(settings.local_retention_bytes, settings.retention_bytes),
            settings.deletes,
        )

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is kept."""
        return self._log.log_start_offset

    async def segments_for_retention(self) -> Sequence[RetainedSegment]:
        """Return the segments with records, oldest first. Errors: CoreError."""
        return [
            RetainedSegment(
                each.first_offset,
                each.next_offset,
                each.size_bytes,
                each.max_timestamp,
                each.in_progress,
            )
            for each in await segments_for_retention(self._log)
        ]

    async def roll(self) -> None:
        """End the segment in progress. Errors: CoreError."""
        await self._log.roll()

    async def delete_segments_before(self, offset: Offset) -> None:
        """Begin the log at `offset` and delete whole segments before it. Errors: CoreError."""
        await delete_segments_before(self._log, offset)

    async def copy_to_cold(self) -> None:
        """Copy completed segments to cold storage. Errors: CoreError."""
        if not self._log.settings.remote_log_copy_disable:
            await self._log.log.upkeep.copy_to_cold()

    async def release_segments_before(self, offset: Offset) -> None:
        """Take whole segments before `offset` off the bookies, if copied. Errors: CoreError."""
        await release_segments_before(self._log, offset)

    async def delete_purged(self) -> None:
        """Delete for good what earlier rounds gave up long enough ago. Errors: CoreError."""
        await self._log.log.upkeep.trimmer.collect()

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; return how many."""
        return self._log.expire_producers(now_ms - self._expiration_ms)


def _local(local: int, whole: int) -> int:
    return whole if local == AS_WHOLE else local


async def retained(
    partitions: PartitionLogs, topics: TopicRegistry, config: PartitionConfig
) -> AsyncIterator[RetainedPartition]:
    """Yield every partition, opened if need be: nobody may have asked for it since the start."""
    for topic in topics.all():
        for index in range(topic.partition_count):
            try:
                log = await partitions.open(TopicPartition(topic.name, index))
            except KafkaError as error:
                logger.info("retention skips partition=%s-%d error=%s", topic.name, index, error)
                continue
            yield RetainedPartition(log, config)
