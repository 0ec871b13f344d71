"""Who waits for which node to change: ZooKeeper's one-shot watches, as a table.

Data watches (get, exists) fire on CREATED, CHANGED and DELETED of the node; child watches on
CHILDREN and DELETED. The same callable set twice on one node fires once. No thread, no loop: the
store decides who calls, and what to do with the watches that it takes out.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tailrace.core.metadata.store import Watch, WatchEvent


class Fired(NamedTuple):
    """A watch that has to be called."""

    watch: Watch
    path: str
    event: WatchEvent


class WatchTable:
    """The watches that are set. Bounded by what its users set; each goes when it fires."""

    def __init__(self) -> None:
        self._data: dict[str, dict[Watch, None]] = {}
        self._children: dict[str, dict[Watch, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many watches are set. Cost: none, it is asked for with each operation."""
        return self._count

    def add_data(self, path: str, watch: Watch | None) -> None:
        """Watch the node itself, there or not."""
        self._add(self._data, path, watch)

    def add_children(self, path: str, watch: Watch | None) -> None:
        """Watch the list of children of a node."""
        self._add(self._children, path, watch)

    def _add(self, table: dict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches = table.setdefault(path, {})
            self._count += watch not in watches
            watches[watch] = None

    def _take(self, table: dict[str, dict[Watch, None]], path: str) -> dict[Watch, None]:
        watches = table.pop(path, {})
        self._count -= len(watches)
        return watches

    def take(self, changes: Iterable[tuple[str, WatchEvent]]) -> list[Fired]:
        """Remove and return the watches that these changes fire, in the order of the changes."""
        fired: list[Fired] = []
        for path, event in changes:
            watches: dict[Watch, None] = {}
            if event is not WatchEvent.CHILDREN:
                watches |= self._take(self._data, path)
            if event in (WatchEvent.CHILDREN, WatchEvent.DELETED):
                watches |= self._take(self._children, path)
            fired += [Fired(watch, path, event) for watch in watches]
        return fired
