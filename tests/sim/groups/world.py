"""A group coordinator on virtual time: its partitions are real, the streams below are in memory.

A crash loses what was not confirmed, or keeps it, and nobody hears how the last requests ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any, TypeAlias, TypeVar

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.coordinator.runtime import GroupCoordinator, GroupParts
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.core.errors import BookieUnavailable
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.simulation.loop import SimLoop
from tailrace.simulation.machine import SimClock
from tailrace.simulation.trace import Trace
from tests.sim.groups.checker import GroupChecker
from tests.unit.broker.fakes import Bookies, FakeNamespace, FakeTopics, FakeWriter

GROUP = "g"
TOPIC = "t"
PARTITIONS = 6
ANSWER_S = 20.0
"""How long clients wait for an answer; longer than any barrier stays closed."""

A = TypeVar("A")
Hear: TypeAlias = Callable[[A], None]


class Lost(Exception):
    """A request or its answer was lost: nobody knows what became of it."""


class GroupWorld:
    """The coordinator, its storage, and the way to it."""

    def __init__(self, seed: int, loop: SimLoop, trace: Trace) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = trace
        self.checker = GroupChecker(loop.time)
        self.rng = Random(f"{seed}/groups")
        self.tasks = Tasks("members")
        self._own_tasks = Tasks("world")
        self.clock = SimClock(loop)
        self.loss = 0.0
        """How many requests, and how many answers, get lost."""
        self.delay_s = 0.001
        """The longest that a write, or a message on its way, takes."""
        self.session_ms, self.rebalance_ms = self.rng.choice(((6_000, 10_000), (12_000, 3_000)))
        self.open_transactions: set[int] = set()
        self._producers = 0
        self._namespace = FakeNamespace(auto=False)
        self._topics = FakeTopics(self._namespace)
        self._topics.add(TOPIC, PARTITIONS)
        self._config = GroupConfig(
            initial_rebalance_delay_ms=self.rng.choice((0, 500)),
            offsets_topic_partitions=1,
            offsets_retention_check_interval_ms=1 << 40,
        )
        self._coordinator: GroupCoordinator | None = None
        self._gone: asyncio.Future[None] = loop.create_future()

    # Life and death

    async def start(self) -> None:
        """Run a coordinator over what the streams hold, and begin to confirm."""
        await self._boot()
        self._own_tasks.start(self._confirm(), "confirm")
        assert self._coordinator is not None
        assert not isinstance(await self._coordinator.find(GROUP), ErrorCode)

    async def _boot(self) -> None:
        namespace: Any = self._namespace
        topics: Any = self._topics
        self._logs = PartitionLogs(namespace, topics, self.clock, PartitionConfig())
        ids = Random(f"{self.seed}/ids/{self.loop.time()}")
        parts = GroupParts(topics, self._logs, Bookies(1), self.clock, ids)
        self._coordinator = GroupCoordinator(self._config, parts)
        self._gone = self.loop.create_future()
        await self._coordinator.start()

    async def crash(self) -> None:
        """Kill the coordinator, and start another after a while."""
        keeps = self.rng.random() < 0.5
        self.trace("world", "fault.crash", keeps)
        await self._end(keeps=keeps)
        await asyncio.sleep(self.rng.uniform(0, 3))
        await self._boot()

    async def _end(self, *, keeps: bool) -> None:
        coordinator, self._coordinator = self._coordinator, None
        self._gone.set_result(None)
        for log in self._namespace.logs.values():
            log.keep_unconfirmed = keeps
        self.fail_writers()
        if coordinator is not None:
            await coordinator.close()
        await self._logs.close()

    def fail_writers(self) -> None:
        """Have every append in flight fail: whether it is stored is not known."""
        for writer in self._writers():
            writer.fail(BookieUnavailable("b1"))

    def fail_storage(self) -> None:
        """Let the log fail under a coordinator that lives."""
        keeps = self.rng.random() < 0.5
        self.trace("world", "fault.storage", keeps)
        for log in self._namespace.logs.values():
            log.keep_unconfirmed = keeps
        self.fail_writers()

    async def close(self) -> None:
        """End everything."""
        await self.tasks.close()
        await self._own_tasks.close()
        await self._end(keeps=False)

    def _writers(self) -> list[FakeWriter]:
        logs = self._namespace.logs.values()
        writers = [log.writer for log in logs if log.name.startswith(OFFSETS_TOPIC)]
        return [w for w in writers if w is not None and w.error is None and not w.is_closed]

    async def _confirm(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.0005, self.delay_s))
            for writer in self._writers():
                if writer.confirmed_txid < writer.last_txid:
                    writer.confirm()

    # The way to it

    async def ask(
        self,
        call: Callable[[GroupCoordinator], Awaitable[A]],
        on_answer: Hear[A] | None = None,
    ) -> A:
        """Ask and wait; `on_answer` hears of the answer when it is made, even if it gets lost.

        Errors: Lost.
        """
        await self._travel()
        if self._is_hit():
            await self._lose(call, on_answer)
        gone = self._gone
        answer = self._hand_over(call, on_answer)
        await asyncio.wait([answer, gone], timeout=ANSWER_S, return_when="FIRST_COMPLETED")
        if gone.done() or not answer.done():
            raise Lost
        await self._travel()
        if gone.done() or self._is_hit():
            raise Lost
        return answer.result()

    def _hand_over(
        self, call: Callable[[GroupCoordinator], Awaitable[A]], on_answer: Hear[A] | None
    ) -> "asyncio.Future[A]":
        if self._coordinator is None:
            raise Lost
        gone = self._gone
        answer = asyncio.ensure_future(call(self._coordinator))
        if on_answer is not None:
            hear = on_answer
            answer.add_done_callback(lambda done: None if gone.done() else hear(done.result()))
        return answer

    async def _lose(
        self, call: Callable[[GroupCoordinator], Awaitable[A]], on_answer: Hear[A] | None
    ) -> None:
        """Let a request get lost; or let it come late, when its client has given up long ago."""
        if self.rng.random() < 0.5:
            self._own_tasks.spawn(self._come_late(call, on_answer), "late")
        await asyncio.sleep(self.rng.uniform(0.1, 1.0))
        raise Lost

    async def _come_late(
        self, call: Callable[[GroupCoordinator], Awaitable[A]], on_answer: Hear[A] | None
    ) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / 3.0))
        self.trace("world", "fault.late")
        with suppress(Lost):
            await asyncio.wait([self._hand_over(call, on_answer)])

    def _is_hit(self) -> bool:
        is_hit = self.rng.random() < self.loss
        if is_hit:
            self.trace("world", "fault.loss")
        return is_hit

    async def _travel(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.0005, self.delay_s))

    # Transactions

    def new_producer_id(self) -> int:
        """Return a producer id that nobody had."""
        self._producers += 1
        return self._producers

    async def vouch(self, producer_id: int) -> ErrorCode:
        """Say whether a transaction is open, as its coordinator does."""
        await asyncio.sleep(self.rng.uniform(0, self.delay_s))
        is_open = producer_id in self.open_transactions
        return ErrorCode.NONE if is_open else ErrorCode.INVALID_TXN_STATE

    def end_transaction(
        self, producer_id: int, on_committed: Callable[[], None] | None
    ) -> "asyncio.Task[None]":
        """Decide (to commit, if anybody wants to hear of it), and write the marker until it is."""
        self.open_transactions.discard(producer_id)
        marking = self._mark(producer_id, on_committed)
        return self._own_tasks.spawn(marking, f"end {producer_id}")

    async def _mark(self, producer_id: int, on_committed: Callable[[], None] | None) -> None:
        def mark(groups: GroupCoordinator) -> Awaitable[ErrorCode]:
            return groups.end_transaction(0, producer_id, 0, 0, on_committed is not None)

        def hear(code: ErrorCode) -> None:
            if code is ErrorCode.NONE and on_committed is not None and not is_heard:
                is_heard.append(True)
                on_committed()

        is_heard: list[bool] = []
        await asyncio.sleep(self.rng.uniform(0, 10 * self.delay_s))
        while True:
            try:
                if await self.ask(mark, hear) is ErrorCode.NONE:
                    return
            except Lost:
                self.trace("world", "marker again", producer_id)
            await asyncio.sleep(0.1)
