"""DescribeUserScramCredentials, Kafka API 50, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class UserName:
    """Part of DescribeUserScramCredentialsRequest."""

    name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """Source: Kafka DescribeUserScramCredentialsRequest.json, v0."""

    users: Sequence[UserName] | None = wire(array(UserName), nullable_since=0)


@dataclass(slots=True, kw_only=True)
class CredentialInfo:
    """Part of DescribeUserScramCredentialsResponse."""

    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    """Part of DescribeUserScramCredentialsResponse."""

    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    credential_infos: Sequence[CredentialInfo] = wire(array(CredentialInfo))


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """Source: Kafka DescribeUserScramCredentialsResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    results: Sequence[DescribeUserScramCredentialsResult] = wire(
        array(DescribeUserScramCredentialsResult)
    )
