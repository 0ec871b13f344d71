"""Entities in the metadata store: all processes see all changes, and none sees half of one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tailrace.core.errors import CorruptData, MetadataConflict
from tailrace.core.metadata.entity_nodes import entity_node
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Op
from tailrace.core.metadata.stored_entities import EntityCodec, StoredEntities
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.loop_turns import PIECE_UNITS, LoopTurns, Pace

WITHIN_S = 10
NAMES = ["alice", "", ".hidden", "Ä/..", "a b%2F"]


def _decode(path: str, data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptData(path) from error


CODEC = EntityCodec[str](str.encode, _decode)


class Two(NamedTuple):
    store: SqliteStore
    mine: StoredEntities[str]
    theirs: StoredEntities[str]


@asynccontextmanager
async def two(at: Path) -> AsyncIterator[Two]:
    store = SqliteStore(at / "metadata.db", ManualClock())
    both = [StoredEntities(store, "/t/users", CODEC) for _ in range(2)]
    for each in both:
        await each.start()
    try:
        yield Two(store, *both)
    finally:
        for each in both:
            await each.close()
        await store.close()


def all_of(entities: StoredEntities[str]) -> dict[str, str | None]:
    return {name: entities.get(name) for name in entities}


async def until_equal(
    store: SqliteStore, mine: StoredEntities[str], theirs: StoredEntities[str]
) -> None:
    async with asyncio.timeout(WITHIN_S):
        while all_of(mine) != all_of(theirs):
            await store.exists("/")


def test_a_change_is_in_force_here_and_heard_of_elsewhere(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (store, mine, theirs):
            heard: list[str] = []
            theirs.listen(heard.append)
            await mine.change({name: lambda _: "one" for name in NAMES})
            assert all_of(mine) == dict.fromkeys(NAMES, "one")
            await until_equal(store, mine, theirs)
            assert sorted(heard) == sorted(NAMES)
            await theirs.change({"alice": lambda found: f"{found} two", "": lambda _: None})
            await until_equal(store, theirs, mine)
            assert mine.get("alice") == "one two"
            assert len(mine) == len(NAMES) - 1
            later = StoredEntities(store, "/t/users", CODEC)
            await later.start()
            assert {name: later.get(name) for name in later} == {
                name: mine.get(name) for name in mine
            }
            await later.close()

    asyncio.run(run())


def test_all_entities_of_a_change_or_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (store, mine, _):

            def refused(_: str | None) -> str:
                raise ValueError("not this one")

            with pytest.raises(ValueError, match="not this one"):
                await mine.change({"alice": lambda _: "one", "bob": refused})
            assert await store.children("/t/users") == []
            assert not list(mine)

    asyncio.run(run())


def test_listeners_hear_of_all_that_changed_whenever_the_caller_is_cancelled(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with two(tmp_path) as (store, mine, _):
            heard: dict[str, str | None] = {}
            begun = asyncio.Event()

            def hear(name: str) -> None:
                heard[name] = mine.get(name)
                begun.set()

            mine.listen(hear)
            names = [f"{number}" for number in range(2 * PIECE_UNITS)]
            changes = {name: lambda _: "one" for name in names}
            changing = asyncio.ensure_future(mine.change(changes, Pace(LoopTurns())))
            await begun.wait()
            assert len(heard) < len(names)
            assert all_of(mine) == dict.fromkeys(names, "one")
            changing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await changing
            assert heard == dict.fromkeys(names, "one")
            assert len(await store.children("/t/users")) == len(names)

    asyncio.run(run())


def test_what_is_there_now_can_be_read(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        await store.create("/t/users/alice", b"one", parents=True)
        mine = StoredEntities(store, "/t/users", CODEC)
        found = await mine.read(["alice", "bob"], Pace(LoopTurns()))
        assert found == {"alice": "one", "bob": None}
        assert list(mine) == []  # it has not begun to follow
        await store.close()

    asyncio.run(run())


def test_two_that_change_one_entity_both_have_their_say(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (store, mine, theirs):
            async with asyncio.TaskGroup() as group:
                for each in (mine, theirs) * 2:
                    group.create_task(each.change({"alice": lambda found: (found or "") + "x"}))
            assert (await store.get("/t/users/alice")).data == b"xxxx"

    asyncio.run(run())


class OvertakingStore(SqliteStore):
    """Another process changes alice before each change of ours."""

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        await self.set("/t/users/alice", b"theirs")
        return await super().multi(ops)


def test_others_that_never_stop_end_in_a_conflict(tmp_path: Path) -> None:
    async def run() -> None:
        store = OvertakingStore(tmp_path / "metadata.db", ManualClock())
        await store.create("/t/users/alice", b"one", parents=True)
        mine = StoredEntities(store, "/t/users", CODEC)
        with pytest.raises(MetadataConflict):
            await mine.change({"alice": lambda _: "mine"})
        with pytest.raises(MetadataConflict):
            await mine.change({"alice": lambda found: found})  # what was read may be old
        assert (await store.get("/t/users/alice")).data == b"theirs"
        await store.close()

    asyncio.run(run())


def test_what_cannot_be_read_takes_away_what_was_known(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as (store, mine, theirs):
            await mine.change({"alice": lambda _: "one"})
            await until_equal(store, mine, theirs)
            await store.set(f"/t/users/{entity_node('alice')}", b"\xff")
            async with asyncio.timeout(WITHIN_S):
                while theirs.get("alice") is not None:
                    await store.exists("/")
            with pytest.raises(CorruptData):
                await mine.change({"alice": lambda _: "two"})

    asyncio.run(run())
