"""What every metadata store must do: run against SQLite here, against ZooKeeper in step 2.

A test class inherits from `MetadataStoreContract` and gives it `open_store` (a new store on a fresh
tree) and `reopen` (a new session on the tree of an earlier store whose session has ended).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tailrace.core.errors import (
    BadVersion,
    MetadataConflict,
    NodeExists,
    NoNode,
    NotEmpty,
    OverCapacity,
    Unavailable,
)
from tailrace.core.metadata.store import (
    NODE_BYTES_MAX,
    Check,
    Create,
    Delete,
    MetadataStore,
    SetData,
    WatchEvent,
)

Opener = Callable[[], Awaitable[MetadataStore]]


class WatchLog:
    def __init__(self) -> None:
        self.seen: list[tuple[str, WatchEvent]] = []
        self._changed = asyncio.Event()

    def __call__(self, path: str, event: WatchEvent) -> None:
        self.seen.append((path, event))
        self._changed.set()

    async def first(self) -> tuple[str, WatchEvent]:
        async with asyncio.timeout(10):
            await self._changed.wait()
        return self.seen[0]


async def check_order(store: MetadataStore) -> None:
    """Call several operations on the empty node "/a" at once: each sees those before it only."""
    async with asyncio.TaskGroup() as group:
        before = group.create_task(store.get_all(["/a", "/a/b"]))
        group.create_task(store.set("/a", b"new"))
        group.create_task(store.create("/a/b"))
        after = group.create_task(store.get_all(["/a", "/a/b"]))
        children = group.create_task(store.children("/a"))
        group.create_task(store.delete("/a/b"))
    assert [each and each.data for each in before.result()] == [b"", None]
    assert [each and each.data for each in after.result()] == [b"new", b""]
    assert children.result() == ["b"]


class MetadataStoreContract:
    async def open_store(self) -> MetadataStore:
        raise AssertionError("the test class gives this")

    async def reopen(self) -> MetadataStore:
        raise AssertionError("the test class gives this")

    def run(self, story: Callable[[MetadataStore], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            store = await self.open_store()
            try:
                await story(store)
            finally:
                await store.close()

        asyncio.run(main(), debug=True)

    def test_created_node_is_read_back(self) -> None:
        async def story(store: MetadataStore) -> None:
            assert await store.create("/a", b"one") == "/a"
            node = await store.get("/a")
            assert (node.data, node.version, node.ephemeral_owner) == (b"one", 0, 0)
            assert node.ctime_ms == node.mtime_ms
            assert await store.exists("/a") == node
            assert await store.exists("/b") is None

        self.run(story)

    def test_missing_node_is_told(self) -> None:
        async def story(store: MetadataStore) -> None:
            with pytest.raises(NoNode):
                await store.get("/none")
            with pytest.raises(NoNode):
                await store.children("/none")
            with pytest.raises(NoNode):
                await store.set("/none", b"")
            with pytest.raises(NoNode):
                await store.delete("/none")
            with pytest.raises(NoNode):
                await store.create("/none/child")

        self.run(story)

    def test_several_nodes_are_read_at_once(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"one")
            await store.create("/a/b", b"")
            await store.set("/a", b"two", 0)
            paths = ["/none", "/a", "/", "/a/none", "/a/b", "/a"]
            one_by_one = [await store.exists(path) for path in paths]
            assert await store.get_all(paths) == one_by_one
            assert [each and each.data for each in one_by_one[:2]] == [None, b"two"]
            assert await store.get_all([]) == []

        self.run(story)

    def test_operations_take_effect_in_the_order_of_their_calls(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a")
            await check_order(store)

        self.run(story)

    def test_no_node_is_created_twice(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"one")
            with pytest.raises(NodeExists):
                await store.create("/a", b"two")
            with pytest.raises(NodeExists):
                await store.create("/a", b"two", parents=True)
            assert (await store.get("/a")).data == b"one"

        self.run(story)

    def test_parents_are_made_on_request(self) -> None:
        async def story(store: MetadataStore) -> None:
            assert await store.create("/a/b/c", b"x", parents=True) == "/a/b/c"
            assert (await store.get("/a/b")).data == b""
            assert await store.children("/a") == ["b"]
            await store.create("/a/b/d", parents=True)
            assert await store.children("/a/b") == ["c", "d"]

        self.run(story)

    def test_children_are_sorted_names(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/p")
            for name in ("b", "a", "C", "a0"):
                await store.create(f"/p/{name}")
            await store.create("/p/a/deeper")
            await store.create("/pq")
            assert await store.children("/p") == ["C", "a", "a0", "b"]
            assert "p" in await store.children("/")

        self.run(story)

    def test_versions_rise_and_are_checked(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"0")
            assert await store.set("/a", b"1") == 1
            assert await store.set("/a", b"2", version=1) == 2
            with pytest.raises(BadVersion):
                await store.set("/a", b"3", version=1)
            with pytest.raises(BadVersion):
                await store.delete("/a", version=1)
            assert (await store.get("/a")).data == b"2"
            await store.delete("/a", version=2)
            assert await store.exists("/a") is None

        self.run(story)

    def test_version_starts_again_with_a_new_node(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a")
            await store.set("/a", b"x")
            await store.delete("/a")
            await store.create("/a")
            assert (await store.get("/a")).version == 0

        self.run(story)

    def test_node_with_children_stays(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a/b", parents=True)
            with pytest.raises(NotEmpty):
                await store.delete("/a")
            await store.delete("/a/b")
            await store.delete("/a")

        self.run(story)

    def test_cversion_counts_changes_of_the_children(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/p")
            await store.create("/p/a")
            await store.set("/p/a", b"not a change of the list")
            await store.create("/p/b")
            await store.delete("/p/a")
            assert (await store.get("/p")).cversion == 3
            assert (await store.get("/p")).version == 0

        self.run(story)

    def test_sequential_names_count_all_creations_and_are_never_reused(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/q")
            assert await store.create("/q/n-", sequential=True) == "/q/n-0000000000"
            assert await store.create("/q/m-", sequential=True) == "/q/m-0000000001"
            await store.create("/q/plain")
            await store.delete("/q/m-0000000001")
            await store.delete("/q/plain")
            assert await store.create("/q/n-", sequential=True) == "/q/n-0000000003"
            assert await store.create("/q/", sequential=True) == "/q/0000000004"

        self.run(story)

    def test_ephemeral_nodes_belong_to_the_session_and_go_with_it(self) -> None:
        async def main() -> None:
            store = await self.open_store()
            await store.create("/kept")
            await store.create("/kept/gone", ephemeral=True)
            path = await store.create("/kept/seq-", ephemeral=True, sequential=True)
            node = await store.get(path)
            assert node.ephemeral_owner == store.session_id != 0
            with pytest.raises(MetadataConflict):
                await store.create("/kept/gone/child")
            former = store.session_id
            await store.close()
            store = await self.reopen()
            try:
                assert store.session_id != former
                assert await store.children("/kept") == []
                made = await store.create("/kept/seq-", sequential=True)
                assert made == "/kept/seq-0000000002"
            finally:
                await store.close()

        asyncio.run(main(), debug=True)

    def test_multi_happens_whole(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"old")
            await store.create("/b")
            versions = await store.multi(
                [
                    Check("/a", 0),
                    SetData("/a", b"new", 0),
                    Create("/c", b"made"),
                    SetData("/c", b"set"),
                    Delete("/b", 0),
                    Create("/c/d"),
                ]
            )
            assert versions == [-1, 1, 0, 1, -1, 0]
            assert (await store.get("/a")).data == b"new"
            assert (await store.get("/c")).data == b"set"
            assert await store.exists("/b") is None
            assert await store.multi([]) == []

        self.run(story)

    def test_an_ephemeral_node_takes_the_place_of_another_at_once(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"old")
            await store.create("/kept")
            new = Create("/a", b"new", ephemeral=True)
            assert await store.multi([Delete("/a", 0), new, Create("/kept/b")]) == [-1, 0, 0]
            node = await store.get("/a")
            assert (node.data, node.version) == (b"new", 0)
            assert node.ephemeral_owner == store.session_id
            assert (await store.get("/kept/b")).ephemeral_owner == 0
            with pytest.raises(BadVersion):
                await store.multi([Delete("/a", 7), new])
            assert (await store.get("/a")).data == b"new"

        self.run(story)

    @pytest.mark.parametrize(
        ("last", "error"),
        [
            (Check("/a", 7), BadVersion),
            (SetData("/a", b"x", 7), BadVersion),
            (Delete("/a", 7), BadVersion),
            (Delete("/made"), NotEmpty),
            (Create("/a"), NodeExists),
            (Create("/none/x"), NoNode),
            (Check("/none", 0), NoNode),
        ],
    )
    def test_multi_happens_not_at_all(self, last: Any, error: type[MetadataConflict]) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            await store.create("/a", b"old")
            await store.exists("/made", watch)
            with pytest.raises(error, match=type(last).__name__):
                await store.multi([Create("/made"), Create("/made/x"), SetData("/a", b"new"), last])
            assert (await store.get("/a"))[:2] == (b"old", 0)
            assert await store.exists("/made") is None
            assert watch.seen == []

        self.run(story)

    def test_data_watch_fires_once(self) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            await store.create("/a")
            await store.get("/a", watch)
            await store.exists("/a", watch)
            await store.set("/a", b"1")
            assert await watch.first() == ("/a", WatchEvent.CHANGED)
            await store.set("/a", b"2")
            await store.get("/a")
            assert watch.seen == [("/a", WatchEvent.CHANGED)]

        self.run(story)

    def test_watch_of_a_missing_node_sees_it_come(self) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            assert await store.exists("/a", watch) is None
            await store.create("/a")
            assert await watch.first() == ("/a", WatchEvent.CREATED)

        self.run(story)

    def test_failed_get_sets_no_watch(self) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            with pytest.raises(NoNode):
                await store.get("/a", watch)
            await store.create("/a")
            await store.get("/a")
            assert watch.seen == []

        self.run(story)

    def test_delete_fires_data_and_child_watches(self) -> None:
        async def story(store: MetadataStore) -> None:
            data, children, parent = WatchLog(), WatchLog(), WatchLog()
            await store.create("/p/a", parents=True)
            await store.get("/p/a", data)
            await store.children("/p/a", children)
            await store.children("/p", parent)
            await store.delete("/p/a")
            assert await data.first() == ("/p/a", WatchEvent.DELETED)
            assert await children.first() == ("/p/a", WatchEvent.DELETED)
            assert await parent.first() == ("/p", WatchEvent.CHILDREN)

        self.run(story)

    def test_child_watch_ignores_data(self) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            await store.create("/p/a", parents=True)
            await store.children("/p", watch)
            await store.set("/p", b"x")
            await store.set("/p/a", b"x")
            assert watch.seen == []
            await store.create("/p/b")
            assert await watch.first() == ("/p", WatchEvent.CHILDREN)

        self.run(story)

    def test_own_watch_event_comes_before_the_answer(self) -> None:
        async def story(store: MetadataStore) -> None:
            watch = WatchLog()
            await store.create("/a")
            await store.get("/a", watch)
            await store.set("/a", b"1")
            assert watch.seen == [("/a", WatchEvent.CHANGED)]

        self.run(story)

    def test_concurrent_operations_keep_the_order_of_their_calls(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a")
            async with asyncio.TaskGroup() as group:
                sets = [group.create_task(store.set("/a", b"%d" % i)) for i in range(50)]
            assert [task.result() for task in sets] == list(range(1, 51))
            assert (await store.get("/a")).data == b"49"

        self.run(story)

    def test_racing_versioned_sets_have_one_winner(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a")

            async def try_set(data: bytes) -> bool:
                try:
                    await store.set("/a", data, version=0)
                except BadVersion:
                    return False
                return True

            async with asyncio.TaskGroup() as group:
                tries = [group.create_task(try_set(b"%d" % i)) for i in range(20)]
            assert sum(task.result() for task in tries) == 1

        self.run(story)

    def test_cancelled_waiter_disturbs_nobody(self) -> None:
        async def story(store: MetadataStore) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(store.create("/a")).cancel()
                group.create_task(store.create("/b"))
            assert await store.exists("/b") is not None

        self.run(story)

    def test_sync_comes_after_what_was_asked_before(self) -> None:
        async def story(store: MetadataStore) -> None:
            async with asyncio.TaskGroup() as group:
                made = group.create_task(store.create("/a"))
                synced = group.create_task(store.sync())
                await asyncio.wait([synced])
                assert made.done()

        self.run(story)

    def test_node_holds_a_megabyte_and_not_more(self) -> None:
        async def story(store: MetadataStore) -> None:
            full, half = bytes(NODE_BYTES_MAX), bytes(NODE_BYTES_MAX // 2 + 1)
            await store.create("/a", full)
            assert await store.set("/a", full) == 1
            await store.multi([SetData("/a", full)])
            assert (await store.get("/a")).data == full
            with pytest.raises(OverCapacity):
                await store.create("/b", full + b"x")
            with pytest.raises(OverCapacity):
                await store.set("/a", full + b"x")
            with pytest.raises(OverCapacity):
                await store.multi([SetData("/a", half), Create("/b", half)])
            with pytest.raises(OverCapacity):
                await store.multi([Check("/a", 2)] * 20_000)
            assert await store.multi([Check("/a", 2)] * 10_000) == [-1] * 10_000
            assert await store.children("/a") == []

        self.run(story)

    @pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a/../b", "/."])
    def test_what_is_no_path_is_our_bug(self, path: str) -> None:
        async def story(store: MetadataStore) -> None:
            for ask in (
                store.get(path),
                store.exists(path),
                store.children(path),
                store.create(path),
                store.set(path, b""),
                store.delete(path),
                store.multi([Create(path)]),
            ):
                with pytest.raises(ValueError, match="not a node path"):
                    await ask

        self.run(story)

    def test_root_stays(self) -> None:
        async def story(store: MetadataStore) -> None:
            with pytest.raises(NotEmpty):
                await store.delete("/")

        self.run(story)

    def test_closed_store_refuses(self) -> None:
        async def main() -> None:
            store = await self.open_store()
            await store.create("/a")
            await store.close()
            await store.close()
            with pytest.raises(Unavailable):
                await store.get("/a")
            with pytest.raises(Unavailable):
                await store.set("/a", b"")

        asyncio.run(main(), debug=True)

    def test_nodes_outlive_their_store(self) -> None:
        async def main() -> None:
            store = await self.open_store()
            await store.create("/a/b", b"data \x00\xff", parents=True)
            await store.set("/a/b", bytes(range(256)) * 64)
            await store.close()
            store = await self.reopen()
            try:
                node = await store.get("/a/b")
                assert (node.data, node.version) == (bytes(range(256)) * 64, 1)
            finally:
                await store.close()

        asyncio.run(main(), debug=True)
