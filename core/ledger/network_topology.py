"""Where bookies stand: as the configuration says, else the rack mapping, else they themselves."""

from collections.abc import Callable, Mapping

from tailrace.core.ledger.watched_node import WatchedNode
from tailrace.core.metadata.network_location import (
    DEFAULT_LOCATION,
    NetworkLocation,
    parse_rack_mapping,
)
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.ids import BookieId


class NetworkTopology:
    """Locations by bookie. Not closed."""

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
        self._mapping: WatchedNode[Mapping[BookieId, NetworkLocation]] = WatchedNode(
            store, mapping_path, parse_rack_mapping, {}
        )

    def location(self, bookie: BookieId) -> NetworkLocation:
        """Return where a bookie stands as far as is known now."""
        told = self._fixed.get(bookie) or self._mapping.value.get(bookie)
        return told or self._registered(bookie) or DEFAULT_LOCATION

    async def refresh(self) -> None:
        """Read the mapping if it may have changed. Errors: Unavailable, and nothing changed."""
        await self._mapping.refresh()
