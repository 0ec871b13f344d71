"""The settings of `tailrace autorecovery`: one frozen tree for the process and its parts."""

import os
import re
from dataclasses import dataclass, field, replace

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.uri import parse_uri
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.host import host_name
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.core.security.exposure import ExposureConfig
from tailrace.processes.health_http import HealthHttpConfig

_ID = re.compile(r"[A-Za-z0-9._:\-]+")
"""BookKeeper's rule for ids: its tools take the auditor's for a bookie's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRecoveryProcessConfig:
    """All settings of one process of auto-recovery."""

    metadata_uri: str = setting(
        "metadataServiceUri",
        "zk://127.0.0.1:2181/ledgers",
        "The cluster to look after: zk://HOST:PORT,HOST:PORT/PATH.",
    )
    name: str = setting(
        "bookieId",
        "",
        "How votes and locks name this process to people; letters, digits and . : _ - only. "
        "Default: host name and process id.",
    )
    session_timeout_ms: int = setting(
        "zkTimeout",
        10_000,
        "After so long without a word, ZooKeeper drops this process' vote and locks. Unit: ms.",
    )
    log_level: LogLevel = setting(
        "log.level", "info", "Least level of what goes to stderr: debug, info, warning, error."
    )
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    recovery: AutoRecoveryConfig = field(default_factory=AutoRecoveryConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    http: HealthHttpConfig = field(default_factory=HealthHttpConfig)
    exposure: ExposureConfig = field(default_factory=ExposureConfig)

    def __post_init__(self) -> None:
        if parse_uri(self.metadata_uri).path is not None:
            raise ValueError("metadataServiceUri must name a ZooKeeper: zk://HOST:PORT/PATH")
        if self.ledgers.root != LEDGERS_ROOT:
            raise ValueError("ledgersPath is the path of metadataServiceUri: leave it unset")
        if self.session_timeout_ms < 1:
            raise ValueError("zkTimeout must be positive")
        if self.name and not _ID.fullmatch(self.name):
            raise ValueError(f"bookieId {self.name!r}: letters, digits and . : _ - only")

    @property
    def root(self) -> str:
        """Return where the cluster is in the metadata."""
        return parse_uri(self.metadata_uri).ledgers_root

    @property
    def identity(self) -> str:
        """Return how this process is named to people."""
        host = re.sub(r"[^A-Za-z0-9._\-]", "-", host_name())
        return self.name or f"{host}:{os.getpid()}"

    def recovery_config(self) -> AutoRecoveryConfig:
        """Return the settings of auditor and worker, for the cluster of `metadataServiceUri`."""
        return replace(self.recovery, root=self.root)

    def ledger_config(self) -> LedgerClientConfig:
        """Return the settings of ledgers, for the same cluster."""
        return replace(self.ledgers, root=self.root)
