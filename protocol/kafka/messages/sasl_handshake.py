"""SaslHandshake, Kafka API 17, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest:
    """Source: Kafka SaslHandshakeRequest.json, v0-1."""

    mechanism: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse:
    """Source: Kafka SaslHandshakeResponse.json, v0-1."""

    error_code: int = wire(INT16)
    mechanisms: Sequence[str] = wire(array(STRING))
