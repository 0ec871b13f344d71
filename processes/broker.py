"""One process that is a broker of a cluster. `tailrace broker`.

Order of the start: session with ZooKeeper -> the cluster is there -> the namespace is bound to it
-> the broker (`running`) -> registered -> the ready line. The end goes the other way; kill -9 is
safe at any point: what it wrote is recovered by whoever opens a log next. A lost session stops
nothing: the broker serves the logs that it has and registers again by itself.
"""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from tailrace.broker.broker import Broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.running import Storage, running_broker
from tailrace.core.errors import CoreError, NodeExists, NoNode, Unavailable
from tailrace.core.log.open_namespace import NamespaceOptions, OpenNamespace, open_namespace
from tailrace.core.metadata.bindings import bind_namespace, find_binding
from tailrace.core.metadata.cluster import check_cluster
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import parse_namespace_uri, parse_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.metrics import Metrics
from tailrace.processes.broker_config import BrokerProcessConfig
from tailrace.processes.lifecycle import Remedies, Serving, run_process

if TYPE_CHECKING:
    from tailrace.faults.control import FaultControl

logger = logging.getLogger(__name__)


def run(config: BrokerProcessConfig, faults: "FaultControl | None" = None) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: bootstrap=HOST:PORT` on stdout once the first request would be answered; errors
    of the start, with cause, place and remedy, on stderr.
    """
    clock = SystemClock() if faults is None else faults.clock
    process = broker_process(config, clock, Metrics(), faults)
    return run_process(process, _serving, _remedies(config), config.log_level)


@asynccontextmanager
async def broker_process(
    config: BrokerProcessConfig,
    clock: Clock,
    metrics: Metrics,
    faults: "FaultControl | None" = None,
) -> AsyncIterator[Broker]:
    """Run a broker that is registered; sign off and close it at the end of the block.

    `faults`: what a test breaks; their port is open in the block.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), NodeExists (the namespace belongs to
    other ledgers), CorruptData, OSError (address in use).
    """
    async with AsyncExitStack() as stack:
        await _bind(config)
        options = NamespaceOptions(
            log=config.log_config(),
            ledgers=config.ledgers,
            bookies=config.bookies,
            cold=config.cold,
            session_timeout_ms=config.session_timeout_ms,
            answer_within_ms=config.answer_within_ms,
            ledger_servers=parse_uri(config.metadata_uri).hosts,
        )
        opening = open_namespace(config.namespace_uri, options, clock)
        opened = await stack.enter_async_context(opening)
        await check_cluster(opened.ledger_store, opened.binding.bk_ledgers_path)
        _register(opened, metrics)
        paths = ClusterPaths.of_namespace(opened.uri.root)
        storage = Storage(
            opened.store,
            opened.logs,
            opened.bookies,
            paths,
            config.namespace_uri,
            session_timeout_ms=_granted_ms(opened.store, config),
            is_shared=True,
        )
        serving = running_broker(config.broker, storage, clock, metrics)
        broker = await stack.enter_async_context(serving)
        if faults is not None:
            faults.open(broker)
            stack.push_async_callback(faults.close)
        yield broker


async def _bind(config: BrokerProcessConfig) -> None:
    """Bind the namespace to the cluster's ledgers, unless it is bound to them already.

    Errors: NoNode (no cluster), NodeExists (it is bound to others), CorruptData, Unavailable.
    """
    cluster, at = parse_uri(config.metadata_uri), parse_namespace_uri(config.namespace_uri)
    async with AsyncExitStack() as stack:
        store = await _connect(at.hosts, config, stack)
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
            ledger_store = await _connect(cluster.hosts, config, stack)
        await check_cluster(ledger_store, cluster.ledgers_root)
        binding = BKDLConfig(
            bk_zk_servers=cluster.hosts,
            bk_ledgers_path=cluster.ledgers_root,
            dl_zk_servers_for_writer=at.hosts,
        )
        await bind_namespace(store, at.root, binding)
        sys.stdout.write(f"bound {config.namespace_uri} to the ledgers at {config.metadata_uri}\n")


def _granted_ms(store: MetadataStore, config: BrokerProcessConfig) -> int:
    """Return after how long a dead broker is missed; tell if that is longer than was asked for."""
    asked_ms = config.session_timeout_ms
    granted_ms = store.session_timeout_ms if isinstance(store, ZookeeperStore) else asked_ms
    if granted_ms > asked_ms:
        logger.warning(
            "zookeeper_session_timeout asked_ms=%d granted_ms=%d remedy=%s",
            asked_ms, granted_ms, "`tailrace cluster init` says what to change in zoo.cfg",
        )  # fmt: skip
    return max(granted_ms, asked_ms)


async def _connect(hosts: str, config: BrokerProcessConfig, stack: AsyncExitStack) -> MetadataStore:
    store = await ZookeeperStore.connect(
        hosts,
        session_timeout_ms=config.session_timeout_ms,
        answer_within_ms=config.answer_within_ms,
    )
    stack.push_async_callback(store.close)
    return store


def _register(opened: OpenNamespace, metrics: Metrics) -> None:
    """Show the numbers of everything below the broker."""
    if isinstance(opened.store, ZookeeperStore):
        metrics.register("metadata", opened.store.metrics)
    metrics.register("log", opened.logs.metrics)
    if opened.cold is not None:
        metrics.register("cold", opened.cold.metrics)
    metrics.register("ledger", opened.ledgers.metrics)
    metrics.register("bookie_client", opened.bookies.metrics)


def _serving(broker: Broker) -> Serving:
    return Serving(f"ready: bootstrap={broker.advertised.first}\n", {broker.refused: ""})


def _remedies(config: BrokerProcessConfig) -> Remedies:
    places = " ".join(config.broker.network.listeners)
    return Remedies(
        {
            Unavailable: f"is ZooKeeper running at {config.metadata_uri}?",
            NoNode: f"tailrace cluster init --metadata {config.metadata_uri}",
            NodeExists: "give the --metadata that the namespace is bound to, or another "
            "--namespace; or, where it is the id that is taken, another node.id",
            OSError: f"check that {places} is free, or give another --listen",
            CoreError: "",
        },
        otherwise="nothing was changed; see the log lines above",
    )
