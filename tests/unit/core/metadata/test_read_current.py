"""What is decided by absence is read in one session: another one may be with a server that lags."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.core.errors import NoNode, Unavailable
from tailrace.core.log.stream_nodes import make_stream, stream_exists
from tailrace.core.metadata.layout import LedgerPaths, LogPaths
from tailrace.core.metadata.ledger_tree import all_ledgers, initialize_layout
from tailrace.core.metadata.node_reads import read_current
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Node, Watch
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.ids import LedgerId

IDS = [1, 20_000, 30_000_000]


class LaggingStore(SqliteStore):
    """Gets a new session at some of its reads, each time with a server that knows nothing new.

    `sync` lets that server catch up.
    """

    def __init__(self, path: Path, changes: set[int]) -> None:
        super().__init__(path, ManualClock())
        self.session, self.reads, self.changes = 1, 0, changes
        self.is_behind = False
        self.hidden: Callable[[str], bool] = lambda _: False

    @property
    @override
    def session_id(self) -> int:
        return self.session

    def _count(self) -> None:
        self.reads += 1
        if self.reads in self.changes:
            self.session += 1
            self.is_behind = True

    @override
    async def sync(self) -> None:
        await super().sync()
        self.is_behind = False
        self._count()

    @override
    async def get(self, path: str, watch: Watch | None = None) -> Node:
        self._count()
        if self.is_behind and self.hidden(path):
            raise NoNode(path)
        return await super().get(path, watch)

    @override
    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        self._count()
        return None if self.is_behind and self.hidden(path) else await super().exists(path, watch)

    @override
    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._count()
        names = await super().children(path, watch)
        return [each for each in names if not (self.is_behind and self.hidden(f"{path}/{each}"))]


def run_lagging(
    path: Path, changes: set[int], story: Callable[[LaggingStore], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        store = LaggingStore(path / "m", set())
        try:
            await store.create("/ns")
            await initialize_layout(store, instance_id="one")
            for each in IDS:
                await store.create(LedgerPaths().ledger(LedgerId(each)), parents=True)
            store.reads, store.changes = 0, changes
            await story(store)
        finally:
            await store.close()

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("at", range(1, 14))
def test_no_ledger_is_missing_from_a_listing_over_two_sessions(tmp_path: Path, at: int) -> None:
    async def story(store: LaggingStore) -> None:
        store.hidden = lambda path: "L" in path and path.startswith("/ledgers/")
        assert await all_ledgers(store, "/ledgers", "one") == set(IDS)

    run_lagging(tmp_path, {at}, story)


def test_sessions_that_keep_changing_say_nothing(tmp_path: Path) -> None:
    async def story(store: LaggingStore) -> None:
        store.hidden = lambda path: path.startswith("/ledgers/")
        with pytest.raises(Unavailable, match="session"):
            await all_ledgers(store, "/ledgers", "one")

    run_lagging(tmp_path, set(range(1, 100)), story)


def test_a_node_that_is_missing_in_one_session_is_not_there(tmp_path: Path) -> None:
    async def story(store: LaggingStore) -> None:
        with pytest.raises(NoNode):
            await read_current(store, lambda: store.get("/nowhere"))

    run_lagging(tmp_path, set(), story)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_log_that_is_there_is_not_taken_for_absent(tmp_path: Path, at: int) -> None:
    async def story(store: LaggingStore) -> None:
        paths = LogPaths("/ns", "s")
        changes, store.changes = store.changes, set()
        await make_stream(store, paths)
        store.hidden = lambda path: path.startswith(paths.log)
        store.reads, store.changes = 0, changes
        store.is_behind = True
        assert await stream_exists(store, paths)

    run_lagging(tmp_path, {at}, story)
