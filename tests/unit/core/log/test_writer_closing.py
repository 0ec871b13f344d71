"""Closing a writer while others still call it: one close counts, and nothing begins behind it."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, EndOfStream
from tailrace.core.log.rolling import RollingPolicy
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    run_world,
    settle,
    txids_of,
    write,
)

TURNS = range(1, 60, 3)


@pytest.mark.parametrize("turns", TURNS)
def test_who_closes_again_waits_for_the_first(tmp_path: Path, turns: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener, RecordState())
        await write(writer, 0)
        put(writer, 1)
        first = asyncio.create_task(writer.close())
        await settle(turns)
        await writer.close()
        assert first.done()
        await first
        assert listener.last == 1
        assert [s.in_progress for s in log.segments] == [False]
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


def test_who_closes_again_goes_on_when_the_first_is_cancelled(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1)
        first = asyncio.create_task(writer.close())
        await settle()
        second = asyncio.create_task(writer.close())
        await settle()
        assert not second.done()
        first.cancel()
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert second.exception() is None
        assert not log.is_owned_here
        world.bookie.release()

    run_world(tmp_path, story)


@pytest.mark.parametrize("turns", TURNS)
def test_no_segment_is_begun_while_the_last_is_completed(tmp_path: Path, turns: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener, RecordState())
        await write(writer, 0)
        closing = asyncio.create_task(writer.close())
        await settle(turns)
        with suppress(CoreError):
            await writer.roll()
        await closing
        assert listener.errors == []
        other = await world.log(client_id="other")
        await other.refresh()
        assert [s.in_progress for s in other.segments] == [False]
        assert len(await world.ledger_ids()) == 1

    run_world(tmp_path, story)


@pytest.mark.parametrize("turns", TURNS)
def test_a_flush_while_a_full_segment_is_completed_begins_none(tmp_path: Path, turns: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener, RecordState())
        await write(writer, 0)
        closing = asyncio.create_task(writer.close())
        await settle(1)
        writer.rolling = RollingPolicy(segment_bytes=1, segment_ms=0)
        await settle(turns)
        with suppress(CoreError):
            await writer.flush()
        await closing
        assert listener.errors == []
        other = await world.log(client_id="other")
        await other.refresh()
        assert [s.in_progress for s in other.segments] == [False]
        assert len(await world.ledger_ids()) == 1

    run_world(tmp_path, story)


@pytest.mark.parametrize("turns", TURNS)
def test_nothing_begins_behind_the_end_of_a_log_that_closes(tmp_path: Path, turns: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        await writer.mark_end_of_stream()
        closing = asyncio.create_task(writer.close())
        await settle(turns)
        for _ in range(20):
            with suppress(CoreError):
                await writer.flush()
            await settle(1)
        await closing
        assert listener.errors == []
        other = await world.log(client_id="other")
        with pytest.raises(EndOfStream):
            await other.open_writer(Listener())
        await other.refresh()
        assert [s.in_progress for s in other.segments] == [False]

    run_world(tmp_path, story)
