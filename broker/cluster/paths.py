"""Where a Kafka cluster keeps what it agrees on, below one node of the metadata store. Pure.

The standalone process has a store to itself. In ZooKeeper the root is a reserved child of the
DistributedLog namespace (a leading dot: no log, for Java's library neither), so each namespace is a
Kafka cluster of its own, and several of them share the bookies.
"""

from typing import Final
from urllib.parse import quote, unquote

STANDALONE_ROOT: Final = "/tailrace"

_RESERVED_CHILD: Final = ".tailrace"
_DEFAULT_ENTITY: Final = "<default>"
"""As in Kafka; no name is quoted to it."""


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

    def config_entities(self, kind: str) -> str:
        """Return the node of all entities of a kind that have configs of their own."""
        return f"{self.configs}/{kind}"

    def config_entity(self, kind: str, name: str) -> str:
        """Return the node of one entity's configs; the empty name is the default of its kind."""
        return f"{self.config_entities(kind)}/{entity_node(name)}"


def entity_node(name: str) -> str:
    """Return the node name for any entity name, such as a group's. Source: Kafka's Sanitizer."""
    if not name:
        return _DEFAULT_ENTITY
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def entity_name(node: str) -> str:
    """Return the entity behind a node name."""
    return "" if node == _DEFAULT_ENTITY else unquote(node)
