"""Settings of a proxy's gRPC server and of its write service."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting

MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""Decoding the worst message of this size, a million empty payloads, takes 28 ms."""

_MessageBytes = Annotated[int, msgspec.Meta(ge=1024, le=64 * 1024 * 1024)]
_RecordsMax = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """What one gRPC server takes from its peers."""

    message_bytes_max: _MessageBytes = setting(
        "proxy.message.bytes.max",
        MESSAGE_BYTES,
        "Bytes of a request's message; a longer one gets RESOURCE_EXHAUSTED. Far above the default"
        " a hostile message holds up all others while it is decoded",
    )
    metadata_bytes_max: AtLeastOne = setting(
        "proxy.metadata.bytes.max",
        16 * 1024,
        "Bytes of a call's metadata (its headers); more gets RESOURCE_EXHAUSTED",
    )
    calls_max: AtLeastOne = setting(
        "proxy.calls.max", 20_000, "Calls at once; more get RESOURCE_EXHAUSTED"
    )
    connection_calls_max: AtLeastOne = setting(
        "proxy.connection.calls.max",
        10_000,
        "Calls at once of one connection; gRPC's clients wait with more, or get UNAVAILABLE",
    )
    keepalive_ms: AtLeastOne = setting(
        "proxy.keepalive.ms",
        60_000,
        "A connection that is silent for so long is asked whether it lives, in ms",
    )
    keepalive_timeout_ms: AtLeastOne = setting(
        "proxy.keepalive.timeout.ms", 20_000, "Time for the answer to that, in ms; then it is ended"
    )
    connection_idle_ms: AtLeastOne = setting(
        "proxy.connection.idle.ms",
        600_000,
        "A connection without a call for so long is ended, in ms",
    )
    grace_ms: NotNegative = setting(
        "proxy.stop.grace.ms",
        2_000,
        "Time for the calls that run when the server stops, in ms; then they are cancelled",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteServiceConfig:
    """What the write service takes."""

    request_records_max: _RecordsMax = setting(
        "proxy.request.records.max",
        2_000,
        "Records of a bulk, or of one message of a write stream; more get REQUEST_DENIED. A bulk"
        " of so many takes 20 ms of the proxy's time",
    )
    set_records_max: _RecordsMax = setting(
        "proxy.record.set.records.max",
        4_096,
        "Values of a record set, which is decoded when it comes, in 12 ms for so many; more get"
        " REQUEST_DENIED",
    )
    stream_records_max: AtLeastOne = setting(
        "proxy.write.stream.records.max",
        8_192,
        "Records in flight of one write stream; at so many its next message is not read",
    )
    stream_bytes_max: AtLeastOne = setting(
        "proxy.write.stream.bytes.max",
        8 * 1024 * 1024,
        "Bytes of these records",
    )
