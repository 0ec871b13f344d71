"""Metadata, Kafka API 3, v0-13: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class MetadataRequestTopic:
    """Part of MetadataRequest."""

    topic_id: bytes = wire(UUID, since=10)
    name: str | None = wire(STRING, nullable_since=10)


@dataclass(slots=True, kw_only=True)
class MetadataRequest:
    """Source: Kafka MetadataRequest.json, v0-13."""

    topics: Sequence[MetadataRequestTopic] | None = wire(
        array(MetadataRequestTopic), nullable_since=1
    )
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = wire(BOOL, since=8)


@dataclass(slots=True, kw_only=True)
class MetadataResponseBroker:
    """Part of MetadataResponse."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, since=1, nullable_since=1, default=None)


@dataclass(slots=True, kw_only=True)
class MetadataResponsePartition:
    """Part of MetadataResponse."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1)
    replica_nodes: Sequence[int] = wire(array(INT32))
    isr_nodes: Sequence[int] = wire(array(INT32))
    offline_replicas: Sequence[int] = wire(array(INT32), since=5)


@dataclass(slots=True, kw_only=True)
class MetadataResponseTopic:
    """Part of MetadataResponse."""

    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=12)
    topic_id: bytes = wire(UUID, since=10)
    is_internal: bool = wire(BOOL, since=1)
    partitions: Sequence[MetadataResponsePartition] = wire(array(MetadataResponsePartition))
    topic_authorized_operations: int = wire(INT32, since=8, default=-2147483648)


@dataclass(slots=True, kw_only=True)
class MetadataResponse:
    """Source: Kafka MetadataResponse.json, v0-13."""

    throttle_time_ms: int = wire(INT32, since=3)
    brokers: Sequence[MetadataResponseBroker] = wire(array(MetadataResponseBroker))
    cluster_id: str | None = wire(STRING, since=2, nullable_since=2, default=None)
    controller_id: int = wire(INT32, since=1, default=-1)
    topics: Sequence[MetadataResponseTopic] = wire(array(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(INT32, since=8, until=10, default=-2147483648)
    error_code: int = wire(INT16, since=13)
