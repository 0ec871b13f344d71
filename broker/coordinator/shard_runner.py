"""One partition of `__consumer_offsets` at work: loads its shard, writes what it asks, answers.

An event's replies leave at once; its records are appended with those of all events of the same
loop iteration, as one batch; what waits for them happens when the log confirms the batch, in order.
A failed append drops the shard: everybody who waits is told to find the coordinator again, and the
partition is replayed. Cancel: a request that goes away leaves its ticket, which nobody collects.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

from broker.coordinator.config import GroupConfig
from broker.coordinator.effects import NEVER, Effects, Now, Reply, Ticket, Write
from broker.coordinator.metrics import GroupMetrics
from broker.coordinator.offsets_log import (
    Appended,
    OffsetsLog,
    OffsetsLogs,
    read_updates,
    size_of,
    to_batch,
)
from broker.coordinator.shard import GroupShard
from broker.errors import KafkaError, error_code
from core.errors import CoreError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition

logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 1_000_000
"""Below both Kafka's default max.message.bytes and what one DistributedLog record holds."""

RELOAD_DELAYS_S = (0.1, 0.5, 1.0, 5.0)
"""How long to wait before each further attempt to load; the last one repeats."""

Answer: TypeAlias = "asyncio.Future[Any]"
"""The response of an event, or the ErrorCode for a response that says only that."""

Event: TypeAlias = Callable[[GroupShard, Ticket, Now], Effects]

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What clients are told when the log fails; NOT_COORDINATOR for all else.

Source: GroupMetadataManager.appendGroupMetadataErrorToResponseError.
"""


def _is_gone(error: CoreError | KafkaError) -> bool:
    code = error.code if isinstance(error, KafkaError) else error_code(error)
    return code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all shards of one coordinator share."""

    logs: OffsetsLogs
    config: GroupConfig
    clock: Clock
    new_suffix: Callable[[], str]
    on_wake: Callable[[str, int], None]
    """Hears of every deadline: group, monotonic ms."""
    metrics: GroupMetrics

    def now(self) -> Now:
        """Return the time on both clocks."""
        return Now(self.clock.now_ms(), int(self.clock.monotonic_s() * 1000))


class ShardRunner:
    """Owns one partition's shard, the requests that wait in it, and its writes in flight."""

    def __init__(self, tp: TopicPartition, around: Surroundings, tasks: Tasks) -> None:
        self.tp = tp
        self.shard: GroupShard | None = None
        """None until it is loaded, and again after a failure."""
        self._around = around
        self._tasks = tasks
        self._log: OffsetsLog | None = None
        self._loading: asyncio.Task[None] | None = None
        self._dropped_topics: list[str] = []
        self._tickets = count()
        self._waiting: dict[Ticket, Answer] = {}
        self._queue: list[Write] = []
        self._in_flight: deque[list[Write]] = deque()

    # Events

    def ask(self, event: Event) -> Answer:
        """Give the shard an event; the answer may be there already."""
        answer: Answer = asyncio.get_running_loop().create_future()
        if self.shard is None:
            self.load_soon()
            answer.set_result(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return answer
        ticket = next(self._tickets)
        self._waiting[ticket] = answer
        self._around.metrics.requests_waiting += 1
        self._act(event(self.shard, ticket, self._around.now()))
        return answer

    def settle(self) -> Answer:
        """Return what is done when all that was asked until now is confirmed."""
        return self.ask(self._settle)

    def _settle(self, _shard: GroupShard, ticket: Ticket, _now: Now) -> Effects:
        reply = Reply(ticket, ErrorCode.NONE)
        if not self._queue and not self._in_flight:
            return Effects([reply])
        (self._queue or self._in_flight[-1]).append(Write((), replies=(reply,)))
        return Effects()

    def expire(self, group_id: str) -> None:
        """Tell a group that one of its deadlines has come."""
        if self.shard is not None:
            self._act(self.shard.expire(group_id, self._around.now()))

    def clean(self) -> None:
        """Delete what has lapsed."""
        if self.shard is not None:
            self._act(self.shard.clean(self._around.now()))

    def release(self) -> None:
        """Send everybody in a barrier to another coordinator; writes go on."""
        if self.shard is not None:
            for effects in self.shard.release(ErrorCode.NOT_COORDINATOR):
                self._act(effects)

    def drop_topic(self, topic: str) -> None:
        """Delete the offsets of a topic that is gone, at once or when they are loaded."""
        if self.shard is not None:
            self._act(self.shard.drop_topic(topic))
        else:
            self._dropped_topics.append(topic)

    def _act(self, effects: Effects) -> None:
        for ticket, response in effects.replies:
            self._answer(ticket, response)
        if effects.writes:
            if not self._queue:
                asyncio.get_running_loop().call_soon(self._flush, self.shard)
            self._queue += effects.writes
        if effects.wake_at_ms < NEVER:
            self._around.on_wake(effects.group_id, effects.wake_at_ms)

    def _answer(self, ticket: Ticket, response: object) -> None:
        answer = self._waiting.pop(ticket)
        self._around.metrics.requests_waiting -= 1
        if not answer.done():
            answer.set_result(response)

    # Writing

    def _flush(self, shard: GroupShard | None) -> None:
        if shard is None or shard is not self.shard:
            return
        queue, self._queue = self._queue, []
        batch: list[Write] = []
        size = 0
        for write in queue:
            need = size_of(write.records)
            if need > BATCH_BYTES_MAX:
                logger.error("group_record_too_large partition=%s bytes=%d", self.tp, need)
                self._act(shard.on_refused(write, self._around.now()))
                continue
            if size + need > BATCH_BYTES_MAX:
                self._append(shard, batch)
                batch, size = [], 0
            batch.append(write)
            size += need
        self._append(shard, batch)

    def _append(self, shard: GroupShard, writes: list[Write]) -> None:
        records = [record for write in writes for record in write.records]
        if shard is not self.shard or self._log is None:
            return
        if not records:
            self._confirm(shard, writes)
            return
        self._in_flight.append(writes)
        appended = self._log.append(to_batch(records, self._around.clock.now_ms()))
        soon = asyncio.get_running_loop().call_soon  # not now: it may have failed at once
        appended.add_done_callback(lambda each: soon(self._on_appended, shard, each))

    def _on_appended(self, shard: GroupShard, appended: Appended) -> None:
        if shard is not self.shard:
            return
        outcome = appended.result()
        if isinstance(outcome, ErrorCode):
            self._fail(outcome)
        else:
            self._confirm(shard, self._in_flight.popleft())

    def _confirm(self, shard: GroupShard, writes: list[Write]) -> None:
        for write in writes:
            self._around.metrics.records_written_total += len(write.records)
            self._act(shard.on_written(write, self._around.now()))

    def _fail(self, error: ErrorCode) -> None:
        """Give the shard up: what is on the stream is the truth, and it will be read again."""
        self._around.metrics.shard_failures_total += 1
        logger.warning("group_shard_failed partition=%s error=%s", self.tp, error.name)
        self.unload(_APPEND_ERRORS.get(error, ErrorCode.NOT_COORDINATOR))
        self.load_soon()

    def unload(self, code: ErrorCode) -> None:
        """Drop everything in memory and tell everybody who waits why."""
        if self.shard is not None:
            self._around.metrics.shards_loaded -= 1
        self.shard = None
        self._log = None
        self._queue = []
        self._in_flight.clear()
        waiting, self._waiting = self._waiting, {}
        self._around.metrics.requests_waiting -= len(waiting)
        for answer in waiting.values():
            if not answer.done():
                answer.set_result(code)

    # Loading

    def load_soon(self) -> None:
        """Begin to load, unless it is loaded or on its way."""
        if self.shard is None and self._loading is None:
            self._loading = self._tasks.spawn(self._load(), f"load {self.tp}")

    async def loaded(self) -> bool:
        """Wait until the shard serves, or cannot. Cancel: loading goes on."""
        self.load_soon()
        if self._loading is not None:
            await asyncio.wait([self._loading])
        return self.shard is not None

    async def _load(self) -> None:
        try:
            for attempt in count():
                try:
                    await self._load_once()
                except (CoreError, KafkaError) as error:
                    logger.warning("group_load_failed partition=%s error=%r", self.tp, error)
                    if _is_gone(error):
                        return
                    await asyncio.sleep(RELOAD_DELAYS_S[min(attempt, len(RELOAD_DELAYS_S) - 1)])
                else:
                    return
        finally:
            self._loading = None

    async def _load_once(self) -> None:
        around = self._around
        log = around.logs.get(self.tp) or await around.logs.open(self.tp)
        shard = GroupShard(around.config, around.new_suffix)
        records = 0
        async for update in read_updates(log, around.config.offsets_load_buffer_bytes):
            shard.replay(update)
            records += 1
        around.metrics.records_loaded_total += records
        around.metrics.shards_loaded += 1
        self._log, self.shard = log, shard
        for effects in shard.on_loaded(around.now()):
            self._act(effects)
        for topic in self._dropped_topics:
            self._act(shard.drop_topic(topic))
        self._dropped_topics.clear()
        if records:
            logger.info(
                "group_shard_loaded partition=%s records=%d groups=%d",
                self.tp,
                records,
                len(shard.groups),
            )
