"""One metadata node that operators write by hand: read once, and again after it changed.

What cannot be read as what it should be leaves the former value, and the log says so.
"""

import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tailrace.core.errors import CorruptData, NoNode
from tailrace.core.metadata.store import MetadataStore, Node, WatchEvent

logger = logging.getLogger(__name__)

_READ_ATTEMPTS_MAX: Final = 3

Value = TypeVar("Value")


class WatchedNode(Generic[Value]):
    """The value of a node. Not closed: its watch does nothing but take a note."""

    def __init__(
        self,
        store: MetadataStore | None,
        path: str,
        decode: Callable[[bytes], Value],
        without: Value,
    ) -> None:
        """`without`: the value while there is no node; without a store or a path it stays.

        `decode` raises CorruptData.
        """
        self._store = store if path else None
        self._path = path
        self._decode = decode
        self._without = without
        self._is_stale = True
        self.value = without
        """As it was when it was last read."""

    async def refresh(self) -> None:
        """Read the node if it may have changed. Errors: Unavailable, and nothing changed."""
        if self._store is None or not self._is_stale:
            return
        self._is_stale = False
        try:
            node = await self._read(self._store)
        except BaseException:
            self._is_stale = True
            raise
        try:
            self.value = self._decode(node.data) if node is not None else self._without
        except CorruptData as error:
            logger.warning("node_unreadable path=%s %s", self._path, error)

    async def _read(self, store: MetadataStore) -> Node | None:
        """Return the node and watch it, or watch for its coming and return None."""
        for _ in range(_READ_ATTEMPTS_MAX):
            try:
                return await store.get(self._path, self._on_changed)
            except NoNode:
                if await store.exists(self._path, self._on_changed) is None:
                    return None
        self._is_stale = True  # it comes and goes: look again at the next refresh
        return None

    def _on_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_stale = True
