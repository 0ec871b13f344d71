"""The coordinator over real partitions: loading, writing, failing, stopping, restarting."""

import asyncio
from typing import Any

import pytest

from broker.coordinator.config import GroupConfig
from broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from broker.coordinator.runtime import GroupCoordinator
from broker.coordinator.shard_runner import BATCH_BYTES_MAX
from core.errors import BookieUnavailable, LogNotFound, NotEnoughBookies, Unavailable
from core.runtime.metrics import Metrics
from protocol.errors import ErrorCode
from protocol.kafka.messages.leave_group import MemberIdentity
from protocol.records.batch import read_header
from protocol.records.record import iter_records
from tests.unit.broker.coordinator.runtime_support import (
    CONFIG,
    GROUP,
    PARTITIONS,
    Groups,
    running_groups,
)
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


# Finding and loading


@in_loop
async def test_the_first_group_makes_the_internal_topic() -> None:
    async with running_groups(prepared=False) as groups:
        assert groups.join().result() is ErrorCode.NOT_COORDINATOR
        assert await groups.coordinator.prepare(GROUP) is NONE
        topic = groups.world.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert topic.partition_count == PARTITIONS
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
        assert groups.join(version=5).result().error_code == ErrorCode.MEMBER_ID_REQUIRED


@in_loop
async def test_two_first_groups_make_it_once() -> None:
    async with running_groups(prepared=False) as groups, asyncio.TaskGroup() as both:
        tasks = [both.create_task(groups.coordinator.prepare(g)) for g in "ab"]
        await asyncio.wait(tasks)
        assert [task.result() for task in tasks] == [NONE, NONE]


@in_loop
async def test_a_topic_that_cannot_be_made_is_no_coordinator() -> None:
    async with running_groups(prepared=False) as groups:

        async def refuse(*_: object) -> None:
            raise NotEnoughBookies

        groups.world.topics.create = refuse  # type: ignore[method-assign,assignment]
        code = await groups.coordinator.prepare(GROUP)
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@in_loop
async def test_while_it_loads() -> None:
    async with running_groups() as groups:
        await groups.stable()
        await groups.restart()
        groups.log.opening = asyncio.Event()
        assert groups.join("a").result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.commit(1).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        described = groups.coordinator.describe(GROUP, 5)
        assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups.log.opening.set()
        assert await groups.coordinator.prepare(GROUP) is NONE
        assert groups.coordinator.describe(GROUP, 5).group_state == "Stable"


@in_loop
async def test_a_heartbeat_while_it_loads_is_fine() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.restart()
        assert groups.heartbeat(joined) is NONE
        assert await groups.coordinator.prepare(GROUP) is NONE
        assert groups.heartbeat(joined) is NONE


@in_loop
async def test_a_load_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_groups() as groups:
        assert codes(await groups.commit(7)) == [NONE]
        await groups.restart()
        groups.log.open_error = BookieUnavailable("b1")
        assert groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await turns(10)
        groups.log.open_error = None
        assert await groups.coordinator.prepare(GROUP) is NONE
        assert groups.committed() == 7
        assert "group_load_failed" in caplog.text


@in_loop
async def test_a_partition_that_is_gone_is_not_tried_for_ever() -> None:
    async with running_groups() as groups:
        await groups.restart()
        groups.log.open_error = LogNotFound(GROUP)
        assert await groups.coordinator.prepare(GROUP) is NONE
        assert groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await groups.coordinator.list_groups((), ()) is (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )


@in_loop
async def test_bytes_that_are_no_record_do_not_take_the_others_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from protocol.records.record import build_batch, key_value_records

    async with running_groups() as groups:
        await groups.commit(7)
        log = await groups.world.open(OFFSETS_TOPIC, int(groups.log.name.rpartition("-")[2]))
        foreign = [(b"\0\1junk", b"x"), (b"\0\x63other kind", b"y"), (None, b"z")]
        await log.append(memoryview(build_batch(key_value_records(foreign, 0))))
        await groups.restart()
        await groups.coordinator.prepare(GROUP)
        assert groups.committed() == 7
        assert caplog.text.count("group_record_unreadable") == 2


# Membership and offsets over a restart


@in_loop
async def test_members_go_on_after_a_restart() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.coordinator.prepare("simple")
        assert codes(await groups.commit(3, group="simple")) == [NONE]
        await groups.restart()
        await groups.coordinator.prepare(GROUP)
        await groups.coordinator.prepare("simple")
        groups.clock.advance_ms(9_999)
        groups.coordinator.fire_due()
        assert groups.heartbeat(joined) is NONE
        assert (await groups.sync(joined)).assignment == b"mine"
        assert groups.committed(group="simple") == 3


@in_loop
async def test_sessions_start_anew_after_a_restart() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        groups.clock.advance_ms(9_000)
        await groups.restart()
        await groups.coordinator.prepare(GROUP)
        groups.clock.advance_ms(9_999)
        groups.coordinator.fire_due()
        assert groups.coordinator.describe(GROUP, 5).group_state == "Stable"
        groups.clock.advance_ms(1)
        groups.coordinator.fire_due()
        assert groups.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


@in_loop
async def test_groups_that_nobody_asks_for_are_loaded_too() -> None:
    async with running_groups() as groups:
        await groups.stable()
        await groups.restart()
        listed = await groups.coordinator.list_groups((), ())
        assert [(g.group_id, g.group_state) for g in listed] == [(GROUP, "Stable")]
        assert groups.coordinator.metrics.shards_loaded == PARTITIONS


@in_loop
async def test_the_clock_task_wakes_for_deadlines_by_itself() -> None:
    async with running_groups() as groups:
        response = await groups.join()  # the initial delay is 0: its deadline is now
        assert response.error_code == NONE


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
        assert [groups.committed(n) for n in range(3)] == [0, 1, 2]
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
        assert groups.committed(19_999) == 1


@in_loop
async def test_a_commit_that_fits_into_no_batch_is_refused_alone() -> None:
    async with running_groups() as groups:
        groups.world.topics.add("t", 50_000)
        large, small = groups.commit(1, partitions=range(50_000)), groups.commit(2)
        assert set(codes(await large)) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
        assert codes(await small) == [NONE]
        assert groups.committed(0) == 2
        assert groups.committed(1) is None


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
        assert groups.committed() == 1


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
        assert await groups.coordinator.prepare(GROUP) is NONE
        assert groups.committed(group=NEIGHBOUR) == 1  # what was not confirmed never happened
        assert groups.heartbeat(joined) is NONE
        assert groups.coordinator.describe(GROUP, 5).group_state == "Stable"
        assert groups.coordinator.metrics.shard_failures_total == 1


@in_loop
async def test_an_append_after_the_log_died_sends_away_once() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        groups.writer.fail(Unavailable("gone"))
        assert await groups.commit(2) is ErrorCode.NOT_COORDINATOR
        await groups.coordinator.prepare(GROUP)
        assert codes(await groups.commit(3)) == [NONE]
        assert groups.committed() == 3


# Topics


@in_loop
async def test_a_deleted_topic_takes_its_offsets_along() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        topic = groups.world.topics.get("t")
        assert topic is not None
        await groups.coordinator.on_topic_deleting(topic)
        assert await groups.coordinator.settle(GROUP) is NONE
        assert groups.committed() is None
        await groups.restart()
        await groups.coordinator.prepare(GROUP)
        assert groups.committed() is None


@in_loop
async def test_a_topic_deleted_while_offsets_load_takes_them_along() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        topic = groups.world.topics.get("t")
        assert topic is not None
        await groups.restart()
        groups.log.opening = asyncio.Event()
        groups.committed()  # begins to load
        await groups.coordinator.on_topic_deleting(topic)
        groups.log.opening.set()
        await groups.coordinator.prepare(GROUP)
        assert await groups.coordinator.settle(GROUP) is NONE
        assert groups.committed() is None


@in_loop
async def test_without_the_internal_topic_there_are_no_groups() -> None:
    async with running_groups() as groups:
        await groups.stable()
        topic = groups.world.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        parked = groups.join(version=3)
        await groups.coordinator.on_topic_deleting(topic)
        assert await parked is ErrorCode.NOT_COORDINATOR
        assert groups.committed() is ErrorCode.NOT_COORDINATOR
        assert await groups.coordinator.list_groups((), ()) == []


# Asking


@in_loop
async def test_an_empty_group_id_is_only_good_for_offsets() -> None:
    async with running_groups() as groups:
        coordinator = groups.coordinator
        assert groups.join(group="").result() is ErrorCode.INVALID_GROUP_ID
        leaving = [MemberIdentity(member_id="a")]
        assert coordinator.leave("", leaving).result() is ErrorCode.INVALID_GROUP_ID
        await coordinator.prepare("")
        assert codes(await groups.commit(1, group="")) == [NONE]
        assert groups.committed(group="") == 1


@in_loop
async def test_list_filters_by_state_and_type() -> None:
    async with running_groups() as groups:
        await groups.stable()
        await groups.coordinator.prepare("simple")
        await groups.commit(1, group="simple")

        async def names(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
            found = await groups.coordinator.list_groups(states, types)
            assert not isinstance(found, ErrorCode)
            return sorted(g.group_id for g in found)

        assert await names() == [GROUP, "simple"]
        assert await names(("stable",)) == [GROUP]
        assert await names(("Empty", "Dead")) == ["simple"]
        assert await names((), ("Classic",)) == [GROUP, "simple"]
        assert await names((), ("consumer",)) == []
        assert await names(("nonsense",), ("classic",)) == []


@in_loop
async def test_upkeep_deletes_what_has_lapsed() -> None:
    config = GroupConfig(offsets_topic_partitions=PARTITIONS, offsets_retention_minutes=1)
    async with running_groups(config=config) as groups:
        await groups.commit(1)
        groups.clock.advance_ms(60_000)
        groups.coordinator.clean()
        assert await groups.coordinator.settle(GROUP) is NONE
        assert groups.committed() is None
        assert await groups.coordinator.list_groups((), ()) == []


# Stopping


@in_loop
async def test_release_empties_the_barriers_and_lets_writes_finish() -> None:
    async with running_groups(auto=False) as groups:
        joined = await groups.stable()
        await groups.join(version=5)
        parked, write = groups.join(joined.member_id), groups.commit(1, group="simple")
        groups.coordinator.release()
        assert (await parked).error_code == ErrorCode.NOT_COORDINATOR
        assert groups.join(joined.member_id).result() is ErrorCode.NOT_COORDINATOR
        assert not write.done() or isinstance(write.result(), ErrorCode)


@in_loop
async def test_close_answers_whoever_still_waits() -> None:
    async with running_groups(auto=False) as groups:
        waiting = groups.commit(1)
        await groups.coordinator.close()
        assert await waiting is ErrorCode.NOT_COORDINATOR


@in_loop
async def test_numbers_are_registered_and_move() -> None:
    async with running_groups() as groups:
        other = Groups(groups.world, CONFIG).coordinator
        metrics = Metrics()
        await other.start(metrics)
        await other.prepare(GROUP)
        groups.world.broker.groups = groups.coordinator
        assert metrics.snapshot()["broker_groups_joins_total"] == 0
        assert metrics.snapshot()["broker_groups_shards_loaded"] >= 1
        await other.close()
        await groups.stable()
        assert groups.coordinator.metrics.joins_total == 1
        assert isinstance(groups.coordinator, GroupCoordinator)
