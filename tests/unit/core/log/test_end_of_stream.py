"""Sealing a log: nothing follows, for this owner, for its readers, and for the next owner."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, EndOfStream, Unavailable
from tailrace.core.log.log import Log
from tailrace.core.log.rolling import RollingPolicy
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    entries_of,
    put,
    run_world,
    settle,
    write,
)

MAX_TXID_NODE = "/distributedlog/tailrace/s/<default>/maxtxid"


async def read_to_the_end(log: Log) -> list[int]:
    found: list[int] = []
    reader = await log.open_reader(INITIAL)
    try:
        while batch := await reader.read(1000):
            found += [record.txid for _, record in batch]
    except EndOfStream:
        return found
    finally:
        await reader.close()
    raise AssertionError(f"{log.name} is not sealed behind {found}")


@pytest.mark.parametrize("txids", [[], [7], [7, 8, 9]])
@pytest.mark.parametrize("with_state", [False, True])
def test_a_sealed_log_stays_sealed(tmp_path: Path, txids: list[int], *, with_state: bool) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        state = RecordState() if with_state else None
        writer = await log.open_writer(listener, state)
        for txid in txids:
            put(writer, txid)
        end = await writer.mark_end_of_stream()
        assert end == DLSN(1, 1 if txids else 0, 0)
        assert listener.last == (txids[-1] if txids else -1)
        with pytest.raises(EndOfStream):
            put(writer, 100)
        for again in (writer.mark_end_of_stream, writer.roll):
            with pytest.raises(EndOfStream):
                await again()
        await writer.flush()
        await writer.commit()
        await writer.close()
        with pytest.raises(EndOfStream):
            put(writer, 100)
        assert await read_to_the_end(log) == txids
        (segment,) = log.segments
        assert (segment.last_txid, segment.record_count) == (END_OF_STREAM_TXID, len(txids))
        assert (segment.last_entry_id, segment.last_slot) == (end.entry_id, 0)
        assert segment.first_txid == (txids[0] if txids else END_OF_STREAM_TXID)
        assert (await world.dump())[MAX_TXID_NODE] == b"%d" % END_OF_STREAM_TXID
        for records in await entries_of(world, log, 1):
            for record in records:
                assert record.txid in txids or record.txid == END_OF_STREAM_TXID
        for opening in (log, await world.log(client_id="other")):
            with pytest.raises(EndOfStream):
                await opening.open_writer(Listener())

    run_world(tmp_path, story)


@pytest.mark.parametrize("txids", [[], [7, 8]])
@pytest.mark.parametrize("committed", [False, True])
def test_a_crash_behind_the_end_leaves_the_log_sealed(
    tmp_path: Path, txids: list[int], *, committed: bool
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for txid in txids:
            put(writer, txid)
        await writer.mark_end_of_stream()
        if committed:  # a control record is the last, and says the same
            await writer.commit()
        await writer.abort()
        successor = await world.log(client_id="successor")
        with pytest.raises(EndOfStream):
            await successor.open_writer(Listener())
        assert await read_to_the_end(await world.log(client_id="third")) == txids
        await successor.refresh()
        (segment,) = successor.segments
        assert segment.last_txid == END_OF_STREAM_TXID
        assert (await world.dump())[MAX_TXID_NODE] == b"%d" % END_OF_STREAM_TXID

    run_world(tmp_path, story)


def test_an_owner_that_begins_with_the_end_seals_what_was_there(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2)
        await writer.close()
        writer = await log.open_writer(Listener())
        assert await writer.mark_end_of_stream() == DLSN(2, 0, 0)
        await writer.close()
        assert await read_to_the_end(log) == [1, 2]
        assert [s.first_txid for s in log.segments] == [1, 2], "they never fall, nor run ahead"

    run_world(tmp_path, story)


@pytest.mark.parametrize("start", [100, DLSN(1, 1, 7), DLSN(1, 50, 0), DLSN(9, 0, 0)])
@pytest.mark.parametrize("crashed", [False, True])
def test_a_reader_that_begins_behind_the_end_does_not_wait(
    tmp_path: Path, start: DLSN | int, *, crashed: bool
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 7, 8)
        await writer.mark_end_of_stream()
        await writer.commit()
        await (writer.abort() if crashed else writer.close())
        other = await world.log(client_id="other")
        with pytest.raises(EndOfStream):
            await other.open_writer(Listener())  # recovers it
        reader = await other.open_reader(start)
        with pytest.raises(EndOfStream):
            await reader.read(1000)
        await reader.close()

    run_world(tmp_path, story)


def test_the_end_is_told_although_other_entries_told_of_it_first(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 7)
        world.bookie.hold()
        async with asyncio.TaskGroup() as group:
            sealing = group.create_task(writer.mark_end_of_stream())
            await settle()
            group.create_task(writer.commit())
            await settle()
            world.bookie.release(1)  # the end, before the control record behind it
            await settle()
            group.create_task(writer.commit())  # its entry tells of the end
            await settle()
            world.bookie.release()
        assert sealing.result() == DLSN(1, 1, 0)
        await writer.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 10, 30])
def test_the_end_waits_for_a_roll_under_way(tmp_path: Path, turns: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        await write(writer, 0)
        rolling = asyncio.create_task(writer.roll())
        await settle(turns)
        put(writer, 1)
        end = await writer.mark_end_of_stream()
        await asyncio.wait([rolling])
        await writer.close()
        assert await read_to_the_end(log) == [0, 1]
        last = log.segments.last
        assert last is not None
        assert (last.lssn, last.last_txid) == (end.lssn, END_OF_STREAM_TXID)

    run_world(tmp_path, story)


def test_no_segment_is_rolled_behind_the_end(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        writer.rolling = RollingPolicy(segment_bytes=1, segment_ms=0)
        put(writer, 1)
        end = await writer.mark_end_of_stream()
        await writer.close()
        assert log.segments.last is not None
        assert log.segments.last.lssn == end.lssn
        assert await read_to_the_end(log) == [0, 1]

    run_world(tmp_path, story)


def test_whoever_stops_waiting_has_sealed_the_log_all_the_same(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        sealing = asyncio.create_task(writer.mark_end_of_stream())
        await settle()
        sealing.cancel()
        await settle()
        world.bookie.release()
        await writer.close()
        assert await read_to_the_end(log) == [0]

    run_world(tmp_path, story)


def test_an_end_that_could_not_be_written_is_an_error(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        world.bookie.fault = lambda r: StatusCode.EIO if isinstance(r, AddRequest) else None
        with pytest.raises(CoreError) as failed:
            await writer.mark_end_of_stream()
        assert not isinstance(failed.value, EndOfStream)
        with pytest.raises(type(failed.value)):
            put(writer, 1)
        world.bookie.fault = lambda _: None
        again = await log.open_writer(Listener())
        await write(again, 1)
        await again.close()

    run_world(tmp_path, story)


def test_a_closed_writer_cannot_seal(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.close()
        with pytest.raises(Unavailable):
            await writer.mark_end_of_stream()

    run_world(tmp_path, story)
