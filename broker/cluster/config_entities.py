"""Configs of brokers, groups and metrics subscriptions: one metadata node for each that has some.

Everybody holds all of them in memory, so a look-up never waits. A change reads the node, writes it
with the version that it saw, and is in force here before it is answered; other brokers hear of it
by their watches. There is no half-done state: one node, one write.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.broker.cluster.config_codec import decode_configs, encode_configs
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.errors import BadVersion, MetadataConflict, NodeExists, NoNode
from tailrace.core.metadata.entity_nodes import entity_name, entity_node
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.listeners import tell

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 5
"""How often a change is tried against others of the same entity."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class EntityKind(Enum):
    """What has configs; the value is Kafka's node name."""

    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"


Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the configs that an entity has to those that it gets; it may raise, and run twice."""

Listener = Callable[[EntityKind, str], None]
"""Hears of an entity whose configs changed."""


class Watched(NamedTuple):
    """The arguments of a `ChildWatch` behind its store."""

    parent: str
    note: Callable[[str], Awaitable[None]]
    known: Sequence[str]


class ConfigEntities:
    """The configs of all entities. Look-ups are plain calls. All calls come from the loop."""

    def __init__(self, store: MetadataStore, paths: ClusterPaths | None = None) -> None:
        self._store = store
        self._paths = paths or ClusterPaths()
        self._configs: dict[tuple[EntityKind, str], Mapping[str, str]] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every later change."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Load everything. Errors: CorruptData, Unavailable."""
        for kind, (parent, _, _) in self.watched().items():
            try:
                await self._store.create(parent, parents=True)
            except NodeExists:
                logger.debug("configs are there path=%s", parent)
            for node in await self._store.children(parent):
                await self._note(kind, node)

    def watched(self) -> dict[EntityKind, Watched]:
        """Return by kind what a `ChildWatch` has to know."""
        return {
            kind: Watched(
                self._paths.config_entities(kind.value),
                partial(self._note, kind),
                [entity_node(name) for name in self.names(kind)],
            )
            for kind in EntityKind
        }

    def get(self, kind: EntityKind, name: str) -> Mapping[str, str]:
        """Return what an entity was given, in canonical text; often nothing."""
        return self._configs.get((kind, name), _NONE)

    def names(self, kind: EntityKind) -> list[str]:
        """Return the entities of a kind that have configs, sorted; "" is the default."""
        return sorted(name for known, name in self._configs if known is kind)

    async def change(self, kind: EntityKind, name: str, change: Change) -> None:
        """Change an entity's configs, all or none.

        Errors: what `change` raises; MetadataConflict when others changed it again and again;
        CoreError. Cancel: it happened or not.
        """
        for _ in range(ATTEMPTS_MAX):
            found = await self._read(kind, name)
            configs = dict(change(found.configs))
            try:
                await self._write(self._paths.config_entity(kind.value, name), configs, found)
            except (BadVersion, NodeExists, NoNode):
                continue
            self._take(kind, name, configs)
            logger.info("configs altered %s=%s configs=%s", kind.value, name, sorted(configs))
            return
        raise MetadataConflict(f"the configs of {kind.value} {name!r} are being changed by others")

    async def _note(self, kind: EntityKind, node: str) -> None:
        """Take over what a node says, there or not. Errors: CorruptData, Unavailable."""
        name = entity_name(node)
        self._take(kind, name, (await self._read(kind, name)).configs)

    async def _read(self, kind: EntityKind, name: str) -> "_Found":
        path = self._paths.config_entity(kind.value, name)
        node = await self._store.exists(path)
        if node is None:
            return _Found({}, None)
        return _Found(decode_configs(path, node.data), node.version)

    async def _write(self, path: str, configs: Mapping[str, str], found: "_Found") -> None:
        if found.version is None:
            if configs:
                await self._store.create(path, encode_configs(configs))
        elif configs:
            await self._store.set(path, encode_configs(configs), found.version)
        else:
            await self._store.delete(path, found.version)

    def _take(self, kind: EntityKind, name: str, configs: Mapping[str, str]) -> None:
        if self.get(kind, name) == configs:
            return
        if configs:
            self._configs[kind, name] = MappingProxyType(dict(configs))
        else:
            del self._configs[kind, name]
        for listener in self._listeners:
            tell("configs", listener, kind, name)


class _Found(NamedTuple):
    configs: Mapping[str, str]
    version: int | None
    """None: there is no node."""
