"""Writes of transactions on their way through the runner: refused ones, and those around them."""

import asyncio
from typing import Any

import pytest

from tailrace.broker.coordinator.offset_requests import Verify
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.partition import producers
from tailrace.core.errors import BookieUnavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.coordinator.runtime_support import (
    CALLER,
    GROUP,
    PARTITIONS,
    Groups,
    running_groups,
)
from tests.unit.broker.loops import in_loop, turns

NONE, GONE = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PRODUCER = 5


async def yes(_partition: TopicPartition) -> ErrorCode:
    return NONE


def committing(groups: Groups, offset: int, *, epoch: int = 0, verify: Verify = yes) -> Any:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return asyncio.ensure_future(groups.coordinator.commit_in_transaction(request, CALLER, verify))


def ending(groups: Groups, *, epoch: int = 0, coordinator_epoch: int = 0) -> Any:
    partition = groups.coordinator.partition_for_group(GROUP)
    assert partition is not None
    return groups.coordinator.end_transaction(partition, PRODUCER, epoch, coordinator_epoch, True)


def code_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


@in_loop
async def test_batches_are_kafkas() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        await committing(groups, 2, epoch=3)
        await ending(groups, epoch=3)
        headers = [read_header(each.record.payload) for each in groups.log.all_records()]
        assert [
            (h.producer_id, h.producer_epoch, h.base_sequence, h.is_transactional, h.is_control)
            for h in headers
        ] == [
            (-1, -1, -1, False, False),
            (PRODUCER, 3, 0, True, False),
            (PRODUCER, 3, -1, True, True),
        ]


@in_loop
async def test_a_zombies_commit_is_refused_and_nothing_else_is_lost() -> None:
    async with running_groups(auto=False) as groups:
        begun = committing(groups, 2, epoch=1)
        await turns()
        groups.writer.confirm()
        assert code_of(await begun) is NONE
        before, zombie, after = groups.commit(7), committing(groups, 3), groups.commit(8)
        settled = groups.coordinator.settle(GROUP)
        await turns()
        assert await zombie is ErrorCode.INVALID_PRODUCER_EPOCH
        assert not before.done()
        assert not settled.done()
        groups.writer.confirm()
        assert code_of(await before) is code_of(await after) is NONE
        assert await settled is NONE
        assert await groups.committed() == 8
        assert groups.coordinator.metrics.shard_failures_total == 0


@in_loop
async def test_settling_behind_a_refused_write_waits_for_those_before_it() -> None:
    async with running_groups(auto=False) as groups:
        begun = committing(groups, 2, epoch=1)
        await turns()
        groups.writer.confirm()
        await begun
        before = groups.commit(7)
        await turns()
        zombie = committing(groups, 3)
        await turns(1)
        settled = groups.coordinator.settle(GROUP)
        await turns()
        assert zombie.done()
        assert not settled.done()
        groups.writer.confirm()
        assert await settled is NONE
        assert before.done()


@in_loop
async def test_a_zombie_coordinators_marker_is_refused() -> None:
    async with running_groups() as groups:
        await committing(groups, 2, epoch=1)
        assert await ending(groups, epoch=1, coordinator_epoch=4) is NONE
        await committing(groups, 3, epoch=1)
        fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await ending(groups, epoch=1, coordinator_epoch=3) is fenced
        assert (
            await ending(groups, epoch=0, coordinator_epoch=4) is ErrorCode.INVALID_PRODUCER_EPOCH
        )
        assert await groups.committed() == 2
        assert await ending(groups, epoch=1, coordinator_epoch=4) is NONE
        assert await groups.committed() == 3


@in_loop
async def test_a_log_that_fails_under_a_marker_is_read_again() -> None:
    async with running_groups(auto=False) as groups:
        begun = committing(groups, 2)
        await turns()
        groups.writer.confirm()
        await begun
        lost = ending(groups)
        await turns()
        groups.writer.fail(BookieUnavailable("b1"))
        assert await lost is ErrorCode.NOT_COORDINATOR
        await groups.prepare(GROUP)
        assert await groups.committed() is None
        again = ending(groups)
        await turns()
        groups.writer.confirm()
        assert await again is NONE
        assert await groups.committed() == 2


@in_loop
async def test_a_marker_between_the_yes_and_the_write_breaks_the_commit() -> None:
    async with running_groups() as groups:

        async def slow_yes(_partition: TopicPartition) -> ErrorCode:
            assert await ending(groups) is NONE
            return NONE

        assert code_of(await committing(groups, 1, verify=slow_yes)) is ErrorCode.INVALID_TXN_STATE


@in_loop
async def test_a_marker_stands_between_what_was_asked_in_the_same_turn() -> None:
    async with running_groups(auto=False) as groups:
        begun = committing(groups, 2)
        await turns()
        groups.writer.confirm()
        await begun
        asked = [groups.commit(7, partitions=[1]), ending(groups), groups.commit(8, partitions=[1])]
        await turns()
        batches = [each.record.payload for each in groups.log.all_records()[-3:]]
        assert [read_header(batch).is_control for batch in batches] == [False, True, False]
        groups.writer.confirm()
        for answer in asked:
            await answer
        assert (await groups.committed(0), await groups.committed(1)) == (2, 8)


@in_loop
async def test_a_refused_commit_leaves_nothing_behind() -> None:
    async with running_groups() as groups:
        assert await ending(groups, epoch=1) is NONE
        assert await committing(groups, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert groups.coordinator.describe(GROUP, 6).error_code == NONE
        groups.coordinator.clean()
        assert groups.coordinator.describe(GROUP, 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@in_loop
async def test_more_open_transactions_than_a_partition_takes_cost_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "TRANSACTIONS_MAX", 0)
    async with running_groups() as groups:
        assert await committing(groups, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert groups.coordinator.metrics.shard_failures_total == 0


@in_loop
async def test_of_offsets_that_are_gone_no_marker_is_missed() -> None:
    async with running_groups() as groups:
        await committing(groups, 1)
        assert await groups.coordinator.end_transaction(PARTITIONS, PRODUCER, 0, 0, True) is GONE
        await groups.world.topics.delete(OFFSETS_TOPIC)
        assert await groups.coordinator.end_transaction(0, PRODUCER, 0, 0, True) is GONE
