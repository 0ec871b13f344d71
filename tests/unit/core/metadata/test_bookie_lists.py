"""The lists of bookies, while one of them changes its mode between the reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from tailrace.core.errors import NoNode
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.metadata.bookie_lists import BookieLists, read_bookie_lists
from tailrace.core.metadata.cluster import find_cluster
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.store import MetadataStore, Watch
from tailrace.protocol.ids import BookieId
from tailrace.simulation.metadata import MetadataServer
from tests.unit.core.ledger.fast_world import InstantLoop

PATHS = LedgerPaths()
A, B, C = map(BookieId, ("a:1", "b:1", "c:1"))


@asynccontextmanager
async def turning(path: str, number: int, old: str, new: str) -> AsyncIterator[MetadataStore]:
    """A store in which a bookie changes its mode just before the list `path` is read again.

    `number`: before which reading of that list, from 1.
    """
    server = MetadataServer(Random(1))
    store: Any = server.open()
    other = server.open()
    await initialize_layout(other)
    await other.create(old, ephemeral=True)
    children, turn, reads = store.children, asyncio.Lock(), []

    async def in_turn(at: str, watch: Watch | None = None) -> list[str]:
        async with turn:
            reads.append(at)
            if at == path and reads.count(path) == number:
                await other.create(new, ephemeral=True)
                await other.delete(old)
            return list(await children(at, watch))

    store.children = in_turn
    yield store
    await store.close()


MOVES = pytest.mark.parametrize(
    ("path", "number"),
    [(PATHS.available, 1), (PATHS.read_only, 1), (PATHS.available, 2)],
    ids=["first", "second", "third"],
)
WAYS = pytest.mark.parametrize(
    ("old", "new"),
    [
        (PATHS.read_only_bookie(A), PATHS.bookie(A)),
        (PATHS.bookie(A), PATHS.read_only_bookie(A)),
    ],
    ids=["to-writable", "to-read-only"],
)


@MOVES
@WAYS
def test_who_changes_his_mode_is_always_registered(
    path: str, number: int, old: str, new: str
) -> None:
    async def story() -> None:
        async with turning(path, number, old, new) as store:
            writable, read_only = await read_bookie_lists(store, PATHS)
            assert writable + read_only == (A,)
        async with turning(path, number, old, new) as store:
            info = await find_cluster(store, PATHS.root)
            assert info is not None
            assert info.registered == (A,)
        async with turning(path, number, old, new) as store:
            bookies = RegisteredBookies(store)
            assert await bookies.registered() == [A]
            await bookies.close()

    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        runner.run(story())


def test_each_is_in_one_list(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        with pytest.raises(NoNode):
            await read_bookie_lists(store, PATHS)
        await store.create(PATHS.bookie(C), parents=True)
        await store.create(PATHS.bookie(B))
        assert await read_bookie_lists(store, PATHS) == ((B, C), ())  # an old cluster
        fired = asyncio.Event()
        await read_bookie_lists(store, PATHS, lambda *_: fired.set())
        await store.create(PATHS.read_only_bookie(A), parents=True)
        await fired.wait()
        await store.create(PATHS.read_only_bookie(B))
        assert await read_bookie_lists(store, PATHS) == BookieLists((B, C), (A,))
        await store.delete(PATHS.bookie(B))
        fired.clear()
        assert await read_bookie_lists(store, PATHS, lambda *_: fired.set()) == ((C,), (A, B))
        await store.delete(PATHS.read_only_bookie(B))
        await fired.wait()

    run(story)
