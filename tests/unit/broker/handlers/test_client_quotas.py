"""DescribeClientQuotas and AlterClientQuotas, over a real metadata store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from tailrace.protocol.kafka.messages import alter_client_quotas as alter
from tailrace.protocol.kafka.messages import describe_client_quotas as describe
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

Parts = dict[str, str | None]

APP: Parts = {"client-id": "app"}
DEFAULT: Parts = {"client-id": None}
PAIR: Parts = {"client-id": "app", "user": None}
ADDRESS: Parts = {"ip": "10.1.2.3"}


@asynccontextmanager
async def world_with_store(path: Path) -> AsyncIterator[World]:
    store = SqliteStore(path / "metadata.db", SystemClock())
    world = make_world(store=store)
    await world.broker.quotas.start()
    try:
        yield world
    finally:
        await world.broker.quotas.close()
        await store.close()


def entry(parts: Parts, **values: float | None) -> alter.EntryData:
    return alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=parts[kind]) for kind in parts],
        ops=[
            alter.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


async def change(
    world: World, *entries: alter.EntryData, version: int = 1, validate_only: bool = False
) -> list[int]:
    request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answer = await ask(world, ALTER_CLIENT_QUOTAS, version, request)
    for each in answer.entries:
        assert (each.error_message is None) is (each.error_code == 0)
    return [each.error_code for each in answer.entries]


async def found(
    world: World, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> list[tuple[Parts, dict[str, float]]]:
    request = describe.DescribeClientQuotasRequest(
        components=[
            describe.ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ],
        strict=strict,
    )
    answer = await ask(world, DESCRIBE_CLIENT_QUOTAS, version, request)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.entries is not None
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
@in_loop
async def test_what_is_altered_is_described(tmp_path: Path, version: int) -> None:
    async with world_with_store(tmp_path) as world:
        entries = [
            entry(APP, producer_byte_rate=1024, request_percentage=12.5),
            entry(DEFAULT, consumer_byte_rate=2048),
            entry(PAIR, controller_mutation_rate=0.5),
            entry(ADDRESS, connection_creation_rate=3),
        ]
        assert await change(world, *entries, version=version) == [0, 0, 0, 0]
        app = (APP, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})
        assert await found(world, ("client-id", 0, "app"), strict=True, version=version) == [app]
        default = (DEFAULT, {"consumer_byte_rate": 2048.0})
        assert await found(world, ("client-id", 1, None), version=version) == [default]
        assert len(await found(world, ("client-id", 2, None))) == 3
        assert len(await found(world)) == 4
        assert await found(world, strict=True) == []
        removal = entry(APP, producer_byte_rate=None, nothing=None)
        assert await change(world, removal, version=version) == [0]
        app = (APP, {"request_percentage": 12.5})
        assert await found(world, ("client-id", 0, "app"), strict=True) == [app]
        assert await change(world, entry(APP, request_percentage=None)) == [0]
        assert await found(world, ("client-id", 0, "app"), strict=True) == []


@in_loop
async def test_wrong_entries_hinder_no_others(tmp_path: Path) -> None:
    async with world_with_store(tmp_path) as world:
        codes = await change(
            world,
            entry(APP, producer_byte_rate=-1),
            entry(DEFAULT, producer_byte_rate=1),
            entry({}, producer_byte_rate=1),
            entry(ADDRESS, producer_byte_rate=1),
            entry({"ip": "nowhere"}, connection_creation_rate=1),
        )
        assert codes == [42, 0, 42, 42, 42]
        assert await found(world) == [(DEFAULT, {"producer_byte_rate": 1.0})]


@in_loop
async def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    async with world_with_store(tmp_path) as world:
        trial = (entry(APP, producer_byte_rate=1), entry(DEFAULT, producer_byte_rate=0))
        assert await change(world, *trial, validate_only=True) == [0, 42]
        assert await change(world) == []
        assert await found(world) == []
        assert not world.broker.quotas.clients.enforced


@in_loop
async def test_what_the_store_does_not_take_is_said_of_every_entity(tmp_path: Path) -> None:
    async with world_with_store(tmp_path) as world:
        names = [f"{number:06}" + "x" * 200 for number in range(5000)]
        many = [entry({"client-id": name}, producer_byte_rate=1) for name in names]
        assert set(await change(world, *many)) == {ErrorCode.KAFKA_STORAGE_ERROR}
        assert await found(world) == []
        assert await change(world, entry(APP, producer_byte_rate=1)) == [0]


@in_loop
async def test_a_filter_that_is_none_is_refused(tmp_path: Path) -> None:
    async with world_with_store(tmp_path) as world:
        for kind, code in (("", ErrorCode.INVALID_REQUEST), ("x", ErrorCode.UNSUPPORTED_VERSION)):
            request = describe.DescribeClientQuotasRequest(
                components=[describe.ComponentData(entity_type=kind, match_type=2, match=None)]
            )
            answer = await ask(world, DESCRIBE_CLIENT_QUOTAS, 1, request)
            assert (answer.error_code, answer.entries) == (code, None)
            assert answer.error_message
