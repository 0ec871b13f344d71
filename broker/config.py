"""Settings of the broker, by Kafka's names where Kafka has one.

Each part declares its own; here they are put together, beside what concerns the broker as a whole
and its sockets. The parts never import this module.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tailrace.broker.authentication.config import SaslConfig
from tailrace.broker.authorization.config import AuthorizationConfig
from tailrace.broker.cluster.config import TopicsConfig
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.following.config import FollowingConfig
from tailrace.broker.http_config import HttpConfig
from tailrace.broker.listener_settings import (
    LISTENER_PREFIX,
    check_listener_names,
    jaas_of_listener,
    listener_leaf,
    of_listener,
    settings_of_listener,
)
from tailrace.broker.listeners import (
    Advertised,
    Listener,
    SecurityProtocol,
    check_listeners,
    parse_listeners,
    parse_protocols,
    protocol_of,
)
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.peers.config import InterBrokerConfig
from tailrace.broker.quotas.config import QuotaConfig
from tailrace.broker.quotas.connection_counts import numbers_of
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.core.access.callers import check_schemes
from tailrace.core.access.principals import PrincipalRules
from tailrace.core.access.tokens.config import TokensConfig
from tailrace.core.runtime.config import (
    AtLeastOne,
    ConfigError,
    NotNegative,
    setting,
    settings_below,
)
from tailrace.core.security.tls_config import TlsConfig

if TYPE_CHECKING:
    from tailrace.core.access.client.login import Login

ReplicaSelector: TypeAlias = Literal[
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
]
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Sockets: how many, how large a request, how much in flight, how long idle or stuck."""

    listeners: tuple[str, ...] = setting(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where to listen: a list of NAME://HOST:PORT. An empty HOST is all addresses, port 0 a "
        "free one.",
    )
    advertised_listeners: tuple[str, ...] = setting(
        "advertised.listeners",
        (),
        "Addresses that the clients of listeners are told: a list of NAME://HOST:PORT; port 0 is "
        "the real one. Without an entry: where the listener listens; if that is everywhere, the "
        "address that a client reached it at (in a cluster: this machine's name).",
    )
    inter_broker_listener: str = setting(
        "inter.broker.listener.name",
        "",
        "The listener that other brokers of the cluster connect to; empty is the first one.",
    )
    inter_broker_protocol: str = setting(
        "security.inter.broker.protocol",
        "",
        "Instead of inter.broker.listener.name: the listener that is named like this protocol.",
    )
    security_protocols: tuple[str, ...] = setting(
        "listener.security.protocol.map",
        (),
        "How the clients of listeners speak: a list of NAME:PROTOCOL; PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. A listener without an entry has the protocol that it is named "
        "like, else PLAINTEXT.",
    )
    principal_rules: str = setting(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "What is made of the name in a client's certificate: a list of "
        "RULE:pattern/replacement/[LU] and DEFAULT. The first that matches counts.",
    )
    handshake_ms_max: AtLeastOne = setting(
        "connection.handshake.timeout.ms",
        10_000,
        "A connection is closed whose TLS handshake is not over by then, and where SASL is asked "
        "for, whose client is not authenticated by then.",
    )
    tls: TlsConfig = field(default_factory=TlsConfig)
    sasl: SaslConfig = field(default_factory=SaslConfig)
    per_listener: tuple[tuple[str, Any], ...] = settings_below(LISTENER_PREFIX, listener_leaf)
    backlog: AtLeastOne = setting(
        "socket.listen.backlog.size",
        1024,
        "Connections that may wait to be accepted. Kafka has 50, and a thread that only accepts; "
        "here whoever finds the queue full loses a second.",
    )
    request_bytes_max: AtLeastOne = setting(
        "socket.request.max.bytes",
        104_857_600,
        "Largest request; a larger one ends its connection. Unit: bytes.",
    )
    queued_bytes_max: AtLeastOne = setting(
        "queued.max.request.bytes",
        64 * 1024 * 1024,
        "Bytes of all requests in flight; beyond it sockets are not read. At most what one log "
        "takes waiting (log.waiting.bytes.max), else a slow disk refuses produces. Unit: bytes.",
    )
    connection_requests_max: AtLeastOne = setting(
        "connection.max.inflight.requests",
        128,
        "Requests of one connection in flight; beyond it the connection is not read.",
    )
    connection_bytes_max: AtLeastOne = setting(
        "connection.max.inflight.bytes",
        16 * 1024 * 1024,
        "Request bytes of one connection in flight; beyond it, it is not read. Unit: bytes.",
    )
    unsent_bytes_max: AtLeastOne = setting(
        "connection.max.unsent.bytes",
        1024 * 1024,
        "Unsent bytes above which a client counts as slow and gets no further answer built.",
    )
    response_bytes_max: AtLeastOne = setting(
        "queued.max.response.bytes",
        256 * 1024 * 1024,
        "Unsent bytes of slow clients and what fetches read; beyond it answers are small, beyond "
        "twice of it empty, and who does not drain is cut after 3 s. Unit: bytes.",
    )
    stall_ms: AtLeastOne = setting(
        "connection.stall.timeout.ms",
        30_000,
        "A client that neither drains its answers nor finishes its request is cut after this.",
    )
    idle_ms_max: int = setting(
        "connections.max.idle.ms", 600_000, "A connection without requests is closed after this."
    )
    connections_max: NotNegative = setting(
        "max.connections", 0x7FFF_FFFF, "Connections; one more is closed at once."
    )
    connections_per_ip_max: NotNegative = setting(
        "max.connections.per.ip", 0x7FFF_FFFF, "Connections from one address."
    )
    connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides",
        (),
        "Connections from some addresses instead: a list of address:number.",
    )
    connection_rate_max: int = setting(
        "max.connection.creation.rate",
        0x7FFF_FFFF,
        "New connections per second; those above it are let in later.",
    )
    shutdown_ms: int = setting(
        "shutdown.drain.ms", 10_000, "How long a stopping broker waits for what is in flight."
    )

    def __post_init__(self) -> None:
        if self.inter_broker_listener and self.inter_broker_protocol:
            raise ValueError(
                "inter.broker.listener.name and security.inter.broker.protocol: set one of them"
            )
        check_listeners(self.parsed_listeners, self.parsed_advertised, self.inter_broker)
        numbers_of(self.connections_per_ip_overrides)
        PrincipalRules(self.principal_rules)
        check_listener_names(self.per_listener, [each.name for each in self.parsed_listeners])
        for name, protocol in self.protocols.items():
            tls = self.tls_of(name)
            if protocol.uses_tls and not tls.has_key:
                raise ValueError(
                    f"listeners: {name} speaks TLS and there is no certificate: "
                    "set ssl.keystore.location"
                )
            PrincipalRules(self.principal_rules_of(name))
        _ = self.sasl_by_listener
        if self.connection_rate_max < 1:
            raise ConfigError("max.connection.creation.rate must be at least 1")

    @property
    def parsed_listeners(self) -> tuple[Listener, ...]:
        """Where to listen. Errors: ValueError."""
        return parse_listeners(self.listeners, "listeners")

    @property
    def parsed_advertised(self) -> tuple[Listener, ...]:
        """What clients are told, of some listeners. Errors: ValueError."""
        return parse_listeners(self.advertised_listeners, "advertised.listeners")

    @property
    def inter_broker(self) -> str:
        """The listener that other brokers connect to. Errors: ValueError."""
        named = self.inter_broker_listener or self.inter_broker_protocol
        return named or next((each.name for each in self.parsed_listeners), "")

    @property
    def inter_broker_security(self) -> SecurityProtocol:
        """How brokers speak to each other. Errors: ValueError."""
        return self.protocols[self.inter_broker]

    @property
    def protocols(self) -> dict[str, SecurityProtocol]:
        """How the clients of each listener speak. Errors: ValueError."""
        given = parse_protocols(self.security_protocols)
        return {each.name: protocol_of(each.name, given) for each in self.parsed_listeners}

    def tls_of(self, listener: str) -> TlsConfig:
        """Return the TLS settings of a listener. Errors: ValueError."""
        return of_listener(self.tls, self.per_listener, listener)

    @property
    def sasl_by_listener(self) -> dict[str, SaslConfig]:
        """Return the SASL settings of all listeners. Errors: ValueError."""
        names = [each.name for each in self.parsed_listeners]
        return {name: of_listener(self.sasl, self.per_listener, name) for name in names}

    def principal_rules_of(self, listener: str) -> str:
        """Return the rules for names in certificates of a listener's clients."""
        given = settings_of_listener(self.per_listener, listener)
        return str(given.get("ssl.principal.mapping.rules", self.principal_rules))

    def advertised(self, *, own_name: str = "localhost", as_reached: bool = False) -> Advertised:
        """Return what clients are told, by what is configured; see `Advertised`."""
        return Advertised(
            self.parsed_listeners,
            self.parsed_advertised,
            inter_broker=self.inter_broker,
            own_name=own_name,
            as_reached=as_reached,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker."""

    node_id: NotNegative = setting("node.id", 1, "Id of this broker; unique in the cluster.")
    rack: str = setting("broker.rack", "", "Rack that this broker reports; empty for none.")
    replica_selector: ReplicaSelector = setting(
        "replica.selector.class",
        LEADER_SELECTOR,
        "From where consumers with a client.rack read: RackAwareReplicaSelector sends them from "
        "the leader to a broker of their rack, which reads the partition for all of them. The same "
        "for all brokers of a cluster.",
    )
    auto_create_topics: bool = setting(
        "auto.create.topics.enable", True, "Create a topic when a client asks for its metadata."
    )
    num_partitions: AtLeastOne = setting(
        "num.partitions", 1, "Partitions of a topic that is created without a number."
    )
    fetch_bytes_max: AtLeastOne = setting(
        "fetch.max.bytes", 57_671_680, "Most bytes in one fetch answer, save its first batch."
    )
    fetch_session_slots: NotNegative = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Fetch sessions kept at once; clients beyond it send full fetches.",
    )
    network: NetworkConfig = field(default_factory=NetworkConfig)
    partitions: PartitionConfig = field(default_factory=PartitionConfig)
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    quotas: QuotaConfig = field(default_factory=QuotaConfig)
    tokens: TokensConfig = field(default_factory=TokensConfig)
    authorization: AuthorizationConfig = field(default_factory=AuthorizationConfig)
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    following: FollowingConfig = field(default_factory=FollowingConfig)
    peers: InterBrokerConfig = field(default_factory=InterBrokerConfig)

    def __post_init__(self) -> None:
        self.http.check_tls(self.network.tls)
        schemes, oauth = self.http.authentication, self.network.sasl.oauth
        check_schemes("admin.http.authentication", schemes, oauth)

    def login_to_others(self) -> "Login":
        """Return as whom this broker logs in to others. Errors: ConfigError."""
        network = self.network
        own = jaas_of_listener(network.per_listener, network.inter_broker, self.peers.mechanism)
        return self.peers.login(own)

    @property
    def serves_racks(self) -> bool:
        """Whether brokers read for the consumers of their racks what other brokers own."""
        return self.replica_selector == RACK_AWARE_SELECTOR
