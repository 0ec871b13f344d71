"""A registry over a real metadata file, with streams in memory and crashes on demand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.core.errors import InvalidQuorums, LogExists, LogNotFound
from tailrace.core.log.log import CheckMay
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock


class Crash(Exception):
    """The process ended here."""


class Fuse:
    """Lets a number of changes pass, then every further one ends in a crash.

    `after`: the change that meets the end still happens (the answer is what gets lost).
    """

    def __init__(self, changes: int | None = None, *, after: bool = False) -> None:
        self.left = changes
        self.after = after
        self.passed = 0

    async def through(self, change: Callable[[], Awaitable[Any]]) -> Any:
        if self.left == 0:
            if self.after:
                self.after = False
                await change()
            raise Crash
        if self.left is not None:
            self.left -= 1
        self.passed += 1
        return await change()


class FusedStore:
    """The store, with every change through a fuse."""

    def __init__(self, store: SqliteStore, fuse: Fuse) -> None:
        self._store = store
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("create", "set", "delete", "multi"):
            return method
        return lambda *args, **more: self._fuse.through(lambda: method(*args, **more))


class Streams:
    """Log streams as a set of names, on the same disk as the store: they survive a crash."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.unplaceable = ""
        """A write quorum that no ledger can have."""
        self.fuse = Fuse()

    def check_settings(self, overrides: Mapping[str, str]) -> None:
        if overrides["bkcWriteQuorumSize"] == self.unplaceable:
            raise InvalidQuorums("three copies cannot be in two regions, whoever acknowledges")

    async def first_log(self, names: Sequence[str]) -> str | None:
        await asyncio.sleep(0)
        return next((name for name in names if name in self.names), None)

    async def create_log(self, name: str, overrides: Mapping[str, str]) -> None:
        self.check_settings(overrides)
        await self.fuse.through(lambda: self._create(name))

    async def delete_log(self, name: str, check_may: CheckMay) -> None:
        await check_may()
        await self.fuse.through(lambda: self._delete(name))

    async def _create(self, name: str) -> None:
        await asyncio.sleep(0)
        if name in self.names:
            raise LogExists(name)
        self.names.add(name)

    async def _delete(self, name: str) -> None:
        await asyncio.sleep(0)
        if name not in self.names:
            raise LogNotFound(name)
        self.names.remove(name)


class Listener:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def on_topic_changed(self, topic: Topic) -> None:
        self.heard.append(("changed", topic.name))

    async def on_topic_deleting(self, topic: Topic) -> None:
        self.heard.append(("deleting", topic.name))


@asynccontextmanager
async def registry(
    path: Path,
    streams: Streams | None = None,
    fuse: Fuse | None = None,
    given: dict[str, str] | None = None,
) -> AsyncIterator[TopicRegistry]:
    """A started registry; its changes and those of its streams pass one fuse."""
    streams = streams or Streams()
    clock = ManualClock()
    store = SqliteStore(path / "metadata.db", clock)
    streams.fuse = Fuse()
    fused: Any = store
    topics = TopicRegistry(
        fused, streams, defaults=TopicDefaults(given or {}), clock=clock, random=Random(7)
    )
    try:
        await topics.start()
        if fuse is not None:
            streams.fuse = fuse
            topics._nodes._store = FusedStore(store, fuse)  # type: ignore[assignment]
        yield topics
    finally:
        await store.close()
