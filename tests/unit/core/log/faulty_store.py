"""A metadata store that stops, or lets something else happen, at a chosen change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tailrace.core.errors import Unavailable
from tailrace.core.metadata.store import (
    ANY_VERSION,
    MetadataStore,
    Node,
    Op,
    SessionListener,
    Watch,
)


class FaultyStore:
    """Passes everything on. `before(n)` and `after(n)` run around the n-th change, from 0."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self.changes = 0
        self.died = asyncio.Event()
        self.on_change: Callable[[], None] = lambda: None
        self.before: Callable[[int], Awaitable[None]] | None = None
        self.after: Callable[[int], Awaitable[None]] | None = None

    def die_at(self, change: int, *, applied: bool) -> None:
        """The process loses its store at this change: just before it, or before the answer."""

        async def die(number: int) -> None:
            if number == change:
                self.died.set()
                raise Unavailable("the store died")

        if applied:
            self.after = die
        else:
            self.before = die

    def lose_answer_of(self, change: int) -> None:
        """The change happens, its answer does not come."""

        async def lose(number: int) -> None:
            if number == change:
                raise Unavailable("the answer was lost")

        self.after = lose

    @property
    def session_id(self) -> int:
        return self._inner.session_id

    def on_session(self, listener: SessionListener) -> None:
        self._inner.on_session(listener)

    async def sync(self) -> None:
        self._check()
        await self._inner.sync()

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        self._check()
        return await self._inner.get(path, watch)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        self._check()
        return await self._inner.exists(path, watch)

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        self._check()
        return await self._inner.get_all(paths)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._check()
        return await self._inner.children(path, watch)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        number = await self._begin()
        made = await self._inner.create(
            path, data, ephemeral=ephemeral, sequential=sequential, parents=parents
        )
        await self._end(number)
        return made

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        number = await self._begin()
        version = await self._inner.set(path, data, version)
        await self._end(number)
        return version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        number = await self._begin()
        await self._inner.delete(path, version)
        await self._end(number)

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        number = await self._begin()
        versions = await self._inner.multi(ops)
        await self._end(number)
        return versions

    async def close(self) -> None:
        self.died.set()

    def _check(self) -> None:
        if self.died.is_set():
            raise Unavailable("the store is dead")

    async def _begin(self) -> int:
        self._check()
        number = self.changes
        self.changes += 1
        self.on_change()
        if self.before is not None:
            await self.before(number)
        return number

    async def _end(self, number: int) -> None:
        if self.after is not None:
            await self.after(number)
        self._check()
