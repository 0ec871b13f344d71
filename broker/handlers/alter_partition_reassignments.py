"""AlterPartitionReassignments, API 45, v0-1.

Replicas as Kafka's clients see them are brokers that serve, and a partition has one: the broker
that is asked. So the only reassignment that can be asked for is the one that holds, and it is done
at once; there is never one in progress to cancel. Moving a partition to another broker of the
cluster needs a request from broker to broker that lets go of the partition there and claims it
here; until brokers route to each other, a broker serves what it is asked for, and others are
refused as not registered. The copies are on bookies, and auto-recovery moves those.
Source: ReplicationControlManager.alterPartitionReassignments; a Kafka 4.3.1 of one node.
"""

from broker.cluster.admin import check_assignment
from broker.context import RequestContext
from broker.errors import KafkaError
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import ALTER_PARTITION_REASSIGNMENTS
from protocol.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@handles(ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Reassign each partition to the broker that has it, or say why not."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_result(ctx, topic.name, each) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _result(
    ctx: RequestContext, name: str, partition: ReassignablePartition
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        _reassign(ctx, name, partition)
    except KafkaError as error:
        code, message = error.code, error.detail or None
    return ReassignablePartitionResponse(
        partition_index=partition.partition_index, error_code=code, error_message=message
    )


def _reassign(ctx: RequestContext, name: str, partition: ReassignablePartition) -> None:
    topic = ctx.broker.topics.get(name)
    if topic is None:
        message = f"Unable to find a topic named {name}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if not 0 <= partition.partition_index < topic.partition_count:
        message = f"Unable to find partition {name}:{partition.partition_index}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if partition.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = partition.replicas
    check_assignment(replicas, len(replicas), (ctx.broker.node_id,))
