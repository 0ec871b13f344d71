"""Hearing of logs that come and go, on each kind of store."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tailrace.core.errors import Unavailable
from tailrace.core.log.log_list_watch import LogListWatch
from tailrace.core.log.stream_nodes import delete_stream, make_stream
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.store import MetadataStore, Watch, WatchEvent
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.metadata.conftest import run as run

NS = "/messaging/ns"
Run = Callable[[Callable[[MetadataStore], Coroutine[Any, Any, None]]], None]


class Heard:
    def __init__(self) -> None:
        self.lists: list[list[str]] = []
        self._moved = asyncio.Event()

    def __call__(self, names: list[str]) -> None:
        self.lists.append(names)
        self._moved.set()

    async def until(self, names: list[str]) -> None:
        async with asyncio.timeout(30):
            while not self.lists or self.lists[-1] != names:
                self._moved.clear()
                await self._moved.wait()


class SessionEnds(FaultyStore):
    """A store whose watches can be lost, as with the end of a session."""

    def __init__(self, inner: MetadataStore) -> None:
        super().__init__(inner)
        self.watches: list[Watch] = []
        self.refusals = 0

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("no session")
        if watch is not None:
            self.watches.append(watch)
        return await super().children(path)  # never fires by itself

    async def exists(self, path: str, watch: Watch | None = None) -> Any:
        return await super().exists(path)

    def end_session(self, refusals: int) -> None:
        self.refusals = refusals
        for watch in self.watches:
            watch(NS, WatchEvent.SESSION_LOST)
        self.watches.clear()


def test_each_change_is_told(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        heard = Heard()
        watch = LogListWatch(store, NS, "", heard)
        watch.start()
        await heard.until([])
        await make_stream(store, LogPaths(NS, "a"))
        await heard.until(["a"])
        await store.create(f"{NS}/.reserved")
        await make_stream(store, LogPaths(NS, "b"))
        await heard.until(["a", "b"])
        await delete_stream(store, LogPaths(NS, "a"))
        await heard.until(["b"])
        await delete_stream(store, LogPaths(NS, "b"))
        await store.delete(f"{NS}/.reserved")
        await heard.until([])
        await store.delete(NS)  # the namespace itself comes and goes
        await make_stream(store, LogPaths(NS, "c"))
        await heard.until(["c"])
        assert all(one != other for one, other in zip(heard.lists, heard.lists[1:], strict=False))
        await watch.close()
        await make_stream(store, LogPaths(NS, "d"))
        assert heard.lists[-1] == ["c"]

    run(story)


def test_logs_below_a_prefix_have_whole_names(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        heard = Heard()
        watch = LogListWatch(store, f"{NS}/p", "p/", heard)
        watch.start()
        await make_stream(store, LogPaths(NS, "p/x"))
        await heard.until(["p/x"])
        await watch.close()

    run(story)


def test_a_lost_session_is_made_up_for(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, LogPaths(NS, "a"))
        ending = SessionEnds(store)
        heard = Heard()
        watch = LogListWatch(ending, NS, "", heard)
        watch.start()
        await heard.until(["a"])
        await make_stream(store, LogPaths(NS, "b"))
        ending.end_session(refusals=2)
        await heard.until(["a", "b"])
        await make_stream(store, LogPaths(NS, "c"))
        ending.end_session(refusals=0)
        await heard.until(["a", "b", "c"])
        await watch.close()

    run(story)


def test_a_listener_that_fails_is_told_again(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        heard, failures = Heard(), [ZeroDivisionError("a bug")]

        def listener(names: list[str]) -> None:
            if failures:
                raise failures.pop()
            heard(names)

        await store.create(NS, parents=True)
        watch = LogListWatch(store, NS, "", listener)
        watch.start()
        await heard.until([])
        await make_stream(store, LogPaths(NS, "a"))
        await heard.until(["a"])
        await watch.close()

    run(story)
