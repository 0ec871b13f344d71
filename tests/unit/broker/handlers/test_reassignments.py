"""Reassignments and elections in a cluster of several brokers, as one of them answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.core.errors import BadVersion
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from tailrace.protocol.kafka.messages import alter_partition_reassignments as alter
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tailrace.protocol.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def reassign(
    to: Admin, wanted: Mapping[int, Sequence[int] | None], *, may_change: bool = True
) -> list[ErrorCode]:
    """Ask for brokers of partitions of `orders`; return the codes."""
    partitions = [
        alter.ReassignablePartition(partition_index=at, replicas=brokers)
        for at, brokers in wanted.items()
    ]
    request = alter.AlterPartitionReassignmentsRequest(
        topics=[alter.ReassignableTopic(name="orders", partitions=partitions)],
        allow_replication_factor_change=may_change,
    )
    (topic,) = (await to.ask(ALTER_PARTITION_REASSIGNMENTS, 1, request)).responses
    assert [each.partition_index for each in topic.partitions] == list(wanted)
    return [ErrorCode(each.error_code) for each in topic.partitions]


async def under_way(
    to: Admin, indexes: Sequence[int] | None = None
) -> list[tuple[int, list[list[int]]]]:
    """Return what is being reassigned of `orders`: index; replicas, adding, removing."""
    topics = None
    if indexes is not None:
        topics = [ListPartitionReassignmentsTopics(name="orders", partition_indexes=indexes)]
    request = ListPartitionReassignmentsRequest(topics=topics)
    answer = await to.ask(LIST_PARTITION_REASSIGNMENTS, 0, request)
    assert answer.error_code == 0
    return [
        (
            each.partition_index,
            [list(each.replicas), list(each.adding_replicas), list(each.removing_replicas)],
        )
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_a_reassignment_is_under_way_until_the_former_owner_lets_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2, 3)
            await to.topics.create("orders", 3)
            assert await reassign(to, {0: [2, 3], 2: [3]}) == [NONE, NONE]
            assert to.routes.owner("orders", 0) == 2
            assert to.routes.owner("orders", 2) == 3
            to.holders.update({("orders", 0): 1, ("orders", 1): 9, ("orders", 2): 3})
            expected = [(0, [[2, 3, 1], [2, 3], [1]])]
            assert await under_way(to) == expected
            assert await under_way(to, [2, 0, 1, 7, -1]) == expected
            to.holders["orders", 0] = 2
            assert await under_way(to) == []

    run(story)


def test_a_reassignment_that_is_under_way_can_be_ended(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2)
            await to.topics.create("orders", 1)
            assert await reassign(to, {0: None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]
            await reassign(to, {0: [2]})
            to.holders["orders", 0] = 1
            assert await reassign(to, {0: None}) == [NONE]
            assert to.routes.owner("orders", 0) == 1
            assert await under_way(to) == []

    run(story)


def test_a_move_among_the_brokers_of_a_partition_can_be_ended_too(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2, 3)
            await to.topics.create("orders", 1)
            await reassign(to, {0: [2, 1, 3]})
            to.holders["orders", 0] = 1
            assert await reassign(to, {0: None}) == [NONE]
            topic = to.topics.get("orders")
            assert topic is not None
            assert topic.assignments == {0: (1, 2, 3)}
            assert to.routes.owner("orders", 0) == 1
            assert await under_way(to) == []

    run(story)


def test_reassignments_are_checked_one_by_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2)
            await to.topics.create("orders", 3)
            bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            wanted = {0: [2, 1], 1: [], 2: [7], 3: [1], -1: [1]}
            assert await reassign(to, wanted) == [NONE, bad, bad, UNKNOWN, UNKNOWN]
            topic = to.topics.get("orders")
            assert topic is not None
            assert topic.assignments == {0: (2, 1)}
            width = ErrorCode.INVALID_REPLICATION_FACTOR
            assert await reassign(to, {0: [1], 1: [2]}, may_change=False) == [width, NONE]
            topic = to.topics.get("orders")
            assert topic is not None
            assert topic.assignments == {0: (2, 1), 1: (2,)}

    run(story)


def test_a_broker_that_came_a_moment_ago_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)

            async def look() -> None:
                to.let_live(1, 2)

            monkeypatch.setattr(to.routes, "refresh", look)
            assert await reassign(to, {0: [2]}) == [NONE]
            assert await reassign(to, {0: [3]}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]

    run(story)


def test_a_race_that_is_lost_is_told_of_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        raise BadVersion("somebody else was faster")

    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 2)
            monkeypatch.setattr(TopicRegistry, "assign", lost)
            codes = await reassign(to, {0: [1], 1: [1], 2: [1]})
            assert NONE not in codes
            assert codes[0] == codes[1] != UNKNOWN == codes[2]

    run(story)


def test_assignments_survive_a_restart_and_go_with_the_topic(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2)
            await to.topics.create("orders", 12)
            await reassign(to, {2: [2], 10: [2, 1]})
            await to.topics._take("orders")  # as another broker reads it
            topic = to.topics.get("orders")
            assert topic is not None
            assert topic.assignments == {2: (2,), 10: (2, 1)}
            await to.topics.delete("orders")
            again = await to.topics.create("orders", 12)
            assert again.assignments == {}

    run(story)


def test_topics_are_created_and_grow_where_they_are_wanted(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path, bookies=3) as to:
            to.let_live(1, 2)
            assignments = [
                CreatableReplicaAssignment(partition_index=0, broker_ids=[2, 1]),
                CreatableReplicaAssignment(partition_index=1, broker_ids=[1, 2]),
            ]
            topic = CreatableTopic(
                name="orders", num_partitions=-1, replication_factor=-1, assignments=assignments
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
            (made,) = (await to.ask(CREATE_TOPICS, 7, request)).topics
            assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 2)
            more = CreatePartitionsTopic(
                name="orders", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[2, 1])]
            )
            grow = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
            (grown,) = (await to.ask(CREATE_PARTITIONS, 3, grow)).results
            assert grown.error_code == 0, grown.error_message
            assert [to.routes.owner("orders", at) for at in range(4)] == [2, 1, 2, None]

    run(story)


@pytest.mark.parametrize(("kind", "code"), [(0, 80), (1, 84)])
def test_a_preferred_leader_that_is_not_there_is_told(tmp_path: Path, kind: int, code: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            to.let_live(1, 2)
            await to.topics.create("orders", 2)
            await reassign(to, {0: [2, 1], 1: [1, 2]})
            to.let_live(1)
            asked = [TopicPartitions(topic="orders", partitions=[0, 1])]
            request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
            (topic,) = (await to.ask(ELECT_LEADERS, 2, request)).replica_election_results
            assert [each.error_code for each in topic.partition_result] == [code, 84]

    run(story)
