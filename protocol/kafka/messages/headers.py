"""Request and response header, v1-2 and v0-1: the schema that `header.py` is hand-tuned from."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class RequestHeader:
    """Source: Kafka RequestHeader.json, v1-2."""

    request_api_key: int = wire(INT16)
    request_api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(STRING, since=1, nullable_since=1, flexible=False)


@dataclass(slots=True, kw_only=True)
class ResponseHeader:
    """Source: Kafka ResponseHeader.json, v0-1."""

    correlation_id: int = wire(INT32)
