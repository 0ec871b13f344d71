"""Every API's response says an error where its request asked for something."""

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table of handlers
from tailrace.broker.handlers import HANDLERS
from tailrace.faults.failures import (
    failed,
    fails_by_partition,
    fails_by_topic,
    spoil_metadata,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LEAVE_GROUP,
    METADATA,
    OFFSET_FETCH,
    PRODUCE,
)
from tailrace.protocol.kafka.codec import decode_response, encode_response
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.kafka.wire import join
from tests.unit.protocol.kafka.samples import sample

CODE = ErrorCode.NOT_COORDINATOR
APIS = [handler.api for handler in HANDLERS.values() if handler.api is not METADATA]
WITHOUT_PLACE = {("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""Versions whose response has no place for an error that is of no directory."""


def found(message: Any) -> Iterator[int]:
    """Yield every error code in a response."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, list | tuple):
            for each in value:
                if dataclasses.is_dataclass(each):
                    yield from found(each)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_every_version_of_every_api_says_the_error(api: Api[Any, Any]) -> None:
    for version in api.versions:
        said = 0
        for seed in range(20):
            request = sample(api.request, version, Random(seed))
            response = failed(api, request, CODE, whole=True)
            encoded = join(encode_response(api, version, response))
            codes = list(found(decode_response(api, version, memoryview(encoded))))
            assert set(codes) <= {CODE, ErrorCode.NONE}
            said += CODE in codes
        assert said or (api.name, version) in WITHOUT_PLACE, version


def test_a_produce_fails_at_its_partitions() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(name="a", partition_data=[PartitionProduceData(index=3)]),
            TopicProduceData(topic_id=b"\1" * 16, partition_data=[PartitionProduceData(index=0)]),
        ]
    )
    a, b = failed(PRODUCE, request, CODE, whole=True).responses
    assert (a.name, b.topic_id) == ("a", b"\1" * 16)
    (partition,) = a.partition_responses
    assert (partition.index, partition.error_code, partition.base_offset) == (3, CODE, -1)


def test_a_fetch_fails_as_a_whole_only_for_its_session() -> None:
    assert failed(FETCH, FetchRequest(), CODE, whole=True).error_code == ErrorCode.NONE
    lost = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert failed(FETCH, FetchRequest(), lost, whole=True).error_code == lost
    asked = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
    assert failed(FETCH, asked, lost, whole=False).error_code == ErrorCode.NONE


def test_names_and_numbers_are_told_apart() -> None:
    keys = failed(
        FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=("g", "h")), CODE, whole=True
    )
    assert [(each.key, each.node_id) for each in keys.coordinators] == [("g", -1), ("h", -1)]
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=(4, 5))]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = failed(OFFSET_FETCH, request, CODE, whole=True).groups
    (topic,) = group.topics
    assert (group.group_id, topic.name) == ("g", "t")
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(4, -1), (5, -1)]
    assert group.error_code == CODE
    part = failed(OFFSET_FETCH, request, CODE, whole=False)
    assert (part.error_code, part.groups[0].error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert [p.error_code for p in part.groups[0].topics[0].partitions] == [CODE, CODE]
    init = InitProducerIdRequest(producer_id=7, producer_epoch=1)
    refused = failed(INIT_PRODUCER_ID, init, CODE, whole=True)
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert failed(LEAVE_GROUP, LEAVE_GROUP.request(), CODE, whole=True).error_code == CODE


def test_which_apis_fail_by_topic_and_by_partition() -> None:
    apis = [handler.api for handler in HANDLERS.values()]
    by_partition = {api.name for api in apis if fails_by_partition(api)}
    assert by_partition == {
        "Produce", "Fetch", "ListOffsets", "OffsetCommit", "OffsetFetch", "DeleteRecords",
        "OffsetForLeaderEpoch", "AddPartitionsToTxn", "WriteTxnMarkers", "TxnOffsetCommit",
        "ElectLeaders", "AlterPartitionReassignments", "OffsetDelete", "DescribeProducers",
        "Metadata",
    }  # fmt: skip
    by_topic = {"CreateTopics", "DeleteTopics", "CreatePartitions", "DescribeTopicPartitions"}
    assert {api.name for api in apis if fails_by_topic(api)} == by_partition | by_topic


def test_metadata_keeps_its_brokers() -> None:
    def partitions() -> list[MetadataResponsePartition]:
        return [MetadataResponsePartition(partition_index=n, leader_id=1) for n in (0, 1)]

    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1)],
        topics=[MetadataResponseTopic(name=name, partitions=partitions()) for name in "ab"],
    )
    spoil_metadata(response, "a", 1, CODE)
    a, b = response.topics
    assert [(p.error_code, p.leader_id) for p in a.partitions] == [(0, 1), (CODE, -1)]
    assert list(found(b)) == [0, 0, 0]
    spoil_metadata(response, None, None, CODE)
    assert [(each.error_code, each.partitions) for each in response.topics] == [(CODE, ())] * 2
    assert len(response.brokers) == 1
