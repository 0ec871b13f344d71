"""DescribeDelegationToken, Kafka API 41, v1-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenOwner:
    """Part of DescribeDelegationTokenRequest."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenRequest:
    """Source: Kafka DescribeDelegationTokenRequest.json, v1-3."""

    owners: Sequence[DescribeDelegationTokenOwner] | None = wire(
        array(DescribeDelegationTokenOwner), nullable_since=0
    )


@dataclass(slots=True, kw_only=True)
class DescribedDelegationTokenRenewer:
    """Part of DescribeDelegationTokenResponse."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class DescribedDelegationToken:
    """Part of DescribeDelegationTokenResponse."""

    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp: int = wire(INT64)
    expiry_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    renewers: Sequence[DescribedDelegationTokenRenewer] = wire(
        array(DescribedDelegationTokenRenewer)
    )


@dataclass(slots=True, kw_only=True)
class DescribeDelegationTokenResponse:
    """Source: Kafka DescribeDelegationTokenResponse.json, v1-3."""

    error_code: int = wire(INT16)
    tokens: Sequence[DescribedDelegationToken] = wire(array(DescribedDelegationToken))
    throttle_time_ms: int = wire(INT32)
