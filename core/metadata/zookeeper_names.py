"""Ephemeral sequential nodes whose names nobody was told: found and deleted.

A create whose answer was lost may have made a node that only the end of the session would remove:
in a lock's queue it would stand before everybody else. So each such create leaves a doubt about its
prefix. Before the next create below that prefix, and as soon as the session answers, every child
with the prefix that this session owns and that nobody was told about is deleted.
"""

import asyncio
import logging

from tailrace.core.errors import NoNode
from tailrace.core.metadata.node_path import split_path
from tailrace.core.metadata.store import MetadataStore

logger = logging.getLogger(__name__)

_DIGITS = 10


class SequentialNames:
    """What one session made with ephemeral sequential creates. On the loop only."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._doubtful: set[str] = set()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def has_doubts(self) -> bool:
        """Whether a create may have made a node that nobody knows."""
        return bool(self._doubtful)

    def on_made(self, path: str) -> None:
        """Note a node whose maker was told its name."""
        self._told.add(path)

    def on_gone(self, path: str) -> None:
        """Note that a node was deleted."""
        self._told.discard(path)

    def on_doubt(self, prefix: str) -> None:
        """Note that a create below `prefix` had no answer."""
        self._doubtful.add(prefix)
        self._settled.clear()

    def on_new_session(self) -> None:
        """Forget everything: what there was is gone with its session."""
        self._told.clear()
        self._doubtful.clear()
        self._settled.set()

    async def settled(self) -> None:
        """Wait until there is no doubt. The caller brings the deadline."""
        await self._settled.wait()

    async def clean(self, store: MetadataStore) -> None:
        """Delete the nodes that nobody knows. Errors: Unavailable leaves the doubt as it is."""
        for prefix in sorted(self._doubtful):
            parent, start = split_path(prefix + "0")
            await self._clean_one(store, parent.rstrip("/"), start[:-1])
            self._doubtful.discard(prefix)
        if not self._doubtful:
            self._settled.set()

    async def _clean_one(self, store: MetadataStore, parent: str, start: str) -> None:
        try:
            names = await store.children(parent or "/")
        except NoNode:
            return
        for name in names:
            path = f"{parent}/{name}"
            if not _is_below(name, start) or path in self._told:
                continue
            try:
                if (await store.get(path)).ephemeral_owner == store.session_id:
                    await store.delete(path)
                    logger.info("zookeeper_unknown_node_deleted path=%s", path)
            except NoNode:
                continue


def _is_below(name: str, start: str) -> bool:
    digits = name.removeprefix(start)
    return name.startswith(start) and len(digits) == _DIGITS and digits.isdecimal()
