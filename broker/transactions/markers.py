"""Writes the outcome of transactions to their partitions, until it is everywhere.

Bounds: so many markers are in flight at once, the rest waits in order of arrival; what fails is
written again after a pause that doubles, for as long as it takes. A partition that is gone counts
as written. Markers do no harm twice, so a coordinator that loads again simply asks again.
Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from broker.coordinator.partitioning import OFFSETS_TOPIC
from broker.partition.partition_log import PartitionLog
from broker.replicated.record_log import Appended
from broker.transactions.metrics import TransactionMetrics
from broker.transactions.values import Markers
from core.runtime.tasks import Tasks
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX = 1_000
"""Markers on their way to logs at once."""

RETRY_S_MIN = 0.1
RETRY_S_MAX = 5.0
"""Pause before what failed is written again; it doubles from the one to the other."""


class Logs(Protocol):
    """Where partitions are opened; `broker.partition.PartitionLogs` is one."""

    def visit(
        self, topic: str, partition: int, visitor: Callable[[PartitionLog | ErrorCode], None]
    ) -> None:
        """Call `visitor` with the open partition, or with why it cannot be opened."""


class OffsetGroups(Protocol):
    """Where groups keep offsets of transactions; `broker.coordinator.GroupCoordinator` is one."""

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,  # noqa: FBT001 - as agreed with those who call it
        transaction_version: int = 0,
    ) -> "asyncio.Future[ErrorCode]":
        """End a transaction in one partition of `__consumer_offsets`."""


OnWritten: TypeAlias = Callable[[Markers], None]

OnFenced: TypeAlias = Callable[[Markers], bool]
"""Says whether the markers are still this broker's to write."""


@dataclass(slots=True)
class _Job:
    """One transaction's markers."""

    markers: Markers
    coordinator_epoch: int
    missing: set[TopicPartition]
    in_flight: int = 0
    """Markers that were asked for and are neither written nor failed."""
    is_fenced: bool = False
    """A partition knew a newer coordinator when they were written last."""
    pause_s: float = RETRY_S_MIN


class MarkerWriter:
    """The markers of one broker's transactions. All calls come from the loop."""

    def __init__(
        self,
        logs: Logs,
        groups: OffsetGroups,
        on_written: OnWritten,
        on_fenced: OnFenced,
        metrics: TransactionMetrics,
    ) -> None:
        """`on_written`: all are there. `on_fenced`: another coordinator seems to have the id."""
        self._logs = logs
        self._groups = groups
        self._on_written = on_written
        self._on_fenced = on_fenced
        self._metrics = metrics
        self._tasks = Tasks("markers")
        self._jobs: dict[str, _Job] = {}
        self._queue: deque[tuple[_Job, TopicPartition]] = deque()
        self._in_flight = 0
        self._is_sending = False

    def write(self, markers: Markers, coordinator_epoch: int) -> None:
        """Write markers; those of the same id that are still on their way are forgotten."""
        self._drop(markers.transactional_id)
        job = _Job(markers, coordinator_epoch, set(markers.partitions))
        self._jobs[markers.transactional_id] = job
        self._metrics.markers_waiting += len(job.missing)
        self._start(job)

    async def close(self) -> None:
        """Write no more. Idempotent."""
        for transactional_id in list(self._jobs):
            self._drop(transactional_id)
        await self._tasks.close()

    def _drop(self, transactional_id: str) -> None:
        job = self._jobs.pop(transactional_id, None)
        if job is not None:
            self._metrics.markers_waiting -= len(job.missing)

    def _start(self, job: _Job) -> None:
        if not job.missing:
            self._finish(job)
            return
        job.in_flight, job.is_fenced = len(job.missing), False
        self._queue.extend((job, each) for each in sorted(job.missing))
        self._pump()

    def _pump(self) -> None:
        if self._is_sending:
            return  # a marker was answered at once: the loop below goes on anyway
        self._is_sending = True
        try:
            while self._queue and self._in_flight < IN_FLIGHT_MAX:
                job, partition = self._queue.popleft()
                if self._is_current(job):
                    self._in_flight += 1
                    self._send(job, partition)
        finally:
            self._is_sending = False

    def _is_current(self, job: _Job) -> bool:
        return self._jobs.get(job.markers.transactional_id) is job

    def _send(self, job: _Job, partition: TopicPartition) -> None:
        markers, epoch = job.markers, job.coordinator_epoch
        producer_id, producer_epoch = markers.producer

        def take(appended: Appended) -> None:
            result = appended.result()
            code = result if isinstance(result, ErrorCode) else ErrorCode.NONE
            self._on_answer(job, partition, code)

        def append(log: PartitionLog | ErrorCode) -> None:
            if isinstance(log, ErrorCode):
                self._on_answer(job, partition, log)
                return
            log.append_marker(
                producer_id,
                producer_epoch,
                epoch,
                markers.committed,
                markers.transaction_version,
            ).add_done_callback(take)

        if partition.topic == OFFSETS_TOPIC:
            self._groups.end_transaction(
                partition.partition,
                producer_id,
                producer_epoch,
                epoch,
                markers.committed,
                markers.transaction_version,
            ).add_done_callback(take)
        else:
            self._logs.visit(*partition, append)

    def _on_answer(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        self._in_flight -= 1
        job.in_flight -= 1
        if self._is_current(job):
            self._judge(job, partition, code)
        self._pump()

    def _judge(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED and not job.is_fenced:
            job.is_fenced = True
            logger.warning("marker_fenced id=%s at=%s", job.markers.transactional_id, partition)
            if not self._on_fenced(job.markers):
                self._drop(job.markers.transactional_id)
                return
        if code in _WRITTEN:
            if code is ErrorCode.INVALID_PRODUCER_EPOCH:
                logger.warning("marker_late id=%s at=%s", job.markers.transactional_id, partition)
            self._metrics.markers_total += code is ErrorCode.NONE
            self._metrics.markers_waiting -= 1
            job.missing.discard(partition)
        else:
            self._metrics.marker_failures_total += 1
            logger.info(
                "marker_failed id=%s at=%s error=%s",
                job.markers.transactional_id,
                partition,
                code.name,
            )
        if job.in_flight == 0:
            if job.missing:
                self._tasks.start(self._retry(job), "retry")
            else:
                self._finish(job)

    def _finish(self, job: _Job) -> None:
        self._drop(job.markers.transactional_id)
        self._on_written(job.markers)

    async def _retry(self, job: _Job) -> None:
        await asyncio.sleep(job.pause_s)
        job.pause_s = min(job.pause_s * 2, RETRY_S_MAX)
        if self._is_current(job):
            self._start(job)


_WRITTEN = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""Nothing of the transaction is left open there: its marker is, the partition is gone, or a marker
with a newer epoch has ended it before (Kafka leaves the id busy for ever in that case)."""
