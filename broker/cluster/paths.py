"""Where a Kafka cluster keeps what it agrees on, below one node of the metadata store. Pure.

The standalone process has a store to itself. In ZooKeeper the root is a reserved child of the
DistributedLog namespace (a leading dot: no log, for Java's library neither), so each namespace is a
Kafka cluster of its own, and several of them share the bookies.
"""

from typing import Final

STANDALONE_ROOT: Final = "/tailrace"

_RESERVED_CHILD: Final = ".tailrace"


class ClusterPaths:
    """Paths below one root."""

    def __init__(self, root: str = STANDALONE_ROOT) -> None:
        self.root = root
        self.topics = f"{root}/topics"
        self.producer_ids = f"{root}/producer_ids"
        self.cluster_id = f"{root}/cluster/id"
        self.brokers = f"{root}/brokers/ids"
        self.quotas = f"{root}/quotas"

    @classmethod
    def of_namespace(cls, namespace: str) -> "ClusterPaths":
        """Return the paths of the cluster whose logs lie in a namespace."""
        return cls(f"{namespace}/{_RESERVED_CHILD}")

    def topic(self, name: str) -> str:
        """Return the node of a topic; legal topic names are legal node names."""
        return f"{self.topics}/{name}"

    def broker(self, node_id: int) -> str:
        """Return where a broker is registered (ephemeral)."""
        return f"{self.brokers}/{node_id}"
