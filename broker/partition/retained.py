"""Partitions as `compaction` sees them."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tailrace.broker.cluster.settings import AS_WHOLE, TopicSettings
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.offsets import Totals
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.segments import LOST
from tailrace.broker.partition.stored import StoredPartition
from tailrace.broker.partition.trimming import (
    delete_segments_before,
    release_segments_before,
    segments_for_retention,
)
from tailrace.compaction.retention import Limits, RetainedSegment, has_work, judge
from tailrace.core.errors import CoreError
from tailrace.protocol.ids import Offset, TopicPartition

logger = logging.getLogger(__name__)

QUIET_MS_MAX: Final = 3_600_000
"""After so long a partition that is not open is looked at again, whatever was seen."""
NEVER_MS: Final = 2**63 - 1


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
        return _limits(self._log.settings)

    @property
    def local_limits(self) -> Limits | None:
        """What the topic allows on the bookies; None if it is not in cold storage as well."""
        settings = self._log.settings
        if not settings.remote_storage_enable:
            return None
        return Limits(
            _local(settings.local_retention_ms, settings.retention_ms),
            _local(settings.local_retention_bytes, settings.retention_bytes),
            deletes=True,  # nothing is deleted: what leaves the bookies stays in cold storage
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
                each.newest_ms,
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
        """Copy completed segments to cold storage; of a compacted topic clean ones only.

        The cleaner is about to rewrite what it has not cleaned yet. Errors: CoreError.
        """
        settings, cleaned = self._log.settings, self._log.notes.cleaned
        if settings.remote_log_copy_disable:
            return
        before = None
        if settings.compacted:
            before = 0 if cleaned is None else cleaned.first_dirty_offset
        await self._log.log.upkeep.copy_to_cold(before)

    async def release_segments_before(self, offset: Offset) -> None:
        """Take whole segments before `offset` off the bookies, if copied. Errors: CoreError."""
        await release_segments_before(self._log, offset)

    async def delete_purged(self) -> None:
        """Delete for good what earlier rounds gave up long enough ago. Errors: CoreError."""
        await self._log.log.upkeep.trimmer.collect()

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; return how many."""
        return self._log.expire_producers(now_ms - self._expiration_ms)


def _limits(settings: TopicSettings) -> Limits:
    return Limits(settings.retention_ms, settings.retention_bytes, settings.deletes)


def _local(local: int, whole: int) -> int:
    return whole if local == AS_WHOLE else local


class RetainedPartitions:
    """All partitions of this broker, round after round; opens those that something is due for.

    A partition that is not open is looked at where it lies. One that is found quiet is left alone
    until the time at which its oldest records are too old, at most for `QUIET_MS_MAX`: another
    broker may have had it meanwhile.
    """

    def __init__(
        self,
        partitions: PartitionLogs,
        topics: TopicRegistry,
        config: Callable[[], PartitionConfig],
    ) -> None:
        self._partitions = partitions
        self._topics = topics
        self._config = config
        self._quiet: dict[TopicPartition, _Quiet] = {}

    async def round(self) -> AsyncIterator[RetainedPartition]:
        """Yield every partition that is open, or has to be. Errors: none."""
        config, quiet, self._quiet = self._config(), self._quiet, {}
        for topic in self._topics.all():
            for index in range(topic.partition_count):
                log = await self._wanted(topic, TopicPartition(topic.name, index), quiet)
                if log is not None:
                    yield RetainedPartition(log, config)

    async def _wanted(
        self, topic: Topic, partition: TopicPartition, quiet: Mapping[TopicPartition, "_Quiet"]
    ) -> PartitionLog | None:
        log = self._partitions.get(partition)
        if log is not None or not self._partitions.is_mine(*partition):
            return log
        try:
            if not await self._is_due(topic, partition, quiet.get(partition)):
                return None
            return await self._partitions.open(partition)
        except (KafkaError, CoreError) as error:
            logger.info("retention skips partition=%s error=%s", partition, error)
            return None

    async def _is_due(
        self, topic: Topic, partition: TopicPartition, known: "_Quiet | None"
    ) -> bool:
        """Look whether there is anything to do for a partition that is not open."""
        limits, now_ms = _limits(topic.settings), self._partitions.shared.clock.now_ms()
        if known is None or known.limits != limits or now_ms >= known.until_ms:
            try:
                stored = await self._partitions.stored.look(*partition)
            except LOST:
                return True  # its owner goes on without what cannot be read, and says so
            due_ms = due_at(stored, limits, now_ms, is_tiered=topic.settings.remote_storage_enable)
            if due_ms <= now_ms:
                return True
            known = _Quiet(limits, min(due_ms, now_ms + QUIET_MS_MAX))
        self._quiet[partition] = known
        return False


class _Quiet(NamedTuple):
    limits: Limits
    until_ms: int


def due_at(stored: StoredPartition, limits: Limits, now_ms: int, *, is_tiered: bool) -> int:
    """Return when a partition that nobody writes needs its owner: now, or later. Pure.

    Its owner is asked for at once where a look does not tell enough: a segment that a killed
    process left open, one without an index record or without times, copies to cold storage.
    """
    totals = [segment.totals for segment in stored.segments]
    if stored.has_owner:
        return NEVER_MS
    if stored.is_being_purged or stored.in_progress or None in totals or (is_tiered and totals):
        return now_ms
    segments = [_completed(each) for each in totals if each is not None and each.batches]
    verdict = judge(segments, limits, stored.log_start, now_ms)
    if has_work(segments, verdict, stored.log_start):
        return now_ms
    kept = [each for each in segments if each.next_offset > stored.log_start]
    if not kept or not limits.deletes or limits.retention_ms < 0:
        return NEVER_MS
    newest_ms = kept[0].newest_ms
    return now_ms if newest_ms < 0 else max(newest_ms + limits.retention_ms, now_ms) + 1


def _completed(totals: Totals) -> RetainedSegment:
    return RetainedSegment(
        totals.first_offset,
        totals.next_offset,
        totals.size_bytes,
        totals.max_timestamp,
        in_progress=False,
    )
