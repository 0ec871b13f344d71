"""DescribeCluster, Kafka API 60, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeClusterRequest:
    """Source: Kafka DescribeClusterRequest.json, v0-2."""

    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, since=1, default=1)
    include_fenced_brokers: bool = wire(BOOL, since=2)


@dataclass(slots=True, kw_only=True)
class DescribeClusterBroker:
    """Part of DescribeClusterResponse."""

    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=0, default=None)
    is_fenced: bool = wire(BOOL, since=2)


@dataclass(slots=True, kw_only=True)
class DescribeClusterResponse:
    """Source: Kafka DescribeClusterResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    endpoint_type: int = wire(INT8, since=1, default=1)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: Sequence[DescribeClusterBroker] = wire(array(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(INT32, default=-2147483648)
