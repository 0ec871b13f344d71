"""AlterUserScramCredentials, Kafka API 51, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ScramCredentialDeletion:
    """Part of AlterUserScramCredentialsRequest."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class ScramCredentialUpsertion:
    """Part of AlterUserScramCredentialsRequest."""

    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES)
    salted_password: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    """Source: Kafka AlterUserScramCredentialsRequest.json, v0."""

    deletions: Sequence[ScramCredentialDeletion] = wire(array(ScramCredentialDeletion))
    upsertions: Sequence[ScramCredentialUpsertion] = wire(array(ScramCredentialUpsertion))


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    """Part of AlterUserScramCredentialsResponse."""

    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    """Source: Kafka AlterUserScramCredentialsResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    results: Sequence[AlterUserScramCredentialsResult] = wire(
        array(AlterUserScramCredentialsResult)
    )
