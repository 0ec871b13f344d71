"""Where a Kafka cluster keeps what it agrees on, below one node of the metadata store. Pure.

The standalone process has a store to itself. In ZooKeeper the root is a reserved child of the
DistributedLog namespace (a leading dot: no log, for Java's library neither), so each namespace is a
Kafka cluster of its own, and several of them share the bookies.
"""

from typing import Final

from tailrace.core.metadata.entity_nodes import entity_node
from tailrace.core.metadata.layout import KAFKA_CLUSTER

STANDALONE_ROOT: Final = "/tailrace"


class ClusterPaths:
    """Paths below one root."""

    def __init__(self, root: str = STANDALONE_ROOT) -> None:
        self.root = root
        self.topics = f"{root}/topics"
        self.producer_ids = f"{root}/producer_ids"
        self.cluster_id = f"{root}/cluster/id"
        self.brokers = f"{root}/brokers/ids"
        self.quotas = f"{root}/quotas"
        self.configs = f"{root}/config"
        self.users = f"{root}/users"
        self.user_secret = f"{root}/cluster/user_secret"
        self.acls = f"{root}/acls"
        self.tokens = f"{root}/delegation_tokens"

    @classmethod
    def of_namespace(cls, namespace: str) -> "ClusterPaths":
        """Return the paths of the cluster whose logs lie in a namespace."""
        return cls(f"{namespace}/{KAFKA_CLUSTER}")

    def topic(self, name: str) -> str:
        """Return the node of a topic; legal topic names are legal node names."""
        return f"{self.topics}/{name}"

    def broker(self, node_id: int) -> str:
        """Return where a broker is registered (ephemeral)."""
        return f"{self.brokers}/{node_id}"

    def config_entities(self, kind: str) -> str:
        """Return the node of all entities of a kind that have configs of their own."""
        return f"{self.configs}/{kind}"

    def config_entity(self, kind: str, name: str) -> str:
        """Return the node of one entity's configs; the empty name is the default of its kind."""
        return f"{self.config_entities(kind)}/{entity_node(name)}"
