"""Settings of a proxy's gRPC server and of its write service."""

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from tailrace.core.access.callers import Scheme
from tailrace.core.runtime.config import AtLeastOne, ConfigError, NotNegative, setting
from tailrace.core.security.tls_config import EVERY_VERSION, TlsConfig

MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""Decoding the worst message of this size, a million empty payloads, takes 28 ms."""

_MessageBytes = Annotated[int, msgspec.Meta(ge=1024, le=64 * 1024 * 1024)]
_RecordsMax = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """What one gRPC server takes from its peers."""

    is_secured: bool = setting(
        "proxy.ssl.enable",
        False,
        "Speak TLS on the gRPC port, with the certificate of ssl.keystore.*; with ssl.client.auth="
        "required clients need certificates",
    )
    authentication: tuple[Scheme, ...] = setting(
        "proxy.authentication",
        (),
        "How calls prove whose they are, a list: basic (users and passwords, as for SASL, in the "
        "call's `authorization`), bearer (tokens there, by sasl.oauthbearer.*), certificate (by "
        "TLS; ssl.principal.mapping.rules names the user). A call that does by none of them is "
        "refused. Empty: all are User:ANONYMOUS's",
    )
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

    def __post_init__(self) -> None:
        if "certificate" in self.authentication and not self.is_secured:
            raise ConfigError("proxy.authentication: certificate needs proxy.ssl.enable")

    def check_tls(self, tls: TlsConfig) -> None:
        """Refuse what `ssl.*` has nothing for, or gRPC cannot do. Errors: ConfigError."""
        if not self.is_secured:
            return
        if not tls.has_key:
            raise ConfigError(
                "proxy.ssl.enable: there is no certificate: set ssl.keystore.location"
            )
        if "certificate" in self.authentication and tls.client_auth != "required":
            raise ConfigError("proxy.authentication: certificate needs ssl.client.auth=required")
        if set(tls.enabled_protocols) != set(EVERY_VERSION) or tls.cipher_suites:
            raise ConfigError(
                "proxy.ssl.enable: gRPC speaks TLSv1.2 and TLSv1.3 with suites of its own: leave "
                "ssl.enabled.protocols and ssl.cipher.suites unset"
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
