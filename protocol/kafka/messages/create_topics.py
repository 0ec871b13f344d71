"""CreateTopics, Kafka API 19, v2-7: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment:
    """Part of CreateTopicsRequest."""

    partition_index: int = wire(INT32)
    broker_ids: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfig:
    """Part of CreateTopicsRequest."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class CreatableTopic:
    """Part of CreateTopicsRequest."""

    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: Sequence[CreatableReplicaAssignment] = wire(array(CreatableReplicaAssignment))
    configs: Sequence[CreatableTopicConfig] = wire(array(CreatableTopicConfig))


@dataclass(slots=True, kw_only=True)
class CreateTopicsRequest:
    """Source: Kafka CreateTopicsRequest.json, v2-7."""

    topics: Sequence[CreatableTopic] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL, since=1)


@dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs:
    """Part of CreateTopicsResponse."""

    name: str = wire(STRING, since=5)
    value: str | None = wire(STRING, since=5, nullable_since=5)
    read_only: bool = wire(BOOL, since=5)
    config_source: int = wire(INT8, since=5, default=-1)
    is_sensitive: bool = wire(BOOL, since=5)


@dataclass(slots=True, kw_only=True)
class CreatableTopicResult:
    """Part of CreateTopicsResponse."""

    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, since=7)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=1, nullable_since=0)
    topic_config_error_code: int = wire(INT16, since=5, tag=0)
    num_partitions: int = wire(INT32, since=5, default=-1)
    replication_factor: int = wire(INT16, since=5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = wire(
        array(CreatableTopicConfigs), since=5, nullable_since=5
    )


@dataclass(slots=True, kw_only=True)
class CreateTopicsResponse:
    """Source: Kafka CreateTopicsResponse.json, v2-7."""

    throttle_time_ms: int = wire(INT32, since=2)
    topics: Sequence[CreatableTopicResult] = wire(array(CreatableTopicResult))
