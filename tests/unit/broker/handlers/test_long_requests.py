"""What handlers do with very many names: parts, repetitions, order, and one wait for all."""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tailrace.broker.handlers import _slices
from tailrace.broker.handlers._names import SORTED_AT_ONCE, in_order, repeated
from tailrace.broker.replicated.partitions import LOAD_WAIT_S
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    DELETE_GROUPS,
    FIND_COORDINATOR,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from tailrace.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.unit.broker.coordinator.runtime_support import CONFIG, GROUP, running_groups
from tests.unit.broker.handlers.group_support import ask
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.virtual import in_virtual_time

MANY = 1000


@in_loop
async def test_repetitions_and_order_are_those_of_the_plain_ways() -> None:
    random = Random(2)
    names = [str(random.randrange(2 * SORTED_AT_ONCE)) for _ in range(3 * SORTED_AT_ONCE)]
    pace = Pace(LoopTurns())
    counts = Counter(names)
    assert await repeated(names, pace) == {name for name in counts if counts[name] > 1}
    assert list(await in_order(names, pace)) == sorted(names)
    assert list(await in_order((), pace)) == []


def _topic(name: str, count: int) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(
        name=name,
        partitions=[OffsetCommitRequestPartition(partition_index=each) for each in range(count)],
    )


@pytest.mark.parametrize("sizes", [[], [0], [5], [100], [101], [60, 60], [0] * 250, [1, 350, 0, 7]])
def test_parts_are_short_and_what_is_joined_is_what_was_cut(sizes: list[int]) -> None:
    topics = [_topic(f"t{number}", size) for number, size in enumerate(sizes)]
    joined: list[Any] = []
    for part in _slices.parts(topics):
        assert sum(max(len(topic.partitions), 1) for topic in part) <= _slices.AT_ONCE
        _slices.join(joined, part)
    assert [(each.name, list(each.partitions)) for each in joined] == [
        (each.name, list(each.partitions)) for each in topics
    ]
    assert _slices.is_long(topics) is (sum(sizes) > _slices.AT_ONCE or len(sizes) > 100)


@in_loop
async def test_many_partitions_are_committed_found_and_deleted_each_on_its_own() -> None:
    async with running_groups() as groups:
        groups.world.topics.add("wide", MANY)
        commit = OffsetCommitRequest(group_id=GROUP, topics=[_topic("wide", MANY + 1)])
        (told,) = (await ask(groups, OFFSET_COMMIT, 8, commit)).topics
        assert [each.error_code for each in told.partitions] == [0] * MANY + [3]
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (found,) = (await ask(groups, OFFSET_FETCH, 8, fetch)).groups[0].topics
        assert [each.partition_index for each in found.partitions] == list(range(MANY))
        partitions = [OffsetDeleteRequestPartition(partition_index=each) for each in range(MANY)]
        delete = OffsetDeleteRequest(
            group_id=GROUP, topics=[OffsetDeleteRequestTopic(name="wide", partitions=partitions)]
        )
        response = await ask(groups, OFFSET_DELETE, 0, delete)
        assert (response.error_code, len(response.topics[0].partitions)) == (0, MANY)
        assert (await ask(groups, OFFSET_FETCH, 8, fetch)).groups[0].topics == ()


@in_loop
async def test_a_part_that_takes_too_long_is_the_last_that_is_tried() -> None:
    config = replace(CONFIG, offsets_commit_timeout_ms=1)
    async with running_groups(auto=False, config=config) as groups:
        groups.world.topics.add("wide", MANY)
        commit = OffsetCommitRequest(group_id=GROUP, topics=[_topic("wide", MANY)])
        (told,) = (await ask(groups, OFFSET_COMMIT, 8, commit)).topics
        late = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert [each.error_code for each in told.partitions] == [late] * MANY
        groups.writer.confirm()
        await turns()
        assert await groups.committed() is None  # of another topic
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        (found,) = (await ask(groups, OFFSET_FETCH, 8, fetch)).groups[0].topics
        assert len(found.partitions) == _slices.AT_ONCE


@in_loop
async def test_many_members_leave_each_with_its_own_answer() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        names = [*(f"m{number}" for number in range(MANY)), joined.member_id]
        members = [MemberIdentity(member_id=name) for name in names]
        request = LeaveGroupRequest(group_id=GROUP, members=members)
        response = await ask(groups, LEAVE_GROUP, 5, request)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert [each.member_id for each in response.members] == names
        assert [each.error_code for each in response.members] == [unknown] * MANY + [0]


@in_virtual_time
async def test_stable_offsets_of_many_groups_take_one_wait() -> None:
    loop = asyncio.get_running_loop()
    async with running_groups(auto=False) as groups:
        names = [GROUP, *(f"g{number}" for number in range(MANY))]
        for name in names[:20]:
            await groups.prepare(name)
        groups.commit(7)
        await turns()
        began_s = loop.time()
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
            require_stable=True,
        )
        response = await ask(groups, OFFSET_FETCH, 8, request)
        assert loop.time() - began_s == pytest.approx(CONFIG.offsets_commit_timeout_ms / 1000)
        assert [each.group_id for each in response.groups] == names
        assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        assert {each.error_code for each in response.groups} == {0, ErrorCode.NOT_COORDINATOR}


@in_loop
async def test_a_group_that_is_named_again_is_answered_once() -> None:
    async with running_groups() as groups:
        await groups.commit(7)
        named = [OffsetFetchRequestGroup(group_id=GROUP, topics=None)] * MANY
        response = await ask(groups, OFFSET_FETCH, 8, OffsetFetchRequest(groups=named))
        assert [each.group_id for each in response.groups] == [GROUP]


@in_virtual_time
async def test_coordinators_of_many_keys_take_one_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    async with running_groups(prepared=False) as groups:

        async def never(*_: object) -> None:
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr("tailrace.broker.replicated.runner.Runner._load", never)
        keys = [f"g{number}" for number in range(MANY)]
        request = FindCoordinatorRequest(coordinator_keys=[*keys, keys[0]])
        began_s = loop.time()
        response = await ask(groups, FIND_COORDINATOR, 4, request)
        assert loop.time() - began_s == pytest.approx(LOAD_WAIT_S)
        assert [each.key for each in response.coordinators] == keys
        assert {each.error_code for each in response.coordinators} == {0}


@in_loop
async def test_behind_a_deletion_that_takes_too_long_no_group_is_deleted() -> None:
    config = replace(CONFIG, offsets_commit_timeout_ms=1)
    async with running_groups(auto=False, config=config) as groups:
        for name in ("first", "last"):
            await groups.prepare(name)
            groups.commit(1, group=name)
        await turns()
        for log in groups.world.namespace.logs.values():
            if log.writer is not None:
                log.writer.confirm()
        await turns()
        names = ["first", *(f"g{number}" for number in range(MANY)), "last"]
        response = await ask(groups, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=names))
        codes = {each.group_id: each.error_code for each in response.results}
        assert list(codes) == names
        assert codes["first"] == codes["last"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await groups.committed(group="last") == 1
