"""A namespace over the bookies of a cluster: how a broker or a proxy opens it."""

import logging
import sys
from contextlib import AsyncExitStack
from typing import NamedTuple, Protocol

from tailrace.core.errors import NodeExists
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import NamespaceOptions, OpenNamespace, open_namespace
from tailrace.core.metadata.bindings import bind_namespace, find_binding
from tailrace.core.metadata.cluster import check_cluster
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import parse_namespace_uri, parse_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.metrics import Metrics

logger = logging.getLogger(__name__)


class Connecting(NamedTuple):
    """How to come to ZooKeeper, and how long it may take."""

    session_timeout_ms: int
    answer_within_ms: int
    """Each answer."""
    access: ZookeeperAccess


class ClusterSettings(Protocol):
    """The settings that this takes of `BrokerProcessConfig` and `ProxyProcessConfig`."""

    @property
    def metadata_uri(self) -> str:
        """Where the bookies' cluster is."""

    @property
    def namespace_uri(self) -> str:
        """Where the namespace is."""

    @property
    def session_timeout_ms(self) -> int:
        """Of the session with ZooKeeper."""

    @property
    def answer_within_ms(self) -> int:
        """Of each of its answers."""

    @property
    def zookeeper(self) -> ZookeeperSecurityConfig:
        """Credentials for it, and whose the nodes are."""

    @property
    def cold(self) -> ColdConfig:
        """Cold storage."""

    @property
    def ledgers(self) -> LedgerClientConfig:
        """Ledgers."""

    @property
    def bookies(self) -> BookieClientConfig:
        """Connections to bookies."""


async def open_bound(
    config: ClusterSettings, log: LogConfig, clock: Clock, metrics: Metrics, stack: AsyncExitStack
) -> OpenNamespace:
    """Open the namespace, bound to the cluster, until the stack closes; show its numbers.

    Errors: as `bind`. Cancel: the stack closes what is open.
    """
    access = ZookeeperAccess(config.zookeeper, parse_namespace_uri(config.namespace_uri).root)
    connecting = Connecting(config.session_timeout_ms, config.answer_within_ms, access)
    await bind(config.metadata_uri, config.namespace_uri, connecting)
    options = NamespaceOptions(
        log=log,
        ledgers=config.ledgers,
        bookies=config.bookies,
        cold=config.cold,
        session_timeout_ms=config.session_timeout_ms,
        answer_within_ms=config.answer_within_ms,
        zookeeper=config.zookeeper,
        ledger_servers=parse_uri(config.metadata_uri).hosts,
    )
    opening = open_namespace(config.namespace_uri, options, clock)
    opened = await stack.enter_async_context(opening)
    await check_cluster(opened.ledger_store, opened.binding.bk_ledgers_path)
    register_numbers(opened, metrics)
    return opened


async def bind(metadata_uri: str, namespace_uri: str, connecting: Connecting) -> None:
    """Bind the namespace to the cluster's ledgers, unless it is bound to them already.

    Errors: NoNode (no cluster), NodeExists (it is bound to others), CorruptData, Unavailable.
    """
    cluster, at = parse_uri(metadata_uri), parse_namespace_uri(namespace_uri)
    async with AsyncExitStack() as stack:
        store = await _connect(at.hosts, connecting, stack)
        bound = await find_binding(store, at.root)
        if bound is not None:
            if bound.config.bk_ledgers_path != cluster.ledgers_root:
                raise NodeExists(f"{bound.path} is bound to {bound.config.bk_ledgers_path}")
            if bound.config.bk_zk_servers != cluster.hosts:  # perhaps by other names
                logger.warning(
                    "namespace_bound_by_other_names bound_to=%s used=%s",
                    bound.config.bk_zk_servers, cluster.hosts,
                )  # fmt: skip
            return
        ledger_store = store
        if cluster.hosts != at.hosts:
            ledger_store = await _connect(cluster.hosts, connecting, stack)
        await check_cluster(ledger_store, cluster.ledgers_root)
        binding = BKDLConfig(
            bk_zk_servers=cluster.hosts,
            bk_ledgers_path=cluster.ledgers_root,
            dl_zk_servers_for_writer=at.hosts,
        )
        await bind_namespace(store, at.root, binding)
        sys.stdout.write(f"bound {namespace_uri} to the ledgers at {metadata_uri}\n")


def granted_ms(store: MetadataStore, asked_ms: int) -> int:
    """Return after how long a dead process is missed; tell if that is longer than was asked for."""
    granted_ms = store.session_timeout_ms if isinstance(store, ZookeeperStore) else asked_ms
    if granted_ms > asked_ms:
        logger.warning(
            "zookeeper_session_timeout asked_ms=%d granted_ms=%d remedy=%s",
            asked_ms, granted_ms, "`tailrace cluster init` says what to change in zoo.cfg",
        )  # fmt: skip
    return max(granted_ms, asked_ms)


def register_numbers(opened: OpenNamespace, metrics: Metrics) -> None:
    """Show the numbers of everything below brokers and proxies."""
    if isinstance(opened.store, ZookeeperStore):
        metrics.register("metadata", opened.store.metrics)
    metrics.register("log", opened.logs.metrics)
    if opened.cold is not None:
        metrics.register("cold", opened.cold.metrics)
    metrics.register("ledger", opened.ledgers.metrics)
    metrics.register("bookie_client", opened.bookies.metrics)


async def _connect(hosts: str, connecting: Connecting, stack: AsyncExitStack) -> MetadataStore:
    store = await ZookeeperStore.connect(
        hosts,
        session_timeout_ms=connecting.session_timeout_ms,
        answer_within_ms=connecting.answer_within_ms,
        access=connecting.access,
    )
    stack.push_async_callback(store.close)
    return store
