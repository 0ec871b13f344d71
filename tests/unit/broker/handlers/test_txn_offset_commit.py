"""TxnOffsetCommit with both coordinators: groups and transactions over logs in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.coordinator import Parts, TransactionCoordinator
from tailrace.broker.transactions.decisions import Producer
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import TXN_OFFSET_COMMIT
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.broker.coordinator.runtime_support import GROUP, Groups, running_groups
from tests.unit.broker.handlers.group_support import ask, versions
from tests.unit.broker.loops import in_loop
from tests.unit.broker.transactions.runtime_support import CountingIds

NONE = ErrorCode.NONE
ID = "x"


class Both:
    """Groups, and transactions that end in them."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        broker = groups.world.broker
        topics: Any = groups.world.topics
        ids: Any = CountingIds()
        parts = Parts(
            topics, broker.partitions, groups.coordinator, broker.bookies, ids, groups.clock
        )
        self.transactions = TransactionCoordinator(TransactionConfig(topic_partitions=1), parts, 0)
        broker.transactions = self.transactions

    @property
    def partition(self) -> TopicPartition:
        partition = self.groups.coordinator.partition_for_group(GROUP)
        assert partition is not None
        return TopicPartition(OFFSETS_TOPIC, partition)

    async def producer(self) -> Producer:
        found = await self.transactions.init_producer_id(ID, 60_000, None)
        assert isinstance(found, Producer)
        return found

    async def commit(
        self, version: int, producer: Producer, offset: int = 5, **fields: Any
    ) -> list[int]:
        topic = TxnOffsetCommitRequestTopic(
            name="t",
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata="m"
                )
                for index in (0, 9)
            ],
        )
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": ID,
                "group_id": GROUP,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "topics": [topic],
                **fields,
            }
        )
        response = await ask(self.groups, TXN_OFFSET_COMMIT, version, request)
        return [p.error_code for t in response.topics for p in t.partitions]


@asynccontextmanager
async def running_both() -> AsyncIterator[Both]:
    async with running_groups() as groups:
        both = Both(groups)
        await both.transactions.start()
        assert not isinstance(await both.transactions.find(ID), ErrorCode)
        try:
            yield both
        finally:
            await both.transactions.close()


@pytest.mark.parametrize("version", versions(TXN_OFFSET_COMMIT))
@pytest.mark.parametrize("committed", [True, False])
def test_offsets_become_the_groups_with_the_transaction(version: int, committed: bool) -> None:
    @in_loop
    async def body() -> None:
        async with running_both() as both:
            producer = await both.producer()
            if version < 5:
                assert await both.transactions.add(ID, producer, [both.partition], 0) is NONE
            answer = await both.commit(version, producer)
            assert answer == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert await both.groups.committed() is None
            ended = await both.transactions.end(ID, producer, 0, committed=committed)
            assert isinstance(ended, Producer)
            await both.groups.coordinator.settle(GROUP)
            assert await both.groups.committed() == (5 if committed else None)

    body()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
        (5, NONE),
    ],
)
def test_a_partition_that_is_not_in_the_transaction(version: int, expected: ErrorCode) -> None:
    @in_loop
    async def body() -> None:
        async with running_both() as both:
            producer = await both.producer()
            code, unknown = await both.commit(version, producer)
            assert code == expected
            assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    body()


@pytest.mark.parametrize("version", versions(TXN_OFFSET_COMMIT))
def test_a_commit_of_what_is_not_there_joins_no_transaction(version: int) -> None:
    """One that did would have to be ended, though it holds nothing."""

    @in_loop
    async def body() -> None:
        async with running_both() as both:
            producer = await both.producer()
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            for name, partitions, expected in (
                ("nowhere", [partition], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
                ("t", [], []),
            ):
                topic = TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                assert await both.commit(version, producer, topics=[topic]) == expected
            assert await both.commit(version, producer, topics=[]) == []
            assert both.transactions.describe(ID).transaction_state == "Empty"

    body()


@pytest.mark.parametrize("version", versions(TXN_OFFSET_COMMIT))
def test_a_zombie_is_fenced(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_both() as both:
            zombie = await both.producer()
            await both.producer()
            code, _ = await both.commit(version, zombie)
            assert code == ErrorCode.INVALID_PRODUCER_EPOCH

    body()


@pytest.mark.parametrize("version", [2, 3, 5])
def test_the_generation_fences_since_it_is_named(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_both() as both:
            joined = await both.groups.stable()
            producer = await both.producer()
            await both.transactions.add(ID, producer, [both.partition], 0)
            fields = {"member_id": joined.member_id, "generation_id": joined.generation_id + 1}
            code, _ = await both.commit(version, producer, **fields)
            assert code == (ErrorCode.ILLEGAL_GENERATION if version >= 3 else NONE)

    body()


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, ErrorCode.COORDINATOR_NOT_AVAILABLE), (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_while_the_group_loads(version: int, expected: ErrorCode) -> None:
    @in_loop
    async def body() -> None:
        async with running_both() as both:
            producer = await both.producer()
            await both.groups.restart()
            code, _ = await both.commit(version, producer)
            assert code == expected

    body()


@in_loop
async def test_a_group_id_is_needed() -> None:
    async with running_both() as both:
        producer = await both.producer()
        code, _ = await both.commit(3, producer, group_id="")
        assert code == ErrorCode.INVALID_GROUP_ID
