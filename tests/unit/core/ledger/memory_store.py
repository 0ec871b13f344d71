"""A metadata store in memory, without a thread: the embedded store's own tree, and faults.

It answers on the next turn of the loop; `hold()` keeps changes back until `release()`.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tailrace.core.errors import Unavailable
from tailrace.core.metadata.sqlite_tree import SqliteTree, open_tree
from tailrace.core.metadata.store import ANY_VERSION, Node, Op, SessionListener, Watch
from tailrace.core.metadata.watches import WatchTable

_NOW_MS = 1_700_000_000_000
Outage = Callable[[], str]
"""Asked at each change: "" does it, "lost request" does nothing, "lost answer" does it, and both
say Unavailable."""


def no_outage() -> str:
    return ""


class MemoryStore:
    session_id = 1

    def __init__(self) -> None:
        self._connection, self._tree = open_tree(Path(":memory:"), _NOW_MS)
        self._watches = WatchTable()
        self._gate: asyncio.Event | None = None
        self.outage: Outage = no_outage
        self.waiting = 0
        """Changes that are kept back."""

    def hold(self) -> asyncio.Event:
        """Make no change until `release`, or until the event is set that this returns."""
        self._gate = asyncio.Event()
        return self._gate

    def let_others_pass(self) -> None:
        """Keep back what is kept back, and nothing that comes from now on."""
        self._gate = None

    def release(self) -> None:
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    def on_session(self, listener: SessionListener) -> None:
        pass

    async def sync(self) -> None:
        await asyncio.sleep(0)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        await asyncio.sleep(0)
        node = self._tree.get(path)
        self._watches.add_data(path, watch)
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        await asyncio.sleep(0)
        self._watches.add_data(path, watch)
        return self._tree.find(path)

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        await asyncio.sleep(0)
        return [self._tree.find(path) for path in paths]

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        await asyncio.sleep(0)
        names = self._tree.children(path)
        self._watches.add_children(path, watch)
        return names

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        def run(tree: SqliteTree) -> str:
            if parents:
                tree.create_parents(path, _NOW_MS)
            owner = self.session_id if ephemeral else 0
            return tree.create(path, data, _NOW_MS, owner=owner, sequential=sequential)

        return await self._change(run)  # type: ignore[no-any-return]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        return await self._change(lambda t: t.set(path, data, version, _NOW_MS))  # type: ignore[no-any-return]

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(lambda tree: tree.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        return await self._change(lambda tree: tree.multi(ops, _NOW_MS, self.session_id))  # type: ignore[no-any-return]

    async def close(self) -> None:
        self._connection.close()

    async def _change(self, run: Callable[[SqliteTree], Any]) -> Any:
        self.waiting += 1
        gate = self._gate
        await (gate.wait() if gate is not None else asyncio.sleep(0))
        self.waiting -= 1
        outage = self.outage()
        if outage == "lost request":
            raise Unavailable(outage)
        try:
            done = run(self._tree)
        finally:
            changes, self._tree.changes = self._tree.changes, []
            for fired in self._watches.take(changes):
                fired.watch(fired.path, fired.event)
        if outage:
            raise Unavailable(outage)
        return done
