"""Partitions as `compaction` sees them."""

import logging
from collections.abc import AsyncIterator, Sequence

from broker.cluster.topics import TopicRegistry
from broker.errors import KafkaError
from broker.partition.config import PartitionConfig
from broker.partition.partition_log import PartitionLog
from broker.partition.partition_logs import PartitionLogs
from broker.partition.trimming import delete_segments_before, segments_for_retention
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

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; return how many."""
        return self._log.expire_producers(now_ms - self._expiration_ms)


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
