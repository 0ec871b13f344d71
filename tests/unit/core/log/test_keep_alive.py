"""A control record on demand: what shows readers of every process that a log has an owner."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import EndOfStream, NotEnoughBookies, Unavailable
from tests.unit.core.log.full_disk import Disk
from tests.unit.core.log.world import (
    Listener,
    World,
    entries_of,
    put,
    run_world,
    settle,
    txids_of,
    write,
)

Run = Callable[[Callable[[World], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_world(tmp_path, story)


def test_it_begins_the_first_segment_of_an_empty_log(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.keep_alive(7)
        assert writer.confirmed_txid == -999
        (segment,) = log.segments
        assert (segment.first_txid, segment.in_progress) == (7, True)
        assert len(world.bookie.ledgers[segment.ledger_id].entries) == 1
        await write(writer, 8)  # at or behind the segment's first txid
        await writer.close()
        assert await txids_of(await world.log()) == [8]

    run(story)


def test_the_first_segment_of_an_owner_begins_at_the_logs_last_txid(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 5)
        await writer.close()
        again = await log.open_writer(Listener())
        await again.keep_alive(9)
        assert [segment.first_txid for segment in log.segments] == [1, 5]
        await write(again, 6)
        await again.close()
        assert await txids_of(await world.log()) == [1, 5, 6]

    run(story)


def test_each_writes_one(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.keep_alive(2)
        await writer.keep_alive(2)
        entries = await entries_of(world, log, writer.lssn)
        assert [record.is_control for (record,) in entries] == [False, True]  # the LAC lags by one
        await writer.close()

    run(story)


def test_one_at_the_moment_of_an_append_waits_for_the_same_segment(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        put(writer, 1)
        await asyncio.gather(writer.keep_alive(1), writer.keep_alive(1), writer.flush())
        await writer.close()
        assert await txids_of(await world.log()) == [1]
        assert len(log.segments) == 1

    run(story)


def test_a_log_that_an_owner_only_kept_alive_is_recovered(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        writer = await log.open_writer(Listener())
        await writer.keep_alive(2)
        await writer.abort()
        again = await log.open_writer(Listener())
        await write(again, 2)
        await again.close()
        assert await txids_of(await world.log()) == [1, 2]

    run(story)


def test_no_ledger_fails_the_writer(run: Run) -> None:
    async def story(world: World) -> None:
        disk = Disk(world)
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        disk.fill()
        with pytest.raises(NotEnoughBookies):
            await writer.keep_alive(1)
        assert len(listener.errors) == 1
        await writer.abort()

    run(story)


def test_a_writer_that_refuses_records_refuses_it_too(run: Run) -> None:
    async def story(world: World) -> None:
        disk = Disk(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.on_refused = lambda _error: None
        disk.fill()
        for _ in range(2):  # the second asks for no ledger so soon
            with pytest.raises(NotEnoughBookies):
                await writer.keep_alive(1)
        disk.free()
        world.clock.advance_ms(10_000)
        await writer.keep_alive(1)
        await write(writer, 1)
        await writer.close()
        assert await txids_of(await world.log()) == [1]

    run(story)


def test_an_end_is_an_end(run: Run) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.mark_end_of_stream()
        with pytest.raises(EndOfStream):
            await writer.keep_alive(1)
        await writer.close()
        other = await (await world.log("t")).open_writer(Listener())
        await other.close()
        with pytest.raises(Unavailable):
            await other.keep_alive(1)
        await settle()

    run(story)
