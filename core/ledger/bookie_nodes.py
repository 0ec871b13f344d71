"""What registered bookies say of themselves: where they are reached, where they stand, what fits.

Each node is read once and again after it changed. What a bookie said last is remembered beyond its
registration: the members of an ensemble that are gone still stood in some region, and a bookie may
well be where it was while the metadata cannot be reached.
"""

import contextlib
import logging
from collections.abc import Callable, Collection
from itertools import islice
from typing import Final, NamedTuple

from tailrace.core.errors import BookieUnavailable, CoreError, CorruptData, NoNode, Unavailable
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.store import MetadataStore, Node, WatchEvent
from tailrace.core.runtime.tasks import together
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

_READS_AT_ONCE: Final = 64
"""Nodes that are asked for at once: one round trip instead of one per bookie."""


class _Said(NamedTuple):
    address: tuple[str, int] | None
    location: NetworkLocation | None
    entry_bytes_max: int = MAX_ENTRY_BYTES
    problem: str = ""
    """Why there is no address."""


class BookieNodes:
    """The registration nodes of a cluster. Not closed: its watches do nothing but take a note."""

    def __init__(
        self, store: MetadataStore, paths: LedgerPaths, on_changed: Callable[[], None]
    ) -> None:
        """`on_changed`: called when a node that was read is not what it was any more."""
        self._store = store
        self._paths = paths
        self._on_changed = on_changed
        self._said: dict[BookieId, _Said] = {}
        self._current: set[BookieId] = set()
        """Bookies whose last word is that of their node, by its watch."""
        self._changes: dict[BookieId, int] = {}
        self.version = 0
        """Rises when a location that is given out has changed."""

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        """Return where a bookie said last that it stands."""
        said = self._said.get(bookie_id)
        return said.location if said is not None else None

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        """Return the largest entry that a bookie said last that it takes."""
        said = self._said.get(bookie_id)
        return said.entry_bytes_max if said is not None else MAX_ENTRY_BYTES

    async def address(self, bookie_id: BookieId) -> tuple[str, int]:
        """Return where a bookie can be reached. Errors: BookieUnavailable, Unavailable.

        Cost: nothing while its node does not change.
        """
        if bookie_id not in self._current:
            try:
                await self._read(bookie_id)
            except Unavailable:
                if bookie_id not in self._said:
                    raise
        said = self._said[bookie_id]
        if said.address is None:
            raise BookieUnavailable(said.problem)
        return said.address

    async def read(self, bookies: Collection[BookieId]) -> None:
        """Read the nodes of those bookies that are not known as they are now.

        Who left meanwhile keeps his last word. Errors: Unavailable, and some may be unknown.
        """
        unknown = iter([bookie for bookie in bookies if bookie not in self._current])
        while some := list(islice(unknown, _READS_AT_ONCE)):
            tried = await together([self._try_read(bookie) for bookie in some])
            for error in filter(None, tried):
                raise error

    async def _try_read(self, bookie_id: BookieId) -> CoreError | None:
        """Return why it could not be read; all are tried, so that the next call has less to do."""
        try:
            await self._read(bookie_id)
        except BookieUnavailable:
            return None
        except CoreError as error:
            return error
        return None

    async def _read(self, bookie_id: BookieId) -> None:
        changes = self._changes.get(bookie_id, 0)
        node = await self._registration(bookie_id)
        said = _said_by(bookie_id, node.data)
        self.version += said.location != self.location(bookie_id)
        self._said[bookie_id] = said
        if self._changes.get(bookie_id, 0) == changes:  # else what we have may be older
            self._current.add(bookie_id)

    async def _registration(self, bookie_id: BookieId) -> Node:
        for path in (self._paths.bookie(bookie_id), self._paths.read_only_bookie(bookie_id)):
            with contextlib.suppress(NoNode):
                return await self._store.get(path, self._on_node_changed)
        raise BookieUnavailable(f"bookie {bookie_id} is not registered")

    def _on_node_changed(self, path: str, _event: WatchEvent) -> None:
        bookie_id = BookieId(path.rpartition("/")[2])
        self._changes[bookie_id] = self._changes.get(bookie_id, 0) + 1
        self._current.discard(bookie_id)
        self._on_changed()


def _said_by(bookie_id: BookieId, data: bytes) -> _Said:
    """Take a node's data apart; what cannot be read says nothing, and the log says why."""
    try:
        info = decode_service_info(data, bookie_id)
    except CorruptData as error:
        logger.warning("bookie_registration_unreadable bookie=%s %s", bookie_id, error)
        return _Said(None, None, problem=str(error))
    door = info.rpc()
    address = (door.host, door.port) if door is not None else None
    problem = "" if door is not None else f"bookie {bookie_id} does not speak bookie-rpc"
    location, entry_bytes_max = None, MAX_ENTRY_BYTES
    try:
        location = info.location()
    except CorruptData as error:
        logger.warning("bookie_location_unreadable bookie=%s %s", bookie_id, error)
    try:
        entry_bytes_max = info.entry_bytes_max()
    except CorruptData as error:
        logger.warning("bookie_frame_size_unreadable bookie=%s %s", bookie_id, error)
    return _Said(address, location, entry_bytes_max, problem)
