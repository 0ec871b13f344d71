from pathlib import Path

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_PARTITIONS
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.unit.broker.handlers.admin_support import Admin, admin, run


def grow(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    entries = assignments and [CreatePartitionsAssignment(broker_ids=b) for b in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=entries)


async def codes(
    to: Admin, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[int]:
    request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    answer = await to.ask(CREATE_PARTITIONS, version, request)
    for result in answer.results:
        assert (result.error_message is None) is (result.error_code == 0)
    return [result.error_code for result in answer.results]


@pytest.mark.parametrize("version", list(CREATE_PARTITIONS.versions))
def test_every_version_grows(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            assert await codes(to, grow("orders", 3), version=version) == [0]
            assert to.streams.names == {"orders-0", "orders-1", "orders-2"}

    run(story)


def test_refusals_touch_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 2)
            for topic, code in (
                (grow("orders", 2), ErrorCode.INVALID_PARTITIONS),
                (grow("orders", 1), ErrorCode.INVALID_PARTITIONS),
                (grow("orders", -1), ErrorCode.INVALID_PARTITIONS),
                (grow("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
                (grow("nobody", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (grow("orders", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                (grow("orders", 3, [[2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ):
                assert await codes(to, topic) == [code]
                assert await codes(to, topic, validate_only=True) == [code]
            twice = [grow("orders", 3), grow("orders", 4)]
            assert await codes(to, *twice) == [ErrorCode.INVALID_REQUEST]
            assert to.streams.names == {"orders-0", "orders-1"}

    run(story)


def test_validate_only_and_assignments(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin(tmp_path) as to:
            await to.topics.create("orders", 1)
            assert await codes(to, grow("orders", 2), validate_only=True) == [0]
            assert to.streams.names == {"orders-0"}
            assert await codes(to, grow("orders", 3, [[1], [1]])) == [0]
            topic = to.topics.get("orders")
            assert topic is not None
            assert topic.partition_count == 3

    run(story)
