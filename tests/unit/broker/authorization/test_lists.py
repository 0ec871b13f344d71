"""What a client did not name is shown if it may know of it; what it named is not guessed."""

import pytest

from tailrace.broker.errors import CloseConnection
from tailrace.core.access.acls.model import CLUSTER_NAME
from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tailrace.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tailrace.protocol.kafka.messages.produce import TopicProduceData
from tests.unit.broker.authorization.requests import produced
from tests.unit.broker.authorization.support import (
    Grant,
    guard,
    open_transaction,
    reading_group,
    whole_world,
)
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

SEES_U: Grant = (Op.DESCRIBE, Of.TOPIC, "u")
SEES_G: Grant = (Op.DESCRIBE, Of.GROUP, "g")
SEES_ALL: Grant = (Op.DESCRIBE, Of.CLUSTER, CLUSTER_NAME)
NOT_ASKED = -(1 << 31)


@pytest.mark.parametrize("version", [0, 1, 9, 13])
@in_loop
async def test_all_topics_are_those_that_may_be_described(version: int) -> None:
    async with whole_world() as world:
        guard(world, SEES_U)
        request = MetadataRequest(topics=None if version else ())
        answer = await ask(world, apis.METADATA, version, request)
        assert [(t.name, t.error_code) for t in answer.topics] == [("u", E.NONE)]


@in_loop
async def test_names_and_ids_of_topics_are_not_guessed() -> None:
    async with whole_world() as world:
        authorizer = guard(world, SEES_U)
        denied = E.TOPIC_AUTHORIZATION_FAILED
        named = [MetadataRequestTopic(name=n) for n in ("t", "gone", "u", "a/b")]
        answer = await ask(world, apis.METADATA, 12, MetadataRequest(topics=named))
        assert [(t.name, t.error_code, t.topic_id != bytes(16)) for t in answer.topics] == [
            ("t", denied, False),
            ("gone", denied, False),
            ("u", E.NONE, True),
            ("a/b", denied, False),
        ]
        topic = world.topics.get("t")
        assert topic is not None
        ids = [MetadataRequestTopic(name=None, topic_id=i) for i in (topic.topic_id, b"\7" * 16)]
        answer = await ask(world, apis.METADATA, 12, MetadataRequest(topics=ids))
        assert [(t.name, t.error_code) for t in answer.topics] == [
            (None, denied),
            (None, E.UNKNOWN_TOPIC_ID),
        ]
        assert world.topics.get("gone") is None
        assert "a/b" in authorizer.names


@in_loop
async def test_pages_of_topics_have_what_may_be_described() -> None:
    async with whole_world() as world:
        guard(world, SEES_U)
        api = apis.DESCRIBE_TOPIC_PARTITIONS
        every = await ask(world, api, 0, DescribeTopicPartitionsRequest(topics=()))
        assert [t.name for t in every.topics] == ["u"]
        named = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="t"), TopicRequest(name="u")],
            response_partition_limit=1,
            cursor=Cursor(topic_name="u", partition_index=1),
        )
        page = await ask(world, api, 0, named)
        assert [(t.name, t.error_code, len(t.partitions)) for t in page.topics] == [
            ("u", E.NONE, 1),
            ("t", E.TOPIC_AUTHORIZATION_FAILED, 0),
        ]
        assert page.topics[1].topic_authorized_operations == NOT_ASKED


@in_loop
async def test_groups_are_listed_by_group_or_all_by_cluster() -> None:
    async with whole_world() as world:
        authorizer = guard(world)
        for allowed, shown in (((), []), ((SEES_G,), ["g"]), ((SEES_ALL,), ["g"])):
            authorizer.change(*allowed)
            answer = await ask(world, apis.LIST_GROUPS, 5, ListGroupsRequest())
            assert answer.error_code == E.NONE
            assert [each.group_id for each in answer.groups] == shown


@in_loop
async def test_transactions_are_listed_by_id() -> None:
    async with whole_world() as world:
        await world.broker.transactions.init_producer_id("x", 60_000, None)
        authorizer = guard(world)
        sees_x: Grant = (Op.DESCRIBE, Of.TRANSACTIONAL_ID, "x")
        for allowed, shown in (((), []), ((sees_x,), ["x"])):
            authorizer.change(*allowed)
            answer = await ask(world, apis.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
            assert [each.transactional_id for each in answer.transaction_states] == shown


@pytest.mark.parametrize("version", [7, 9])
@in_loop
async def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(
    version: int,
) -> None:
    async with whole_world() as world:
        request = OffsetFetchRequest(
            group_id="g", topics=None, groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]
        )
        authorizer = guard(world)
        for allowed, shown in (
            ((SEES_G, SEES_U), []),
            ((SEES_G, (Op.DESCRIBE, Of.TOPIC, "t")), ["t"]),
        ):
            authorizer.change(*allowed)
            answer = await ask(world, apis.OFFSET_FETCH, version, request)
            topics = answer.topics if version < 8 else answer.groups[0].topics
            assert [topic.name for topic in topics] == shown


def bits(*operations: Op) -> int:
    return sum(1 << each for each in operations)


@in_loop
async def test_authorized_operations_are_those_that_are_allowed() -> None:
    async with whole_world() as world:
        authorizer = guard(world, SEES_U, (Op.WRITE, Of.TOPIC, "u"), SEES_G)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="u")],
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        answer = await ask(world, apis.METADATA, 9, request)
        assert answer.topics[0].topic_authorized_operations == bits(Op.WRITE, Op.DESCRIBE)
        assert answer.cluster_authorized_operations == 0
        authorizer.allowed |= {SEES_ALL, (Op.CREATE, Of.CLUSTER, CLUSTER_NAME)}
        answer = await ask(world, apis.METADATA, 9, request)
        assert answer.cluster_authorized_operations == bits(Op.CREATE, Op.DESCRIBE)
        described = DescribeClusterRequest(include_cluster_authorized_operations=True)
        cluster = await ask(world, apis.DESCRIBE_CLUSTER, 1, described)
        assert cluster.cluster_authorized_operations == bits(Op.CREATE, Op.DESCRIBE)
        asked = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
        groups = await ask(world, apis.DESCRIBE_GROUPS, 5, asked)
        assert groups.groups[0].authorized_operations == bits(Op.DESCRIBE)
        authorizer.allowed.clear()
        cluster = await ask(world, apis.DESCRIBE_CLUSTER, 1, described)
        assert cluster.cluster_authorized_operations == 0
        cluster = await ask(world, apis.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
        assert cluster.cluster_authorized_operations == NOT_ASKED


@in_loop
async def test_without_an_authorizer_everything_is_allowed() -> None:
    async with whole_world() as world:
        request = MetadataRequest(
            topics=None,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        answer = await ask(world, apis.METADATA, 9, request)
        every = (Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE)
        configs = (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)
        assert {each.topic_authorized_operations for each in answer.topics} == {
            bits(*every, *configs)
        }
        of_cluster = (Op.CREATE, Op.ALTER, Op.DESCRIBE, Op.CLUSTER_ACTION, Op.IDEMPOTENT_WRITE)
        assert answer.cluster_authorized_operations == bits(*of_cluster, *configs)


@in_loop
async def test_members_of_a_group_are_hidden_with_its_topics() -> None:
    async with whole_world() as world:
        await reading_group(world)
        authorizer = guard(world)
        sees_c: Grant = (Op.DESCRIBE, Of.GROUP, "c")
        request = ConsumerGroupDescribeRequest(group_ids=["c"])
        for allowed, code, members in (
            ((sees_c, SEES_U), E.TOPIC_AUTHORIZATION_FAILED, []),
            ((sees_c, (Op.DESCRIBE, Of.TOPIC, "t")), E.NONE, ["m"]),
        ):
            authorizer.change(*allowed)
            (group,) = (await ask(world, apis.CONSUMER_GROUP_DESCRIBE, 1, request)).groups
            assert (group.error_code, [each.member_id for each in group.members]) == (code, members)
            assert bool(group.error_message) is bool(code)


@in_loop
async def test_topics_of_a_transaction_are_those_that_may_be_described() -> None:
    async with whole_world() as world:
        await open_transaction(world)
        authorizer = guard(world)
        sees_x: Grant = (Op.DESCRIBE, Of.TRANSACTIONAL_ID, "x")
        request = DescribeTransactionsRequest(transactional_ids=["x"])
        for allowed, topics in (((sees_x,), []), ((sees_x, (Op.DESCRIBE, Of.TOPIC, "t")), ["t"])):
            authorizer.change(*allowed)
            answer = await ask(world, apis.DESCRIBE_TRANSACTIONS, 0, request)
            (state,) = answer.transaction_states
            assert (state.error_code, state.transaction_state) == (E.NONE, "Ongoing")
            assert [each.topic for each in state.topics] == topics


@in_loop
async def test_internal_topics_are_written_by_who_may_act_for_the_cluster() -> None:
    async with whole_world() as world:
        request = produced()
        request.topic_data[0].name = "__consumer_offsets"
        writes: Grant = (Op.WRITE, Of.TOPIC, "__consumer_offsets")
        acts: Grant = (Op.CLUSTER_ACTION, Of.CLUSTER, CLUSTER_NAME)

        async def code(client: str = "test") -> E:
            answer = await ask(world, apis.PRODUCE, 9, request, client)
            return E(answer.responses[0].partition_responses[0].error_code)

        assert await code("__admin_client") is E.INVALID_TOPIC_EXCEPTION
        authorizer = guard(world, writes)
        assert await code("__admin_client") is E.INVALID_TOPIC_EXCEPTION
        authorizer.change(acts)
        assert await code() is E.TOPIC_AUTHORIZATION_FAILED
        authorizer.change(writes, acts)
        assert await code() is E.NONE


@in_loop
async def test_a_produce_of_which_some_is_refused_writes_the_rest() -> None:
    async with whole_world() as world:
        guard(world, (Op.WRITE, Of.TOPIC, "u"))
        request = produced()
        request.topic_data = [
            TopicProduceData(name=name, partition_data=request.topic_data[0].partition_data)
            for name in ("t", "u", "gone")
        ]
        answer = await ask(world, apis.PRODUCE, 9, request)
        denied = E.TOPIC_AUTHORIZATION_FAILED
        assert {r.name: r.partition_responses[0].error_code for r in answer.responses} == {
            "t": denied,
            "u": E.NONE,
            "gone": denied,
        }
        assert [(await world.open(name)).high_watermark for name in ("t", "u")] == [0, 1]
        request.acks = 0
        with pytest.raises(CloseConnection):
            await ask(world, apis.PRODUCE, 9, request)


@in_loop
async def test_an_expression_comes_to_topics_that_its_member_may_know_of() -> None:
    async with whole_world() as world:
        reads: tuple[Grant, ...] = ((Op.READ, Of.GROUP, "r"), (Op.READ, Of.GROUP, "s"))
        authorizer = guard(world, *reads, SEES_U)

        async def assigned(group_id: str) -> set[bytes]:
            request = ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_regex="[tu]",
                topic_partitions=[],
            )
            answer = await ask(world, apis.CONSUMER_GROUP_HEARTBEAT, 1, request)
            assert answer.error_code == E.NONE
            assert answer.assignment is not None
            return {each.topic_id for each in answer.assignment.topic_partitions}

        ids = {name: topic.topic_id for name in "tu" if (topic := world.topics.get(name))}
        assert await assigned("r") == {ids["u"]}
        authorizer.change(*reads, SEES_U, (Op.DESCRIBE, Of.TOPIC, "t"))
        assert await assigned("s") == {ids["t"], ids["u"]}
