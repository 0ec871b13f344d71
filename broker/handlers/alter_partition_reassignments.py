"""AlterPartitionReassignments, API 45, v0-1: says which brokers are to serve a partition.

Replicas as Kafka's clients see them are brokers in the order in which they are preferred: the first
that is alive owns the partition. Reassigning is one write to the topic, for all its partitions that
a request names; the answer says that it is on disk. Who has a partition lets go of it when it hears
of that. No records are copied: those are on bookies, which auto-recovery looks after.
Kept: Kafka's checks and codes; null ends a move that is under way, and leaves the partition where
it is. Every broker takes these requests, and two at a time make one of them try again.
Source: ReplicationControlManager.alterPartitionReassignments; a Kafka 4.3.1 of one node.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tailrace.broker.authorization.required import WHY
from tailrace.broker.cluster.admin import check_assignment
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._moves import moves
from tailrace.core.access.acls.model import Operation
from tailrace.core.errors import CoreError
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import ALTER_PARTITION_REASSIGNMENTS
from tailrace.protocol.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

TOPIC_UNITS = 10
PARTITION_UNITS = 5
"""What it takes to write one topic, and to check one partition."""


@handles(ALTER_PARTITION_REASSIGNMENTS)
async def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Reassign each partition, or say why not."""
    may_change, pace = request.allow_replication_factor_change, ctx.pace()
    if code := ctx.cluster_refusal(Operation.ALTER):
        return await _refused(request, KafkaError(code, WHY[code]), pace)
    asked: defaultdict[str, dict[int, ReassignablePartition]] = defaultdict(dict)
    async for topic in pace.each(request.topics):
        async for each in pace.each(topic.partitions):
            asked[topic.name][each.partition_index] = each  # as in Kafka, the last one counts
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=name, partitions=await _reassign(ctx, name, last, pace, may_change=may_change)
            )
            async for name, last in pace.each(asked.items(), TOPIC_UNITS)
        ],
    )


async def _refused(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, pace: Pace
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.detail,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(each.partition_index, error)
                    async for each in pace.each(topic.partitions)
                ],
            )
            async for topic in pace.each(request.topics)
        ],
    )


async def _reassign(
    ctx: RequestContext,
    name: str,
    last: Mapping[int, ReassignablePartition],
    pace: Pace,
    *,
    may_change: bool,
) -> list[ReassignablePartitionResponse]:
    wanted: dict[int, Sequence[int]] = {}
    failed: dict[int, KafkaError | CoreError] = {}
    async for index, each in pace.each(last.items(), PARTITION_UNITS):
        try:
            wanted[index] = await _checked(ctx, name, each, may_change=may_change)
        except (KafkaError, CoreError) as error:
            failed[index] = error
    try:
        if wanted:
            await ctx.broker.topics.assign(name, wanted)
    except (KafkaError, CoreError) as error:
        failed.update(dict.fromkeys(wanted, error))
    return [_result(index, failed.get(index)) async for index in pace.each(last)]


async def _checked(
    ctx: RequestContext, name: str, partition: ReassignablePartition, *, may_change: bool
) -> Sequence[int]:
    """Return the brokers that a partition is to have. Errors: KafkaError, CoreError."""
    topic, index = ctx.broker.topics.get(name), partition.partition_index
    if topic is None:
        message = f"Unable to find a topic named {name}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not 0 <= index < topic.partition_count:
        message = f"Unable to find partition {name}:{index}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if partition.replicas is None:
        return await _former(ctx, TopicPartition(name, index))
    if not set(partition.replicas) <= set(ctx.broker.routes.live.ids):
        await ctx.broker.routes.refresh()  # one may have come a moment ago
    _check(ctx, topic, index, partition.replicas, may_change=may_change)
    return partition.replicas


def _check(
    ctx: RequestContext, topic: Topic, index: int, replicas: Sequence[int], *, may_change: bool
) -> None:
    routes = ctx.broker.routes
    check_assignment(replicas, len(replicas), routes.live.ids)
    now = len(routes.replicas(topic, index).all)
    if not may_change and len(replicas) != now:
        message = f"The replication factor is changed from {now} to {len(replicas)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


async def _former(ctx: RequestContext, partition: TopicPartition) -> Sequence[int]:
    """Return who has a partition that is on its way. Errors: KafkaError if it is not; CoreError."""
    move = (await moves(ctx, [partition], ctx.pace())).get(partition)
    if move is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return move.former


def _result(index: int, error: KafkaError | CoreError | None) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    if error is not None:
        code = admin_error_code(error)
        message = (error.detail if isinstance(error, KafkaError) else str(error)) or None
    return ReassignablePartitionResponse(
        partition_index=index, error_code=code, error_message=message
    )
