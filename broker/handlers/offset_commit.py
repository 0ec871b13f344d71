"""OffsetCommit: remember how far a group has read."""

from typing import Any

from broker.context import RequestContext
from broker.coordinator.plans import commit_response, refuse_commit
from broker.handlers import Answer, handles
from broker.handlers._groups import answered, caller_of
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_COMMIT
from protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


@handles(OFFSET_COMMIT)
def offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> Answer[OffsetCommitResponse]:
    """OffsetCommit v2-9: answered when the offsets are on disk at an ack quorum.

    Errors: per partition; what concerns the whole group stands at every partition.
    Source: KafkaApis.handleOffsetCommitRequest; reference 6.5.
    """

    def build(result: Any) -> OffsetCommitResponse:
        if isinstance(result, ErrorCode):
            return commit_response(refuse_commit(request.topics, result))
        response: OffsetCommitResponse = result
        return response

    return answered(ctx.broker.groups.commit(request, caller_of(ctx)), build)
