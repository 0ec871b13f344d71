"""ElectLeaders, API 43, v0-2.

A partition has one replica as Kafka's clients see it: the broker that serves it, which is asked
here. It is the preferred one, and it leads whenever it is asked to, so an election is never needed.
Kept: Kafka's codes for partitions that do not exist and for unknown kinds of election; null stands
for all partitions, and tells only those whose leader changed: none.
Source: ReplicationControlManager.electLeaders; a Kafka 4.3.1 of one node.
"""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import ELECT_LEADERS
from protocol.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


@handles(ELECT_LEADERS)
def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Say of each partition that it needs no election, or why it cannot have one."""
    topics = ctx.broker.topics
    if request.topic_partitions is None:
        all_topics = [ReplicaElectionResult(topic=topic.name) for topic in topics.all()]
        return ElectLeadersResponse(replica_election_results=all_topics)
    known = request.election_type in (PREFERRED, UNCLEAN)
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    _result(ctx, asked.topic, index)
                    if known
                    else _unknown_kind(index, request.election_type)
                    for index in asked.partitions
                ],
            )
            for asked in request.topic_partitions
        ],
    )


def _result(ctx: RequestContext, name: str, index: int) -> PartitionResult:
    topic = ctx.broker.topics.get(name)
    if topic is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < topic.partition_count:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    else:
        code = ErrorCode.ELECTION_NOT_NEEDED
        message = "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _unknown_kind(index: int, kind: int) -> PartitionResult:
    message = f"Unknown election type {kind}"
    return PartitionResult(
        partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )
