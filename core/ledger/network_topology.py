"""Where bookies stand: as the configuration says, else the rack mapping, else their registration.

The mapping is read once and again after it changed; one that cannot be read leaves the former one.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from core.errors import CorruptData, NoNode
from core.metadata.network_location import (
    DEFAULT_LOCATION,
    NetworkLocation,
    parse_rack_mapping,
)
from core.metadata.store import MetadataStore, Node, WatchEvent
from protocol.ids import BookieId

logger = logging.getLogger(__name__)

_READ_ATTEMPTS_MAX: Final = 3


class NetworkTopology:
    """Locations by bookie. Not closed: its watch does nothing but take a note."""

    def __init__(
        self,
        fixed: Mapping[BookieId, NetworkLocation],
        registered: Callable[[BookieId], NetworkLocation | None],
        store: MetadataStore | None = None,
        mapping_path: str = "",
    ) -> None:
        """Take the tables; `registered` tells what a bookie says of itself.

        `mapping_path`: the node of the rack mapping; empty or without a store: none is read.
        """
        self._fixed = fixed
        self._registered = registered
        self._store = store if mapping_path else None
        self._path = mapping_path
        self._mapped: Mapping[BookieId, NetworkLocation] = {}
        self._is_stale = True

    def location(self, bookie: BookieId) -> NetworkLocation:
        """Return where a bookie stands as far as is known now."""
        told = self._fixed.get(bookie) or self._mapped.get(bookie) or self._registered(bookie)
        return told or DEFAULT_LOCATION

    async def refresh(self) -> None:
        """Read the mapping if it may have changed. Errors: Unavailable, and nothing changed."""
        if self._store is None or not self._is_stale:
            return
        self._is_stale = False
        try:
            node = await self._read(self._store)
        except BaseException:
            self._is_stale = True
            raise
        try:
            self._mapped = parse_rack_mapping(node.data) if node is not None else {}
        except CorruptData as error:
            logger.warning("rack_mapping_unreadable path=%s %s", self._path, error)

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
