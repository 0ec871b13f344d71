"""Readers: order, bounds, the tail, other processes, failures on the way."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tailrace.core.errors import BookieUnavailable, CorruptData, LogNotFound, Unavailable
from tailrace.core.log.reader import LogReader
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL, NON_INCLUSIVE_LOWER_BOUND
from tests.unit.core.log.world import Listener, World, put, run_world, settle, write


async def txids(reader: LogReader, max_bytes: int = 1 << 20) -> list[int]:
    return [record.txid for _, record in await reader.read(max_bytes)]


def test_max_bytes_counts_headers_and_gives_at_least_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for txid in range(4):
            put(writer, txid, b"x" * 80)  # 100 with its header
        await writer.flush()
        reader = await log.open_reader(INITIAL)
        assert [await txids(reader, size) for size in (1, 199, 200, 100)] == [[0], [1], [2, 3], []]
        assert await txids(reader, 0) == []
        await reader.close()
        with pytest.raises(Unavailable):
            await reader.read(1)
        await writer.close()

    run_world(tmp_path, story)


async def drain(reader: LogReader) -> None:
    while await reader.read(1):
        pass


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (INITIAL, 0),
        (NON_INCLUSIVE_LOWER_BOUND, 0),
        (DLSN(0, -1, -1), 0),
        (DLSN(1, 0, 3), 3),
        (DLSN(1, 0, 99), 5),
        (DLSN(1, 99, 0), 10),
        (DLSN(2, 0, 0), 10),
        (DLSN(2, 1, 1), 11),
        (DLSN(2, 0, 1), 10),  # entry 0 is the control record of the roll
        (DLSN(3, 0, 0), 15),
        (DLSN(9, 0, 0), 15),
    ],
)
def test_start_positions(tmp_path: Path, start: DLSN, expected: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for first in (0, 5):
            await write(writer, *range(first, first + 5))
        await writer.roll()
        await write(writer, *range(10, 15))
        reader = await log.open_reader(start)
        assert await txids(reader) == list(range(expected, 15))
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_read_ahead_is_bounded_and_ordered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=8, read_ahead_bytes=10_000)
        writer = await log.open_writer(Listener())
        for txid in range(100):
            put(writer, txid, b"x" * 1000)
            await writer.flush()
        reader = await log.open_reader(INITIAL)
        world.bookie.requests.clear()
        found = await txids(reader, 1)
        await settle()
        asked = sum(isinstance(r, ReadRequest) for r in world.bookie.requests)
        assert found == [0]
        assert asked <= 4 + 8
        while batch := await txids(reader, 3000):
            found += batch
        assert found == list(range(100))
        asked = sum(isinstance(r, ReadRequest) for r in world.bookie.requests)
        assert asked == 100, "an entry was read twice"
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_the_next_piece_is_asked_for_before_the_consumer_has_this_one(tmp_path: Path) -> None:
    """It may work for long without a pause, and then have to wait for what could be here."""

    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=4)
        writer = await log.open_writer(Listener())
        for txid in range(12):
            put(writer, txid)
            await writer.flush()
        reader = await log.open_reader(INITIAL)
        world.bookie.requests.clear()
        entries = await reader.read_entries(1)
        asked = [r.entry_id for r in world.bookie.requests if isinstance(r, ReadRequest)]
        assert [entry.entry_id for entry in entries] == [0]
        assert asked == list(range(8))
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_the_tail_wakes_a_reader_of_the_same_process(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(lac_poll_ms=3_600_000)
        reader = await log.open_reader(INITIAL)
        assert await txids(reader) == []
        writer = await log.open_writer(Listener())
        found: list[int] = []

        async def follow() -> None:
            while len(found) < 50:
                await reader.wait_for_more()
                found.extend(await txids(reader))

        async with asyncio.TaskGroup() as group:
            _ = group.create_task(follow())
            for txid in range(50):
                put(writer, txid)
                await settle(3)
                if txid % 20 == 19:
                    await writer.roll()
            await writer.flush()
        assert found == list(range(50))
        assert len(log.segments) == 3
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_reader_of_another_process_follows(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=2)
        other = await world.log(client_id="other", lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        found: list[int] = []

        async def follow(count: int) -> None:
            while len(found) < count:
                found.extend(await txids(reader))
                await reader.wait_for_more()

        writer = await log.open_writer(Listener())
        for first in range(0, 12, 4):
            await write(writer, *range(first, first + 3))
            await follow(first + 3)
            await writer.roll()
            await write(writer, first + 3)
            await follow(first + 4)
        await writer.close()
        assert found == list(range(12))
        await reader.close()

    run_world(tmp_path, story)


def test_bookies_wake_a_reader_of_another_process(tmp_path: Path) -> None:
    """Nothing else would: the reader's own look comes after an hour."""

    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=2)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await writer.flush()
        other = await world.log(client_id="other", lac_poll_ms=3_600_000)
        readers = [await other.open_reader(INITIAL) for _ in range(3)]
        found: list[list[int]] = [[], [], []]

        async def follow(reader: LogReader, into: list[int]) -> None:
            into.extend(await txids(reader))
            while len(into) < 30:
                await reader.wait_for_more()
                into.extend(await txids(reader))

        async with asyncio.TaskGroup() as group:
            for reader, into in zip(readers, found, strict=True):
                _ = group.create_task(follow(reader, into))
            for txid in range(1, 30):
                await write(writer, txid)
                if txid % 10 == 0:
                    await writer.roll()
            await writer.close()
        assert found == [list(range(30))] * 3
        assert len(log.segments) == 3
        for reader in readers:
            await reader.close()
        await other.close()

    run_world(tmp_path, story)


def test_a_foreign_segment_that_comes_again_with_another_ledger(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        world.bookie.hold()
        put(writer, 0)
        while not log.segments:
            await log.tail_moved(log.tail_version)
        other = await world.log(client_id="other", lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        world.bookie.release(0)
        world.bookie._held = None
        assert await txids(reader) == []
        await writer.abort()
        writer = await log.open_writer(Listener())  # deletes the segment
        await write(writer, 0, 1)
        await writer.close()
        found: list[int] = []
        while len(found) < 2:
            found += await txids(reader)
        assert found == [0, 1]
        await reader.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("deletes", [True, False])
def test_the_end_of_a_ledger_without_records_is_not_the_segments(
    tmp_path: Path, *, deletes: bool
) -> None:
    """Recovery closes the ledger first; then the segment comes again with another one."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        world.bookie.hold()
        put(writer, 0)
        while not log.segments:
            await log.tail_moved(log.tail_version)
        other = await world.log(client_id="other", lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        world.bookie.release(0)
        world.bookie._held = None
        assert await txids(reader) == []
        await writer.abort()
        (segment,) = other.segments
        await world.ledgers().open_ledger(segment.ledger_id, recover=True)
        for _ in range(3):  # recovery has not come further: there is nothing, and nothing is over
            assert await txids(reader) == []
            await reader.wait_for_more()
        if deletes:
            await world.ledgers().delete_ledger(segment.ledger_id)
            assert await txids(reader) == []
        writer = await log.open_writer(Listener())
        await write(writer, 0, 1)
        await writer.roll()
        await write(writer, 2)
        await writer.close()
        found: list[int] = []
        while 2 not in found:
            found += await txids(reader)
            await reader.wait_for_more()
        assert found == [0, 1, 2]
        await reader.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_back", [True, False])
def test_a_txid_is_found_although_recovery_deleted_a_segment(
    tmp_path: Path, *, is_back: bool
) -> None:
    """Whoever looks for it has not heard of that yet."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        world.bookie.hold()
        put(writer, 0)
        while not log.segments:
            await log.tail_moved(log.tail_version)
        other = await world.log(client_id="other", lac_poll_ms=1)
        await other.refresh()
        world.bookie.release(0)
        world.bookie._held = None
        await writer.abort()
        writer = await log.open_writer(Listener())  # deletes the segment
        if is_back:
            await write(writer, 0, 1)
        await writer.close()
        other._is_stale = False  # the notification is late
        assert await other.locate(1) == (DLSN(1, 0, 1) if is_back else None)
        other._is_stale = False
        reader = await other.open_reader(1)
        assert await txids(reader) == ([1] if is_back else [])
        await reader.close()

    run_world(tmp_path, story)


def test_a_failing_bookie_loses_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=2)
        writer = await log.open_writer(Listener())
        for txid in range(20):
            await write(writer, txid)
        reader = await log.open_reader(INITIAL)
        found = await txids(reader, 1)
        world.bookie.fault = lambda _: StatusCode.LOCAL_UNAVAILABLE
        while True:
            try:
                batch = await txids(reader, 100)
            except BookieUnavailable:
                break
            found += batch
        assert len(found) < 20
        world.bookie.fault = lambda _: None
        while batch := await txids(reader, 100):
            found += batch
        assert found == list(range(20))
        world.bookie.flip_bit(log.segments.segments[0].ledger_id, 3)
        again = await log.open_reader(INITIAL)
        with pytest.raises(CorruptData):
            await drain(again)
        await reader.close()
        await again.close()
        await writer.close()

    run_world(tmp_path, story)


def test_an_entry_that_nobody_can_take_apart_is_never_skipped(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for txid in range(6):
            await write(writer, txid)
        await writer.close()
        segment = log.segments.segments[0]
        entries = world.bookie.ledgers[segment.ledger_id].entries
        metadata = await log._ledgers.ledger_metadata(segment.ledger_id)
        digest = Digest(metadata.digest, metadata.password)
        entries[3] = b"".join(pack_entry(segment.ledger_id, 3, 2, 9, (b"no record",), digest))
        reader = await log.open_reader(INITIAL)
        assert await txids(reader) == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(CorruptData):
                await reader.read(1)
        await reader.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("max_bytes", [1, 80, 200, 1 << 20])
def test_entries_come_whole_and_mix_with_records(tmp_path: Path, max_bytes: int) -> None:
    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=3)
        writer = await log.open_writer(Listener())
        for first in range(0, 30, 3):
            await write(writer, *range(first, first + 3))
        reader = await log.open_reader(DLSN(1, 0, 1))
        found: list[int] = []
        while entries := await reader.read_entries(max_bytes):
            for entry in entries:
                assert next(entry.records()).record.txid == entry.columns.txids[0]
                found += entry.columns.txids
            found += await txids(reader, 1)
        assert found == list(range(1, 30))
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_cancelled_read_loses_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=2)
        writer = await log.open_writer(Listener())
        for txid in range(20):
            await write(writer, txid)
        reader = await log.open_reader(INITIAL)
        found: list[int] = []
        for turns in range(120):
            reading = asyncio.get_running_loop().create_task(txids(reader, 90))
            await settle(turns % 41)
            if not reading.done():
                reading.cancel()
            with suppress(asyncio.CancelledError):
                found += await reading
        while batch := await txids(reader, 90):  # a busy machine answers none of those in time
            found += batch
        assert found == list(range(20))
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_closing_ends_a_read_under_way(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=1)
        writer = await log.open_writer(Listener())
        for txid in range(5):
            await write(writer, txid)
        reader = await log.open_reader(INITIAL)
        assert await txids(reader, 1) == [0]
        world.bookie.hold()
        reading = asyncio.get_running_loop().create_task(txids(reader, 10_000))
        await settle()
        await reader.close()
        await reader.close()
        world.bookie.release()
        with suppress(Unavailable):
            await reading
        await writer.close()

    run_world(tmp_path, story)


def test_a_deleted_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        await namespace.delete_log("s")
        other = world.namespace(client_id="other")
        with pytest.raises(LogNotFound):
            await other.open_log("s")
        log._is_stale = True
        with pytest.raises(LogNotFound):
            await log.open_reader(INITIAL)

    run_world(tmp_path, story)
