"""A reader of `tailrace.dlog`: where it begins, what it waits for, what a cancel leaves."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace import dlog
from tests.unit.core.log.world import World, run_world, settle
from tests.unit.dlog.world import new_log, opened, txids

Run = Callable[[Callable[[World], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_world(tmp_path, story)


async def three_segments(world: World) -> tuple[dlog.Log, list[dlog.DLSN]]:
    """Return a log with txids 0 to 29, ten in each segment, and their positions."""
    log = await new_log(world)
    positions = []
    for first in (0, 10, 20):
        async with log.open_writer() as writer:
            positions += await writer.write_bulk(
                [(b"%d" % txid, txid) for txid in range(first, first + 10)]
            )
    return log, positions


async def read_from(log: dlog.Log, start: Any) -> list[int]:
    async with log.open_reader(start) as reader:
        found: list[int] = []
        while batch := await reader.read_bulk(7, timeout_s=0):
            assert len(batch) <= 7
            assert all(record.payload == b"%d" % record.txid for record in batch)
            assert all(record.sequence_id == record.txid for record in batch)
            found += txids(batch)
        return found


def test_it_begins_where_it_is_asked_to(run: Run) -> None:
    async def story(world: World) -> None:
        log, positions = await three_segments(world)
        assert len({dlsn.lssn for dlsn in positions}) == 3
        assert await read_from(log, dlog.START) == list(range(30))
        assert await read_from(log, dlog.TAIL) == []
        for at in (0, 3, 9, 10, 25, 29):
            assert await read_from(log, positions[at]) == list(range(at, 30))
            assert await read_from(log, positions[at].next_slot()) == list(range(at + 1, 30))
            assert await read_from(log, at) == list(range(at, 30))
            assert await log.find(at) == positions[at]
            assert await log.record_count(positions[at]) == 30 - at
        assert await log.find(30) is None
        assert await log.record_count() == 30
        last = await log.last_record()
        assert last == (positions[-1], 29, 29, b"29")

    run(story)


def test_the_tail_is_what_comes(run: Run) -> None:
    async def story(world: World) -> None:
        log, _ = await three_segments(world)
        async with log.open_reader(dlog.TAIL) as reader, log.open_writer() as writer:
            assert not await reader.wait_for_more(timeout_s=0)
            assert not await reader.wait_for_more(timeout_s=0.001)
            await writer.write(b"", 30)
            assert await reader.wait_for_more()
            assert await reader.wait_for_more(timeout_s=0)
            assert (await reader.read_next()).txid == 30
            assert await reader.read_bulk(5, timeout_s=0.001) == []

    run(story)


def test_an_empty_log_has_both_edges(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        assert await log.last_record() is None
        assert (await log.record_count(), await log.is_sealed()) == (0, False)
        readers = [await log.open_reader(start) for start in (dlog.START, dlog.TAIL, 5)]
        async with log.open_writer() as writer:
            await writer.write_bulk([(b"", 1), (b"", 5)])
            found = [txids(await reader.read_bulk(9)) for reader in readers]
            assert found == [[1, 5], [1, 5], [5]]
        await log.close()

    run(story)


def test_a_cancel_loses_nothing(run: Run) -> None:
    async def story(world: World) -> None:
        log, _ = await three_segments(world)
        found: list[int] = []
        async with log.open_reader() as reader, asyncio.TaskGroup() as group:
            turns = 0
            while len(found) < 30:
                reading = group.create_task(reader.read_bulk(4))
                await settle(turns % 30)
                turns += 1
                reading.cancel()
                await asyncio.wait([reading])
                if not reading.cancelled():
                    found += txids(reading.result())
        assert found == list(range(30))
        assert turns > 8, "no read was cancelled"

    run(story)


def test_callers_share_its_records(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        log, _ = await three_segments(world)
        found: list[int] = []

        async def take() -> None:
            while batch := await reader.read_bulk(2, timeout_s=0):
                found.extend(txids(batch))
                await asyncio.sleep(0)

        async with log.open_reader() as reader:
            core, inside = reader._reader, 0
            read_entries = core.read_entries

            async def alone(max_bytes: int) -> Any:
                nonlocal inside
                inside += 1
                assert inside == 1, "a reader of core takes one call at a time"
                entries = await read_entries(max_bytes)
                inside -= 1
                return entries

            monkeypatch.setattr(core, "read_entries", alone)
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(take())
        assert sorted(found) == list(range(30))

    run(story)


def test_a_closed_one_gives_nothing(run: Run) -> None:
    async def story(world: World) -> None:
        log, _ = await three_segments(world)
        reader = await log.open_reader()
        await reader.read_next()  # others are held now
        tail = await log.open_reader(dlog.TAIL)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_outcome(tail))
            await settle()
            await reader.close()
            await reader.close()
            await log.close()
        assert isinstance(waiting.result(), dlog.ReadCancelled)
        with pytest.raises(dlog.ReadCancelled):
            await reader.read_next()
        with pytest.raises(dlog.Unavailable, match="closed"):
            await log.open_reader()

    run(story)


async def _outcome(reader: dlog.LogReader) -> object:
    try:
        return await reader.read_next()
    except dlog.CoreError as error:
        return error


def test_what_was_truncated_is_not_read(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        log, positions = await three_segments(world)
        before = await log.open_reader()
        assert (await before.read_next()).txid == 0
        await log.truncate(positions[4])
        assert await read_from(log, dlog.START) == list(range(4, 30))
        await log.truncate(positions[14])
        assert await read_from(log, dlog.START) == list(range(14, 30))
        assert await read_from(log, 3) == list(range(14, 30))
        assert txids(await before.read_bulk(40)) == list(range(1, 30)), "it had begun"
        assert await log.purge(positions[14]) == 1
        assert await log.purge(positions[14]) == 0
        assert await log.record_count() == 20
        assert await read_from(log, dlog.START) == list(range(14, 30))
        await log.truncate(positions[3])
        assert await read_from(log, dlog.START) == list(range(14, 30)), "it never goes back"

    run(story)
    assert not caplog.records, "START is no position that was truncated"


def test_the_writer_alone_truncates_what_it_writes(run: Run) -> None:
    async def story(world: World) -> None:
        log, _ = await three_segments(world)
        other = await opened(world).open_log("s")
        async with log.open_writer() as writer:
            at = await writer.write(b"30", 30)
            with pytest.raises(dlog.OwnershipLost):
                await other.truncate(at.next_slot())
            await log.truncate(at)
            assert await read_from(log, dlog.START) == [30]

    run(story)


def test_subscribers_remember_positions(run: Run) -> None:
    async def story(world: World) -> None:
        log, positions = await three_segments(world)
        assert await log.last_commit_position("me") is None
        assert await log.advance_commit_position("me", positions[4]) == positions[4]
        assert await log.advance_commit_position("me", positions[2]) == positions[4]
        assert await log.last_commit_position("me") == positions[4]
        assert await read_from(log, await log.last_commit_position("me")) == list(range(4, 30))
        assert await log.delete_subscriber("me")
        assert not await log.delete_subscriber("me")

    run(story)


def test_no_records_cannot_be_read(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with log.open_reader() as reader:
            with pytest.raises(ValueError, match="0 records"):
                await reader.read_bulk(0)

    run(story)
