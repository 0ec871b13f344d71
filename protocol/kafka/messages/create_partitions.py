"""CreatePartitions, Kafka API 37, v0-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment:
    """Part of CreatePartitionsRequest."""

    broker_ids: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic:
    """Part of CreatePartitionsRequest."""

    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: Sequence[CreatePartitionsAssignment] | None = wire(
        array(CreatePartitionsAssignment), nullable_since=0
    )


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    """Source: Kafka CreatePartitionsRequest.json, v0-3."""

    topics: Sequence[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    """Part of CreatePartitionsResponse."""

    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse:
    """Source: Kafka CreatePartitionsResponse.json, v0-3."""

    throttle_time_ms: int = wire(INT32)
    results: Sequence[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult))
