"""The settings of `tailrace proxy`: one frozen tree for a proxy and what is below it."""

from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from tailrace.core.access.callers import check_schemes
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.ledger.config import ReadConfig as BookieReadConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.uri import parse_namespace_uri, parse_uri
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.core.security.exposure import ExposureConfig
from tailrace.processes.health_http import HealthHttpConfig
from tailrace.processes.proxy_access_config import ProxyAccessConfig
from tailrace.processes.proxy_address import ProxyAddressConfig, ReadProxyAddressConfig
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.service.config import GrpcConfig, WriteServiceConfig

ANSWER_MS_MIN: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProcessConfig:
    """All settings of proxies of both kinds."""

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
        "After so long without a word, ZooKeeper drops this proxy's registration, and a write "
        "proxy's locks on streams: others take over. ZooKeeper's minSessionTimeout must allow it. "
        "Unit: ms.",
    )
    log_level: LogLevel = setting(
        "log.level", "info", "Least level of what goes to stderr: debug, info, warning, error."
    )
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    address: ProxyAddressConfig = field(default_factory=ProxyAddressConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    log: LogConfig = field(default_factory=LogConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    http: HealthHttpConfig = field(default_factory=HealthHttpConfig)
    access: ProxyAccessConfig = field(default_factory=ProxyAccessConfig)
    exposure: ExposureConfig = field(default_factory=ExposureConfig)

    def __post_init__(self) -> None:
        if parse_uri(self.metadata_uri).path is not None:
            raise ValueError("metadataServiceUri must name a ZooKeeper: zk://HOST:PORT/PATH")
        if parse_namespace_uri(self.namespace_uri).path is not None:
            raise ValueError("namespaceUri must name a ZooKeeper: distributedlog://HOST:PORT/PATH")
        if self.session_timeout_ms < 1:
            raise ValueError("zkSessionTimeout must be positive")
        self.grpc.check_tls(self.access.tls)
        check_schemes("proxy.authentication", self.grpc.authentication, self.access.oauth)
        if self.ledgers.root != LEDGERS_ROOT:
            raise ValueError("ledgersPath is what the namespace is bound to: leave it unset")

    @property
    def answer_within_ms(self) -> int:
        """How long operations on metadata wait: a slow disk of ZooKeeper's fails none of them."""
        return max(self.session_timeout_ms, ANSWER_MS_MIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProxyConfig(ProxyProcessConfig):
    """All settings of one write proxy."""

    write: WriteServiceConfig = field(default_factory=WriteServiceConfig)
    owner: OwnerConfig = field(default_factory=OwnerConfig)

    @override
    def __post_init__(self) -> None:
        ProxyProcessConfig.__post_init__(self)  # a class with slots is made twice: no super()
        defaults = LogConfig()
        if (self.log.lock_timeout_s, self.log.client_id) != (
            defaults.lock_timeout_s,
            defaults.client_id,
        ):
            raise ValueError(
                "lockTimeoutSeconds and log.client.id are the proxy's own: leave them unset"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProxyBookieReadConfig(BookieReadConfig):
    """How a read proxy reads from bookies: all readers of a stream wait for one read of it.

    A stuck bookie costs them 0.8 s once, 3 s with DistributedLog's defaults. The price is a second
    long poll a second for a stream to which nothing is written.
    """

    speculative_timeout_ms: int = setting(
        "speculativeReadTimeout",
        250,
        "Silence of a replica before the next one is asked as well, in ms; 0: never",
    )
    long_poll_speculative_timeout_ms: int = setting(
        "firstSpeculativeReadLACTimeout",
        500,
        "The same for a reader that waits at the tail, in ms; 0: never",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProxyLedgersConfig(LedgerClientConfig):
    """The ledgers of a read proxy."""

    read: ReadProxyBookieReadConfig = field(default_factory=ReadProxyBookieReadConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProxyConfig(ProxyProcessConfig):
    """All settings of one read proxy."""

    ledgers: ReadProxyLedgersConfig = field(default_factory=ReadProxyLedgersConfig)
    address: ReadProxyAddressConfig = field(default_factory=ReadProxyAddressConfig)
    read: ReadConfig = field(default_factory=ReadConfig)
