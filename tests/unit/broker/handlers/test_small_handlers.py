"""Handlers of a screen or less: versions, the cluster, pages, ids, epochs, deletions."""

from pathlib import Path

import pytest

from tailrace.broker.handlers import HANDLERS
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    API_VERSIONS,
    APIS,
    DELETE_RECORDS,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    INIT_PRODUCER_ID,
    OFFSET_FOR_LEADER_EPOCH,
)
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

E = ErrorCode


@in_loop
async def test_api_versions_shows_exactly_what_is_handled() -> None:
    response = await ask(make_world(), API_VERSIONS, 0, ApiVersionsRequest())
    shown = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
    assert shown.keys() == APIS.keys() == HANDLERS.keys()
    assert shown[0] == (0, 13)
    for key, api in APIS.items():
        assert shown[key] == (api.advertised.start, api.advertised.stop - 1)


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("librdkafka", "2.3.0-RC1", E.NONE),
        ("a", "1", E.NONE),
        ("", "1", E.INVALID_REQUEST),
        ("bad name", "1", E.INVALID_REQUEST),
        ("-x", "1", E.INVALID_REQUEST),
        ("x", "1.", E.INVALID_REQUEST),
    ],
)
@in_loop
async def test_a_client_software_has_a_name_and_a_version(
    name: str, version: str, code: ErrorCode
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert (await ask(make_world(), API_VERSIONS, 3, request)).error_code == code
    assert (await ask(make_world(), API_VERSIONS, 2, request)).error_code == E.NONE


@pytest.mark.parametrize("version", [0, 1, 2])
@in_loop
async def test_the_cluster_is_this_broker(version: int) -> None:
    world = make_world()
    response = await ask(world, DESCRIBE_CLUSTER, version, DescribeClusterRequest())
    assert (response.cluster_id, response.controller_id) == (world.broker.cluster_id, 1)
    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "broker.test", 9092)]
    assert response.cluster_authorized_operations == -(1 << 31)
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = await ask(world, DESCRIBE_CLUSTER, version, asked)
    assert response.cluster_authorized_operations == 8096


CURSOR_B = Cursor(topic_name="b", partition_index=0)


@pytest.mark.parametrize(
    ("kind", "code"), [(2, E.MISMATCHED_ENDPOINT_TYPE), (3, E.UNSUPPORTED_ENDPOINT_TYPE)]
)
@in_loop
async def test_other_endpoints_are_refused(kind: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(endpoint_type=kind)
    assert (await ask(make_world(), DESCRIBE_CLUSTER, 1, request)).error_code == code


@in_loop
async def test_partitions_come_page_by_page() -> None:
    world = make_world()
    for name, count in [("b", 3), ("a", 2), ("c", 1)]:
        world.topics.add(name, count)
    pages, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        response = await ask(world, DESCRIBE_TOPIC_PARTITIONS, 0, request)
        pages.append([(t.name, [p.partition_index for p in t.partitions]) for t in response.topics])
        if response.next_cursor is None:
            break
        cursor = Cursor(
            topic_name=response.next_cursor.topic_name,
            partition_index=response.next_cursor.partition_index,
        )
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]
    assert [t.topic_authorized_operations for t in response.topics] == [3576, 3576]
    for name, code in [
        ("none", E.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", E.INVALID_TOPIC_EXCEPTION),
    ]:
        missing = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)])
        answer = (await ask(world, DESCRIBE_TOPIC_PARTITIONS, 0, missing)).topics[0]
        assert (answer.name, answer.error_code) == (name, code)


@in_loop
async def test_producer_ids(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db", ManualClock())
    world = make_world(store=store)
    request = InitProducerIdRequest(transactional_id=None)
    ids = [await ask(world, INIT_PRODUCER_ID, version, request) for version in range(6)]
    assert [(each.producer_id, each.producer_epoch) for each in ids] == [(n, 0) for n in range(6)]
    for had, code in [((7, 0), E.NONE), ((7, -1), E.INVALID_REQUEST), ((-1, 3), E.INVALID_REQUEST)]:
        again = InitProducerIdRequest(
            transactional_id=None, producer_id=had[0], producer_epoch=had[1]
        )
        assert (await ask(world, INIT_PRODUCER_ID, 4, again)).error_code == code
    await store.close()


async def filled() -> World:
    world = make_world()
    world.topics.add("t")
    world.topics.add("__consumer_offsets")
    log = await world.open("t")
    for _ in range(3):
        await log.append(batch(2))
    return world


@pytest.mark.parametrize(
    ("partition", "current", "epoch", "expected"),
    [
        (0, -1, 1, (E.NONE, 1, 6)),
        (0, 1, 0, (E.NONE, 0, 0)),
        (0, -1, 2, (E.NONE, -1, -1)),
        (0, 0, 1, (E.FENCED_LEADER_EPOCH, -1, -1)),
        (0, 7, 1, (E.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (3, -1, 1, (E.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
@in_loop
async def test_epochs(
    partition: int, current: int, epoch: int, expected: tuple[ErrorCode, int, int]
) -> None:
    asked = OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])]
    )
    response = await ask(await filled(), OFFSET_FOR_LEADER_EPOCH, 4, request)
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == expected


@pytest.mark.parametrize(
    ("topic", "index", "offset", "expected"),
    [
        ("t", 0, 4, (E.NONE, 4)),
        ("t", 0, -1, (E.NONE, 6)),
        ("t", 0, 7, (E.OFFSET_OUT_OF_RANGE, -1)),
        ("t", 0, -2, (E.OFFSET_OUT_OF_RANGE, -1)),
        ("none", 0, 1, (E.UNKNOWN_TOPIC_OR_PARTITION, -1)),
        ("__consumer_offsets", 0, 0, (E.INVALID_TOPIC_EXCEPTION, -1)),
        ("__consumer_offsets", 77, 0, (E.UNKNOWN_TOPIC_OR_PARTITION, -1)),
    ],
)
@in_loop
async def test_deleting_records(
    topic: str, index: int, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        timeout_ms=1000, topics=[DeleteRecordsTopic(name=topic, partitions=[partition])]
    )
    response = await ask(await filled(), DELETE_RECORDS, 2, request)
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == expected


@pytest.mark.parametrize(
    ("names", "cursor"),
    [
        (["a"], Cursor(topic_name="a", partition_index=-1)),
        (["a", "c"], CURSOR_B),
        (["c"], CURSOR_B),
    ],
)
@in_loop
async def test_a_cursor_is_one_of_the_topics_asked_for(names: list[str], cursor: Cursor) -> None:
    world = make_world()
    for name in "abc":
        world.topics.add(name)
    topics = [TopicRequest(name=name) for name in names]
    request = DescribeTopicPartitionsRequest(topics=topics, cursor=cursor)
    response = await ask(world, DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [(t.name, t.error_code) for t in response.topics] == [
        (name, E.INVALID_REQUEST) for name in names
    ]
