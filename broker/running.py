"""A broker over an open namespace: what `tailrace start` and `tailrace broker` have in common.

Order of the start: topics -> partitions and groups -> listening. The end goes the other way, and
every step survives kill -9: what the next start finds is what was acknowledged.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import SystemRandom
from typing import NamedTuple

from broker.broker import Broker, Endpoint
from broker.cluster.admin import AvailableBookies
from broker.cluster.identity import cluster_id
from broker.cluster.paths import ClusterPaths
from broker.cluster.settings import TopicDefaults
from broker.cluster.topics import TopicRegistry
from broker.config import BrokerConfig
from broker.coordinator.runtime import GroupCoordinator
from broker.partition.partition_logs import PartitionLogs
from broker.partition.producer_ids import ProducerIds
from broker.partition.retained import retained
from broker.server import BrokerServer
from compaction.worker import RetentionWorker
from core.log.namespace import LogNamespace
from core.metadata.store import MetadataStore
from core.runtime.budget import Budget
from core.runtime.clock import Clock
from core.runtime.metrics import Metrics
from core.runtime.tasks import Tasks


class Storage(NamedTuple):
    """What a broker keeps its topics and their logs in; whoever opened it closes it."""

    store: MetadataStore
    namespace: LogNamespace
    bookies: AvailableBookies
    paths: ClusterPaths


@asynccontextmanager
async def running_broker(
    config: BrokerConfig, storage: Storage, clock: Clock, metrics: Metrics
) -> AsyncIterator[Broker]:
    """Serve Kafka's clients; at the end of the block, complete what is in flight and let go.

    Errors: OSError (address in use), CoreError.
    """
    async with AsyncExitStack() as stack:
        broker = await _open_broker(config, storage, clock, metrics, stack)
        server = BrokerServer(broker, metrics)
        await server.start()
        stack.push_async_callback(server.close)
        stack.callback(broker.groups.release)  # before the server waits for what is in flight
        upkeep = Tasks("broker")
        stack.push_async_callback(upkeep.close)
        upkeep.start(_retention(broker, metrics).run(), "retention")
        yield broker


async def _open_broker(
    config: BrokerConfig,
    storage: Storage,
    clock: Clock,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> Broker:
    """Open topics, partitions and groups."""
    random = SystemRandom()
    store, namespace, bookies, paths = storage
    topics = TopicRegistry(
        store,
        namespace,
        defaults=TopicDefaults(config.topics.defaults.given()),
        clock=clock,
        random=random,
        paths=paths,
    )
    partitions = PartitionLogs(namespace, topics, clock, config.partitions)
    stack.push_async_callback(partitions.close)
    groups = GroupCoordinator(config.groups, topics, partitions, bookies, clock, random)
    await topics.start()
    await groups.start(metrics)
    stack.push_async_callback(groups.close)
    return Broker(
        config=config,
        clock=clock,
        store=store,
        topics=topics,
        partitions=partitions,
        groups=groups,
        producer_ids=ProducerIds(store, paths),
        bookies=bookies,
        cluster_id=await cluster_id(store, random, paths),
        advertised=Endpoint(host="", port=0),
        unsent=Budget("unsent bytes", config.network.response_bytes_max),
    )


def _retention(broker: Broker, metrics: Metrics) -> RetentionWorker:
    settings = broker.config.partitions
    worker = RetentionWorker(
        lambda: retained(broker.partitions, broker.topics, settings),
        broker.clock,
        settings.retention_check_interval_ms,
    )
    metrics.register("compaction_retention", worker.metrics)
    return worker
