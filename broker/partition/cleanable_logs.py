"""The compacted partitions of this broker, round after round, for the cleaner."""

import logging
from collections.abc import AsyncIterator

from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.core.errors import CoreError
from tailrace.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

QUIET_MS = 3_600_000
"""A partition that is not open and has nothing to clean is looked at again after so long."""


class CleanablePartitions:
    """Partitions of compacted topics that are open, or have something new and no owner."""

    def __init__(self, partitions: PartitionLogs, topics: TopicRegistry) -> None:
        self._partitions = partitions
        self._topics = topics
        self._quiet_until_ms: dict[TopicPartition, int] = {}

    async def round(self) -> AsyncIterator[CleanablePartition]:
        """Yield every partition that may have something to clean. Errors: none."""
        for topic in self._topics.all():
            if topic.settings.compacted:
                for index in range(topic.partition_count):
                    log = await self._wanted(topic, TopicPartition(topic.name, index))
                    if log is not None and log.failure is None:
                        yield CleanablePartition(log)

    async def _wanted(self, topic: Topic, partition: TopicPartition) -> PartitionLog | None:
        log = self._partitions.get(partition)
        if log is not None:
            self._quiet_until_ms.pop(partition, None)
            return log
        if not self._partitions.is_mine(*partition):
            return None
        now_ms = self._partitions.shared.clock.now_ms()
        if now_ms < self._quiet_until_ms.get(partition, 0):
            return None
        try:
            stored = await self._partitions.stored.look(topic.name, partition.partition)
            ends = [each.totals.next_offset for each in stored.segments if each.totals is not None]
            is_new = len(ends) < len(stored.segments) or max(ends, default=0) > stored.clean_end
            if is_new and not stored.has_owner:
                return await self._partitions.open(partition)
        except (KafkaError, CoreError) as error:
            logger.info("cleaner skips partition=%s error=%s", partition, error)
        self._quiet_until_ms[partition] = now_ms + QUIET_MS
        return None
