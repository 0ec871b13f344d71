"""A TransactionCoordinator over real partitions on logs in memory; its clock stands still."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tailrace.broker.config import BrokerConfig
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.replicated.machine import Answer
from tailrace.broker.replicated.partitioning import partition_for
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.coordinator import (
    TRANSACTIONS_TOPIC,
    Parts,
    TransactionCoordinator,
)
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.peer_requests import Question
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.describe_transactions import TransactionState as Described
from tests.unit.broker.fakes import FakeLog, FakeWriter, World, make_world, restarted
from tests.unit.broker.peers.support import FakePeers, FakeRoutes

PARTITIONS = 3
ID = "x"
TIMEOUT_MS = 60_000
CONFIG = TransactionConfig(topic_partitions=PARTITIONS)
ADD_WAIT_MS = 100


class CountingIds:
    """Producer ids from 1000 on."""

    def __init__(self) -> None:
        self.next = 1000

    async def take(self) -> int:
        self.next += 1
        return self.next - 1


class NoGroups:
    """Groups that take every end of a transaction down, and say yes."""

    def __init__(self) -> None:
        self.ended: list[tuple[Any, ...]] = []

    def end_transaction(self, *what: Any) -> "asyncio.Future[ErrorCode]":
        self.ended.append(what)
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        done.set_result(ErrorCode.NONE)
        return done


class Transactions:
    """One coordinator and what it stands on; topic `t` has 3 partitions."""

    def __init__(self, world: World, config: TransactionConfig) -> None:
        self.world = world
        self.config = config
        self.ids = CountingIds()
        self.groups = NoGroups()
        self.routes = FakeRoutes()
        self.peers = FakePeers()
        self.coordinator = self.make()

    @property
    def clock(self) -> ManualClock:
        return self.world.clock

    @property
    def log(self) -> FakeLog:
        """The stream of the partition that the id lives in."""
        return self.world.log(TRANSACTIONS_TOPIC, partition_for(ID, PARTITIONS))

    @property
    def writer(self) -> FakeWriter:
        assert self.log.writer is not None
        return self.log.writer

    def make(self) -> TransactionCoordinator:
        broker = self.world.broker
        topics: Any = self.world.topics
        ids: Any = self.ids
        parts = Parts(
            topics,
            broker.partitions,
            self.groups,
            broker.bookies,
            ids,
            self.clock,
            self.routes,
            self.peers,
        )
        coordinator = TransactionCoordinator(self.config, parts, ADD_WAIT_MS)
        broker.transactions = coordinator
        return coordinator

    async def restart(self) -> None:
        """Stop the coordinator without a word and start another over the same streams."""
        await self.coordinator.close()
        self.world = await restarted(self.world)
        self.coordinator = self.make()
        await self.coordinator.start()

    async def prepare(self) -> ErrorCode:
        """Have the id served, as whoever looks for its coordinator does."""
        found = await self.coordinator.find(ID)
        return found if isinstance(found, ErrorCode) else ErrorCode.NONE

    async def init(self, expected: Producer | None = None) -> Producer | ErrorCode:
        return await self.coordinator.init_producer_id(ID, TIMEOUT_MS, expected)

    async def producer(self) -> Producer:
        """Return a producer that may begin."""
        found = await self.init()
        assert isinstance(found, Producer)
        return found

    async def add(self, producer: Producer, *partitions: int, version: int = 0) -> ErrorCode:
        wanted = [TopicPartition("t", each) for each in partitions or (0,)]
        code: ErrorCode = await self.coordinator.add(ID, producer, wanted, version)
        return code

    def take_in(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Answer:
        """Write to partitions as a client of transaction version 2 does: unasked."""
        question = Question(ID, producer_id, producer_epoch, tuple(partitions), adds=True)
        return self.coordinator.verification.ask(question)

    async def end(
        self, producer: Producer, *, committed: bool = True, version: int = 0
    ) -> Producer | ErrorCode:
        return await self.coordinator.end(ID, producer, version, committed=committed)

    def log_epoch(self) -> int:
        """Return the epoch of the coordinator's own partition."""
        tp = TopicPartition(TRANSACTIONS_TOPIC, partition_for(ID, PARTITIONS))
        log = self.world.broker.partitions.get(tp)
        assert log is not None
        return log.leader_epoch

    def described(self) -> Described:
        return self.coordinator.describe(ID)

    @property
    def state(self) -> str:
        return self.described().transaction_state

    async def log_of(self, partition: int = 0) -> PartitionLog:
        return await self.world.open("t", partition)

    def batches(self, partition: int = 0) -> Sequence[memoryview]:
        return [each.record.payload for each in self.world.log("t", partition).all_records()]


@asynccontextmanager
async def running_transactions(
    *, auto: bool = True, config: TransactionConfig = CONFIG, prepared: bool = True
) -> AsyncIterator[Transactions]:
    """Yield a coordinator that serves the id; every task has ended afterwards."""
    broker_config = BrokerConfig(
        transactions=config, groups=GroupConfig(offsets_topic_partitions=PARTITIONS)
    )
    found = Transactions(make_world(auto=auto, config=broker_config), config)
    escaped: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    found.world.topics.add("t", 3)
    await found.coordinator.start()
    if prepared:
        assert await found.prepare() is ErrorCode.NONE
    try:
        yield found
    finally:
        await found.coordinator.close()
        await found.world.broker.partitions.close()
        assert len(asyncio.all_tasks()) == 1
        assert not escaped, "a callback failed"
