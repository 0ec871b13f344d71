"""Writes the outcome of transactions to their partitions, until it is everywhere.

A partition's own broker writes it: this one, or another that is asked. Bounds: so many markers are
in flight to each broker at once, the rest waits in order of arrival; what fails is written again
after a pause that doubles, or once partitions have moved, for as long as it takes. A partition that
is gone counts as written, once its topic's node says so: what this broker knows may be old. Markers
do no harm twice, so a coordinator that loads again asks again.
Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from tailrace.broker.peers.routes import Routes
from tailrace.broker.transactions.marker_places import OthersPartitions, OwnPartitions
from tailrace.broker.transactions.metrics import TransactionMetrics
from tailrace.broker.transactions.peer_requests import MarkerAt
from tailrace.broker.transactions.values import Marker, Markers
from tailrace.core.errors import CoreError
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

IN_FLIGHT_MAX = 1_000
"""Markers on their way to one broker's logs at once."""

RETRY_S_MIN = 0.1
RETRY_S_MAX = 5.0
"""Pause before what failed is written again; it doubles from the one to the other."""


class MarkerUser(NamedTuple):
    """What the writer of markers asks of the coordinator."""

    on_written: Callable[[Markers], None]
    """Hears that all are there."""
    on_fenced: Callable[[Markers], bool]
    """Hears that another coordinator seems to have the id; says whether it is still this one's."""
    look: Callable[[str], Awaitable[None]]
    """Has this broker know what a topic is by now. Errors: CoreError."""


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
    unknown: set[str] = field(default_factory=set)
    """Topics that have not all of the partitions, as far as this broker knows."""
    looked_at: set[str] = field(default_factory=set)
    """Topics that were read since: what they have not is gone."""


@dataclass(slots=True, eq=False)
class _Lane:
    """The markers for one broker's partitions: one that hangs holds up its own only."""

    owner: int | None
    """None: this broker, or nobody that is known, which this one finds out."""
    queue: deque[tuple[_Job, TopicPartition]] = field(default_factory=deque)
    in_flight: int = 0
    is_sending: bool = False


class MarkerWriter:
    """The markers of one broker's transactions. All calls come from the loop."""

    def __init__(
        self,
        own: OwnPartitions,
        others: OthersPartitions,
        routes: Routes,
        user: MarkerUser,
        metrics: TransactionMetrics,
    ) -> None:
        self._own = own
        self._others = others
        self._routes = routes
        self._user = user
        self._metrics = metrics
        self._tasks = Tasks("markers")
        self._jobs: dict[str, _Job] = {}
        self._lanes: dict[int | None, _Lane] = {}
        self._moved = asyncio.Event()

    def write(self, markers: Markers, coordinator_epoch: int) -> None:
        """Write markers; those of the same id that are still on their way are forgotten."""
        self._drop(markers.transactional_id)
        job = _Job(markers, coordinator_epoch, set(markers.partitions))
        self._jobs[markers.transactional_id] = job
        self._metrics.markers_waiting += len(job.missing)
        self._start(job)

    def follow_owners(self, is_mine: Callable[[str], bool]) -> None:
        """Leave ids to their new coordinators, and write at once what failed at old places.

        `is_mine`: says whether this broker coordinates an id.
        """
        for transactional_id in list(self._jobs):
            if not is_mine(transactional_id):
                self._drop(transactional_id)
        for job in self._jobs.values():
            job.pause_s = RETRY_S_MIN
        self._moved.set()  # for those who wait now
        self._moved.clear()

    async def close(self) -> None:
        """Write no more. Idempotent."""
        for transactional_id in list(self._jobs):
            self._drop(transactional_id)
        await self._tasks.close()
        await self._others.close()

    def _drop(self, transactional_id: str) -> None:
        job = self._jobs.pop(transactional_id, None)
        if job is not None:
            self._metrics.markers_waiting -= len(job.missing)

    def _start(self, job: _Job) -> None:
        if not job.missing:
            self._finish(job)
            return
        job.in_flight, job.is_fenced = len(job.missing), False
        lanes = {}
        for partition in sorted(job.missing):
            lane = self._lane(partition)
            lane.queue.append((job, partition))
            lanes[lane.owner] = lane
        for lane in lanes.values():
            self._pump(lane)

    def _lane(self, partition: TopicPartition) -> _Lane:
        is_mine = self._routes.is_mine(*partition)
        owner = None if is_mine else self._routes.owner(*partition)
        return self._lanes.setdefault(owner, _Lane(owner))

    def _pump(self, lane: _Lane) -> None:
        if lane.is_sending:
            return  # a marker was answered at once: the loop below goes on anyway
        lane.is_sending = True
        try:
            while lane.queue and lane.in_flight < IN_FLIGHT_MAX:
                job, partition = lane.queue.popleft()
                if self._is_current(job):
                    lane.in_flight += 1
                    self._send(job, partition, lane)
        finally:
            lane.is_sending = False
        if not lane.queue and not lane.in_flight and self._lanes.get(lane.owner) is lane:
            del self._lanes[lane.owner]

    def _is_current(self, job: _Job) -> bool:
        return self._jobs.get(job.markers.transactional_id) is job

    def _send(self, job: _Job, partition: TopicPartition, lane: _Lane) -> None:
        markers = job.markers
        marker = Marker(
            *markers.producer,
            job.coordinator_epoch,
            markers.committed,
            markers.transaction_version,
        )

        def done(code: ErrorCode) -> None:
            lane.in_flight -= 1
            self._on_answer(job, partition, code)
            self._pump(lane)

        if lane.owner is None:
            self._own.write(marker, partition, done)
        else:
            self._others.write(lane.owner, MarkerAt(marker, partition), done)

    def _on_answer(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        job.in_flight -= 1
        if self._is_current(job):
            self._judge(job, partition, code)

    def _judge(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.TRANSACTION_COORDINATOR_FENCED and not job.is_fenced:
            job.is_fenced = True
            logger.warning("marker_fenced id=%s at=%s", job.markers.transactional_id, partition)
            if not self._user.on_fenced(job.markers):
                self._drop(job.markers.transactional_id)
                return
        is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code in _WRITTEN or (is_unknown and partition.topic in job.looked_at):
            self._take_for_written(job, partition, code)
        else:
            self._take_for_failed(job, partition, code)
        if job.in_flight == 0:
            if job.missing:
                retry = Forever("markers.retry", about=job.markers.transactional_id)
                self._tasks.start(retry.until_done(partial(self._retry, job)), "retry")
            else:
                self._finish(job)

    def _take_for_written(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            logger.warning("marker_late id=%s at=%s", job.markers.transactional_id, partition)
        self._metrics.markers_total += code is ErrorCode.NONE
        self._metrics.markers_waiting -= 1
        job.missing.discard(partition)

    def _take_for_failed(self, job: _Job, partition: TopicPartition, code: ErrorCode) -> None:
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            job.unknown.add(partition.topic)
        self._metrics.marker_failures_total += 1
        name = job.markers.transactional_id
        logger.info("marker_failed id=%s at=%s error=%s", name, partition, code.name)

    def _finish(self, job: _Job) -> None:
        self._drop(job.markers.transactional_id)
        self._user.on_written(job.markers)

    async def _retry(self, job: _Job) -> None:
        if not await self._has_looked(job):
            pause_s, job.pause_s = job.pause_s, min(job.pause_s * 2, RETRY_S_MAX)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._moved.wait()
        if self._is_current(job):
            self._start(job)

    async def _has_looked(self, job: _Job) -> bool:
        """Look at topics that seem to be gone; return whether any was read: once for each."""
        unknown, job.unknown = job.unknown, set()
        before = len(job.looked_at)
        for topic in sorted(unknown):
            try:
                await self._user.look(topic)
            except CoreError as error:
                logger.warning("markers_topic_unread topic=%s error=%r", topic, error)
            else:
                job.looked_at.add(topic)
        return len(job.looked_at) > before


_WRITTEN = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Nothing of the transaction is left open there: its marker is there, or one with a newer epoch has
ended it before (Kafka leaves the id busy for ever in that case)."""
