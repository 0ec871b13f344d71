"""A whole broker in the test's own process: metadata, bookie, logs, partitions, server."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random

from bookie.app import open_bookie
from bookie.config import BookieConfig
from bookie.local import LocalBookieClient
from broker.broker import Broker
from broker.cluster.config_entities import ConfigEntities
from broker.cluster.dynamic_configs import DynamicConfigs
from broker.cluster.identity import cluster_id
from broker.cluster.paths import ClusterPaths
from broker.cluster.routes import Routes
from broker.cluster.settings import TopicDefaults
from broker.cluster.topics import TopicRegistry
from broker.config import BrokerConfig, NetworkConfig
from broker.coordinator.runtime import GroupCoordinator, GroupParts
from broker.fetching.session_cache import SESSION_ID_MAX, FetchSessionCache
from broker.partition.partition_logs import PartitionLogs
from broker.partition.producer_ids import ProducerIds
from broker.peers.peers import Peers
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.registry import QuotaRegistry
from broker.running import follow_configs
from broker.server import BrokerServer
from broker.transactions.coordinator import Parts, TransactionCoordinator
from core.ledger.bookie_registry import LocalBookies
from core.ledger.client import LedgerClient
from core.log.config import LogConfig
from core.log.namespace import LogNamespace
from core.metadata.ledger_tree import initialize_layout
from core.metadata.sqlite import SqliteStore
from core.runtime.budget import Budget
from core.runtime.clock import SystemClock
from core.runtime.files import SystemFiles


@asynccontextmanager
async def running_broker(
    data: Path, config: BrokerConfig | None = None, log_config: LogConfig | None = None
) -> AsyncIterator[BrokerServer]:
    """Run everything over `data`, on a free port; stop it cleanly at the end."""
    config = config or BrokerConfig(network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)))
    clock, random = SystemClock(), Random(7)
    async with AsyncExitStack() as stack:
        data.mkdir(exist_ok=True)  # noqa: ASYNC240 - before anything runs
        store = SqliteStore(data / "metadata.db", clock)
        stack.push_async_callback(store.close)
        await initialize_layout(store)
        bookie_config = BookieConfig(
            journal_directories=(data / "journal",),
            ledger_directories=(data / "ledgers",),
            bookie_id="local",
        )
        bookie = await open_bookie(bookie_config, store, clock, SystemFiles())
        stack.push_async_callback(bookie.close)
        bookies = LocalBookies([LocalBookieClient(bookie, bookie.bookie_id)])
        namespace = LogNamespace(
            store, LedgerClient(store, bookies), log_config or LogConfig(), clock
        )
        await namespace.bind()
        stack.push_async_callback(namespace.close)
        defaults = TopicDefaults(config.topics.defaults.given())
        topics = TopicRegistry(store, namespace, defaults=defaults, clock=clock, random=random)
        configs = DynamicConfigs(config, config.node_id, ConfigEntities(store), topics)
        await configs.start()
        await topics.start()
        routes = Routes(topics, config.node_id)
        partitions = PartitionLogs(namespace, topics, clock, config.partitions, routes)
        stack.push_async_callback(partitions.close)
        quotas = QuotaRegistry(
            store,
            ClusterPaths().quotas,
            ClientQuotas(config.quotas, clock),
        )
        await quotas.start()
        stack.push_async_callback(quotas.close)
        groups = GroupCoordinator(
            config.groups, GroupParts(topics, partitions, bookies, clock, random)
        )
        await groups.start()
        stack.push_async_callback(groups.close)
        producer_ids = ProducerIds(store)
        transactions = TransactionCoordinator(
            config.transactions,
            Parts(topics, partitions, groups, bookies, producer_ids, clock),
            config.partitions.add_partitions_retry_backoff_max_ms,
        )
        await transactions.start()
        stack.push_async_callback(transactions.close)
        broker = Broker(
            config=configs.in_force,
            configs=configs,
            clock=clock,
            store=store,
            topics=topics,
            routes=routes,
            peers=Peers(routes, "broker-1"),
            partitions=partitions,
            groups=groups,
            transactions=transactions,
            producer_ids=producer_ids,
            bookies=bookies,
            cluster_id=await cluster_id(store, random),
            advertised=config.network.advertised(),
            log_dir=str(data),
            fetch_sessions=FetchSessionCache(
                config.fetch_session_slots, lambda: random.randint(1, SESSION_ID_MAX)
            ),
            quotas=quotas,
            unsent=Budget("unsent bytes", config.network.response_bytes_max),
        )
        follow_configs(broker)
        server = BrokerServer(broker)
        await server.start()
        stack.push_async_callback(server.close)
        yield server
