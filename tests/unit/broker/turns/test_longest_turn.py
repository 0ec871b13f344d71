"""Nothing that a client asks for holds the loop: for every API that the broker advertises."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from tailrace.core.runtime.kafka_connection import KafkaConnection
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    APIS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    PRODUCE,
)
from tailrace.protocol.kafka.hot_produce import ELEMENTS_MAX
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from tailrace.protocol.kafka.messages.elect_leaders import ElectLeadersRequest
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tests.counted_loop import CALLS_MAX, CountedLoop, run_counted
from tests.unit.broker.turns.asked import asked
from tests.unit.broker.turns.hostile import MANY, hostile_requests

WIDE: Final = 1200
"""Partitions of a topic that an answer has to tell of."""
MANY_PRODUCED: Final = ELEMENTS_MAX // 2
"""Topics and partitions that a produce may name: more is refused, as it is decoded in one go."""
PRODUCE_CALLS_MAX: Final = 100_000
"""Of its turn, 25 to 40 ms: nearly all are calls of C for a field."""


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_no_request_holds_the_loop_for_long(key: int, tmp_path: Path) -> None:
    api = APIS[key]
    version = api.versions[-1]

    async def story(loop: CountedLoop) -> None:
        async with asked(tmp_path) as (client, topic_id):
            count = MANY_PRODUCED if api is PRODUCE else MANY
            for label, request in hostile_requests(api, version, topic_id, count):
                await _ask(loop, client, label, api, request)

    run_counted(story, timeout_s=240)


@pytest.mark.slow
def test_no_answer_about_everything_holds_the_loop_for_long(tmp_path: Path) -> None:
    wide = CreatableTopic(name="wide", num_partitions=WIDE, replication_factor=1)
    requests: list[tuple[Api[Any, Any], Any]] = [
        (CREATE_TOPICS, CreateTopicsRequest(topics=[wide])),
        (METADATA, MetadataRequest(topics=None)),
        (DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None)),
        (DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest(response_partition_limit=WIDE)),
        (ELECT_LEADERS, ElectLeadersRequest(topic_partitions=None)),
        (LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(topics=None)),
        (DELETE_TOPICS, DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")])),
    ]

    async def story(loop: CountedLoop) -> None:
        async with asked(tmp_path) as (client, _):
            for api, request in requests:
                await _ask(loop, client, api.name, api, request)

    run_counted(story, timeout_s=240)


async def _ask(
    loop: CountedLoop, client: KafkaConnection, label: str, api: Api[Any, Any], request: Any
) -> None:
    with loop.counting():
        await asyncio.to_thread(client.ask, api, request)
    most = PRODUCE_CALLS_MAX if api is PRODUCE else CALLS_MAX
    assert loop.longest <= most, (label, loop.where)
