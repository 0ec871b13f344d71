"""The settings of `tailrace broker`: one frozen tree for a broker over the bookies of a cluster."""

from dataclasses import dataclass, field, replace

from tailrace.broker.cluster.assignments import lock_name
from tailrace.broker.config import BrokerConfig
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.uri import parse_namespace_uri, parse_uri
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.logging_setup import LogLevel
from tailrace.core.security.exposure import ExposureConfig
from tailrace.processes.standalone_config import TopicLogConfig, check_topic_logs

ANSWER_MS_MIN = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTopicLogConfig(TopicLogConfig):
    """The same of several brokers: whoever asks for one that another has, is sent there at once."""

    lock_timeout_s: int = setting(
        "lockTimeoutSeconds",
        0,
        "How long requests wait for a log that another broker owns, before they are answered that "
        "it is not here; 0: not at all, negative: for ever",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProcessConfig:
    """All settings of one broker of a cluster."""

    metadata_uri: str = setting(
        "metadataServiceUri",
        "zk://127.0.0.1:2181/ledgers",
        "The bookies' cluster: zk://HOST:PORT,HOST:PORT/PATH.",
    )
    namespace_uri: str = setting(
        "namespaceUri",
        "distributedlog://127.0.0.1:2181/messaging/tailrace",
        "The namespace that holds topics and their logs; bound to the cluster when it is not there",
    )
    session_timeout_ms: int = setting(
        "zkSessionTimeout",
        1_000,
        "After so long without a word, ZooKeeper drops this broker's registration and its locks on "
        "logs, and others take over. ZooKeeper's minSessionTimeout must allow it. Unit: ms.",
    )
    log_level: LogLevel = setting(
        "log.level", "info", "Least level of what goes to stderr: debug, info, warning, error."
    )
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    log: OwnedTopicLogConfig = field(default_factory=OwnedTopicLogConfig)
    cold: ColdConfig = field(default_factory=ColdConfig)
    ledgers: LedgerClientConfig = field(default_factory=LedgerClientConfig)
    bookies: BookieClientConfig = field(default_factory=BookieClientConfig)
    exposure: ExposureConfig = field(default_factory=ExposureConfig)

    def __post_init__(self) -> None:
        if parse_uri(self.metadata_uri).path is not None:
            raise ValueError("metadataServiceUri must name a ZooKeeper: zk://HOST:PORT/PATH")
        if parse_namespace_uri(self.namespace_uri).path is not None:
            raise ValueError("namespaceUri must name a ZooKeeper: distributedlog://HOST:PORT/PATH")
        if self.session_timeout_ms < 1:
            raise ValueError("zkSessionTimeout must be positive")
        check_topic_logs(self.log)
        if self.broker.network.inter_broker_security.uses_sasl:
            self.broker.login_to_others()
        if (self.log.ensemble_size, self.log.write_quorum, self.log.ack_quorum) != (1, 1, 1):
            raise ValueError(
                "bkcEnsembleSize and its like say nothing here: each topic has its own; set "
                "default.replication.factor or tailrace.ensemble.size"
            )
        if self.ledgers.root != LEDGERS_ROOT:
            raise ValueError("ledgersPath is what the namespace is bound to: leave it unset")

    @property
    def answer_within_ms(self) -> int:
        """How long operations on metadata wait: a slow disk of ZooKeeper's fails none of them."""
        return max(self.session_timeout_ms, ANSWER_MS_MIN)

    def log_config(self) -> LogConfig:
        """Return the settings of logs; in their locks this broker goes by its id and address.

        DistributedLog's proxies write addresses so: version, shard, host and port. The registration
        sees to it that nobody else has that name.
        """
        if self.log.client_id != LogConfig().client_id:
            return self.log
        at = self.broker.network.advertised().inter_broker
        client_id = lock_name(self.broker.node_id, at)
        return replace(self.log, client_id=client_id, client_id_is_exclusive=True)
