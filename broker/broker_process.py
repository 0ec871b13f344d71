"""One process that is a broker of a cluster. `tailrace broker`.

Order of the start: session with ZooKeeper -> the cluster is there -> the namespace is bound to it
-> the broker (`running`) -> registered -> the ready line. The end goes the other way; kill -9 is
safe at any point: what it wrote is recovered by whoever opens a log next. A lost session stops
nothing: the broker serves the logs that it has and registers again by itself.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import uvloop

from broker.broker import Broker
from broker.broker_process_config import BrokerProcessConfig
from broker.cluster.paths import ClusterPaths
from broker.running import Storage, running_broker
from broker.until_signal import run_until_signal
from core.errors import CoreError, NodeExists, NoNode, Unavailable
from core.ledger.bookie_registry import RegisteredBookies
from core.ledger.client import LedgerClient
from core.log.namespace import LogNamespace
from core.metadata.cluster import check_cluster
from core.metadata.namespace_binding import BKDLConfig, decode_binding
from core.metadata.store import MetadataStore
from core.metadata.uri import parse_namespace_uri, parse_uri
from core.metadata.zookeeper import ZookeeperStore
from core.runtime.clock import Clock, SystemClock
from core.runtime.logging_setup import set_up_logging
from core.runtime.metrics import Metrics

logger = logging.getLogger(__name__)


def run(config: BrokerProcessConfig) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: bootstrap=HOST:PORT` on stdout once the first request would be answered; errors
    of the start, with cause, place and remedy, on stderr.
    """
    set_up_logging(config.log_level)
    try:
        process = broker_process(config, SystemClock(), Metrics())
        return uvloop.run(run_until_signal(process, _serve))
    except (CoreError, OSError) as error:
        sys.stderr.write(f"error: {error}\n  try: {_remedy(error, config)}\n")
        return 1


@asynccontextmanager
async def broker_process(
    config: BrokerProcessConfig, clock: Clock, metrics: Metrics
) -> AsyncIterator[Broker]:
    """Run a broker that is registered; sign off and close it at the end of the block.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), NodeExists (id in use), CorruptData,
    OSError (address in use).
    """
    async with AsyncExitStack() as stack:
        hosts = parse_uri(config.metadata_uri).hosts
        ledger_store = await _connect(config, hosts, "metadata", metrics, stack)
        store = ledger_store
        namespace_hosts = parse_namespace_uri(config.namespace_uri).hosts
        if namespace_hosts != hosts:
            store = await _connect(config, namespace_hosts, "namespace", metrics, stack)
        ledgers = await _open_ledgers(config, ledger_store, metrics, stack)
        namespace = await _open_namespace(config, clock, store, ledgers, metrics, stack)
        paths = ClusterPaths.of_namespace(parse_namespace_uri(config.namespace_uri).root)
        storage = Storage(store, namespace, paths)
        serving = running_broker(config.broker, storage, config.log.ack_quorum, clock, metrics)
        yield await stack.enter_async_context(serving)


async def _connect(
    config: BrokerProcessConfig, hosts: str, name: str, metrics: Metrics, stack: AsyncExitStack
) -> ZookeeperStore:
    store = await ZookeeperStore.connect(hosts, session_timeout_ms=config.session_timeout_ms)
    stack.push_async_callback(store.close)
    metrics.register(name, store.metrics)
    return store


async def _open_ledgers(
    config: BrokerProcessConfig, store: MetadataStore, metrics: Metrics, stack: AsyncExitStack
) -> LedgerClient:
    """Open the way to the bookies that are registered."""
    settings = config.ledger_config()
    await check_cluster(store, settings.root)
    bookies = RegisteredBookies(store, config.bookies, root=settings.root)
    stack.push_async_callback(bookies.close)
    metrics.register("bookie_client", bookies.metrics)
    ledgers = LedgerClient(store, bookies, settings)
    metrics.register("ledger", ledgers.metrics)
    return ledgers


async def _open_namespace(
    config: BrokerProcessConfig,
    clock: Clock,
    store: MetadataStore,
    ledgers: LedgerClient,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> LogNamespace:
    """Open the namespace, bound to the cluster's ledgers."""
    at = parse_namespace_uri(config.namespace_uri)
    cluster = parse_uri(config.metadata_uri)
    binding = BKDLConfig(
        bk_zk_servers=cluster.hosts,
        bk_ledgers_path=cluster.ledgers_root,
        dl_zk_servers_for_writer=at.hosts,
    )
    namespace = LogNamespace(store, ledgers, config.log_config(), clock, at.root, binding=binding)
    metrics.register("log", namespace.metrics)
    if not await _check_binding(store, at.root, binding):
        await namespace.bind()
        sys.stdout.write(f"bound {config.namespace_uri} to the ledgers at {config.metadata_uri}\n")
    stack.push_async_callback(namespace.close)
    return namespace


async def _check_binding(store: MetadataStore, root: str, wanted: BKDLConfig) -> bool:
    """Tell whether the namespace is bound. Errors: NodeExists when it is, to other ledgers."""
    node = await store.exists(root)
    if node is None or not node.data:
        return False
    found = decode_binding(node.data)
    if found.bk_ledgers_path != wanted.bk_ledgers_path:
        raise NodeExists(f"{root} is bound to the ledgers at {found.bk_ledgers_path}")
    return True


async def _serve(broker: Broker, stop: asyncio.Event) -> int:
    gc.collect()
    gc.freeze()  # what is here now stays: the collector need not walk it over and over
    bootstrap = f"{broker.advertised.host}:{broker.advertised.port}"
    sys.stdout.write(f"ready: bootstrap={bootstrap}\n")
    sys.stdout.flush()
    await stop.wait()
    return 0


def _remedy(error: Exception, config: BrokerProcessConfig) -> str:
    network = config.broker.network
    remedies: dict[type[Exception], str] = {
        Unavailable: f"is ZooKeeper running at {config.metadata_uri}?",
        NoNode: f"tailrace cluster init --metadata {config.metadata_uri}",
        NodeExists: "give the --metadata that the namespace is bound to, or another --namespace",
        OSError: f"check that {network.host}:{network.port} is free, or give another --listen",
    }
    for kind, remedy in remedies.items():
        if isinstance(error, kind):
            return remedy
    return "nothing was changed; see the log lines above"
