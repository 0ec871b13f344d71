"""The partitions of other brokers that this one reads: opened by fetches, closed when none comes.

Invariant: the log of a partition is open here for one of two, its owner's `PartitionLog` or a
`FollowedPartition`: either waits until the other has let go. Bounded in number; what each holds in
memory is bounded by the tail cache and the read cache of the process, and by what is open of
transactions (no other producer is remembered). The log itself stays open (14 KB) until this broker
owns the partition or the topic goes: its watches in the metadata store cannot be taken back.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.following.config import FollowingConfig
from tailrace.broker.following.followed import FollowedPartition
from tailrace.broker.following.leader import Leaders
from tailrace.broker.following.metrics import FollowingMetrics
from tailrace.broker.following.notes_watch import NotesWatch
from tailrace.broker.partition.failed_opens import FailedOpens
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.core.errors import CoreError
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks, together
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from tailrace.broker.partition.readable import ReadablePartition

logger = logging.getLogger(__name__)

SWEEP_S: Final = 5.0
"""Between looks for partitions that no consumer fetches."""
CLOSED_AT_ONCE: Final = 64
OPENED_AT_ONCE: Final = 32
"""Partitions that are opened side by side: each may have a segment to read."""
NOT_HERE: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER

Opening: TypeAlias = "asyncio.Future[ReadablePartition | ErrorCode]"


class FollowedPartitions:
    """All of them. Look-ups are plain calls; all calls come from the loop."""

    def __init__(
        self,
        namespace: LogNamespace,
        topics: TopicRegistry,
        partitions: PartitionLogs,
        leaders: Leaders,
        config: FollowingConfig,
    ) -> None:
        self.metrics = FollowingMetrics()
        self._namespace = namespace
        self._topics = topics
        self._partitions = partitions
        self._leaders = leaders
        self._config = config
        self._clock = partitions.shared.clock
        self._open: dict[tuple[str, int], FollowedPartition] = {}
        self._logs: dict[tuple[str, int], NotesWatch] = {}
        """Logs that are open for this, followed at the moment or not."""
        self._waiting: dict[tuple[str, int], list[Opening]] = {}
        """The fetches that wait for those that are being opened."""
        self._opening: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._closing: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._failed = FailedOpens()
        self._turns = asyncio.Semaphore(OPENED_AT_ONCE)
        self._tasks = Tasks("followed.partitions")
        self._closed = False
        partitions.follower = self

    def start(self) -> None:
        """Begin to close what no consumer fetches."""
        self._tasks.start(Forever("followed.sweep").run(self._sweep), "sweep")

    def __len__(self) -> int:
        """Return how many are open, or are being opened or closed."""
        return len(self._open) + len(self._opening) + len(self._closing)

    # -- look-ups ---------------------------------------------------------------------------------

    def get(self, partition: tuple[str, int]) -> FollowedPartition | None:
        """Return an open one, which is in use now; None if it is not open (yet)."""
        found = self._open.get(partition)
        if found is not None:
            found.used_s = self._clock.monotonic_s()
        return found

    def opening(self, topic: str, partition: int) -> Opening:
        """Begin to open a partition; the future is done when it is open or cannot be."""
        future: Opening = asyncio.get_running_loop().create_future()
        key = TopicPartition(topic, partition)
        found = self.get(key)
        refusal = None if found is not None or key in self._waiting else self._refusal(key)
        if found is not None:
            future.set_result(found)
        elif refusal is not None:
            future.set_result(refusal)
        else:
            self._await(key, future)
        return future

    def _await(self, key: TopicPartition, future: Opening) -> None:
        waiting = self._waiting.setdefault(key, [])
        waiting.append(future)
        if len(waiting) == 1:
            self._opening[key] = self._tasks.spawn(self._open_task(key), f"open {key}")

    def _refusal(self, key: TopicPartition) -> ErrorCode | None:
        """Return why a partition is not opened now; None if it is."""
        if self._closed or self._partitions.is_mine(*key):
            return NOT_HERE
        if not self._partitions.exists(*key):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        failed = self._failed.refusal(key, self._clock.monotonic_s())
        if failed is None and len(self) >= self._config.partitions_max:
            self.metrics.refused_total += 1
            return NOT_HERE
        return failed

    # -- opening ----------------------------------------------------------------------------------

    async def _open_task(self, key: TopicPartition) -> None:
        """Open a partition and serve the fetches that wait for it."""
        outcome: FollowedPartition | ErrorCode = NOT_HERE
        try:
            if key in self._closing:
                await asyncio.wait([self._closing[key]])
            async with self._turns:
                outcome = await self._open_now(key)
        except (CoreError, KafkaError) as error:
            logger.warning("follow failed partition=%s error=%r", key, error)
            outcome = NOT_HERE if isinstance(error, CoreError) else error_code(error)
            self.metrics.failures_total += 1
            self._failed.add(key, outcome, self._clock.monotonic_s())
        finally:
            self._publish(key, outcome)

    def _publish(self, key: TopicPartition, outcome: "FollowedPartition | ErrorCode") -> None:
        """Have a partition found from now on, and serve the fetches that wait."""
        del self._opening[key]
        if isinstance(outcome, FollowedPartition):
            self._failed.forget(key)
            self._open[key] = outcome
            self.metrics.opened_total += 1
            self.metrics.partitions = len(self._open)
            outcome.on_dead = self._on_dead
            if outcome.failure is not None:
                self._on_dead(outcome)
        for future in self._waiting.pop(key):
            if not future.done():
                future.set_result(outcome)

    async def _open_now(self, key: TopicPartition) -> FollowedPartition:
        """Open one that this broker does not own. Errors: CoreError, KafkaError."""
        if not await self._partitions.has_left(key) or self._partitions.is_mine(*key):
            raise KafkaError(NOT_HERE, f"{key} is this broker's")
        topic = self._topics.get(key.topic)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        name = stream_name(*key)
        log = await self._namespace.open_log(name, topic.quorums.as_settings())
        shared = self._partitions.shared
        noted = self._logs.setdefault(key, NotesWatch())
        followed = FollowedPartition(key, log, shared, topic.topic_id, self._leaders, noted)
        try:
            await followed.open()
        except BaseException:
            await self._end(followed)
            raise
        return followed

    def _give_up(self, key: TopicPartition) -> None:
        """Answer the fetches that wait for one whose opening was cancelled before it began."""
        if key in self._opening:
            self._publish(key, NOT_HERE)

    # -- closing ----------------------------------------------------------------------------------

    async def let_go(self, partition: TopicPartition) -> None:
        """Have nothing of a partition open any more: it is this broker's now, or goes.

        Errors: none.
        """
        opening = self._opening.get(partition)
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
            self._give_up(partition)
        if partition in self._closing:
            await asyncio.wait([self._closing[partition]])
        await self._close_now(partition)
        if self._logs.pop(partition, None) is not None:
            await self._namespace.close_log(stream_name(*partition))

    async def close(self) -> None:
        """Close all. Idempotent. Errors: none."""
        self._closed = True
        await self._tasks.close()
        for key in list(self._opening):
            self._give_up(TopicPartition(*key))
        keys = [TopicPartition(*key) for key in self._open]
        for first in range(0, len(keys), CLOSED_AT_ONCE):
            await together([self._close_now(key) for key in keys[first : first + CLOSED_AT_ONCE]])

    def owners_changed(self) -> None:
        """Begin to close what is this broker's now. Errors: none."""
        for key in list(self._open):
            if self._partitions.is_mine(*key):
                self._begin_close(TopicPartition(*key))

    def _on_dead(self, followed: FollowedPartition) -> None:
        """Close one that cannot be read on; it may be opened again after a pause."""
        key = followed.partition
        if self._open.get(key) is followed:
            self.metrics.failures_total += 1
            self._failed.add(key, NOT_HERE, self._clock.monotonic_s())
            self._begin_close(key)

    def _begin_close(self, key: TopicPartition) -> None:
        if not self._closed and key not in self._closing:
            self._closing[key] = self._tasks.spawn(self._close_task(key), f"close {key}")

    async def _close_task(self, key: TopicPartition) -> None:
        try:
            await self._close_now(key)
        finally:
            del self._closing[key]

    async def _close_now(self, key: TopicPartition) -> None:
        followed = self._open.pop(key, None)
        self.metrics.partitions = len(self._open)
        if followed is not None:
            await self._end(followed)

    async def _end(self, followed: FollowedPartition) -> None:
        """Close a partition. Errors: none."""
        await followed.close()
        self.metrics.batches_total += followed.batches_total
        await self._partitions.shared.readers.forget(followed.log)

    async def _sweep(self) -> None:
        await asyncio.sleep(SWEEP_S)
        await self._close_idle()

    async def _close_idle(self) -> None:
        """Close what no consumer fetches; forget producers, of which only transactions count."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        for key, followed in list(self._open.items()):
            if followed.waiters.is_awaited:
                followed.used_s = now_s
            if now_s - followed.used_s >= self._config.idle_ms / 1000:
                self._begin_close(TopicPartition(*key))
            else:
                followed.state.producers.expire(now_ms + 1)
                await asyncio.sleep(0)
