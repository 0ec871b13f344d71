"""CreateDelegationToken, Kafka API 38, v1-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class CreatableRenewers:
    """Part of CreateDelegationTokenRequest."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    """Source: Kafka CreateDelegationTokenRequest.json, v1-3."""

    owner_principal_type: str | None = wire(STRING, since=3, nullable_since=3)
    owner_principal_name: str | None = wire(STRING, since=3, nullable_since=3)
    renewers: Sequence[CreatableRenewers] = wire(array(CreatableRenewers))
    max_lifetime_ms: int = wire(INT64)


@dataclass(slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """Source: Kafka CreateDelegationTokenResponse.json, v1-3."""

    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    throttle_time_ms: int = wire(INT32)
