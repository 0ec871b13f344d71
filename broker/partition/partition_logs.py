"""The partitions that this broker has open: opened when first asked for, reopened after a failure.

Invariant: at most one `PartitionLog` per partition is alive; whoever asks while it is being opened
waits in order of asking, and a produce that waited is enqueued before any that comes later. Opening
means ownership, fencing and recovery, so it is the one slow step of a partition's life.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import count
from typing import Final, Protocol, TypeAlias

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.partition.admission import Admission
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.failed_opens import FailedOpens
from tailrace.broker.partition.notes import read_notes
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.readable import SharedParts
from tailrace.broker.partition.reads import OpenReaders
from tailrace.broker.partition.stored import StoredPartitions
from tailrace.broker.partition.tail_cache import TailCache, bytes_of
from tailrace.broker.partition.turns import Turns
from tailrace.broker.peers.routes import ALONE, Ownership
from tailrace.core.errors import CoreError, OwnershipLost
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.fair_lane import FairLane
from tailrace.core.runtime.loop_work import LoopWork
from tailrace.core.runtime.memory import memory_bytes
from tailrace.core.runtime.tasks import Tasks, together
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

VERIFYING_MAX = 128
"""Produces of one transactional id that may wait for its coordinator; more get
NOT_ENOUGH_REPLICAS, which producers retry."""

CLOSED_AT_ONCE = 64
"""Partitions of a topic that are closed side by side when it goes."""
LEAVING_AT_ONCE = 64
"""Partitions that are let go side by side: each completes a segment and writes metadata."""

GOLDEN_RATIO: Final = 0.618_033_988_75

Visitor: TypeAlias = Callable[[PartitionLog | ErrorCode], None]
"""Called once, with the open partition or with why it cannot be opened; must not raise."""


class Follower(Protocol):
    """What reads partitions that other brokers own."""

    async def let_go(self, partition: TopicPartition) -> None:
        """Have nothing of a partition open any more. Errors: none."""


class _NoFollower:
    """Nothing does."""

    async def let_go(self, _partition: TopicPartition) -> None:
        """Nothing is open."""


NO_FOLLOWER: Final = _NoFollower()


class PartitionLogs:
    """All open partitions of this broker. Look-ups are plain calls; opening is a task.

    One that another broker owns is not opened, and let go once it becomes another's.
    """

    def __init__(
        self,
        namespace: LogNamespace,
        topics: TopicRegistry,
        clock: Clock,
        config: PartitionConfig,
        ownership: Ownership = ALONE,
    ) -> None:
        given = config.tail_cache_bytes
        cache = TailCache(bytes_of(memory_bytes()) if given is None else given)
        lane = FairLane("heavy-batches")
        self.shared = SharedParts(clock, cache, OpenReaders(config.readers_max), lane)
        self.admission = Admission(LoopWork(), lane)
        self.verifying = Turns("verified produces", VERIFYING_MAX)
        """Produces that wait for their transaction's coordinator, by transactional id."""
        self._turns = count()
        self.stored = StoredPartitions(namespace, topics)
        self._namespace = namespace
        self._topics = topics
        self._config = config
        self._ownership = ownership
        self.follower: Follower = NO_FOLLOWER
        """What else of this broker may have a partition's log open: it lets go first."""
        self._open: dict[tuple[str, int], PartitionLog] = {}
        self._opening: dict[tuple[str, int], list[Visitor]] = {}
        self._failed = FailedOpens()
        self._dying: dict[tuple[str, int], PartitionLog] = {}
        self._leaving: dict[TopicPartition, asyncio.Task[None]] = {}
        """Partitions that are being let go, or wait for that."""
        self._leaving_turns = asyncio.Semaphore(LEAVING_AT_ONCE)
        self._tasks = Tasks("partitions")
        self._closed = False
        topics.listen(self)

    def get(self, partition: tuple[str, int]) -> PartitionLog | None:
        """Return an open partition; None if it is not open (yet)."""
        return self._open.get(partition)

    def next_turn(self, places: int) -> int:
        """Return whose turn it is where not everybody can have one: 0 or more, below `places`.

        Each place's comes for each caller, too, however callers alternate: the fractions of the
        golden ratio's multiples leave no place out, nor do those of every second one.
        """
        return int(next(self._turns) * GOLDEN_RATIO % 1 * places)

    def all(self) -> list[PartitionLog]:
        """Return all open partitions."""
        return list(self._open.values())

    def visit(self, topic: str, partition: int, visitor: Visitor) -> None:
        """Call `visitor` with the partition: now if it is open, else when it is, in order.

        If it could not be opened a moment ago, `visitor` gets that error once more.
        """
        key = (topic, partition)
        log = self._open.get(key)
        if log is not None:
            visitor(log)
            return
        waiting = self._opening.get(key)
        if waiting is not None:
            waiting.append(visitor)
            return
        if self._closed or not self.exists(topic, partition):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            visitor(ErrorCode.NOT_LEADER_OR_FOLLOWER if self._closed else code)
            return
        if not self.is_mine(topic, partition):
            visitor(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        refusal = self._failed.refusal(key, self.shared.clock.monotonic_s())
        if refusal is not None:
            visitor(refusal)
            return
        self._opening[key] = [visitor]
        work = self._open_task(TopicPartition(topic, partition))
        self._tasks.start(work, f"open {topic}-{partition}")

    def begin_open(self, topic: str, partition: int) -> None:
        """Begin to open a partition that somebody is going to ask for."""
        self.visit(topic, partition, lambda _outcome: None)

    def opening(self, topic: str, partition: int) -> asyncio.Future[PartitionLog | ErrorCode]:
        """Begin to open a partition; the future is done when it is open or cannot be."""
        future: asyncio.Future[PartitionLog | ErrorCode]
        future = asyncio.get_running_loop().create_future()

        def settle(outcome: PartitionLog | ErrorCode) -> None:
            if not future.done():
                future.set_result(outcome)

        self.visit(topic, partition, settle)
        return future

    async def open(self, partition: TopicPartition) -> PartitionLog:
        """Return the open partition, opened if need be. Errors: KafkaError.

        Cancel: it is opened anyway.
        """
        log = self._open.get(partition)
        if log is not None:
            return log
        outcome = await self.opening(*partition)
        if isinstance(outcome, ErrorCode):
            raise KafkaError(outcome, f"partition {partition}")
        return outcome

    def exists(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition in the cluster."""
        known = self._topics.get(topic)
        return known is not None and 0 <= partition < known.partition_count

    def is_mine(self, topic: str, partition: int) -> bool:
        """Whether this broker is the one to open a partition."""
        return self._ownership.is_mine(topic, partition)

    def let_go(self) -> None:
        """Begin to close what is open and another broker's by now: in flight is finished first.

        So many at a time; the others are served until it is their turn.
        """
        if self._closed:
            return
        self._failed.keep(self.is_mine)
        for key in sorted(self._open.keys() | self._dying.keys()):
            if key not in self._leaving and not self.is_mine(*key):
                partition = TopicPartition(*key)
                self._leaving[partition] = self._tasks.spawn(
                    self._leave(partition), f"let go {partition}"
                )

    async def has_left(self, partition: TopicPartition) -> bool:
        """Wait while a partition is let go; return whether nothing of it is open. Errors: none."""
        leaving = self._leaving.get(partition)
        if leaving is not None:
            await asyncio.wait([leaving])
        places = (self._open, self._opening, self._dying, self._leaving)
        return not any(partition in place for place in places)

    async def _leave(self, partition: TopicPartition) -> None:
        try:
            async with self._leaving_turns:
                if not self.is_mine(*partition):  # it may have come back meanwhile
                    logger.info("partition let go partition=%s", partition)
                    await self._close_now(partition)
                    await self._namespace.close_log(stream_name(*partition))
        finally:
            del self._leaving[partition]

    async def close_partition(self, partition: TopicPartition) -> None:
        """Close a partition if it is open. Errors: none."""
        if partition in self._leaving:
            await asyncio.wait([self._leaving[partition]])
        if partition in self._opening:
            await self.opening(*partition)
        await self._close_now(partition)

    async def _close_now(self, partition: TopicPartition) -> None:
        self._failed.forget(partition)
        for logs in (self._open, self._dying):
            log = logs.pop(partition, None)
            if log is not None:
                await log.close()
                await self.shared.readers.forget(log.log)

    async def close(self) -> None:
        """Finish what is in flight and close all partitions. Idempotent. Errors: none.

        Side by side: while the metadata cannot be reached, each waits for it as long as it may.
        """
        self._closed = True
        await self.verifying.close()
        open_here = self._open.keys() | self._dying.keys()
        keys = sorted(self._opening.keys() | open_here | self._leaving.keys())
        await together([self.close_partition(TopicPartition(*key)) for key in keys])
        await self.shared.lane.close()
        await self.shared.readers.close()
        await self._tasks.close()

    # -- topics -----------------------------------------------------------------------------------

    def on_topic_changed(self, topic: Topic) -> None:
        """Have the topic's open partitions follow its configs."""
        for partition in range(topic.partition_count):
            log = self._open.get((topic.name, partition))
            if log is not None:
                log.use_settings(topic.settings)

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Close the topic's partitions, some side by side, before their streams go."""
        partitions = [TopicPartition(topic.name, at) for at in range(topic.partition_count)]
        for first in range(0, len(partitions), CLOSED_AT_ONCE):
            some = partitions[first : first + CLOSED_AT_ONCE]
            await together([self._give_up(partition) for partition in some])

    async def _give_up(self, partition: TopicPartition) -> None:
        """Close a partition and its log, which may be deleted and made anew by another broker."""
        await self.follower.let_go(partition)
        await self.close_partition(partition)
        await self._namespace.close_log(stream_name(*partition))

    # -- opening ----------------------------------------------------------------------------------

    async def _open_task(self, partition: TopicPartition) -> None:
        """Open a partition and serve the fetches that wait for it."""
        outcome: PartitionLog | ErrorCode
        try:
            outcome = await self._open_now(partition)
        except (CoreError, KafkaError) as error:
            logger.warning("open failed partition=%s error=%r", partition, error)
            outcome = error_code(error)
            is_away = isinstance(error, CoreError) and not isinstance(error, OwnershipLost)
            if is_away and self.exists(*partition) and self.is_mine(*partition):
                self._failed.add(partition, outcome, self.shared.clock.monotonic_s())
        except BaseException:
            self._publish(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            raise
        self._publish(partition, outcome)

    def _publish(self, partition: TopicPartition, outcome: PartitionLog | ErrorCode) -> None:
        """Serve those who wait, then let everybody else in: nobody overtakes them."""
        waiting = self._opening.pop(partition)
        if isinstance(outcome, PartitionLog):
            logs = self._open if outcome.failure is None else self._dying
            logs[partition] = outcome
            self._failed.forget(partition)
        for visitor in waiting:
            visitor(outcome)
        if isinstance(outcome, PartitionLog) and not self.is_mine(*partition):
            self.let_go()  # it became another's while it was opened

    async def _open_now(self, partition: TopicPartition) -> PartitionLog:
        await self.follower.let_go(partition)
        leaving = self._leaving.get(partition)
        if leaving is not None:
            await asyncio.wait([leaving])
        dying = self._dying.pop(partition, None)
        if dying is not None:
            await dying.close()
            await self.shared.readers.forget(dying.log)
            await self._ownership.refresh()  # perhaps it was lost to somebody who had reason to
            if not self.is_mine(*partition):
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        topic = self._topics.get(partition.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        stream = await self._namespace.open_log(
            stream_name(*partition), topic.quorums.as_settings()
        )
        log = PartitionLog(partition, stream, topic.settings, self.shared)
        log.topic_id = topic.topic_id
        writer = await stream.open_writer(log, log.state)
        try:  # now that the former owner, who is fenced, has nothing to do with it any more
            log.start(writer, await read_notes(stream))
        except BaseException:
            await writer.abort()
            raise
        if dying is not None or partition in self._failed:
            log.excuse_gaps()
        log.on_dead = self._on_dead
        latest = self._topics.get(partition.topic)
        log.use_settings((latest or topic).settings)
        logger.debug(
            "partition opened partition=%s epoch=%d start=%d end=%d",
            partition,
            log.leader_epoch,
            log.log_start_offset,
            log.log_end_offset,
        )
        return log

    def _on_dead(self, log: PartitionLog) -> None:
        """Have the next request open the partition anew."""
        if self._open.get(log.partition) is log:
            del self._open[log.partition]
            self._dying[log.partition] = log
