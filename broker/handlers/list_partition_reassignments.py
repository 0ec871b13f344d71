"""ListPartitionReassignments, API 46, v0: partitions that were assigned and are not there yet.

One that is shown belongs to another broker than the one that has it, which has not let go yet.
What does not exist is left out, as in Kafka.
Source: ReplicationControlManager.listPartitionReassignments.
"""

from collections import defaultdict
from collections.abc import Iterator

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import admin_error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._moves import moves
from tailrace.core.access.acls.model import Operation
from tailrace.core.errors import CoreError
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import LIST_PARTITION_REASSIGNMENTS
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(LIST_PARTITION_REASSIGNMENTS)
async def list_partition_reassignments(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List what is being moved, of the partitions that are named, or of all."""
    if code := ctx.cluster_refusal(Operation.DESCRIBE):
        return ListPartitionReassignmentsResponse(error_code=code, error_message=WHY[code])
    pace = ctx.pace()
    try:
        asked = {each: None async for each in pace.each(_asked(ctx, request))}
        found = await moves(ctx, asked, pace)
    except CoreError as error:
        return ListPartitionReassignmentsResponse(
            error_code=admin_error_code(error), error_message=str(error)
        )
    by_topic: defaultdict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
    async for partition, move in pace.each(found.items()):
        ongoing = OngoingPartitionReassignment(
            partition_index=partition.partition,
            replicas=move.replicas,
            adding_replicas=move.adding,
            removing_replicas=move.removing,
        )
        by_topic[partition.topic].append(ongoing)
    topics = [
        OngoingTopicReassignment(name=name, partitions=partitions)
        for name, partitions in by_topic.items()
    ]
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _asked(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> Iterator[TopicPartition]:
    if request.topics is None:
        for topic in ctx.broker.topics.all():
            for index in topic.assignments:
                yield TopicPartition(topic.name, index)
        return
    for asked in request.topics:
        for index in asked.partition_indexes:
            yield TopicPartition(asked.name, index)
