"""DeleteTopics, Kafka API 20, v1-6: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DeleteTopicState:
    """Part of DeleteTopicsRequest."""

    name: str | None = wire(STRING, since=6, nullable_since=6, default=None)
    topic_id: bytes = wire(UUID, since=6)


@dataclass(slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Source: Kafka DeleteTopicsRequest.json, v1-6."""

    topics: Sequence[DeleteTopicState] = wire(array(DeleteTopicState), since=6)
    topic_names: Sequence[str] = wire(array(STRING), until=5)
    timeout_ms: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class DeletableTopicResult:
    """Part of DeleteTopicsResponse."""

    name: str | None = wire(STRING, nullable_since=6)
    topic_id: bytes = wire(UUID, since=6)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=5, nullable_since=5, default=None)


@dataclass(slots=True, kw_only=True)
class DeleteTopicsResponse:
    """Source: Kafka DeleteTopicsResponse.json, v1-6."""

    throttle_time_ms: int = wire(INT32, since=1)
    responses: Sequence[DeletableTopicResult] = wire(array(DeletableTopicResult))
