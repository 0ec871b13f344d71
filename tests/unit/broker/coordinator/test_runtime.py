"""The coordinator over real partitions: loading, writing, failing, stopping, restarting."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.coordinator.runtime import GroupCoordinator
from tailrace.core.errors import BookieUnavailable, LogNotFound, NotEnoughBookies
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tests.unit.broker.coordinator.runtime_support import (
    CONFIG,
    GROUP,
    PARTITIONS,
    Groups,
    running_groups,
)
from tests.unit.broker.fakes import Bookies
from tests.unit.broker.loops import in_loop, turns

NONE = ErrorCode.NONE


def codes(response: Any) -> list[ErrorCode]:
    return [ErrorCode(p.error_code) for t in response.topics for p in t.partitions]


# Finding and loading


@in_loop
async def test_the_first_group_makes_the_internal_topic() -> None:
    async with running_groups(prepared=False) as groups:
        assert groups.join().result() is ErrorCode.NOT_COORDINATOR
        assert await groups.prepare(GROUP) is NONE
        topic = groups.world.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert topic.partition_count == PARTITIONS
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }
        assert groups.join(version=5).result().error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(("bookies", "copies"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_offsets_have_three_copies_or_as_many_as_there_are_bookies(
    bookies: int, copies: int
) -> None:
    @in_loop
    async def story() -> None:
        async with running_groups(prepared=False) as groups:
            groups.world.bookies.ids = Bookies(bookies).ids
            assert await groups.prepare(GROUP) is NONE
            topic = groups.world.topics.get(OFFSETS_TOPIC)
            assert topic is not None
            assert topic.replication_factor == copies

    story()


@pytest.mark.parametrize("writable", [0, 1, 2])
def test_while_bookies_are_read_only_offsets_are_not_made_with_fewer_copies(writable: int) -> None:
    @in_loop
    async def story() -> None:
        async with running_groups(prepared=False) as groups:
            bookies, three = groups.world.bookies, Bookies(3).ids
            bookies.ids, bookies.read_only = three[:writable], three[writable:]
            assert await groups.prepare(GROUP) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert groups.world.topics.get(OFFSETS_TOPIC) is None
            bookies.ids, bookies.read_only = three, []
            assert await groups.prepare(GROUP) is NONE
            topic = groups.world.topics.get(OFFSETS_TOPIC)
            assert topic is not None
            assert topic.replication_factor == 3

    story()


@in_loop
async def test_two_first_groups_make_it_once() -> None:
    async with running_groups(prepared=False) as groups, asyncio.TaskGroup() as both:
        tasks = [both.create_task(groups.prepare(g)) for g in "ab"]
        await asyncio.wait(tasks)
        assert [task.result() for task in tasks] == [NONE, NONE]


@in_loop
async def test_a_topic_that_cannot_be_made_is_no_coordinator() -> None:
    async with running_groups(prepared=False) as groups:

        async def refuse(*_: object) -> None:
            raise NotEnoughBookies

        groups.world.topics.create = refuse  # type: ignore[method-assign,assignment]
        code = await groups.prepare(GROUP)
        assert code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@in_loop
async def test_while_it_loads() -> None:
    async with running_groups() as groups:
        await groups.stable()
        await groups.restart()
        groups.log.opening = asyncio.Event()
        assert groups.join("a").result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert groups.commit(1).result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        described = groups.coordinator.describe(GROUP, 5)
        assert described.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups.log.opening.set()
        assert await groups.prepare(GROUP) is NONE
        assert groups.coordinator.describe(GROUP, 5).group_state == "Stable"


@in_loop
async def test_at_no_moment_of_a_load_is_anything_told_but_the_whole() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.coordinator.leave(GROUP, [MemberIdentity(member_id=joined.member_id)])
        for offset in range(300):  # in as many batches
            assert codes(await groups.commit(offset, partitions=[offset % 5])) == [NONE]
        small = replace(groups.config, offsets_load_buffer_bytes=200)
        groups.config = small
        await groups.restart()
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        told = 0
        while (found := await groups.committed(4)) is loading:
            assert groups.coordinator.describe(GROUP, 6).error_code == loading
            assert groups.join().result() is loading
            assert groups.commit(1_000).result() is loading
            assert await groups.coordinator.delete([GROUP]) == {GROUP: loading}
            assert await groups.coordinator.settle(GROUP) is loading
            told += 1
            await asyncio.sleep(0)
        assert told > 50
        assert found == 299
        assert [await groups.committed(n) for n in range(5)] == [295, 296, 297, 298, 299]
        assert groups.coordinator.describe(GROUP, 6).group_state == "Empty"


@in_loop
async def test_a_heartbeat_while_it_loads_is_fine() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.restart()
        assert groups.heartbeat(joined) is NONE
        assert await groups.prepare(GROUP) is NONE
        assert groups.heartbeat(joined) is NONE


@in_loop
async def test_a_load_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_groups() as groups:
        assert codes(await groups.commit(7)) == [NONE]
        await groups.restart()
        groups.log.open_error = BookieUnavailable("b1")
        assert await groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await turns(10)
        groups.log.open_error = None
        groups.clock.advance_ms(100)  # the pause after a failed opening
        assert await groups.prepare(GROUP) is NONE
        assert await groups.committed() == 7
        assert "task=group.load" in caplog.text


@in_loop
async def test_a_partition_that_is_gone_is_not_tried_for_ever() -> None:
    async with running_groups() as groups:
        await groups.restart()
        groups.log.open_error = LogNotFound(GROUP)
        assert await groups.prepare(GROUP) is NONE
        assert await groups.committed() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await groups.coordinator.list_groups((), (), Pace(LoopTurns())) is (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        )


@in_loop
async def test_bytes_that_are_no_record_do_not_take_the_others_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tailrace.protocol.records.record import build_batch, key_value_records

    async with running_groups() as groups:
        await groups.commit(7)
        log = await groups.world.open(OFFSETS_TOPIC, int(groups.log.name.rpartition("-")[2]))
        foreign = [(b"\0\1junk", b"x"), (b"\0\x63other kind", b"y"), (None, b"z")]
        await log.append(memoryview(build_batch(key_value_records(foreign, 0))))
        await groups.restart()
        await groups.prepare(GROUP)
        assert await groups.committed() == 7
        assert caplog.text.count("state_record_unreadable") == 2


# Membership and offsets over a restart


@in_loop
async def test_members_go_on_after_a_restart() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.prepare("simple")
        assert codes(await groups.commit(3, group="simple")) == [NONE]
        await groups.restart()
        await groups.prepare(GROUP)
        await groups.prepare("simple")
        groups.clock.advance_ms(9_999)
        groups.coordinator.fire_due()
        assert groups.heartbeat(joined) is NONE
        assert (await groups.sync(joined)).assignment == b"mine"
        assert await groups.committed(group="simple") == 3


@in_loop
async def test_sessions_start_anew_after_a_restart() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        groups.clock.advance_ms(9_000)
        await groups.restart()
        await groups.prepare(GROUP)
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
        listed = await groups.coordinator.list_groups((), (), Pace(LoopTurns()))
        assert [(g.group_id, g.group_state) for g in listed] == [(GROUP, "Stable")]
        assert groups.coordinator.metrics.shards_loaded == PARTITIONS


@in_loop
async def test_the_clock_task_wakes_for_deadlines_by_itself() -> None:
    async with running_groups() as groups:
        response = await groups.join()  # the initial delay is 0: its deadline is now
        assert response.error_code == NONE


# Topics


@in_loop
async def test_a_deleted_topic_takes_its_offsets_along() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        topic = groups.world.topics.get("t")
        assert topic is not None
        await groups.coordinator.on_topic_deleting(topic)
        assert await groups.coordinator.settle(GROUP) is NONE
        assert await groups.committed() is None
        await groups.restart()
        await groups.prepare(GROUP)
        assert await groups.committed() is None


@in_loop
async def test_a_topic_deleted_while_offsets_load_takes_them_along() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        topic = groups.world.topics.get("t")
        assert topic is not None
        await groups.restart()
        groups.log.opening = asyncio.Event()
        await groups.committed()  # begins to load
        await groups.coordinator.on_topic_deleting(topic)
        groups.log.opening.set()
        await groups.prepare(GROUP)
        assert await groups.coordinator.settle(GROUP) is NONE
        assert await groups.committed() is None


@in_loop
async def test_a_topic_deleted_before_offsets_load_takes_them_along() -> None:
    async with running_groups() as groups:
        await groups.commit(1)
        topic = groups.world.topics.get("t")
        assert topic is not None
        await groups.restart()  # partitions load one after the other: this one not yet
        await groups.coordinator.on_topic_deleting(topic)
        await groups.prepare(GROUP)
        assert await groups.coordinator.settle(GROUP) is NONE
        assert await groups.committed() is None


@in_loop
async def test_without_the_internal_topic_there_are_no_groups() -> None:
    async with running_groups() as groups:
        await groups.stable()
        topic = groups.world.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        parked = groups.join(version=3)
        await groups.coordinator.on_topic_deleting(topic)
        assert await parked is ErrorCode.NOT_COORDINATOR
        assert await groups.committed() is ErrorCode.NOT_COORDINATOR
        assert await groups.coordinator.list_groups((), (), Pace(LoopTurns())) == []


# Asking


@in_loop
async def test_an_empty_group_id_is_only_good_for_offsets() -> None:
    async with running_groups() as groups:
        coordinator = groups.coordinator
        assert groups.join(group="").result() is ErrorCode.INVALID_GROUP_ID
        leaving = [MemberIdentity(member_id="a")]
        assert coordinator.leave("", leaving).result() is ErrorCode.INVALID_GROUP_ID
        await groups.prepare("")
        assert codes(await groups.commit(1, group="")) == [NONE]
        assert await groups.committed(group="") == 1


@in_loop
async def test_list_filters_by_state_and_type() -> None:
    async with running_groups() as groups:
        await groups.stable()
        await groups.prepare("simple")
        await groups.commit(1, group="simple")

        async def names(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
            found = await groups.coordinator.list_groups(states, types, Pace(LoopTurns()))
            assert not isinstance(found, ErrorCode)
            return sorted(g.group_id for g in found)

        assert await names() == [GROUP, "simple"]
        assert await names(("stable",)) == [GROUP]
        assert await names(("empty", "dead")) == ["simple"]
        assert await names((), ("classic",)) == [GROUP, "simple"]
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
        assert await groups.committed() is None
        assert await groups.coordinator.list_groups((), (), Pace(LoopTurns())) == []


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
        await other.find(GROUP)
        groups.world.broker.groups = groups.coordinator
        assert metrics.snapshot()["broker_groups_joins_total"] == 0
        assert metrics.snapshot()["broker_groups_shards_loaded"] >= 1
        await other.close()
        await groups.stable()
        assert groups.coordinator.metrics.joins_total == 1
        assert isinstance(groups.coordinator, GroupCoordinator)
