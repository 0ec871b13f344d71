"""ElectLeaders, API 43, v0-2.

The preferred broker of a partition owns it whenever it is alive, without being elected, and each
partition has an owner as long as any broker is. So an election is never needed; what can be said is
that the preferred broker is not there.
Kept: Kafka's codes for partitions that do not exist and for unknown kinds of election; null stands
for all partitions, and tells only those whose leader changed: none.
Source: ReplicationControlManager.electLeaders; a Kafka 4.3.1 of one node.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import ELECT_LEADERS
from tailrace.protocol.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


@handles(ELECT_LEADERS)
async def elect_leaders(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Say of each partition that it needs no election, or why it cannot have one."""
    topics, pace = ctx.broker.topics, ctx.pace()
    if code := ctx.cluster_refusal(Operation.ALTER):
        return await _refused(request, code, pace)
    if request.topic_partitions is None:
        all_topics = [
            ReplicaElectionResult(topic=topic.name) async for topic in pace.each(topics.all())
        ]
        return ElectLeadersResponse(replica_election_results=all_topics)
    known = request.election_type in (PREFERRED, UNCLEAN)
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    _result(ctx, asked.topic, index, request.election_type)
                    if known
                    else _unknown_kind(index, request.election_type)
                    async for index in pace.each(asked.partitions)
                ],
            )
            async for asked in pace.each(request.topic_partitions)
        ],
    )


async def _refused(
    request: ElectLeadersRequest, code: ErrorCode, pace: Pace
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=asked.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=WHY[code])
                    async for index in pace.each(asked.partitions)
                ],
            )
            async for asked in pace.each(request.topic_partitions or ())
        ],
    )


def _result(ctx: RequestContext, name: str, index: int, kind: int) -> PartitionResult:
    topic = ctx.broker.topics.get(name)
    if topic is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= index < topic.partition_count:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    elif kind == PREFERRED and not _has_preferred(ctx, topic, index):
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        message = "The preferred leader was not available."
    else:
        code = ErrorCode.ELECTION_NOT_NEEDED
        message = "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _has_preferred(ctx: RequestContext, topic: Topic, index: int) -> bool:
    routes = ctx.broker.routes
    return routes.replicas(topic, index).all[0] == routes.owners(topic)[index]


def _unknown_kind(index: int, kind: int) -> PartitionResult:
    message = f"Unknown election type {kind}"
    return PartitionResult(
        partition_id=index, error_code=ErrorCode.INVALID_REQUEST, error_message=message
    )
