"""Settings of an embedded log, by DistributedLog's and BookKeeper's names.

They are given as a mapping, `{"bkcEnsembleSize": 3}`, because the names are what users know from
`distributedlog.conf`, and what a log's own settings are named by. Values may be text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import NamespaceOptions
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import Assignment, AtLeastOne, ConfigError, load, setting

_BOUND: Final = "ledgersPath"
"""The binding of a namespace decides it."""
_DEFAULTS: Final = {"bkcEnsembleSize": 3, "bkcWriteQuorumSize": 3, "bkcAckQuorumSize": 2}
"""DistributedLog's own; a standalone broker, which has one bookie, has other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    log: LogConfig = field(default_factory=LogConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)
    session_timeout_s: AtLeastOne = setting(
        "zkSessionTimeoutSeconds",
        10,
        "Silence after which ZooKeeper gives this process up, and another may write its logs, in s",
    )


class Setting(NamedTuple):
    """One setting that `open_namespace` takes."""

    name: str
    default: object
    doc: str
    """What it does, its unit, what its limits mean."""


def known_settings() -> list[Setting]:
    """Return every setting that `open_namespace` takes, with its default, sorted by name."""
    found = load(_Settings, _defaults()).effective()
    return [Setting(each.key, each.value, each.doc) for each in found if each.key != _BOUND]


def options_of(settings: Mapping[str, object] | None) -> NamespaceOptions:
    """Return how to open a namespace. Errors: ConfigError names the setting, and the nearest."""
    if _BOUND in (settings or {}):
        raise ConfigError(f"{_BOUND} (settings): a namespace is bound to its ledgers")
    given = [Assignment(key, value, "settings") for key, value in (settings or {}).items()]
    found = load(_Settings, [*_defaults(), *given]).config
    return NamespaceOptions(
        log=found.log,
        ledgers=found.ledgers,
        bookies=found.bookies,
        cold=found.cold,
        session_timeout_ms=found.session_timeout_s * 1000,
        zookeeper=found.zookeeper,
    )


def _defaults() -> list[Assignment]:
    return [Assignment(key, value, "tailrace.dlog") for key, value in _DEFAULTS.items()]
