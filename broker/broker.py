"""What one broker is made of; handlers find everything here."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.broker.cluster.known_epochs import KnownEpochs
from tailrace.broker.fetching.parked import ParkedFetches
from tailrace.broker.following.directions import Directions
from tailrace.core.runtime.loop_turns import LoopTurns

if TYPE_CHECKING:
    from tailrace.broker.authentication.authentication import Authentication
    from tailrace.broker.cluster.disk_room import AskedBookies
    from tailrace.broker.cluster.dynamic_configs import DynamicConfigs
    from tailrace.broker.cluster.routes import Routes
    from tailrace.broker.cluster.topics import TopicRegistry
    from tailrace.broker.config import BrokerConfig
    from tailrace.broker.coordinator.runtime import GroupCoordinator
    from tailrace.broker.fetching.session_cache import FetchSessionCache
    from tailrace.broker.following.followed_partitions import FollowedPartitions
    from tailrace.broker.listeners import Advertised
    from tailrace.broker.partition.partition_logs import PartitionLogs
    from tailrace.broker.partition.producer_ids import ProducerIds
    from tailrace.broker.peers.peers import Peers
    from tailrace.broker.quotas.registry import QuotaRegistry
    from tailrace.broker.transactions.coordinator import TransactionCoordinator
    from tailrace.core.access.acls.store import AclStore
    from tailrace.core.access.audit import Audit
    from tailrace.core.access.authorizer import Authorizer
    from tailrace.core.access.tokens.tokens import DelegationTokens
    from tailrace.core.access.users.codec import Credentials
    from tailrace.core.metadata.store import MetadataStore
    from tailrace.core.metadata.stored_entities import StoredEntities
    from tailrace.core.runtime.budget import Budget
    from tailrace.core.runtime.clock import Clock


@dataclass(slots=True, kw_only=True)
class BrokerMetrics:
    """Plain counters of the request path; a collector reads them at scrape."""

    requests_total: int = 0
    request_bytes_total: int = 0
    produce_batches_total: int = 0
    produce_bytes_total: int = 0
    fetch_bytes_total: int = 0
    fetch_parked_total: int = 0
    connections: int = 0
    connections_total: int = 0
    connections_refused_total: int = 0
    connections_cut_total: int = 0
    requests_expired_total: int = 0


class Interception(Protocol):
    """What tests put between requests and their handlers; see `tailrace.faults`."""

    def handler_of(self, handler: Any, /) -> Any:
        """Return what is to answer a request instead of its Handler."""


def _new_future() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, kw_only=True)
class Broker:
    """One broker: wired once by the process, closed by it in reverse order."""

    config: "BrokerConfig"
    """What is in force: replaced when a setting is changed while the broker runs."""
    configs: "DynamicConfigs[BrokerConfig]"
    clock: "Clock"
    store: "MetadataStore"
    topics: "TopicRegistry"
    routes: "Routes"
    peers: "Peers"
    partitions: "PartitionLogs"
    followed: "FollowedPartitions"
    """Of other brokers, read for consumers of this broker's rack."""
    groups: "GroupCoordinator"
    producer_ids: "ProducerIds"
    transactions: "TransactionCoordinator"
    bookies: "AskedBookies"
    cluster_id: str
    advertised: "Advertised"
    """Known for certain only when the server listens: it fills in ports that were left open."""
    log_dir: str
    """Where all partitions lie: the data directory, or the namespace of a cluster."""
    fetch_sessions: "FetchSessionCache"
    quotas: "QuotaRegistry"
    users: "StoredEntities[Credentials]"
    tokens: "DelegationTokens"
    authentication: "Authentication"
    authorizer: "Authorizer | None" = None
    """What decides; None: everybody may do everything, as in Kafka without an authorizer."""
    audit: "Audit | None" = None
    """Notes what was decided; None: nothing does."""
    acls: "AclStore | None" = None
    """What the authorizer decides by; None without one."""
    parked: ParkedFetches = field(default_factory=ParkedFetches)
    """Fetches that wait and are asked about again when what is allowed changes."""
    unsent: "Budget"
    """Unsent response bytes of slow clients."""
    directions: Directions = field(default_factory=Directions)
    """Where consumers with a rack were sent."""
    epochs: KnownEpochs = field(default_factory=KnownEpochs)
    """Of partitions that other brokers own."""
    turns: LoopTurns = field(default_factory=LoopTurns)
    """Of the loop, for requests that are long."""
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    faults: Interception | None = None
    """What a test has done to requests; None without `--test-faults`."""
    cut_connections: Callable[[], int] = int  # 0: there are none before there is a server
    """Cut every connection and return how many there were."""
    refused: "asyncio.Future[None]" = field(default_factory=_new_future)
    """Done once this broker has to end."""

    def refuse(self) -> None:
        """Have the process end: another one runs under this broker's id."""
        if not self.refused.done():
            self.refused.set_result(None)

    @property
    def node_id(self) -> int:
        """Id of this broker."""
        return self.config.node_id
