"""KIP-848 groups through the wire codec: their own APIs, and what other APIs say of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.broker.coordinator.runtime_support import GROUP, Groups, running_groups
from tests.unit.broker.handlers.group_support import ask, versions
from tests.unit.broker.loops import in_loop

E = ErrorCode


async def beat(
    groups: Groups, member_id: str, epoch: int, *, version: int = 1, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(
        **{"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, **fields}
    )
    return await ask(groups, CONSUMER_GROUP_HEARTBEAT, version, request)


async def join(
    groups: Groups, member_id: str = "m", **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    said = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return await beat(groups, member_id, 0, **{**said, **fields})


@pytest.mark.parametrize("version", versions(CONSUMER_GROUP_HEARTBEAT))
@in_loop
async def test_a_member_joins_lives_and_leaves(version: int) -> None:
    async with running_groups() as groups:
        joined = await join(groups, "m" if version else "", version=version)
        topic = groups.world.topics.get("t")
        assert topic is not None
        assert (joined.error_code, joined.member_epoch) == (E.NONE, 2)
        assert joined.assignment is not None
        assert [(t.topic_id, list(t.partitions)) for t in joined.assignment.topic_partitions] == [
            (topic.topic_id, [0, 1, 2, 3, 4])
        ]
        assert joined.member_id
        assert (await beat(groups, joined.member_id, 2, version=version)).error_code == E.NONE
        left = await beat(groups, joined.member_id, -1, version=version)
        assert (left.error_code, left.member_epoch) == (E.NONE, -1)
        gone = await beat(groups, joined.member_id, 2, version=version)
        assert gone.error_code == E.UNKNOWN_MEMBER_ID


@in_loop
async def test_refusals_say_why() -> None:
    async with running_groups() as groups:
        for response, code in (
            (await beat(groups, "m", 1), E.GROUP_ID_NOT_FOUND),
            (await join(groups, ""), E.INVALID_REQUEST),
            (await join(groups, server_assignor="x"), E.UNSUPPORTED_ASSIGNOR),
            (await join(groups, subscribed_topic_regex="("), E.INVALID_REGULAR_EXPRESSION),
        ):
            assert response.error_code == code
            assert response.error_message


@in_loop
async def test_without_the_internal_topic_there_is_no_coordinator() -> None:
    async with running_groups(prepared=False) as groups:
        assert (await join(groups)).error_code == E.NOT_COORDINATOR
        groups.coordinator.release()
        assert (await join(groups)).error_code == E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("version", versions(CONSUMER_GROUP_DESCRIBE))
@in_loop
async def test_a_group_is_described(version: int) -> None:
    async with running_groups() as groups:
        assert await groups.prepare("none") is E.NONE
        await join(groups, instance_id="i", rack_id="r")
        request = ConsumerGroupDescribeRequest(
            group_ids=[GROUP, "none", ""], include_authorized_operations=True
        )
        response = await ask(groups, CONSUMER_GROUP_DESCRIBE, version, request)
        found, missing, unnamed = response.groups
        assert (missing.error_code, unnamed.error_code) == (
            E.GROUP_ID_NOT_FOUND,
            E.INVALID_GROUP_ID,
        )
        assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
        assert (found.assignor_name, found.authorized_operations) == ("uniform", 3400)
        [member] = found.members
        assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
        assert (member.member_epoch, member.client_id) == (2, "app")
        assert list(member.subscribed_topic_names) == ["t"]
        [topic] = member.assignment.topic_partitions
        assert (topic.topic_name, list(topic.partitions)) == ("t", [0, 1, 2, 3, 4])
        assert member.target_assignment == member.assignment
        assert member.member_type == (1 if version else -1)


@in_loop
async def test_other_apis_know_the_group_for_what_it_is() -> None:
    async with running_groups() as groups:
        await join(groups)

        async def listed(types: Sequence[str]) -> list[tuple[str, str, str, str]]:
            request = ListGroupsRequest(types_filter=types)
            response = await ask(groups, LIST_GROUPS, 5, request)
            return [
                (g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups
            ]

        mine = [(GROUP, "consumer", "Stable", "consumer")]
        assert await listed([]) == await listed(["Consumer"]) == mine
        assert await listed(["classic"]) == []
        request = DescribeGroupsRequest(groups=[GROUP])
        [described] = (await ask(groups, DESCRIBE_GROUPS, 6, request)).groups
        assert described.error_code == E.GROUP_ID_NOT_FOUND
        [described] = (await ask(groups, DESCRIBE_GROUPS, 5, request)).groups
        assert (described.error_code, described.group_state) == (E.NONE, "Dead")
        [deleted] = (
            await ask(groups, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[GROUP]))
        ).results
        assert deleted.error_code == E.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 2, E.NONE),
        ("m", 1, E.STALE_MEMBER_EPOCH),
        ("m", 3, E.STALE_MEMBER_EPOCH),
        ("x", 2, E.UNKNOWN_MEMBER_ID),
    ],
)
@in_loop
async def test_offsets_are_read_and_written_by_member_epoch(
    member_id: str, epoch: int, code: ErrorCode
) -> None:
    async with running_groups() as groups:
        await join(groups)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=4)
        commit = OffsetCommitRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        response = await ask(groups, OFFSET_COMMIT, 9, commit)
        assert [p.error_code for t in response.topics for p in t.partitions] == [code]
        fetch = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=GROUP,
                    member_id=member_id,
                    member_epoch=epoch,
                    topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
                )
            ]
        )
        [found] = (await ask(groups, OFFSET_FETCH, 9, fetch)).groups
        assert found.error_code == code
        assert [p.committed_offset for t in found.topics for p in t.partitions] == (
            [4] if code is E.NONE else []
        )


@in_loop
async def test_clients_are_told_that_the_protocol_is_on() -> None:
    async with running_groups() as groups:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        response = await ask(groups, API_VERSIONS, 4, request)
        told = {f.name: f.max_version_level for f in response.finalized_features}
        assert told["group.version"] == 1


@in_loop
async def test_a_restart_keeps_members_and_their_epochs() -> None:
    async with running_groups() as groups:
        await join(groups)
        await groups.restart()
        assert await groups.prepare(GROUP) is E.NONE
        again = await beat(groups, "m", 2)
        assert (again.error_code, again.member_epoch, again.assignment) == (E.NONE, 2, None)
