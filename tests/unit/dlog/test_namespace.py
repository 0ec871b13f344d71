"""A namespace of `tailrace.dlog`: its logs, its watch, its settings, its end."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace import dlog
from tailrace.dlog.settings import options_of
from tests.unit.core.log.world import World, run_world, settle
from tests.unit.dlog.world import new_log, opened, txids

Run = Callable[[Callable[[World], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_world(tmp_path, story)


def test_logs_come_and_go(run: Run) -> None:
    async def story(world: World) -> None:
        namespace = opened(world)
        with pytest.raises(dlog.LogNotFound):
            await namespace.open_log("a")
        for name in ("b", "a", "deep/c"):
            await namespace.create_log(name)
        assert await namespace.list_logs() == ["a", "b", "deep"]
        assert await namespace.list_logs("deep") == ["deep/c"]
        with pytest.raises(dlog.LogExists):
            await namespace.create_log("a")
        with pytest.raises(dlog.InvalidStreamName):
            await namespace.create_log("<a>")
        async with namespace.open_log("a") as log, log.open_writer() as writer:
            await writer.write(b"", 1)
        await namespace.rename_log("a", "z")
        assert (await namespace.log_exists("a"), await namespace.log_exists("z")) == (False, True)
        assert await (await namespace.open_log("z")).record_count() == 1
        await namespace.delete_log("z")
        with pytest.raises(dlog.LogNotFound):
            await namespace.delete_log("z")
        assert not await world.ledger_ids()

    run(story)


def test_a_log_is_closed_before_it_goes(run: Run) -> None:
    async def story(world: World) -> None:
        namespace = opened(world)
        await namespace.create_log("a")
        log, again = await namespace.open_log("a"), await namespace.open_log("/a")
        writer = await log.open_writer()
        await writer.submit(b"", 1)
        await namespace.rename_log("a", "b")
        with pytest.raises(dlog.Unavailable):
            await again.record_count()
        renamed = await namespace.open_log("b")
        assert await renamed.record_count() == 1
        assert (await renamed.open_writer()).last_txid == 1
        await namespace.delete_log("b")
        assert await namespace.list_logs() == []

    run(story)


def test_each_log_closes_its_own(run: Run) -> None:
    async def story(world: World) -> None:
        first = await new_log(world)
        namespace = opened(world)
        async with namespace.open_log("s") as log, log.open_writer() as writer:
            async with namespace.open_log("s") as other:
                reader = await other.open_reader()
            with pytest.raises(dlog.ReadCancelled):
                await reader.read_next()
            await writer.write(b"", 1)
        assert await first.record_count() == 1
        assert not namespace._logs

    run(story)


def test_its_end_closes_everything(run: Run) -> None:
    async def story(world: World) -> None:
        namespace = opened(world)
        await namespace.create_log("a")
        log = await namespace.open_log("a")
        writer, reader = await log.open_writer(), await log.open_reader()
        watch = await namespace.watch_logs()
        taken = await writer.submit(b"", 1)
        await namespace.close()
        assert taken.done()
        for call in (reader.read_next(), watch.read_change(), namespace.list_logs()):
            with pytest.raises(dlog.Unavailable):
                await call
        with pytest.raises(dlog.Unavailable):
            await writer.write(b"", 2)
        await namespace.close()
        again = await new_log(world, "a")
        assert not [segment for segment in again._core.segments if segment.in_progress]
        assert txids(await (await again.open_reader()).read_bulk(3)) == [1]

    run(story)


def test_one_that_cannot_be_closed_keeps_no_other_open(run: Run) -> None:
    async def story(world: World) -> None:
        namespace = opened(world)
        too_many = {f"bkc{each}Size": "2" for each in ("Ensemble", "WriteQuorum", "AckQuorum")}
        writers = []
        for name, settings in (("a", too_many), ("b", None), ("c", too_many)):
            await namespace.create_log(name)
            log = await namespace.open_log(name, settings)
            writers.append(await log.open_writer())
            await writers[-1].submit(b"", 1)
        with pytest.raises(dlog.NotEnoughBookies):
            await namespace.close()
        assert [writer.failure is None for writer in writers] == [False, True, False]
        again = await new_log(world, "b")
        assert await again.record_count() == 1
        assert not [segment for segment in again._core.segments if segment.in_progress]

    run(story)


def test_changes_arrive(run: Run) -> None:
    async def story(world: World) -> None:
        namespace, other = opened(world), opened(world)
        await other.create_log("a")
        async with namespace.watch_logs() as watch:
            assert await watch.read_change() == (("a",), ("a",), ())
            assert await watch.read_change(timeout_s=0) is None
            await other.create_log("b")
            assert await anext(watch) == (("a", "b"), ("b",), ())
            await other.rename_log("b", "c")
            await other.delete_log("a")
            heard = [await watch.read_change()]
            while heard[-1] is not None and heard[-1].names != ("c",):
                heard.append(await watch.read_change())
            assert {name for each in heard if each for name in each.removed} >= {"a"}
        assert [change async for change in watch] == []
        with pytest.raises(dlog.ReadCancelled):
            await watch.read_change()

    run(story)


def test_the_first_change_of_an_empty_namespace_is_empty(run: Run) -> None:
    async def story(world: World) -> None:
        async with opened(world).watch_logs() as watch, asyncio.TaskGroup() as group:
            assert await watch.read_change() == ((), (), ())
            waiting = group.create_task(watch.read_change())
            await settle()
            assert not waiting.done()
            await opened(world).create_log("a")
        assert waiting.result() == (("a",), ("a",), ())

    run(story)


def test_settings_have_distributed_logs_names_and_defaults() -> None:
    known = {setting.name: setting.default for setting in dlog.known_settings()}
    wanted = {"bkcEnsembleSize": 3, "bkcWriteQuorumSize": 3, "bkcAckQuorumSize": 2}
    assert wanted.items() <= known.items()
    options = options_of({"bkcEnsembleSize": "5", "zkSessionTimeoutSeconds": 2})
    assert (options.log.ensemble_size, options.session_timeout_ms) == (5, 2000)
    assert options_of(None).log.ack_quorum == 2
    assert all(setting.doc for setting in dlog.known_settings())


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(dlog.ConfigError, match="did you mean bkcEnsembleSize"):
        options_of({"bkcEnsemblesize": 1})
    with pytest.raises(dlog.ConfigError, match="an integer"):
        options_of({"bkcEnsembleSize": "many"})
    with pytest.raises(dlog.ConfigError, match="bound to its ledgers"):
        options_of({"ledgersPath": "/ledgers"})
    with pytest.raises(dlog.ConfigError, match="bkcWriteQuorumSize"):
        options_of({"bkcEnsembleSize": 1})


def test_a_standalone_brokers_namespace_is_read(run: Run, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await opened(world).create_log("s")
        async with dlog.open_namespace(f"sqlite:{tmp_path / 'metadata'}") as namespace:
            assert await namespace.list_logs() == ["s"]
            with pytest.raises(dlog.Unavailable):
                await namespace.create_log("t")
        with pytest.raises(ValueError, match="standalone"):
            await dlog.bind_namespace(f"sqlite:{tmp_path}", "zk://h:1/ledgers")

    run(story)
    assert dlog.bind_namespace.__doc__
