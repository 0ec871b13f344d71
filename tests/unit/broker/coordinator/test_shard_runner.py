"""One partition at work over a log in memory: batches, limits, and what a failed append does."""

import asyncio
from typing import Any

import pytest

from tailrace.broker.coordinator.partitioning import partition_for_group
from tailrace.broker.replicated.runner import BATCH_BYTES_MAX
from tailrace.core.errors import BookieUnavailable, NotEnoughBookies, Unavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import iter_records
from tests.unit.broker.coordinator.runtime_support import GROUP, PARTITIONS, running_groups
from tests.unit.broker.loops import in_loop, turns

NONE = ErrorCode.NONE
NEIGHBOUR = next(
    name
    for name in map("simple-{}".format, range(99))
    if partition_for_group(name, PARTITIONS) == partition_for_group(GROUP, PARTITIONS)
)
"""A group that lives in the same partition."""


def codes(response: Any) -> list[ErrorCode]:
    return [ErrorCode(p.error_code) for t in response.topics for p in t.partitions]


# Writing


@in_loop
async def test_what_happens_in_one_turn_of_the_loop_is_one_batch() -> None:
    async with running_groups(auto=False) as groups:
        commits = [groups.commit(n, partitions=[n]) for n in range(3)]
        await turns()
        (record,) = groups.log.all_records()
        batch = record.record.payload
        assert read_header(batch).record_count == 3
        assert read_header(batch).base_timestamp == groups.clock.now_ms()
        assert next(iter_records(batch)).key is not None
        assert not any(commit.done() for commit in commits)
        groups.writer.confirm()
        assert [codes(await commit) for commit in commits] == [[NONE]] * 3
        assert [await groups.committed(n) for n in range(3)] == [0, 1, 2]
        assert groups.coordinator.metrics.records_written_total == 3


@in_loop
async def test_a_large_turn_is_several_batches_none_too_large() -> None:
    async with running_groups() as groups:
        groups.world.topics.add("t", 20_000)
        commits = [
            groups.commit(1, partitions=range(n, n + 4_000)) for n in range(0, 20_000, 4_000)
        ]
        for commit in commits:
            assert set(codes(await commit)) == {NONE}
        sizes = [len(each.record.payload) for each in groups.log.all_records()]
        assert len(sizes) > 1
        assert max(sizes) <= BATCH_BYTES_MAX
        assert await groups.committed(19_999) == 1


@in_loop
async def test_a_commit_that_fits_into_no_batch_is_refused_alone() -> None:
    async with running_groups() as groups:
        groups.world.topics.add("t", 50_000)
        large, small = groups.commit(1, partitions=range(50_000)), groups.commit(2)
        assert set(codes(await large)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
        assert codes(await small) == [NONE]
        assert await groups.committed(0) == 2
        assert await groups.committed(1) is None


@in_loop
async def test_settle_waits_for_what_was_asked_before_it() -> None:
    async with running_groups(auto=False) as groups:
        assert groups.coordinator.settle(GROUP).result() is NONE
        groups.commit(1)
        queued = groups.coordinator.settle(GROUP)
        await turns()
        in_flight = groups.coordinator.settle(GROUP)
        assert not queued.done()
        assert not in_flight.done()
        groups.writer.confirm()
        assert (await queued, await in_flight) == (NONE, NONE)
        assert await groups.committed() == 1


# Failing


@in_loop
async def test_a_failed_append_sends_everybody_away_and_reads_again() -> None:
    async with running_groups(auto=False) as groups:
        joined = await groups.stable()
        kept = groups.commit(1, group=NEIGHBOUR)
        await turns()
        groups.writer.confirm()
        assert codes(await kept) == [NONE]
        await groups.join(version=5)  # somebody is about to join: the barrier waits
        parked, lost = groups.join(joined.member_id), groups.commit(2, group=NEIGHBOUR)
        await turns()
        groups.writer.fail(BookieUnavailable("b1"))
        assert await parked is ErrorCode.NOT_COORDINATOR
        assert await lost is ErrorCode.NOT_COORDINATOR
        assert groups.coordinator.metrics.requests_waiting == 0
        assert await groups.prepare(GROUP) is NONE
        assert await groups.committed(group=NEIGHBOUR) == 1  # what was not confirmed never happened
        assert groups.heartbeat(joined) is NONE
        assert groups.coordinator.describe(GROUP, 5).group_state == "Stable"
        assert groups.coordinator.metrics.shard_failures_total == 1


@in_loop
async def test_a_log_that_refuses_what_clients_write_is_read_all_the_time() -> None:
    """As without room: each commit is refused, and what was committed is told at once."""
    async with running_groups() as groups:
        await groups.commit(1)

        def refuse(*_: object, **__: object) -> None:
            raise NotEnoughBookies("all are full")

        with pytest.MonkeyPatch.context() as full:
            full.setattr(groups.writer, "append", refuse)
            for failures in range(1, 6):
                assert await groups.commit(2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert groups.coordinator.metrics.shard_failures_total == failures
                await turns(20)
                assert await groups.committed() == 1
        assert codes(await groups.commit(3)) == [NONE]
        assert await groups.committed() == 3


@in_loop
async def test_an_append_after_the_log_died_sends_away_once() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        groups.writer.fail(Unavailable("gone"))
        assert await groups.commit(2) is ErrorCode.NOT_COORDINATOR
        await groups.prepare(GROUP)
        assert codes(await groups.commit(3)) == [NONE]
        assert await groups.committed() == 3


@in_loop
async def test_a_log_that_dies_while_nothing_is_written_is_noticed_by_whoever_asks() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        joined = await groups.stable()
        groups.log.opening = asyncio.Event()
        groups.writer.fail(BookieUnavailable("b1"))
        assert await groups.committed() is ErrorCode.NOT_COORDINATOR
        assert await groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        described = groups.coordinator.describe(GROUP, 5)
        assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.join(joined.member_id).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups.log.opening.set()
        assert await groups.prepare(GROUP) is ErrorCode.NONE
        assert await groups.committed() == 1
        assert groups.coordinator.metrics.shard_failures_total == 1
