"""Positions of subscribers, on each kind of store."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, NotEmpty
from tailrace.core.log.stream_nodes import make_stream
from tailrace.core.log.subscribers import Subscribers
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.distributedlog.dlsn import DLSN, NON_INCLUSIVE_LOWER_BOUND
from tests.unit.core.metadata.conftest import run as run
from tests.unit.core.metadata.golden_nodes import golden_nodes

PATHS = LogPaths("/ns", "s")
Run = Callable[[Callable[[MetadataStore], Coroutine[Any, Any, None]]], None]


def test_positions_go_forward(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, PATHS)
        subscribers = Subscribers(store, PATHS)
        assert await subscribers.last_commits() == {}
        assert await subscribers.last_commit("a") == NON_INCLUSIVE_LOWER_BOUND
        assert await subscribers.advance("a", DLSN(1, 2, 3)) == DLSN(1, 2, 3)
        node = await store.get(f"{PATHS.subscribers}/a")
        assert node.data == DLSN(1, 2, 3).serialize().encode()
        assert await subscribers.advance("a", DLSN(1, 2, 2)) == DLSN(1, 2, 3)
        assert await subscribers.advance("a", DLSN(2, 0, 0)) == DLSN(2, 0, 0)
        await subscribers.advance("b c;1", DLSN(1, 0, 0))
        await store.create(f"{PATHS.subscribers}/new")  # Java makes it before it has a position
        assert await subscribers.last_commits() == {
            "a": DLSN(2, 0, 0),
            "b c;1": DLSN(1, 0, 0),
            "new": NON_INCLUSIVE_LOWER_BOUND,
        }
        await subscribers.advance("new", DLSN(1, 0, -1))
        assert (await store.get(f"{PATHS.subscribers}/new")).version == 1

    run(story)


def test_of_racing_positions_the_highest_stays(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, PATHS)
        subscribers = Subscribers(store, PATHS)
        async with asyncio.TaskGroup() as group:
            for entry in (3, 1, 4, 2):
                group.create_task(subscribers.advance("a", DLSN(1, entry, 0)))
        assert await subscribers.last_commit("a") == DLSN(1, 4, 0)

    run(story)


def test_deletion_takes_the_read_lock_unless_it_is_held(run: Run) -> None:
    """Java's deleteSubscriber fails once the readLock node is there (reference 0)."""

    async def story(store: MetadataStore) -> None:
        await make_stream(store, PATHS)
        subscribers = Subscribers(store, PATHS)
        await subscribers.advance("a", DLSN(1, 0, 0))
        lock = f"{PATHS.subscribers}/a/readLock"
        await store.create(lock)
        member = await store.create(f"{lock}/member_", ephemeral=True, sequential=True)
        with pytest.raises(NotEmpty, match="is reading"):
            await subscribers.delete("a")
        await store.delete(member)
        assert await subscribers.delete("a")
        assert not await subscribers.delete("a")
        assert await subscribers.last_commits() == {}

    run(story)


def test_what_is_no_position_or_no_id_is_refused(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await make_stream(store, PATHS)
        subscribers = Subscribers(store, PATHS)
        await store.create(f"{PATHS.subscribers}/a", b"not base64", parents=True)
        for call in (subscribers.last_commit("a"), subscribers.advance("a", DLSN(1, 0, 0))):
            with pytest.raises(CorruptData, match="subscriber a"):
                await call
        with pytest.raises(CorruptData):
            await subscribers.last_commits()
        for bad in ("", "a/b", ".", "..", "a\0"):
            with pytest.raises(ValueError, match="id of a subscriber"):
                await subscribers.last_commit(bad)

    run(story)


def test_what_java_wrote_is_read(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        paths = LogPaths("/messaging/ns", "lay-subs")
        wrote = {
            path: node.data
            for path, node in golden_nodes().items()
            if path.startswith(f"{paths.subscribers}/") and not path.endswith("readLock")
        }
        assert wrote
        for path, data in wrote.items():
            await store.create(path, data, parents=True)
        positions = await Subscribers(store, paths).last_commits()
        assert {f"{paths.subscribers}/{name}" for name in positions} == set(wrote)
        for name, position in positions.items():
            assert wrote[f"{paths.subscribers}/{name}"] in (b"", position.serialize().encode())

    run(story)
