"""CreatePartitions, API 37, v0-3.

Kept: counts only grow; assignments are checked as for a new topic; `validate_only`.
Not kept: `timeout_ms`; the partitions are there before the answer.
"""

from collections.abc import Sequence

from tailrace.broker.cluster.admin import check_new_assignments
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import in_order, repeated
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_PARTITIONS
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

QUOTA_STRICT_SINCE = 3

TOPIC_UNITS = 10
"""What it takes to grow one topic."""


@handles(CREATE_PARTITIONS)
async def create_partitions(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Grow each topic, or say why not."""
    pace = ctx.pace()
    twice = await repeated((topic.name for topic in request.topics), pace)
    results = [
        _result(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        async for name in pace.each(await in_order(twice, pace))
    ]
    results += [
        await _grow(ctx, topic, validate_only=request.validate_only)
        async for topic in pace.each(request.topics, TOPIC_UNITS)
        if topic.name not in twice
    ]
    return CreatePartitionsResponse(results=results)


async def _grow(
    ctx: RequestContext, topic: CreatePartitionsTopic, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    topics = ctx.broker.topics
    if code := ctx.refusal(Operation.ALTER, ResourceType.TOPIC, topic.name):
        return _result(topic.name, code, None)
    try:
        now = topics.check_add_partitions(topic.name, topic.count)
        assignments = _assignments(ctx, now, topic)
        if ctx.quota is not None:
            new = topic.count - now.partition_count
            ctx.quota.mutate(new, strict=ctx.header.api_version >= QUOTA_STRICT_SINCE)
        if not validate_only:
            await topics.add_partitions(topic.name, topic.count, assignments)
    except KafkaError as error:
        return _result(topic.name, error.code, error.detail)
    except CoreError as error:
        return _result(topic.name, admin_error_code(error), str(error))
    return _result(topic.name, ErrorCode.NONE, None)


def _assignments(
    ctx: RequestContext, now: Topic, topic: CreatePartitionsTopic
) -> dict[int, Sequence[int]]:
    """Return the brokers that are given for the new partitions. Errors: KafkaError."""
    if topic.assignments is None:
        return {}
    routes, new = ctx.broker.routes, topic.count - now.partition_count
    given = [entry.broker_ids for entry in topic.assignments]
    check_new_assignments(given, new, len(routes.replicas(now, 0).all), routes.live.ids)
    return dict(enumerate(given, now.partition_count))


def _result(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
