"""Configs of entities over real metadata files: changes, refusals, races, others' changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.broker.cluster.config_codec import decode_configs, encode_configs
from tailrace.broker.cluster.config_entities import ConfigEntities, EntityKind
from tailrace.core.errors import CorruptData, MetadataConflict
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock

GROUP, BROKER = EntityKind.GROUP, EntityKind.BROKER
WITHIN_S = 10


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path / "metadata.db", ManualClock())
    try:
        yield store
    finally:
        await store.close()


def run(path: Path, story: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def main() -> None:
        async with opened(path) as store:
            await story(store)

    asyncio.run(main(), debug=True)


def putting(name: str, value: str) -> Callable[[Mapping[str, str]], dict[str, str]]:
    return lambda before: {**before, name: value}


@pytest.mark.parametrize("name", ["", "g", "<default>", ".", "..", ".hidden", "a/b", "ä %2E"])
def test_a_change_survives_under_any_name(tmp_path: Path, name: str) -> None:
    async def story(store: SqliteStore) -> None:
        entities = ConfigEntities(store)
        await entities.start()
        await entities.change(GROUP, name, putting("x", "1"))
        again = ConfigEntities(store)
        await again.start()
        assert again.get(GROUP, name) == {"x": "1"}
        assert again.names(GROUP) == [name]
        assert again.names(BROKER) == []
        await again.change(GROUP, name, lambda _before: {})
        assert again.names(GROUP) == []
        last = ConfigEntities(store)
        await last.start()
        assert last.names(GROUP) == []

    run(tmp_path, story)


def test_a_refused_change_leaves_everything(tmp_path: Path) -> None:
    def refuse(_before: Mapping[str, str]) -> dict[str, str]:
        raise ValueError("no")

    async def story(store: SqliteStore) -> None:
        entities, heard = ConfigEntities(store), []
        await entities.start()
        await entities.change(GROUP, "g", putting("x", "1"))
        entities.listen(lambda *what: heard.append(what))
        with pytest.raises(ValueError, match="no"):
            await entities.change(GROUP, "g", refuse)
        await entities.change(GROUP, "g", putting("x", "1"))
        assert (entities.get(GROUP, "g"), heard) == ({"x": "1"}, [])
        await entities.change(GROUP, "g", putting("x", "2"))
        assert heard == [(GROUP, "g")]

    run(tmp_path, story)


def test_a_change_goes_on_from_what_others_made(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        mine, theirs = ConfigEntities(store), ConfigEntities(store)
        await mine.start()
        await theirs.start()
        await theirs.change(GROUP, "g", putting("x", "1"))
        await mine.change(GROUP, "g", putting("y", "2"))
        assert mine.get(GROUP, "g") == {"x": "1", "y": "2"}

    run(tmp_path, story)


@pytest.mark.parametrize("races", [1, 99])
def test_a_lost_race_is_run_again_but_not_for_ever(tmp_path: Path, races: int) -> None:
    class Racing(SqliteStore):
        left = races

        async def set(self, path: str, data: bytes, version: int = -1) -> int:
            if self.left:
                self.left -= 1
                await super().set(path, encode_configs({"x": str(self.left)}))
            return await super().set(path, data, version)

    async def main() -> None:
        store = Racing(tmp_path / "metadata.db", ManualClock())
        try:
            entities = ConfigEntities(store)
            await entities.start()
            await entities.change(GROUP, "g", putting("x", "first"))
            if races > 1:
                with pytest.raises(MetadataConflict):
                    await entities.change(GROUP, "g", putting("y", "2"))
                assert entities.get(GROUP, "g") == {"x": "first"}
            else:
                await entities.change(GROUP, "g", putting("y", "2"))
                assert entities.get(GROUP, "g") == {"x": "0", "y": "2"}
        finally:
            await store.close()

    asyncio.run(main(), debug=True)


def test_others_changes_are_heard_of(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        mine, theirs = ConfigEntities(store), ConfigEntities(store)
        await theirs.start()
        await theirs.change(GROUP, "g/1", putting("x", "1"))
        await mine.start()
        watches = [ChildWatch(store, *watched) for watched in mine.watched().values()]
        await theirs.change(GROUP, "g/1", lambda _before: {})  # gone before it is watched
        for watch in watches:
            watch.start()
        try:
            async with asyncio.timeout(WITHIN_S):
                while mine.names(GROUP):
                    await store.exists("/")
            for value in ("1", "2", ""):
                change = putting("x", value) if value else lambda _before: {}
                await theirs.change(BROKER, "", change)
                async with asyncio.timeout(WITHIN_S):
                    while mine.get(BROKER, "") != theirs.get(BROKER, ""):
                        await store.exists("/")
        finally:
            for watch in watches:
                await watch.close()

    run(tmp_path, story)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":2,"config":{}}', b'{"config":{"a":1}}'])
def test_what_does_not_decode_is_said_so(data: bytes) -> None:
    with pytest.raises(CorruptData, match="/a/b"):
        decode_configs("/a/b", data)


def test_kafkas_own_bytes() -> None:
    kafkas = b'{"version":1,"config":{"retention.ms":"5"}}'
    assert decode_configs("/", kafkas) == {"retention.ms": "5"}
    assert encode_configs({"b": "2", "a": "1"}) == b'{"config":{"a":"1","b":"2"},"version":1}'
