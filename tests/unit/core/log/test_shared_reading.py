"""Many readers of one log: each entry comes from the bookies once, within bounds."""

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import cast

import pytest

from tailrace.core.errors import BookieUnavailable, CorruptData
from tailrace.core.log.entry_cache import (
    ENTRY_OVERHEAD_BYTES,
    KEPT_FOR_S,
    KEPT_FOR_S_MAX,
    Chunk,
    ChunkHome,
    EntryCache,
)
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.log.reader_settings import ReadRules
from tailrace.core.log.segment_cursor import SegmentCursor
from tailrace.core.log.tail_follower import TailFollower
from tailrace.protocol.bookkeeper.messages import ReadLacRequest, ReadRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.ids import LedgerId
from tests.unit.core.log.world import Listener, World, put, run_world, settle, write

ENTRY_BYTES = 1000 + ENTRY_OVERHEAD_BYTES + 33  # header of the record and the envelope


async def written(world: World, entries: int, *, roll_every: int = 1000) -> Log:
    """A log of `entries` entries of 1000 bytes, one record each; completed."""
    log = await world.log()
    writer = await log.open_writer(Listener())
    for txid in range(entries):
        put(writer, txid, b"x" * 1000)
        await writer.flush()
        if txid % roll_every == roll_every - 1:
            await writer.roll()
    await writer.close()
    return log


async def txids(reader: LogReader, max_bytes: int = 1 << 20) -> list[int]:
    return [txid for entry in await reader.read_entries(max_bytes) for txid in entry.columns.txids]


async def drain(reader: LogReader, max_bytes: int = 5000) -> list[int]:
    found: list[int] = []
    while batch := await txids(reader, max_bytes):
        found += batch
    return found


def reads(world: World) -> Counter[tuple[int, int]]:
    """How often each entry was asked for, by (ledger, entry); long polls do not count."""
    asked = [r for r in world.bookie.requests if isinstance(r, ReadRequest)]
    return Counter((r.ledger_id, r.entry_id) for r in asked if r.previous_lac is None)


def used(log: Log) -> int:
    return log._context.entries.used_bytes


@pytest.mark.parametrize("seed", range(5))
def test_each_entry_is_read_once_for_twenty_readers(tmp_path: Path, seed: int) -> None:
    """Over segments, each at its own pace, beginning in different places."""

    async def story(world: World) -> None:
        random = Random(seed)
        await written(world, 60, roll_every=17)
        log = await world.log(client_id="other", read_ahead_entries=5)
        firsts = [random.randrange(30) for _ in range(20)]
        starts = [await log.locate(first) for first in firsts]
        readers = [await log.open_reader(start or INITIAL) for start in starts]
        world.bookie.requests.clear()
        found: list[list[int]] = [[] for _ in readers]
        open_ones = list(range(len(readers)))
        while open_ones:
            which = random.choice(open_ones)
            batch = await txids(readers[which], random.choice([1, 3000, 20_000]))
            found[which] += batch
            if not batch:
                open_ones.remove(which)
        for first, each in zip(firsts, found, strict=True):
            assert each == list(range(first, 60))
        assert set(reads(world).values()) == {1}
        for reader in readers:
            await reader.close()
        assert used(log) == 0

    run_world(tmp_path, story)


def test_the_memory_of_slow_readers_is_bounded(tmp_path: Path) -> None:
    """Ten run ahead of one that stands still; it reads again what had no room."""

    async def story(world: World) -> None:
        await written(world, 200)
        limit = 20 * ENTRY_BYTES
        log = await world.log(
            client_id="other", read_ahead_bytes=4 * ENTRY_BYTES, read_cache_bytes=limit
        )
        slow, *readers = [await log.open_reader(INITIAL) for _ in range(11)]
        assert await txids(slow, 1) == [0]
        most = 0
        world.bookie.requests.clear()
        found: list[list[int]] = [[] for _ in readers]
        for _ in range(120):
            for reader, each in zip(readers, found, strict=True):
                each.extend(await txids(reader, 2000))
                most = max(most, used(log))
        assert found == [list(range(200))] * 10
        assert max(reads(world).values()) == 1, "those who run together read once"
        # What callers wait for may exceed the limit by one piece of each.
        assert most <= limit + 4 * ENTRY_BYTES
        assert used(log) > limit // 2, "nothing was kept for the slow one"
        assert await drain(slow) == list(range(1, 200))
        again = reads(world)
        assert set(again.values()) == {1, 2}
        assert sum(again.values()) <= 200 - 4 + 200, "what was kept was not read again"
        for reader in (slow, *readers):
            await reader.close()
        assert used(log) == 0

    run_world(tmp_path, story)


def test_readers_stop_reading_ahead_at_the_limit_of_the_process(tmp_path: Path) -> None:
    """The limit is that of all logs of a namespace."""

    async def story(world: World) -> None:
        namespace = world.namespace(read_cache_bytes=10 * ENTRY_BYTES, read_ahead_entries=4)
        logs: list[Log] = []
        for name in ("a", "b", "c", "d"):
            await namespace.create_log(name)
            logs.append(await namespace.open_log(name))
            writer = await logs[-1].open_writer(Listener())
            for txid in range(20):
                put(writer, txid, b"x" * 1000)
                await writer.flush()
            await writer.close()
        readers = [await log.open_reader(INITIAL) for log in logs]
        for reader in readers:
            assert await txids(reader, 1) == [0]
            await settle()
        assert used(logs[0]) <= 10 * ENTRY_BYTES + 4 * ENTRY_BYTES
        for reader in readers:
            assert await drain(reader) == list(range(1, 20))
        for reader in readers:
            await reader.close()
        assert used(logs[0]) == 0

    run_world(tmp_path, story)


def test_the_entries_of_long_polls_are_for_all_readers(tmp_path: Path) -> None:
    """At the tail of another process' log nobody asks for an entry that an answer brought."""

    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=1)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        other = await world.log(client_id="other", lac_poll_ms=3_600_000)
        readers = [await other.open_reader(INITIAL) for _ in range(5)]
        found: list[list[int]] = [[] for _ in readers]

        async def follow(reader: LogReader, into: list[int], last: int) -> None:
            while not into or into[-1] < last:
                into += await txids(reader)
                if into and into[-1] < last:
                    await reader.wait_for_more()

        world.bookie.requests.clear()
        async with asyncio.TaskGroup() as group:
            for reader, into in zip(readers, found, strict=True):
                _ = group.create_task(follow(reader, into, 20))
            for txid in range(1, 21):
                await write(writer, txid)
                await settle(60)
        assert found == [list(range(21))] * 5
        asked = reads(world)
        assert max(asked.values()) == 1
        for reader in readers:
            await reader.close()
        await writer.close()
        await other.close()

    run_world(tmp_path, story)


def test_a_reader_whose_close_is_cancelled_keeps_nothing_for_itself(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world, 10)
        log = await world.log(client_id="other", read_ahead_entries=2)
        reader = await log.open_reader(INITIAL)
        assert await txids(reader, 1) == [0]  # more is on its way
        closing = asyncio.create_task(reader.close())
        await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await settle()
        assert used(log) == 0
        assert not log._reading.shared._places

    run_world(tmp_path, story)


@pytest.mark.parametrize("ends", ["cancel", "close"])
def test_a_reader_that_ends_takes_nothing_from_those_who_wait_for_its_read(
    tmp_path: Path, ends: str
) -> None:
    """Apache issue 2185: what a closed reader had asked for left others pending."""

    async def story(world: World) -> None:
        await written(world, 10)
        log = await world.log(client_id="other", read_ahead_entries=3)
        first, second = await log.open_reader(INITIAL), await log.open_reader(INITIAL)
        if ends == "close":
            assert await txids(first, 1) == [0]  # and asks for the next ones
        loop = asyncio.get_running_loop()
        world.bookie.hold()
        one = loop.create_task(txids(first, 10_000))
        await settle()
        two = loop.create_task(drain(second))
        await settle()
        if ends == "cancel":
            one.cancel()
        else:
            await first.close()
        world.bookie.release()
        assert await two == list(range(10))
        with suppress(asyncio.CancelledError, Exception):
            await one
        await first.close()
        await second.close()
        assert used(log) == 0

    run_world(tmp_path, story)


def test_who_waits_for_a_read_that_fails_hears_of_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world, 10)
        log = await world.log(client_id="other")
        readers = [await log.open_reader(INITIAL) for _ in range(3)]
        await log.view(1)  # so that nobody waits for the store, which has a thread
        world.bookie.fault = lambda request: StatusCode.LOCAL_UNAVAILABLE
        world.bookie.hold()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(txids(reader)) for reader in readers]
        await settle()
        world.bookie.requests.clear()
        world.bookie.release()
        for task in tasks:
            with pytest.raises(BookieUnavailable):
                await task
        assert sum(reads(world).values()) == 0, "each asked again"
        world.bookie.fault = lambda request: None
        assert [await drain(reader) for reader in readers] == [list(range(10))] * 3
        for reader in readers:
            await reader.close()

    run_world(tmp_path, story)


def test_readers_that_look_together_ask_the_bookies_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        other = await world.log(client_id="other")
        readers = [await other.open_reader(INITIAL) for _ in range(10)]
        for reader in readers:
            while await txids(reader):
                pass
        await write(writer, 1, 2)
        segment = writer._chain.current
        assert segment is not None
        segment.add_control()  # tells the bookies
        await settle()
        world.bookie.requests.clear()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(txids(reader)) for reader in readers]
        assert [task.result() for task in tasks] == [[0, 1, 2]] * 10
        assert sum(isinstance(r, ReadLacRequest) for r in world.bookie.requests) == 1
        assert max(reads(world).values()) == 1
        for reader in readers:
            await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_kept_entries_make_room_when_nobody_came_for_them() -> None:
    class Home:
        def __init__(self) -> None:
            self.dropped: list[Chunk] = []

        def drop(self, chunk: Chunk) -> None:
            self.dropped.append(chunk)

    home = Home()
    cache = EntryCache(100)
    chunks = [Chunk(cast("ChunkHome", home), 1, LedgerId(1), at, at) for at in range(3)]
    for chunk, at_s in zip(chunks, (0.0, 0.5, 1.0), strict=True):
        cache.count(chunk, 30)
        cache.keep(chunk, at_s)
    cache.hold(chunks[0])
    assert cache.has_room(10, 1.0)
    assert not cache.has_room(11, 0.5 + KEPT_FOR_S - 0.01)
    assert home.dropped == []
    assert cache.has_room(11, 0.5 + KEPT_FOR_S)
    assert home.dropped == [chunks[1]], "the oldest that nobody holds"
    assert cache.used_bytes == 60
    assert not cache.has_room(41, 0.5 + KEPT_FOR_S)
    cache.forget(chunks[0])
    cache.forget(chunks[0])
    assert (cache.used_bytes, len(cache)) == (30, 1)
    assert cache.has_room(0, 1.0 + KEPT_FOR_S_MAX - 0.01)
    assert len(cache) == 1
    assert cache.has_room(0, 1.0 + KEPT_FOR_S_MAX)
    assert (cache.used_bytes, len(cache)) == (0, 0), "memory that nobody uses"


def test_a_reader_that_begins_late_shares_what_is_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world, 30)
        log = await world.log(client_id="other", read_ahead_entries=4)
        readers = [await log.open_reader(INITIAL) for _ in range(2)]
        world.bookie.requests.clear()
        assert [len(await txids(reader, 12_000)) for reader in readers] == [12, 12]
        late = await log.open_reader(DLSN(1, 13, 0))
        assert await drain(late) == list(range(13, 30))
        assert [await drain(reader) for reader in readers] == [list(range(12, 30))] * 2
        assert set(reads(world).values()) == {1}
        for reader in (late, *readers):
            await reader.close()
        assert used(log) == 0

    run_world(tmp_path, story)


def test_what_one_reader_heard_of_is_not_waited_for_by_another(tmp_path: Path) -> None:
    """A poll that begins then is for the entry behind it: it would wake nobody for an hour."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        other = await world.log(client_id="other", lac_poll_ms=3_600_000)
        slow, quick = [await other.open_reader(INITIAL) for _ in range(2)]
        assert await txids(slow) == []
        await writer.commit()
        assert await txids(quick) == [0]
        await slow.wait_for_more()
        assert await txids(slow) == [0]
        for reader in (slow, quick):
            await reader.close()
        await other.close()
        await writer.close()

    run_world(tmp_path, story)


def test_who_waits_after_an_error_waits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world, 3)
        log = await world.log(client_id="other", lac_poll_ms=1)
        reader = await log.open_reader(INITIAL)
        world.bookie.fault = lambda r: StatusCode.EIO if isinstance(r, ReadRequest) else None
        with pytest.raises(CorruptData):
            await txids(reader)
        waiting = asyncio.create_task(reader.wait_for_more())
        await asyncio.sleep(0)
        assert not waiting.done(), "it would ask failing bookies again and again"
        await waiting
        world.bookie.fault = lambda _: None
        assert await txids(reader) == [0, 1, 2]
        await reader.close()

    run_world(tmp_path, story)


def test_who_waits_the_moment_a_poll_ends_has_one_of_its_own(tmp_path: Path) -> None:
    """Before the loop gets to what follows the end of the poll's task."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        other = await world.log(client_id="other")
        await other.refresh()
        view = await other.view(1)
        moves: asyncio.Queue[int] = asyncio.Queue()

        def on_moved() -> None:
            moves.put_nowait(view.ledger.last_confirmed)
            asyncio.get_running_loop().call_soon(follower.follow, view, 3_600_000)

        follower = TailFollower(on_moved, other._reading.shared)
        follower.follow(view, 3_600_000)
        for count in range(1, 4):
            await write(writer, count)
            await writer.commit()
            async with asyncio.timeout(10):  # else nobody asks any more
                while await moves.get() < count:
                    pass
        await follower.stop()
        await writer.close()

    run_world(tmp_path, story)


def test_a_reader_that_does_not_read_ahead_reads_what_it_is_asked_for(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        log = await written(world, 40, roll_every=20)
        world.bookie.requests.clear()
        reader = await log.open_reader(DLSN(1, 5, 0), reads_ahead=False)
        assert await txids(reader, 3000) == [5, 6, 7]
        await settle()
        assert sorted(entry for _, entry in reads(world)) == [5, 6, 7]
        assert await drain(reader) == list(range(8, 40))
        await reader.close()

    run_world(tmp_path, body)


def test_a_reader_of_one_segment_reads_nothing_behind_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world, 12, roll_every=3)
        log = await world.log(client_id="reader")
        await log.refresh()
        for lssn in (2, 3):
            ledger = log.segments.find(lssn)
            for reads_ahead in (True, False):
                world.bookie.requests.clear()
                reader = await log.open_reader(
                    DLSN(lssn, 0, 0), reads_ahead=reads_ahead, rules=ReadRules(through_lssn=lssn)
                )
                assert await drain(reader) == list(range(3 * lssn - 3, 3 * lssn))
                assert await reader.read_entries(1 << 20) == []
                await settle()
                await reader.close()
                assert ledger is not None
                assert {ledger_id for ledger_id, _ in reads(world)} == {ledger.ledger_id}
        await log.truncate(DLSN(4, 0, 0))
        reader = await log.open_reader(DLSN(2, 0, 0), rules=ReadRules(through_lssn=2))
        assert await drain(reader) == [], "it begins behind its end"
        await reader.close()

    run_world(tmp_path, story)


def test_a_reader_that_does_not_read_ahead_does_when_it_is_told_to(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        log = await written(world, 40, roll_every=20)
        reader = await log.open_reader(DLSN(1, 5, 0), reads_ahead=False)
        reader.ask_ahead()  # it has not begun: nobody knows where
        assert await txids(reader, 3000) == [5, 6, 7]
        world.bookie.requests.clear()
        for _ in range(2):
            reader.ask_ahead()
            await settle()
        asked = reads(world)
        assert len(asked) == len(set(asked)), "each once"
        begun = log.segments.find(1)
        assert begun is not None
        ahead = sorted(entry for ledger, entry in asked if ledger == begun.ledger_id)
        assert ahead == list(range(8, 8 + len(ahead)))
        assert ahead
        world.bookie.requests.clear()
        assert await txids(reader, 1) == [8]
        assert not world.bookie.requests
        reader.ask_ahead()
        assert await drain(reader) == list(range(9, 40))
        await reader.close()
        reader.ask_ahead()
        world.bookie.requests.clear()
        await settle()
        assert not world.bookie.requests

    run_world(tmp_path, body)


def test_within_a_call_the_next_piece_is_on_its_way_while_one_is_taken(tmp_path: Path) -> None:
    """Nothing behind what was asked for is read all the same."""

    async def body(world: World) -> None:
        log = await world.log(read_ahead_entries=6)
        writer = await log.open_writer(Listener())
        for txid in range(40):
            put(writer, txid, b"x" * 100_000)
            await writer.flush()
        await writer.close()
        reader = await log.open_reader(DLSN(1, 0, 0), reads_ahead=False)
        assert await txids(reader, 1) == [0]
        world.bookie.requests.clear()
        asked: list[bool] = []
        ask = SegmentCursor.ask_ahead

        def ask_ahead(cursor: SegmentCursor, max_bytes: int | None = None) -> bool:
            asked.append(ask(cursor, max_bytes))
            return asked[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SegmentCursor, "ask_ahead", ask_ahead)
            assert await txids(reader, 2_000_000) == list(range(1, 21))
        await settle()
        assert asked == [True, True], "of the pieces of 6, 6, 6 and 2 the first and the last not"
        assert sorted(entry for _, entry in reads(world)) == list(range(1, 21))
        await reader.close()

    run_world(tmp_path, body)


def test_how_large_entries_are_is_learnt_once_for_all_readers_of_an_open_ledger(
    tmp_path: Path,
) -> None:
    async def body(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for txid in range(40):
            put(writer, txid, b"x" * 1000)
            await writer.flush()
        for first in (10, 20):
            world.bookie.requests.clear()
            reader = await log.open_reader(DLSN(1, first, 0), reads_ahead=False)
            assert await txids(reader, 2 * 1000) == [first, first + 1]
            await reader.close()
        ledger_id = world.bookie.requests[0].ledger_id
        assert sorted(reads(world)) == [(ledger_id, 20), (ledger_id, 21)]
        await writer.close()

    run_world(tmp_path, body)
