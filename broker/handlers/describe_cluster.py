"""DescribeCluster v0-2: the brokers, the controller, the cluster's id.

Every broker can do what Kafka's controller does; the one with the lowest id is named.
Source: KafkaApis.handleDescribeCluster; reference Kafka 7.1.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._authorized_operations import NOT_ASKED, cluster_operations
from tailrace.broker.handlers._places import broker_places
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_CLUSTER
from tailrace.protocol.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


@handles(DESCRIBE_CLUSTER)
def describe_cluster(
    ctx: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Describe the brokers; controllers as endpoints of their own do not exist."""
    broker = ctx.broker
    if request.endpoint_type != BROKERS:
        return _refusal(request.endpoint_type)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        cluster_authorized_operations=cluster_operations(ctx)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
        controller_id=broker.routes.live.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=each.node_id, host=each.host, port=each.port, rack=each.rack
            )
            for each in broker_places(ctx)
        ],
    )


def _refusal(endpoint_type: int) -> DescribeClusterResponse:
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    message = f"Unsupported endpoint type {endpoint_type}"
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
            "type CONTROLLER"
        )
    return DescribeClusterResponse(error_code=code, error_message=message)
