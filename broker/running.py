"""A broker over an open namespace: what `tailrace start` and `tailrace broker` have in common.

Order of the start: address taken -> registered (from here on nobody else runs under this id) ->
topics -> groups and transactions, and with them partitions -> listening. The end goes the other
way, and every step survives kill -9: what the next start finds is what was acknowledged.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import SystemRandom
from typing import NamedTuple

from tailrace.broker.authentication.authentication import Authentication
from tailrace.broker.authorization.config import AuthorizationConfig
from tailrace.broker.broker import Broker
from tailrace.broker.cluster.config_entities import ConfigEntities
from tailrace.broker.cluster.disk_room import AskedBookies
from tailrace.broker.cluster.dynamic_configs import DynamicConfigs
from tailrace.broker.cluster.identity import cluster_id
from tailrace.broker.cluster.live_brokers import live_broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.registration import BrokerRegistration, broker_node
from tailrace.broker.cluster.routes import Routes
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.config import BrokerConfig
from tailrace.broker.coordinator.runtime import GroupCoordinator, GroupParts
from tailrace.broker.fetching.session_cache import SESSION_ID_MAX, FetchSessionCache
from tailrace.broker.following.followed_partitions import FollowedPartitions
from tailrace.broker.following.leader import Leaders
from tailrace.broker.http_port import serve_http
from tailrace.broker.listeners import Advertised
from tailrace.broker.partition.cleanable_logs import CleanablePartitions
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.producer_ids import ProducerIds
from tailrace.broker.partition.retained import RetainedPartitions
from tailrace.broker.peers.entrance import OPEN, Entrance, entrance_of
from tailrace.broker.peers.peers import Peers
from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.registry import QuotaRegistry
from tailrace.broker.server import BrokerServer
from tailrace.broker.transactions.coordinator import Parts, TransactionCoordinator
from tailrace.compaction.cleaner.config import check_change
from tailrace.compaction.cleaner.pool import CleanerPool
from tailrace.compaction.worker import RetentionWorker
from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.store import AclStore
from tailrace.core.access.audit import Audit, audit_of
from tailrace.core.access.tokens.codec import TOKEN_CODEC
from tailrace.core.access.tokens.tokens import DelegationTokens
from tailrace.core.access.users.cluster_secret import cluster_secret
from tailrace.core.access.users.codec import USER_CODEC, Credentials
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.host import host_name
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.tls_config import TlsConfig
from tailrace.protocol.records.loops import WHY_PLAIN

logger = logging.getLogger(__name__)


class Storage(NamedTuple):
    """What a broker keeps its topics and their logs in; whoever opened it closes it."""

    store: MetadataStore
    namespace: LogNamespace
    bookies: AskedBookies
    paths: ClusterPaths
    place: str
    """Where all of it lies, for people: a directory, or a namespace."""
    session_timeout_ms: int
    """After so long, the store forgets a process that was killed."""
    is_shared: bool
    """Whether other brokers use the same store."""


@asynccontextmanager
async def running_broker(
    config: BrokerConfig, storage: Storage, clock: Clock, metrics: Metrics
) -> AsyncIterator[Broker]:
    """Serve Kafka's clients; at the end of the block, complete what is in flight and let go.

    Errors: OSError (address in use), NodeExists (another process has the id), CoreError.
    """
    async with AsyncExitStack() as stack:
        broker = await _make_broker(config, storage, clock)
        server = BrokerServer(broker, metrics)
        await server.bind()
        if WHY_PLAIN is not None:
            logger.warning(
                "record loops are not compiled: batches are checked at a hundredth of the speed "
                "reason=%r remedy=%r",
                WHY_PLAIN,
                "`make install` in a checkout, else a wheel built where gcc and Python.h are",
            )
        stack.push_async_callback(server.close)
        await _register(broker, storage, metrics, stack)
        stack.push_async_callback(broker.partitions.close)
        _prepare_fetches(broker, metrics, stack)
        await broker.configs.start()
        await _start_access(broker, metrics, stack)
        await broker.topics.start()
        if storage.is_shared:
            _follow_others(broker, storage, stack)
        task_health().register(metrics)
        await _start_coordinators(broker, metrics, stack)
        await server.serve()
        stack.push_async_callback(server.close)
        stack.callback(broker.groups.release)  # before the server waits for what is in flight
        upkeep = Tasks("broker")
        stack.push_async_callback(upkeep.close)
        upkeep.start(_retention(broker, metrics).run(), "retention")
        cleaner = _cleaner(broker, metrics)
        stack.push_async_callback(cleaner.close)
        cleaner.start()
        await serve_http(broker, cleaner, metrics, stack)
        yield broker


def _prepare_fetches(broker: Broker, metrics: Metrics, stack: AsyncExitStack) -> None:
    metrics.register("broker_fetch", broker.fetch_sessions.metrics)
    metrics.register("broker_following", broker.followed.metrics)
    stack.push_async_callback(broker.followed.close)
    if broker.config.serves_racks:
        broker.followed.start()


async def _start_access(broker: Broker, metrics: Metrics, stack: AsyncExitStack) -> None:
    """Learn who may come in and what they may do, before anybody can."""
    await broker.quotas.start(metrics)
    stack.push_async_callback(broker.quotas.close)
    stack.push_async_callback(broker.authentication.close)
    broker.authentication.start(metrics)
    await broker.users.start()
    stack.push_async_callback(broker.users.close)
    metrics.register("broker_delegation_tokens", broker.tokens.metrics)
    stack.push_async_callback(broker.tokens.close)
    await broker.tokens.start()
    if broker.acls is not None:
        metrics.register("broker_acl", broker.acls.metrics)
        await broker.acls.start()
        stack.push_async_callback(broker.acls.close)
    if broker.audit is not None:
        broker.audit.check()
        stack.push_async_callback(broker.audit.close)
        metrics.register("broker_audit", broker.audit.metrics)
    if broker.authorizer is not None:
        broker.authorizer.listen(broker.parked.wake_all)


async def _start_coordinators(broker: Broker, metrics: Metrics, stack: AsyncExitStack) -> None:
    broker.peers.start(metrics)
    stack.push_async_callback(broker.peers.close)
    await broker.groups.start(metrics)
    stack.push_async_callback(broker.groups.close)
    await broker.transactions.start(metrics)
    stack.push_async_callback(broker.transactions.close)
    broker.routes.listen(broker.epochs.clear)
    broker.routes.listen(broker.followed.owners_changed)
    broker.routes.listen(broker.partitions.let_go)  # last: coordinators let go of their state first


def _follow_others(broker: Broker, storage: Storage, stack: AsyncExitStack) -> None:
    """Hear of what other brokers do to topics and configs."""
    known = [topic.name for topic in broker.topics.all()]
    topics = (storage.paths.topics, broker.topics.note, known)
    for watched in (topics, *broker.configs.entities.watched().values()):
        watch = ChildWatch(storage.store, *watched)
        stack.push_async_callback(watch.close)
        watch.start()


async def _make_broker(config: BrokerConfig, storage: Storage, clock: Clock) -> Broker:
    random = SystemRandom()
    store, paths = storage.store, storage.paths
    topics = _topics(config, storage, clock, random)
    routes = Routes(topics, config.node_id, serves_racks=config.serves_racks)
    partitions = PartitionLogs(storage.namespace, topics, clock, config.partitions, routes)
    bookies = storage.bookies
    known = await _known(config, storage, clock, random)
    configs = DynamicConfigs(config, config.node_id, ConfigEntities(store, paths), topics)
    peers = Peers(routes, f"broker-{config.node_id}", _way_to_others(config, storage))
    leaders = Leaders(routes, peers)
    followed = FollowedPartitions(storage.namespace, topics, partitions, leaders, config.following)
    group_parts = GroupParts(topics, partitions, bookies, clock, random, routes)
    groups = GroupCoordinator(config.groups, group_parts)
    producer_ids = ProducerIds(store, paths)
    parts = Parts(topics, partitions, groups, bookies, producer_ids, clock, routes, peers)
    acls = _acl_store(config.authorization, storage)
    broker = Broker(
        config=config,
        configs=configs,
        clock=clock,
        store=store,
        topics=topics,
        routes=routes,
        peers=peers,
        partitions=partitions,
        followed=followed,
        groups=groups,
        transactions=TransactionCoordinator(
            config.transactions, parts, config.partitions.add_partitions_retry_backoff_max_ms
        ),
        producer_ids=producer_ids,
        bookies=bookies,
        cluster_id=await cluster_id(store, random, paths),
        advertised=_advertised(config, storage),
        log_dir=storage.place,
        fetch_sessions=FetchSessionCache(
            config.fetch_session_slots, lambda: random.randint(1, SESSION_ID_MAX)
        ),
        quotas=QuotaRegistry(store, paths.quotas, ClientQuotas(config.quotas, clock)),
        tokens=known.tokens,
        users=known.users,
        authentication=known.authentication,
        authorizer=None if acls is None else acls.authorizer,
        acls=acls,
        audit=_audit(config.authorization, clock),
        unsent=Budget("unsent bytes", config.network.response_bytes_max),
    )
    follow_configs(broker)
    return broker


class _Known(NamedTuple):
    """By what clients are known."""

    users: StoredEntities[Credentials]
    tokens: DelegationTokens
    authentication: Authentication


async def _known(
    config: BrokerConfig, storage: Storage, clock: Clock, random: SystemRandom
) -> _Known:
    store, paths = storage.store, storage.paths
    users = StoredEntities(store, paths.users, USER_CODEC)
    secret = await cluster_secret(store, paths.user_secret)
    stored_tokens = StoredEntities(store, paths.tokens, TOKEN_CODEC)
    tokens = DelegationTokens(config.tokens, stored_tokens, clock, random)
    authentication = Authentication(config.network, users, secret, tokens, clock)
    return _Known(users, tokens, authentication)


def _way_to_others(config: BrokerConfig, storage: Storage) -> Entrance:
    if not storage.is_shared:
        return OPEN
    return entrance_of(
        config.network.inter_broker_security,
        _own_stores(config),
        config.peers.identification,
        config.login_to_others,
    )


def _own_stores(config: BrokerConfig) -> TlsConfig:
    """Return the keys and authorities that this broker has among brokers."""
    return config.network.tls_of(config.network.inter_broker)


def _audit(config: AuthorizationConfig, clock: Clock) -> Audit | None:
    return audit_of(config.audit_level, config.audit_log, clock.now_ms)


def _acl_store(config: AuthorizationConfig, storage: Storage) -> AclStore | None:
    if not config.enabled:
        return None
    authorizer = AclAuthorizer(
        super_users=config.super_users,
        allow_everyone_without_acl=config.allow_everyone_without_acl,
    )
    return AclStore(storage.store, storage.paths.acls, authorizer)


def _topics(
    config: BrokerConfig, storage: Storage, clock: Clock, random: SystemRandom
) -> TopicRegistry:
    namespace = storage.namespace
    return TopicRegistry(
        storage.store,
        namespace,
        defaults=TopicDefaults(
            config.topics.defaults.given(), has_cold_storage=namespace.has_cold_storage
        ),
        clock=clock,
        random=random,
        paths=storage.paths,
    )


def _advertised(config: BrokerConfig, storage: Storage) -> Advertised:
    """Return what clients are told; all brokers of a cluster have to say the same of each other."""
    if storage.is_shared:
        return config.network.advertised(own_name=host_name())
    return config.network.advertised(as_reached=True)


def follow_configs(broker: Broker) -> None:
    """Have the parts of a broker follow what is configured while it runs."""
    configs = broker.configs
    configs.listen(partial(setattr, broker, "config"))
    configs.listen(lambda config: broker.transactions.use(config.transactions))
    configs.listen(lambda config: broker.peers.configure(_own_stores(config)))
    broker.groups.times_of = configs.group_config


async def _register(
    broker: Broker, storage: Storage, metrics: Metrics, stack: AsyncExitStack
) -> None:
    config = broker.config
    protocols = config.network.protocols
    node = broker_node(broker.advertised, protocols, config.rack, broker.clock.now_ms())
    registration = BrokerRegistration(
        storage.store,
        storage.paths.broker(config.node_id),
        node,
        2 * storage.session_timeout_ms,
        broker.refuse,
    )
    metrics.register("broker_registration", registration.metrics)
    stack.push_async_callback(registration.close)
    await registration.register()
    me = live_broker(config.node_id, node)
    stack.push_async_callback(broker.routes.close)
    await broker.routes.start(me, storage.store, storage.paths, is_shared=storage.is_shared)


def _retention(broker: Broker, metrics: Metrics) -> RetentionWorker:
    partitions = RetainedPartitions(
        broker.partitions, broker.topics, lambda: broker.config.partitions
    )
    worker = RetentionWorker(
        partitions.round,
        broker.clock,
        broker.config.partitions.retention_check_interval_ms,
    )
    metrics.register("compaction_retention", worker.metrics)
    return worker


def _cleaner(broker: Broker, metrics: Metrics) -> CleanerPool:
    partitions = CleanablePartitions(broker.partitions, broker.topics)
    pool = CleanerPool(
        partitions.round,
        broker.clock,
        broker.config.cleaner,
        written_bytes=lambda: broker.metrics.produce_bytes_total,
    )
    broker.configs.listen(lambda config: pool.use(config.cleaner))
    broker.configs.check_with(lambda now, wanted: check_change(now.cleaner, wanted.cleaner))
    metrics.register("log_cleaner", pool.metrics)
    metrics.register("log_cleaner_manager", pool.manager_metrics)
    return pool
