"""Fetch v4-17: whole batches from each partition, or wait until there are enough.

Most fetches are answered at once from the tail cache, in the plain call. A fetch that has to wait
stands at its partitions with a count of the bytes it misses (`FetchWaiter`); it is woken when they
are there, never polls. Batches leave as the slices that came in.
Kept: request order and both size limits, the first batch whatever its size, leader epochs, topic
ids, OFFSET_OUT_OF_RANGE, long poll. Sessions: none is ever granted (id 0), so clients send full
fetches. No transactions yet: the last stable offset is the high watermark.
Source: KafkaApis.handleFetchRequest, DelayedFetch; reference Kafka 5.1-5.6.
"""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from broker.cluster.topics import Topic
from broker.context import RequestContext
from broker.errors import error_code
from broker.handlers import handles
from broker.partition.found import NOTHING, Found
from broker.partition.partition_log import PartitionLog
from broker.partition.waiters import FetchWaiter
from core.errors import CoreError
from protocol.errors import ErrorCode
from protocol.kafka.apis import FETCH
from protocol.kafka.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.records.batch import read_header

if TYPE_CHECKING:
    from protocol.ids import Buffer

TOPIC_IDS_SINCE = 13
FULL_FETCH_EPOCHS = (-1, 0)
READ_COMMITTED = 1
WAIT_MS_MAX = 300_000
"""Longest long poll; a client that asks for more is answered empty then."""
READ_BYTES_MAX = 8 * 1024 * 1024
"""Most bytes of one partition in one answer; a client that allows more asks again."""
READ_BYTES_HELD_BACK = 64 * 1024
"""The same while there are more unsent bytes than the budget has: everybody gets on, slowly."""
LOOK_AGAIN_S = 0.05
"""How soon a fetch looks again for records that are confirmed, but that it did not get: they are
not shown to readers yet, or there is no memory for them now."""


class _Target:
    """One partition of a fetch."""

    __slots__ = (
        "diverging",
        "error",
        "full",
        "log",
        "next_offset",
        "partition",
        "parts",
        "size",
        "topic",
    )  # fmt: skip

    def __init__(self, topic: Topic | None, partition: FetchPartition, error: ErrorCode) -> None:
        self.topic = topic
        self.partition = partition
        self.error = error
        self.log: PartitionLog | None = None
        self.next_offset = partition.fetch_offset
        self.parts: list[Buffer] = []
        self.size = 0
        self.full = False
        """More is there than the limits let through."""
        self.diverging: EpochEndOffset | None = None

    def check(self) -> None:
        """Compare what the client asks with the partition as it is now."""
        log, wanted = self.log, self.partition
        if log is None or self.error:
            return
        offset = wanted.fetch_offset
        if log.failure is not None:
            self.error = log.failure
        elif wanted.current_leader_epoch != -1 and (
            code := log.check_epoch(wanted.current_leader_epoch)
        ):
            self.error = code
        elif not log.log_start_offset <= offset <= log.log_end_offset:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif wanted.last_fetched_epoch >= 0:
            self._check_fetched(log)

    def _check_fetched(self, log: PartitionLog) -> None:
        epoch, end = log.end_of_epoch(self.partition.last_fetched_epoch)
        if epoch < 0:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif epoch < self.partition.last_fetched_epoch or end < self.partition.fetch_offset:
            self.diverging = EpochEndOffset(epoch=epoch, end_offset=end)

    @property
    def open_log(self) -> PartitionLog | None:
        """The partition, if there may be more to take from it."""
        return None if self.error or self.diverging or self.full else self.log

    def take(self, found: Found) -> None:
        """Add batches that follow those that are here."""
        self.full = found.limited
        if found.parts:
            self.parts.extend(found.parts)
            self.size += found.size
            self.next_offset = read_header(found.parts[-1]).last_offset + 1


class _Fetch:
    """One fetch request on its way."""

    __slots__ = ("_counted", "ctx", "max_bytes", "min_bytes", "request", "size", "targets")

    def __init__(self, ctx: RequestContext, request: FetchRequest) -> None:
        self.ctx = ctx
        self.request = request
        self.max_bytes = max(min(request.max_bytes, ctx.broker.config.fetch_bytes_max), 0)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.size = 0
        self._counted = 0  # in the budget of unsent bytes
        by_id = ctx.header.api_version >= TOPIC_IDS_SINCE
        self.targets = [
            target for topic in request.topics for target in _targets(ctx, topic, by_id=by_id)
        ]

    def look_up(self) -> bool:
        """Find the partitions that are open; return whether none is missing."""
        partitions = self.ctx.broker.partitions
        whole = True
        for target in self.targets:
            if target.log is None and not target.error and target.topic is not None:
                key = (target.topic.name, target.partition.partition)
                target.log = partitions.get(key)
                whole = whole and target.log is not None
        return whole

    async def open(self) -> None:
        """Open the partitions that are not, side by side. Errors: none, each keeps its own."""
        partitions = self.ctx.broker.partitions
        opening = [
            (target, partitions.opening(target.topic.name, target.partition.partition))
            for target in self.targets
            if target.log is None and not target.error and target.topic is not None
        ]
        for target, future in opening:
            outcome = await future
            if isinstance(outcome, ErrorCode):
                target.error = outcome
            else:
                target.log = outcome

    def collect_tail(self) -> bool:
        """Take what is in memory, in order; return whether that was all there is to take."""
        for target in self.targets:
            target.check()
            log = target.open_log
            if log is not None:
                if self._is_starved():
                    return False
                found = log.read_tail(
                    target.next_offset, self._room(target), at_least_one=self._at_least_one()
                )
                if found is None:
                    return False
                target.take(found)
                self.size += found.size
        return True

    async def collect(self) -> None:
        """Take what is in memory or on the bookies, in order. Errors: none, each keeps its own."""
        for target in self.targets:
            target.check()
            log = target.open_log
            if log is not None and not self._is_starved():
                found = await self._read(target, log)
                target.take(found)
                self.size += found.size
                self._count(found.size)

    def give_back(self) -> None:
        """Count the answer out: from here on its connection does, if it has to keep it."""
        self._count(-self._counted)

    def is_due(self) -> bool:
        """Whether the answer cannot wait."""
        if self.size >= self.min_bytes or self.request.max_wait_ms <= 0 or not self.targets:
            return True
        return any(target.error or target.diverging for target in self.targets)

    async def wait(self, deadline_s: float) -> None:
        """Wait until enough is there, a partition changes, or the deadline passes."""
        loop = asyncio.get_running_loop()
        waiter = FetchWaiter(self.min_bytes - self.size, loop.create_future())
        until_s = deadline_s
        logs = [target.open_log for target in self.targets]
        for target, log in zip(self.targets, logs, strict=True):
            if log is not None:
                log.waiters.join(waiter)
                if log.high_watermark > target.next_offset:
                    until_s = min(until_s, loop.time() + LOOK_AGAIN_S)
        handle = loop.call_at(until_s, waiter.wake)
        try:
            await waiter.future
        finally:
            handle.cancel()
            for log in logs:
                if log is not None:
                    log.waiters.leave(waiter)

    def response(self) -> FetchResponse:
        """Return the answer as it stands."""
        self.ctx.broker.metrics.fetch_bytes_total += self.size
        committed = self.request.isolation_level == READ_COMMITTED
        answers = iter(self.targets)
        responses = []
        for topic in self.request.topics:
            partitions = [_answer(next(answers), committed=committed) for _ in topic.partitions]
            responses.append(
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
            )
        return FetchResponse(responses=responses)

    async def _read(self, target: _Target, log: PartitionLog) -> Found:
        offset, room, first = target.next_offset, self._room(target), self._at_least_one()
        found = log.read_tail(offset, room, at_least_one=first)
        if found is None:
            self._count(room)  # so that those who read at the same time see each other
            try:
                found = await log.read_log(offset, room, at_least_one=first)
            except CoreError as error:
                target.error = error_code(error)
                found = NOTHING
            finally:
                self._count(-room)
        return found

    def _count(self, size: int) -> None:
        self._counted += size
        self.ctx.broker.unsent.take(size)

    def _room(self, target: _Target) -> int:
        unsent = self.ctx.broker.unsent
        room = min(
            target.partition.partition_max_bytes - target.size,
            self.max_bytes - self.size,
            READ_BYTES_MAX,
            max(unsent.room, READ_BYTES_HELD_BACK),
        )
        return max(room, 0)

    def _at_least_one(self) -> bool:
        return self.size == 0

    def _is_starved(self) -> bool:
        """Whether slow clients hold so much that nobody gets anything until they are cut.

        That is no limit of the request: what it did not get now, it looks for again.
        """
        unsent = self.ctx.broker.unsent
        return unsent.used >= 2 * unsent.limit


@handles(FETCH, abandoned=True)
def fetch(
    ctx: RequestContext, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Answer now if that can be done from memory, else wait for it."""
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    state = _Fetch(ctx, request)
    if state.look_up() and state.collect_tail() and state.is_due():
        return state.response()
    return _serve(state)


async def _serve(state: _Fetch) -> FetchResponse:
    wait_ms = min(state.request.max_wait_ms, WAIT_MS_MAX)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_ms / 1000
    try:
        await state.open()
        await state.collect()
        while not state.is_due() and loop.time() < deadline_s:
            state.ctx.broker.metrics.fetch_parked_total += 1
            await state.wait(deadline_s)
            await state.collect()
        return state.response()
    finally:
        state.give_back()


def _targets(ctx: RequestContext, topic: FetchTopic, *, by_id: bool) -> list[_Target]:
    topics = ctx.broker.topics
    known = topics.by_id(topic.topic_id) if by_id else topics.get(topic.topic)
    if known is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [_Target(None, each, code) for each in topic.partitions]
    return [
        _Target(
            known,
            each,
            ErrorCode.NONE
            if 0 <= each.partition < known.partition_count
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        for each in topic.partitions
    ]


def _answer(target: _Target, *, committed: bool) -> PartitionData:
    log, index = target.log, target.partition.partition
    if target.error or log is None:
        code = target.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=index, error_code=code, high_watermark=-1, records=b"",
            aborted_transactions=() if committed else None,
        )  # fmt: skip
    answer = PartitionData(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=() if committed else None,
        records=target.parts,
    )
    if target.diverging is not None:
        answer.diverging_epoch = target.diverging
    return answer
