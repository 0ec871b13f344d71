"""How far the subscribers of a log came, each a position in a node of its own.

    <partition>/subscribers/<id>    base64 text of the DLSN of the next record that it wants

Nobody is kept from truncating what a subscriber has not read: positions are only remembered.
Source: reference DistributedLog 3.2; SubscriptionsStore, ZKSubscriptionStateStore.
"""

import re
from typing import Final

from tailrace.core.errors import BadVersion, CorruptData, NodeExists, NoNode, NotEmpty
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import Delete, MetadataStore, Op
from tailrace.protocol.distributedlog.dlsn import DLSN, NON_INCLUSIVE_LOWER_BOUND
from tailrace.protocol.errors import DecodeError

_READ_LOCK: Final = "readLock"
_ID: Final = re.compile(r"[^/\x00]{1,255}")
_RACES_MAX: Final = 8


class Subscribers:
    """The subscribers of one log. Any process may ask and advance them."""

    def __init__(self, store: MetadataStore, paths: LogPaths) -> None:
        self._store = store
        self._root = paths.subscribers

    async def last_commit(self, subscriber: str) -> DLSN:
        """Return a subscriber's position; NON_INCLUSIVE_LOWER_BOUND, before all, without one.

        Errors: CorruptData; ValueError for what cannot be an id.
        """
        node = await self._store.exists(self._path(subscriber))
        return _position(node.data if node else b"", subscriber)

    async def last_commits(self) -> dict[str, DLSN]:
        """Return the positions of all subscribers by id. Errors: CorruptData."""
        try:
            names = await self._store.children(self._root)
        except NoNode:
            return {}
        nodes = await read_nodes(self._store, [f"{self._root}/{name}" for name in names])
        return {
            name: _position(node.data, name)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    async def advance(self, subscriber: str, position: DLSN) -> DLSN:
        """Move a subscriber forward, never back; return where it is then.

        Errors: BadVersion when others keep moving it; CorruptData; ValueError (the id).
        """
        path, data = self._path(subscriber), position.serialize().encode()
        for _ in range(_RACES_MAX):
            node = await self._store.exists(path)
            try:
                if node is None:
                    await self._store.create(path, data, parents=True)
                    return position
                known = _position(node.data, subscriber)
                if node.data and position <= known:
                    return known
                await self._store.set(path, data, node.version)
            except (NodeExists, BadVersion, NoNode):
                continue  # somebody else moved, made or deleted it: look again
            return position
        raise BadVersion(f"others kept moving subscriber {subscriber}")

    async def delete(self, subscriber: str) -> bool:
        """Forget a subscriber; False when there is none.

        Its read lock goes too. Errors: NotEmpty while somebody holds that lock; ValueError.
        """
        path = self._path(subscriber)
        lock = f"{path}/{_READ_LOCK}"
        ops: list[Op] = [Delete(lock)] if await self._store.exists(lock) is not None else []
        try:
            await self._store.multi([*ops, Delete(path)])
        except NoNode:
            return False
        except NotEmpty as error:
            raise NotEmpty(f"subscriber {subscriber} is reading: {error}") from error
        return True

    def _path(self, subscriber: str) -> str:
        if not _ID.fullmatch(subscriber) or subscriber in (".", ".."):
            raise ValueError(f"{subscriber!r} cannot be the id of a subscriber")
        return f"{self._root}/{subscriber}"


def _position(data: bytes, subscriber: str) -> DLSN:
    if not data:
        return NON_INCLUSIVE_LOWER_BOUND
    try:
        return DLSN.deserialize(data.decode("ascii", "replace"))
    except DecodeError as error:
        raise CorruptData(f"position of subscriber {subscriber}: {error}") from error
