"""The nodes of topics in the metadata store, in the hands of one process.

What it last saw or wrote of each is kept with the node's version: a change that another broker made
meanwhile fails ours. Decides nothing.
"""

import logging
from typing import Any, NamedTuple

import msgspec

from tailrace.broker.cluster.names import name_fault
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.topic_codec import StoredTopic, decode_topic, encode_topic
from tailrace.core.errors import BadVersion, NodeExists, NoNode
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import MetadataStore, Node

logger = logging.getLogger(__name__)


class _Record(NamedTuple):
    """A node as this process last saw it."""

    stored: StoredTopic
    version: int


class TopicNodes:
    """One node per topic. All calls come from the loop; changes of one, one after the other."""

    def __init__(self, store: MetadataStore, paths: ClusterPaths) -> None:
        self._store = store
        self._paths = paths
        self._records: dict[str, _Record] = {}

    def known(self, name: str) -> StoredTopic | None:
        """Return what a topic's node said last."""
        record = self._records.get(name)
        return None if record is None else record.stored

    def keep(self, name: str, stored: StoredTopic, version: int) -> None:
        """Take note of what a node says."""
        self._records[name] = _Record(stored, version)

    def forget(self, name: str) -> None:
        """Take note that a node is not there."""
        self._records.pop(name, None)

    # -- reading ----------------------------------------------------------------------------------

    async def names(self) -> list[str]:
        """Return the names of all topics, whatever their state. Errors: CoreError."""
        return await self._store.children(self._paths.topics)

    async def read(self, name: str) -> Node | None:
        """Return a topic's node; None also for what is no name. Errors: CoreError."""
        return None if name_fault(name) else await self._store.exists(self._paths.topic(name))

    async def read_all(self) -> list[tuple[str, Node | None]]:
        """Return all topics' nodes by name; make the node above them. Errors: CoreError."""
        try:
            await self._store.create(self._paths.topics, parents=True)
        except NodeExists:
            logger.debug("topics are there path=%s", self._paths.topics)
        names = await self.names()
        nodes = await read_nodes(self._store, [self._paths.topic(name) for name in names])
        return list(zip(names, nodes, strict=True))

    async def current(self, name: str) -> Node | None:
        """Return the node of a known topic, unless another broker changed it since.

        None: it was deleted, and the name may be a new topic's. Errors: CoreError.
        """
        node = await self.read(name)
        if node is None or decode_topic(name, node.data) != self.known(name):
            return None
        return node

    # -- changes ----------------------------------------------------------------------------------

    async def create(self, name: str, stored: StoredTopic) -> None:
        """Make a topic's node. Errors: NodeExists, CoreError."""
        await self._store.create(self._paths.topic(name), encode_topic(stored))
        self.keep(name, stored, 0)

    async def replace(self, name: str, **changes: Any) -> StoredTopic:
        """Change some of what a known topic's node says. Errors: BadVersion, NoNode, CoreError."""
        record = self._records[name]
        stored = msgspec.structs.replace(record.stored, **changes)
        version = await self._store.set(
            self._paths.topic(name), encode_topic(stored), record.version
        )
        self.keep(name, stored, version)
        return stored

    async def delete(self, name: str) -> None:
        """Delete a known topic's node, unless another broker did. Errors: CoreError."""
        node = await self.current(name)
        if node is not None:
            try:
                await self._store.delete(self._paths.topic(name), node.version)
            except (NoNode, BadVersion):
                logger.info("topic was deleted by another broker topic=%s", name)
        self.forget(name)
