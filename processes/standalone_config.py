"""The settings of `tailrace start`: one frozen tree for metadata, bookie, log and broker."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tailrace.bookie.config import BookieConfig
from tailrace.bookie.security_config import BookieSecurity
from tailrace.broker.config import BrokerConfig
from tailrace.core.access.callers import check_schemes
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.core.security.exposure import ExposureConfig
from tailrace.processes.proxy_address import ProxyAddressConfig
from tailrace.processes.secure_config import SecureConfig
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.service.config import GrpcConfig, WriteServiceConfig

_BOOKIE = BookieConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogConfig(LogConfig):
    """The logs of topics: many are read at once, and lie between each other on the same disks.

    With 16 MiB read ahead, as for a log alone, six partitions were read from disk a quarter slower
    (430 to 450 MB/s, not 530 to 640), and a broker took 110 MB more.
    """

    read_ahead_bytes: int = setting(
        "log.read.ahead.bytes", 4 * 1024 * 1024, "Bytes that a reader holds ahead of its caller"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneProxyConfig:
    """The serving layer inside a standalone process."""

    enabled: bool = setting(
        "proxy.enable",
        False,
        "Serve thin clients over gRPC (proxy.listener): they write and read log streams by name.",
    )
    address: ProxyAddressConfig = field(default_factory=ProxyAddressConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    write: WriteServiceConfig = field(default_factory=WriteServiceConfig)
    owner: OwnerConfig = field(default_factory=OwnerConfig)
    read: ReadConfig = field(default_factory=ReadConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig:
    """All settings of one standalone process."""

    data: Path = setting(
        "data", Path("tailrace-data"), "Directory of everything the process keeps."
    )
    log_level: LogLevel = setting(
        "log.level",
        "warning",
        "Least level of what goes to stderr: debug, info, warning, error.",
    )
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    log: TopicLogConfig = field(default_factory=TopicLogConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    bookie: BookieConfig = field(default_factory=BookieConfig)
    proxy: StandaloneProxyConfig = field(default_factory=StandaloneProxyConfig)
    secure: SecureConfig = field(default_factory=SecureConfig)
    exposure: ExposureConfig = field(default_factory=ExposureConfig)

    def __post_init__(self) -> None:
        check_topic_logs(self.log)
        if self.bookie.security != BookieSecurity():
            raise ValueError(
                "tls..., sasl... and bookieAuthProviderFactoryClass are of bookies that listen; "
                "the one inside of this process does not"
            )
        if self.proxy.enabled:
            grpc, network = self.proxy.grpc, self.broker.network
            grpc.check_tls(network.tls)
            check_schemes("proxy.authentication", grpc.authentication, network.sasl.oauth)

    @property
    def metadata_path(self) -> Path:
        """Where the metadata store lies."""
        return self.data / "metadata.db"

    def bookie_config(self) -> BookieConfig:
        """Return the bookie's settings, with its directories below `data` unless they were set."""
        journals, ledgers = self.bookie.journal_directories, self.bookie.ledger_directories
        if journals == _BOOKIE.journal_directories:
            journals = (self.data / "bookie" / "journal",)
        if ledgers == _BOOKIE.ledger_directories:
            ledgers = (self.data / "bookie" / "ledgers",)
        return replace(self.bookie, journal_directories=journals, ledger_directories=ledgers)


def check_topic_logs(log: LogConfig) -> None:
    """Refuse what would take records away below a topic's log start. Errors: ValueError."""
    if log.retention_hours or log.cold_storage or log.cold_retention_hours:
        raise ValueError(
            "logSegmentRetentionHours and log.cold.* are of log streams without topics; a topic has"
            " retention.ms, remote.storage.enable and local.retention.ms"
        )
