"""Who waits for which node to change: ZooKeeper's one-shot watches, as a table.

Data watches (get, exists) fire on CREATED, CHANGED and DELETED of the node; child watches on
CHILDREN and DELETED. The same callable set twice on one node fires once. No thread, no loop: the
store decides who calls, and what to do with the watches that it takes out.
"""

from collections.abc import Iterable
from typing import NamedTuple

from core.metadata.store import Watch, WatchEvent


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

    def __len__(self) -> int:
        """Return how many watches are set."""
        tables = (self._data, self._children)
        return sum(len(watches) for table in tables for watches in table.values())

    def add_data(self, path: str, watch: Watch | None) -> None:
        """Watch the node itself, there or not."""
        if watch is not None:
            self._data.setdefault(path, {})[watch] = None

    def add_children(self, path: str, watch: Watch | None) -> None:
        """Watch the list of children of a node."""
        if watch is not None:
            self._children.setdefault(path, {})[watch] = None

    def take(self, changes: Iterable[tuple[str, WatchEvent]]) -> list[Fired]:
        """Remove and return the watches that these changes fire, in the order of the changes."""
        fired: list[Fired] = []
        for path, event in changes:
            watches: dict[Watch, None] = {}
            if event is not WatchEvent.CHILDREN:
                watches |= self._data.pop(path, {})
            if event in (WatchEvent.CHILDREN, WatchEvent.DELETED):
                watches |= self._children.pop(path, {})
            fired += [Fired(watch, path, event) for watch in watches]
        return fired
