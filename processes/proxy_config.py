"""The settings of `tailrace proxy`: one frozen tree for a proxy and what is below it."""

from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from tailrace.broker.listeners import EVERYWHERE, PORT_MAX, Endpoint
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.uri import parse_namespace_uri, parse_uri
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.processes.cluster_namespace import Place
from tailrace.processes.health_http import HealthHttpConfig
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.service.config import GrpcConfig, WriteServiceConfig

PROXY_PORT: Final = 8000
"""The port of the write proxy in DistributedLog's tutorials (`inet!127.0.0.1:8000`)."""
ANSWER_MS_MIN: Final = 5_000

_Region = Annotated[str, msgspec.Meta(max_length=255)]
_Shard = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyAddressConfig:
    """Where a proxy listens, and what its clients connect to."""

    listener: str = setting(
        "proxy.listener",
        f"127.0.0.1:{PROXY_PORT}",
        "HOST:PORT of the gRPC port; port 0 picks one.",
    )
    advertised: str = setting(
        "proxy.advertised.listener",
        "",
        "HOST:PORT that clients connect to, as locks and the registration say it. Unset: where it"
        " listens. DistributedLog's clients agree about it if it is an IP address",
    )
    shard: _Shard = setting(
        "proxy.shard",
        0,
        "The proxy's place on the ring that spreads streams; each proxy needs one of its own, and"
        " keeps it when it restarts",
    )
    region: _Region = setting(
        "proxy.region",
        "",
        "The region that the proxy is in, as its registration says it: clients ask proxies of their"
        " own region first. Unset: the first of four parts of its host's name, as of eu-r1-proxy-7",
    )

    def __post_init__(self) -> None:
        at, told = self.at, self.told(0)
        if told.host in EVERYWHERE:
            raise ValueError(
                f"proxy.advertised.listener: no client can connect to {told.host or at.host!r}:"
                " give the host that they are to use (--advertise HOST:PORT)"
            )

    @property
    def at(self) -> Endpoint:
        """Where it listens."""
        return _endpoint(self.listener, "proxy.listener")

    def told(self, bound_port: int) -> Endpoint:
        """Where clients connect to, once the proxy listens on a port."""
        if not self.advertised:
            return Endpoint(self.at.host, bound_port)
        told = _endpoint(self.advertised, "proxy.advertised.listener")
        return told if told.port else Endpoint(told.host, bound_port)


def _endpoint(text: str, key: str) -> Endpoint:
    """Read HOST:PORT or [IPV6]:PORT. Errors: ValueError."""
    host, colon, digits = text.rpartition(":")
    port = decimal(digits, PORT_MAX)
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or port is None or len(host) > _HOST_MAX or (":" in host and not is_bracketed):
        raise ValueError(f"{key}: {text!r} is not HOST:PORT, as 127.0.0.1:{PROXY_PORT}")
    return Endpoint(host.strip("[]"), port)


_HOST_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProcessConfig:
    """Everything that one write proxy can be told."""

    metadata_uri: str = setting(
        "metadataServiceUri",
        "zk://127.0.0.1:2181/ledgers",
        "The bookies' cluster: zk://HOST:PORT,HOST:PORT/PATH.",
    )
    namespace_uri: str = setting(
        "namespaceUri",
        "distributedlog://127.0.0.1:2181/messaging/tailrace",
        "The namespace whose streams are served; bound to the cluster when it is not there",
    )
    session_timeout_ms: int = setting(
        "zkSessionTimeout",
        1_000,
        "After so long without a word, ZooKeeper drops this proxy's registration and its locks on "
        "streams, and others take over. ZooKeeper's minSessionTimeout must allow it. Unit: ms.",
    )
    log_level: LogLevel = setting(
        "log.level", "info", "Least level of what goes to stderr: debug, info, warning, error."
    )
    address: ProxyAddressConfig = field(default_factory=ProxyAddressConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    write: WriteServiceConfig = field(default_factory=WriteServiceConfig)
    owner: OwnerConfig = field(default_factory=OwnerConfig)
    log: LogConfig = field(default_factory=LogConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    http: HealthHttpConfig = field(default_factory=HealthHttpConfig)

    def __post_init__(self) -> None:
        if parse_uri(self.metadata_uri).path is not None:
            raise ValueError("metadataServiceUri must name a ZooKeeper: zk://HOST:PORT/PATH")
        if parse_namespace_uri(self.namespace_uri).path is not None:
            raise ValueError("namespaceUri must name a ZooKeeper: distributedlog://HOST:PORT/PATH")
        if self.session_timeout_ms < 1:
            raise ValueError("zkSessionTimeout must be positive")
        if self.ledgers.root != LEDGERS_ROOT:
            raise ValueError("ledgersPath is what the namespace is bound to: leave it unset")
        defaults = LogConfig()
        if (self.log.lock_timeout_s, self.log.client_id) != (
            defaults.lock_timeout_s,
            defaults.client_id,
        ):
            raise ValueError(
                "lockTimeoutSeconds and log.client.id are the proxy's own: leave them unset"
            )

    @property
    def place(self) -> Place:
        """Where its streams are."""
        return Place(
            self.metadata_uri,
            self.namespace_uri,
            self.session_timeout_ms,
            max(self.session_timeout_ms, ANSWER_MS_MIN),
        )
