"""The settings of `tailrace bookie`: one frozen tree for the process and its bookie."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from tailrace.bookie.config import BookieConfig
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.security_config import BookieClientAuth, BookieClientSecurity
from tailrace.core.metadata.uri import parse_uri
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.core.security.exposure import ExposureConfig

_BOOKIE = BookieConfig()
_EVERYWHERE = ("", "0.0.0.0", "::")
_ID = re.compile(r"[A-Za-z0-9._:\-]+")
"""BookKeeper's rule for ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieProcessConfig:
    """All settings of one bookie process."""

    metadata_uri: str = setting(
        "metadataServiceUri",
        "zk://127.0.0.1:2181/ledgers",
        "The cluster to belong to: zk://HOST:PORT,HOST:PORT/PATH.",
    )
    data: Path = setting(
        "data", Path("tailrace-data"), "Directory of the journal and the ledgers below `bookie`."
    )
    session_timeout_ms: int = setting(
        "zkTimeout",
        10_000,
        "After so long without a word, ZooKeeper drops this bookie's registration. Unit: ms.",
    )
    log_level: LogLevel = setting(
        "log.level", "info", "Least level of what goes to stderr: debug, info, warning, error."
    )
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    bookie: BookieConfig = field(default_factory=BookieConfig)
    exposure: ExposureConfig = field(default_factory=ExposureConfig)
    client_auth: BookieClientAuth = field(default_factory=BookieClientAuth)
    """Of the scrub, which reads from other bookies what is damaged here."""

    def __post_init__(self) -> None:
        if parse_uri(self.metadata_uri).path is not None:
            raise ValueError("metadataServiceUri must name a ZooKeeper: zk://HOST:PORT/PATH")
        _check_identity(self.bookie)
        if self.session_timeout_ms < 1:
            raise ValueError("zkTimeout must be positive")
        self.client_config()

    def client_config(self) -> BookieClientConfig:
        """Return how it comes to other bookies: with the files by which it lets clients in."""
        tls, jaas = self.bookie.security.tls, self.bookie.security.jaas
        security = BookieClientSecurity(tls=tls, jaas=jaas, auth=self.client_auth)
        return BookieClientConfig(security=security)

    def bookie_config(self) -> BookieConfig:
        """Return the bookie's settings, its directories below `data` unless they were set."""
        journals, ledgers = self.bookie.journal_directories, self.bookie.ledger_directories
        if journals == _BOOKIE.journal_directories:
            journals = (self.data / "bookie" / "journal",)
        if ledgers == _BOOKIE.ledger_directories:
            ledgers = (self.data / "bookie" / "ledgers",)
        return replace(
            self.bookie,
            journal_directories=journals,
            ledger_directories=ledgers,
            ledgers_root=parse_uri(self.metadata_uri).ledgers_root,
        )


def _check_identity(bookie: BookieConfig) -> None:
    """Refuse an id that would change with the next start, or that nobody could connect to."""
    if bookie.port == 0 and not bookie.bookie_id:
        raise ValueError("a bookie's id is its address: give it a port, or set bookieId")
    if bookie.host in _EVERYWHERE and not bookie.advertised_host:
        raise ValueError("listening everywhere, it needs an advertisedAddress that clients reach")
    if not _ID.fullmatch(bookie.identity) or bookie.identity == "readonly":
        raise ValueError(f"{bookie.identity!r} is no bookie id: letters, digits and . : _ - only")
