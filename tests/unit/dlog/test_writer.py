"""A writer of `tailrace.dlog`: order, room, bulks, what a cancel and a failure leave."""

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


async def all_of(log: dlog.Log) -> list[dlog.LogRecord]:
    async with log.open_reader() as reader:
        found: list[dlog.LogRecord] = []
        while batch := await reader.read_bulk(100, timeout_s=0):
            found += batch
        return found


def test_a_write_returns_where_the_record_is(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with log.open_writer() as writer:
            assert writer.last_txid is None
            dlsn = await writer.write(bytearray(b"a"), 7)
            assert writer.last_txid == 7
        assert await all_of(log) == [(dlsn, 7, 0, b"a")]
        assert await log.last_record() == (dlsn, 7, 0, b"a")

    run(story)


def test_a_payload_may_be_reused_at_once(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with log.open_writer() as writer:
            payload = bytearray(b"first")
            await writer.submit(payload, 1)
            payload[:] = b"later"
        assert [record.payload for record in await all_of(log)] == [b"first"]

    run(story)


def test_who_waits_for_room_keeps_the_order_of_the_calls(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world, waiting_bytes_max=1000, record_bytes_max=1000)
        async with asyncio.TaskGroup() as group, log.open_writer() as writer:
            await writer.write(b"", 0)
            world.bookie.hold()
            writes = [group.create_task(writer.write(b"x" * 300, txid)) for txid in range(1, 40)]
            await settle()
            assert not any(write.done() for write in writes)
            world.bookie.release()
        assert txids(await all_of(log)) == list(range(40))

    run(story)


def test_a_close_takes_what_waits_for_room(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world, waiting_bytes_max=1000, record_bytes_max=1000)
        writer = await log.open_writer()
        await writer.write(b"", 0)
        world.bookie.hold()
        async with asyncio.TaskGroup() as group:
            for txid in range(1, 40):
                group.create_task(writer.write(b"x" * 300, txid))
            await settle()
            group.create_task(writer.close())
            await settle()
            world.bookie.release()
        assert len(await all_of(log)) == 40
        with pytest.raises(dlog.Unavailable):
            await writer.write(b"", 50)

    run(story)


def test_a_bulk_is_written_up_to_what_is_refused(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with log.open_writer() as writer:
            positions = await writer.write_bulk((b"%d" % txid, txid) for txid in range(1000))
            assert positions == sorted(set(positions))
            with pytest.raises(dlog.TransactionIdOutOfOrder):
                await writer.write_bulk([(b"", 1000), (b"", 1001), (b"", 5), (b"", 1002)])
            assert writer.last_txid == 1001
            assert writer.failure is None
            await writer.write(b"", 2000)
        assert txids(await all_of(log)) == [*range(1002), 2000]

    run(story)


def test_a_cancelled_write_is_written(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with asyncio.TaskGroup() as group, log.open_writer() as writer:
            await writer.write(b"", 0)
            world.bookie.hold()
            write = group.create_task(writer.write(b"", 1))
            await settle()
            write.cancel()
            await settle()
            world.bookie.release()
            await writer.write(b"", 2)
        assert write.cancelled()
        assert txids(await all_of(log)) == [0, 1, 2]

    run(story)


def test_one_that_is_cancelled_in_line_is_not(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world, waiting_bytes_max=1000, record_bytes_max=1000)
        async with asyncio.TaskGroup() as group, log.open_writer() as writer:
            await writer.write(b"", 0)
            world.bookie.hold()
            writes = [group.create_task(writer.write(b"x" * 900, txid)) for txid in range(1, 90)]
            await settle()
            writes[-1].cancel()
            writes[-2].cancel()
            await settle()
            world.bookie.release()
        assert txids(await all_of(log)) == list(range(88))

    run(story)


def test_a_former_owner_is_refused_and_learns_why(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        old = await log.open_writer()
        await old.write(b"", 1)
        assert await old.failed(timeout_s=0) is None
        assert await old.failed(timeout_s=0.001) is None
        namespace = opened(world)  # of the same session, so the lock is no obstacle: the fence is
        async with namespace.open_log("s") as theirs, theirs.open_writer() as writer:
            assert writer.last_txid == 1
            await writer.write(b"new", 2)
            with pytest.raises(dlog.LedgerFenced):
                await old.write(b"old", 3)
            assert await old.failed() is old.failure
            assert isinstance(old.failure, dlog.LedgerFenced)
            assert txids(await all_of(theirs)) == [1, 2]
        async with log.open_writer() as again:
            assert again.last_txid == 2
        await old.close()

    run(story)


def test_an_aborted_writer_leaves_its_segment_to_recovery(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        writer = await log.open_writer()
        await writer.write(b"", 1)
        with pytest.raises(dlog.OwnershipLost, match="already"):
            await log.open_writer()
        await writer.abort()
        await writer.close()
        assert await writer.failed() is None
        async with log.open_writer() as writer:
            assert writer.last_txid == 1

    run(story)


def test_a_sealed_log_ends(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world)
        async with log.open_writer() as writer:
            await writer.write(b"", 1)
            end = await writer.mark_end_of_stream()
            with pytest.raises(dlog.EndOfStream):
                await writer.write(b"", 2)
        async with log.open_reader() as reader:
            assert txids([record async for record in reader]) == [1]
            with pytest.raises(dlog.EndOfStream):
                await reader.read_next()
        async with log.open_reader(dlog.TAIL) as reader:
            assert not [record async for record in reader]
        with pytest.raises(dlog.EndOfStream):
            await log.open_writer()
        last = await log.last_record()
        assert last is not None
        assert (last.txid, last.dlsn < end) == (1, True)
        assert await log.is_sealed()
        assert await log.record_count() == 1

    run(story)


def test_too_few_bookies_end_a_writer(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world, ensemble_size=2, write_quorum=2, ack_quorum=2)
        writer = await log.open_writer()
        with pytest.raises(dlog.CoreError):
            await writer.write(b"", 1)
        assert isinstance(writer.failure, dlog.NotEnoughBookies)
        await settle()
        assert not log._core.is_owned_here, "readers of this process would not ask the bookies"
        await writer.close()

    run(story)


def test_a_loss_that_no_call_raised_is_raised_by_the_close(run: Run) -> None:
    async def story(world: World) -> None:
        log = await new_log(world, ensemble_size=2, write_quorum=2, ack_quorum=2)
        for asks in (True, False):
            writer = await log.open_writer()
            await writer.submit(b"", 1)
            while writer.failure is None:
                await settle(1)
            if asks:
                assert await writer.failed() is writer.failure
            else:
                with pytest.raises(dlog.NotEnoughBookies):
                    await writer.close()
            await writer.close()

    run(story)
