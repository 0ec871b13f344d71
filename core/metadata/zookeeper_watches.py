"""The watches of a ZooKeeper session, with what each has seen: enough to set them anew.

A server forgets a client's watches with the connection, not with the session. So each watched path
is kept with the transaction id that its reader saw; after a reconnection the path is read again,
with a new watch, and another id means that the watch has missed its event. Pure.
"""

from tailrace.core.metadata.store import Watch, WatchEvent
from tailrace.core.metadata.watches import Fired, WatchTable

ABSENT = 0
"""Transaction id of a node that is not there."""


class SessionWatches:
    """All watches that are set, by path. Bounded by what the store's users set."""

    def __init__(self) -> None:
        self._table = WatchTable()
        self._data: dict[str, int] = {}
        self._children: dict[str, int] = {}

    def __len__(self) -> int:
        """Return how many watches are set."""
        return len(self._table)

    @property
    def data_paths(self) -> list[str]:
        """The paths whose nodes are watched, there or not."""
        return list(self._data)

    @property
    def children_paths(self) -> list[str]:
        """The paths whose children are watched."""
        return list(self._children)

    def add_data(self, path: str, watch: Watch | None, zxid: int) -> None:
        """Watch a node that was last set by `zxid`, or is ABSENT."""
        if watch is not None:
            self._table.add_data(path, watch)
            # An older one stays: its event is on the way, or will be missed.
            self._data.setdefault(path, zxid)

    def add_children(self, path: str, watch: Watch | None, zxid: int) -> None:
        """Watch the children of a node; `zxid` changed them last."""
        if watch is not None:
            self._table.add_children(path, watch)
            self._children.setdefault(path, zxid)

    def take(self, path: str, event: WatchEvent) -> list[Fired]:
        """Remove and return the watches that an event fires."""
        if event is not WatchEvent.CHILDREN:
            self._data.pop(path, None)
        if event in (WatchEvent.CHILDREN, WatchEvent.DELETED):
            self._children.pop(path, None)
        return self._table.take([(path, event)])

    def take_changed_data(self, path: str, zxid: int) -> list[Fired]:
        """Return what a new look at a node fires: nothing if it is as it was seen."""
        seen = self._data.get(path)
        if seen is None or seen == zxid:
            return []
        if zxid == ABSENT:
            return self.take(path, WatchEvent.DELETED)
        return self.take(path, WatchEvent.CREATED if seen == ABSENT else WatchEvent.CHANGED)

    def take_changed_children(self, path: str, zxid: int) -> list[Fired]:
        """Return what a new look at a node's children fires."""
        seen = self._children.get(path)
        if seen is None or seen == zxid:
            return []
        return self.take(path, WatchEvent.DELETED if zxid == ABSENT else WatchEvent.CHILDREN)

    def take_all(self) -> list[Fired]:
        """Remove every watch and return each once per path, with SESSION_LOST."""
        fired = []
        for path in sorted(self._data | self._children):
            watches = {one.watch: None for one in self.take(path, WatchEvent.DELETED)}
            fired += [Fired(watch, path, WatchEvent.SESSION_LOST) for watch in watches]
        return fired
