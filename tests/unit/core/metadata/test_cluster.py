import asyncio
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, NodeExists, NoNode, NotEmpty
from tailrace.core.metadata.cluster import check_cluster, find_cluster, init_cluster, nuke_cluster
from tailrace.core.metadata.layout import LAYOUT_TEXT, LedgerPaths
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.ids import BookieId, LedgerId

ROOT = "/deep/ledgers"
PATHS = LedgerPaths(ROOT)
B1 = BookieId("b1:3181")


async def everything(store: MetadataStore, path: str = "/") -> list[str]:
    found = []
    for name in await store.children(path):
        below = f"{path.rstrip('/')}/{name}"
        if below != "/zookeeper":
            found += [below, *await everything(store, below)]
    return found


def test_new_cluster_is_what_a_start_finds(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        assert await find_cluster(store, ROOT) is None
        with pytest.raises(NoNode, match="no cluster"):
            await check_cluster(store, ROOT)
        await init_cluster(store, ROOT, "id-1")
        assert await check_cluster(store, ROOT) == "id-1"
        assert await initialize_layout(store, ROOT, instance_id="other") == "id-1"
        info = await find_cluster(store, ROOT)
        assert info is not None
        assert (info.instance_id, info.layout) == ("id-1", LAYOUT_TEXT.decode())
        assert info.registered == info.cookies == ()

    run(story)


def test_existing_cluster_is_never_begun_anew(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await init_cluster(store, ROOT, "id-1")
        with pytest.raises(NodeExists, match=f"{ROOT} holds cluster id-1"):
            await init_cluster(store, ROOT, "id-2")
        assert await check_cluster(store, ROOT) == "id-1"
        await store.create("/mine/own", parents=True)
        with pytest.raises(NodeExists, match="/mine holds other data"):
            await init_cluster(store, "/mine", "id-3")
        assert await store.children("/mine") == ["own"]

    run(story)


def test_racing_beginners_have_one_winner(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        async def begin(name: str) -> bool:
            try:
                await init_cluster(store, ROOT, name)
            except NodeExists:
                return False
            return True

        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(begin(f"id-{i}")) for i in range(5)]
        assert sum(task.result() for task in tries) == 1

    run(story)


def test_nuke_leaves_nothing_of_the_cluster_and_everything_else(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await init_cluster(store, ROOT, "id-1")
        for ledger_id in (0, 1, 99_999, 2**40):
            await store.create(PATHS.ledger(LedgerId(ledger_id)), b"x", parents=True)
        await store.create(PATHS.cookie(B1), b"x")
        await store.create("/deep/other/kept", parents=True)
        with pytest.raises(NotEmpty, match="id-1"):
            await nuke_cluster(store, ROOT, "id-2")
        await nuke_cluster(store, ROOT, "id-1")
        assert await everything(store) == ["/deep", "/deep/other", "/deep/other/kept"]
        with pytest.raises(NoNode, match="nothing"):
            await nuke_cluster(store, ROOT, None)
        await init_cluster(store, ROOT, "id-2")

    run(story)


@pytest.mark.parametrize("path", [PATHS.bookie(B1), PATHS.read_only_bookie(B1)])
def test_cluster_with_running_bookies_is_not_nuked(run: Any, path: str) -> None:
    async def story(store: MetadataStore) -> None:
        await init_cluster(store, ROOT, "id-1")
        await store.create(path, b"", ephemeral=True)
        before = await everything(store)
        with pytest.raises(NodeExists, match=B1):
            await nuke_cluster(store, ROOT, None)
        assert await everything(store) == before

    run(story)


def test_cut_nuke_can_be_repeated(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await init_cluster(store, ROOT, "id-1")
        await store.delete(PATHS.read_only)
        await store.delete(PATHS.available)
        await store.delete(PATHS.layout)
        await nuke_cluster(store, ROOT, "id-1")
        assert await find_cluster(store, ROOT) is None

    run(story)


@pytest.mark.parametrize("kind", ["Flat", "LongHierarchical", "LegacyHierarchical"])
def test_other_layout_is_refused_by_name(run: Any, kind: str) -> None:
    async def story(store: MetadataStore) -> None:
        await init_cluster(store, ROOT, "id-1")
        factory = f"org.apache.bookkeeper.meta.{kind}LedgerManagerFactory"
        await store.set(PATHS.layout, f"2\n{factory}:1".encode())
        with pytest.raises(CorruptData, match=factory):
            await check_cluster(store, ROOT)
        await store.delete(PATHS.layout)  # BookKeeper then means the hierarchical one
        assert await check_cluster(store, ROOT) == "id-1"

    run(story)
