"""Metadata: which topics are meant, which come into being, and who leads them."""

import pytest

from tailrace.broker.cluster.config import TopicsConfig
from tailrace.broker.config import BrokerConfig
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.core.errors import OwnershipAcquireFailed, Unavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import METADATA
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

E = ErrorCode


def prepared(config: BrokerConfig | None = None) -> World:
    world = make_world(config=config)
    world.topics.add("b", 2)
    world.topics.add("a")
    world.topics.add("__consumer_offsets")
    return world


def named(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=create,
    )


def shown(response: MetadataResponse) -> list[tuple[str | None, int, int]]:
    """Return name, error and number of partitions of each topic."""
    return [(t.name, t.error_code, len(t.partitions)) for t in response.topics]


ALL = [("__consumer_offsets", 0, 1), ("a", 0, 1), ("b", 0, 2)]


@in_loop
async def test_null_is_all_and_empty_is_none_but_for_version_0() -> None:
    world = prepared()
    assert shown(await ask(world, METADATA, 0, MetadataRequest(topics=()))) == ALL
    for version in (1, 8, 9, 13):
        assert shown(await ask(world, METADATA, version, MetadataRequest(topics=None))) == ALL
        assert shown(await ask(world, METADATA, version, MetadataRequest(topics=()))) == []


@in_loop
async def test_brokers_controller_and_leaders() -> None:
    world = prepared()
    log = await world.open("b", 1)
    everything = (await ask(world, METADATA, 12, MetadataRequest(topics=None))).topics
    assert all(each.leader_epoch >= 0 for topic in everything for each in topic.partitions)
    response = await ask(world, METADATA, 12, named("b"))
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "broker.test", 9092)]
    assert (response.controller_id, response.cluster_id) == (1, world.broker.cluster_id)
    first, second = response.topics[0].partitions
    opened = world.broker.partitions.get(("b", 0))
    assert opened is not None
    assert (first.leader_id, first.leader_epoch, first.isr_nodes) == (1, opened.leader_epoch, (1,))
    assert second.leader_epoch == log.leader_epoch
    assert not response.topics[0].is_internal
    assert (await ask(world, METADATA, 1, named("__consumer_offsets"))).topics[0].is_internal


@in_loop
async def test_what_one_may_do_is_said_when_asked() -> None:
    world = prepared()
    for asked, topic, cluster in [(True, 3576, 8096), (False, -(1 << 31), -(1 << 31))]:
        request = named("b")
        request.include_topic_authorized_operations = asked
        request.include_cluster_authorized_operations = asked
        response = await ask(world, METADATA, 8, request)
        assert response.cluster_authorized_operations == cluster
        assert response.topics[0].topic_authorized_operations == topic


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("none", E.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", E.INVALID_TOPIC_EXCEPTION),
        ("", E.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, E.INVALID_TOPIC_EXCEPTION),
    ],
)
@in_loop
async def test_what_is_not_there(name: str, code: ErrorCode) -> None:
    assert shown(await ask(prepared(), METADATA, 4, named(name))) == [(name, code, 0)]


@in_loop
async def test_a_topic_is_created_before_the_answer() -> None:
    world = prepared(BrokerConfig(num_partitions=4))
    for _ in range(2):
        response = await ask(world, METADATA, 4, named("new", create=True))
        assert shown(response) == [("new", 0, 4)]
    assert shown(await ask(world, METADATA, 1, named("also"))) == [("also", 0, 4)]


@in_loop
async def test_a_new_topic_has_the_brokers_number_of_copies() -> None:
    config = BrokerConfig(topics=TopicsConfig(replication_factor=3))
    world = make_world(config=config, bookies=3)
    await ask(world, METADATA, 12, named("new", create=True))
    made = world.topics.get("new")
    assert made is not None
    assert made.replication_factor == 3
    world.bookies.ids.pop()
    response = await ask(world, METADATA, 12, named("another", create=True))
    assert shown(response) == [("another", ErrorCode.INVALID_REPLICATION_FACTOR, 0)]


@in_loop
async def test_a_topic_that_cannot_be_created_now_has_no_leader_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = prepared()

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.topics, "create", away)
        response = await ask(world, METADATA, 12, named("new", create=True))
        assert shown(response) == [("new", ErrorCode.LEADER_NOT_AVAILABLE, 0)]
    response = await ask(world, METADATA, 12, named("new", create=True))
    assert shown(response) == [("new", 0, 1)]


@in_loop
async def test_a_partition_that_another_broker_has_is_shown_without_a_leader() -> None:
    world = prepared()
    world.log("b", 1).open_error = OwnershipAcquireFailed("b-1", current_owner="1;2;h:9092")
    mine, theirs = (await ask(world, METADATA, 12, named("b"))).topics[0].partitions
    assert (mine.error_code, mine.leader_id) == (0, 1)
    assert (theirs.error_code, theirs.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    world.log("b", 1).open_error = None
    mine, theirs = (await ask(world, METADATA, 12, named("b"))).topics[0].partitions
    assert (theirs.error_code, theirs.leader_id) == (0, 1)


@in_loop
async def test_a_new_topic_has_an_epoch_in_its_first_answer() -> None:
    world = prepared()
    response = await ask(world, METADATA, 12, named("new", create=True))
    log = await world.open("new")
    assert response.topics[0].partitions[0].leader_epoch == log.leader_epoch


@in_loop
async def test_nothing_is_created_where_it_is_switched_off_or_not_a_topic() -> None:
    world = prepared(BrokerConfig(auto_create_topics=False))
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert shown(await ask(world, METADATA, 4, named("new", create=True))) == [("new", unknown, 0)]
    other = prepared()
    name = "__share_group_state"  # nobody's here
    response = await ask(other, METADATA, 4, named(name, create=True))
    assert shown(response) == [(name, unknown, 0)]
    assert response.topics[0].is_internal
    bad = await ask(other, METADATA, 4, named("bad name", create=True))
    assert shown(bad) == [("bad name", E.INVALID_TOPIC_EXCEPTION, 0)]


@in_loop
async def test_who_keeps_its_records_in_an_internal_topic_makes_it() -> None:
    """A tool that only asks for it, to read it, must not wait for the first group."""
    async with running_groups(prepared=False) as groups:
        asked = named(OFFSETS_TOPIC)
        (missing,) = (await ask(groups.world, METADATA, 12, asked)).topics
        assert (missing.error_code, missing.is_internal) == (E.UNKNOWN_TOPIC_OR_PARTITION, True)
        asked = named(OFFSETS_TOPIC, create=True)
        (made,) = (await ask(groups.world, METADATA, 12, asked)).topics
        assert (made.error_code, made.is_internal) == (0, True)
        topic = groups.world.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert len(made.partitions) == topic.partition_count
        assert topic.configs["cleanup.policy"] == "compact"


@in_loop
async def test_a_topic_that_is_named_twice_is_told_once() -> None:
    world = prepared()
    response = await ask(world, METADATA, 12, named("a", "c", "b", "a", "c"))
    assert shown(response) == [("a", 0, 1), ("c", E.UNKNOWN_TOPIC_OR_PARTITION, 0), ("b", 0, 2)]


@in_loop
async def test_topics_by_id() -> None:
    world = prepared()
    topic = world.topics.get("b")
    assert topic is not None
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name=None, topic_id=topic.topic_id),
            MetadataRequestTopic(name=None, topic_id=b"\7" * 16),
        ]
    )
    response = await ask(world, METADATA, 12, request)
    assert shown(response) == [("b", 0, 2), (None, E.UNKNOWN_TOPIC_ID, 0)]
    assert response.topics[1].topic_id == b"\7" * 16
