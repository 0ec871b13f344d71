"""The nodes of a log as a whole, on each kind of store."""

from collections.abc import Callable, Coroutine, Iterator
from itertools import combinations
from typing import Any

import pytest

from tailrace.core.errors import (
    CorruptData,
    LogExists,
    LogNotFound,
    MetadataConflict,
    NotEmpty,
    OverCapacity,
    OwnershipAcquireFailed,
    Unavailable,
)
from tailrace.core.log.stream_nodes import (
    delete_stream,
    make_stream,
    mend_stream,
    move_stream,
    stream_exists,
)
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_below
from tailrace.core.metadata.store import MetadataStore, Watch
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.metadata.conftest import run as run

NS = "/ns"
OLD, NEW = LogPaths(NS, "a/old"), LogPaths(NS, "b/new")
Run = Callable[[Callable[[MetadataStore], Coroutine[Any, Any, None]]], None]


async def tree(store: MetadataStore, root: str = NS) -> dict[str, bytes]:
    """Everything below a root: path -> data."""
    return {path: (await store.get(path)).data for path in await read_below(store, root)}


async def written(store: MetadataStore, paths: LogPaths = OLD) -> None:
    """A log with two segments, application data and a subscriber."""
    await make_stream(store, paths)
    await store.set(paths.log, b"application")
    await store.set(paths.max_txid, b"7")
    await store.set(paths.segments, b"2")
    await store.create(paths.segment("logrecs_000000000000000001"), b"one")
    await store.create(paths.segment("inprogress_000000000000000002"), b"two")
    await store.create(f"{paths.subscribers}/x", b"DLSN", parents=True)


def renamed(nodes: dict[str, bytes]) -> dict[str, bytes]:
    return {path.replace(OLD.log, NEW.log): data for path, data in nodes.items()}


def subsets(paths: list[str]) -> Iterator[tuple[str, ...]]:
    for count in range(1, len(paths) + 1):
        yield from combinations(paths, count)


def test_every_subset_of_missing_nodes_is_made_whole(run: Run) -> None:
    parts = [path for path, _ in OLD.initial_nodes()[2:]]

    async def story(store: MetadataStore) -> None:
        await make_stream(store, OLD)
        whole = await tree(store)
        for missing in subsets(parts):
            for path in missing:
                await store.delete(path)
            await mend_stream(store, OLD)
            left = await tree(store)
            if missing == (OLD.allocation,):
                await store.create(OLD.allocation)  # who writes makes it: a reader need not
            else:
                assert left == whole, missing
        for path in [*parts, OLD.partition]:
            await store.delete(path)
        with pytest.raises(LogNotFound):
            await mend_stream(store, OLD)
        await make_stream(store, OLD)
        assert await tree(store) == whole

    run(story)


def test_what_looks_begun_and_is_not_is_refused(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, OLD)
        await store.set(OLD.version, b"\xff\xff\xff\xfe")
        with pytest.raises(CorruptData, match="unknown log layout"):
            await mend_stream(store, OLD)
        await store.set(OLD.version, b"\xff\xff\xff\xff")
        await store.set(OLD.max_txid, b"7")
        await store.delete(OLD.segments)
        with pytest.raises(CorruptData, match="written to"):
            await mend_stream(store, OLD)
        assert not await stream_exists(store, OLD)

    run(story)


def test_others_that_mend_at_the_same_time_are_let(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, OLD)
        await store.delete(OLD.lock)
        await store.delete(OLD.version)
        faulty = FaultyStore(store)

        async def before(number: int) -> None:
            if number == 0:
                await store.create(OLD.lock)

        faulty.before = before
        await mend_stream(faulty, OLD)
        assert faulty.changes == 2
        assert await store.exists(OLD.version) is not None

    run(story)


def test_a_move_takes_everything(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await written(store)
        before = await tree(store, OLD.log)
        await move_stream(store, OLD, NEW)
        assert await tree(store, NEW.log) == renamed(before)
        assert (await store.get(NEW.log)).data == b"application"
        assert await store.exists(OLD.log) is None
        with pytest.raises(LogNotFound):
            await move_stream(store, OLD, NEW)
        await make_stream(store, OLD)
        with pytest.raises(LogExists):
            await move_stream(store, OLD, NEW)

    run(story)


def test_logs_below_a_moved_one_stay(run: Run) -> None:
    below, inner = LogPaths(NS, "a/old/below"), LogPaths(NS, "a/old/new")

    async def story(store: MetadataStore) -> None:
        await written(store)
        await make_stream(store, below)
        await move_stream(store, OLD, NEW)
        assert await stream_exists(store, below)
        assert (await store.get(OLD.log)).data == b""
        await move_stream(store, NEW, OLD)  # what is between two logs may become one
        assert (await store.get(OLD.log)).data == b"application"
        await delete_stream(store, below)
        await move_stream(store, OLD, inner)
        assert (await store.get(inner.segments)).data == b"2"
        assert await store.exists(OLD.partition) is None

    run(story)


@pytest.mark.parametrize("lock", [OLD.lock, OLD.read_lock])
def test_a_locked_log_is_neither_moved_nor_removed(run: Run, lock: str) -> None:
    async def story(store: MetadataStore) -> None:
        await written(store)
        await store.create(f"{lock}/member_x_s1_", b"the owner", ephemeral=True, sequential=True)
        before = await tree(store, OLD.log)
        for change in (move_stream(store, OLD, NEW), delete_stream(store, OLD)):
            with pytest.raises(OwnershipAcquireFailed, match="the owner") as refused:
                await change
            assert refused.value.current_owner == "the owner"
        assert await tree(store, OLD.log) == before
        assert not await stream_exists(store, NEW)

    run(story)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("lock", [OLD.rewrite_lock, f"{OLD.subscribers}/sub/readLock"])
def test_no_lock_moves_with_a_log(run: Run, lock: str, *, is_late: bool) -> None:
    """Made anew at the new name its members would belong to no session, and stay for ever."""

    async def story(store: MetadataStore) -> None:
        await written(store)
        await store.create(lock, parents=True)
        faulty = FaultyStore(store)

        async def come(_number: int) -> None:
            if not await store.children(lock):
                member = f"{lock}/member_x_s1_"
                await store.create(member, b"the owner", ephemeral=True, sequential=True)

        if is_late:
            faulty.before = come
        else:
            await come(0)
        with pytest.raises(OwnershipAcquireFailed, match="the owner"):
            await move_stream(faulty, OLD, NEW)
        assert not await stream_exists(store, NEW)
        (member,) = await store.children(lock)
        await store.delete(f"{lock}/{member}")
        await move_stream(store, OLD, NEW)
        assert await store.children(lock.replace(OLD.log, NEW.log)) == []

    run(story)


@pytest.mark.parametrize("comings", [1, 100])
def test_who_only_looked_into_a_lock_is_in_nobodys_way(run: Run, comings: int) -> None:
    """It is there when the log is to be removed, and gone when somebody asks who that is."""

    async def story(store: MetadataStore) -> None:
        await written(store)
        faulty = FaultyStore(store)
        members: list[str] = []

        async def come(number: int) -> None:
            if number < comings:
                path = f"{OLD.lock}/member_x_s1_"
                members.append(await store.create(path, ephemeral=True, sequential=True))

        async def children(path: str, watch: Watch | None = None) -> list[str]:
            while members and path == OLD.lock:
                await store.delete(members.pop())
            return await store.children(path, watch)

        faulty.before = come
        faulty.children = children  # type: ignore[method-assign]
        if comings > 10:
            with pytest.raises(NotEmpty):
                await delete_stream(faulty, OLD)
        else:
            await delete_stream(faulty, OLD)
        assert await stream_exists(store, OLD) == (comings > 10)

    run(story)


def test_a_log_that_changes_while_it_is_moved_is_not_torn(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, LogPaths(NS, "b/other"))
        changes = (
            lambda: store.set(OLD.max_txid, b"8"),
            lambda: store.create(OLD.segment("logrecs_000000000000000003"), b"three"),
            lambda: store.delete(OLD.segment("inprogress_000000000000000002")),
            lambda: store.set(OLD.log, b"other application"),
        )
        for change in changes:
            await written(store)
            faulty = FaultyStore(store)

            async def before(_number: int, change: Any = change) -> None:
                await change()

            faulty.before = before
            with pytest.raises(MetadataConflict):
                await move_stream(faulty, OLD, NEW)
            assert not await stream_exists(store, NEW)
            await delete_stream(store, OLD)

    run(story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_leaves_a_moved_log_under_one_name(run: Run, *, applied: bool) -> None:
    async def story(store: MetadataStore) -> None:
        for change in range(3):
            await written(store)
            before = await tree(store, OLD.log)
            faulty = FaultyStore(store)
            faulty.die_at(change, applied=applied)
            try:
                await move_stream(faulty, OLD, NEW)
            except Unavailable:
                moved = await stream_exists(store, NEW)
            else:
                assert change > 0
                moved = True
            assert moved != await stream_exists(store, OLD)
            now = NEW if moved else OLD
            assert await tree(store, now.log) == (renamed(before) if moved else before)
            await delete_stream(store, now)

    run(story)


def test_more_than_one_multi_takes_is_refused_whole(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await written(store)
        for number in range(4):
            await store.create(OLD.segment(f"logrecs_{number + 10:018d}"), b"x" * 300_000)
        with pytest.raises(OverCapacity):
            await move_stream(store, OLD, NEW)
        assert await stream_exists(store, OLD)
        assert not await stream_exists(store, NEW)

    run(story)
