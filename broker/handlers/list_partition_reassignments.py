"""ListPartitionReassignments, API 46, v0: none, as a reassignment is done before it is answered."""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.kafka.apis import LIST_PARTITION_REASSIGNMENTS
from protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(
    _ctx: RequestContext, _request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List what is being moved; what does not exist is left out, as in Kafka."""
    return ListPartitionReassignmentsResponse(error_message=None)
