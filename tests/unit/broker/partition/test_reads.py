"""Readers behind the cache: whoever reads on keeps a reader, all others read what they ask for."""

import asyncio
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.bookmarks import Bookmark, Bookmarks
from tailrace.broker.partition.kept_readers import READS_ON_BYTES
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.reads import OpenReaders, ReadRange, Source
from tailrace.core.errors import BookieUnavailable
from tailrace.core.log.resume import Place
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, LedgerId, TopicPartition
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import FakeLog, World, batch, make_world
from tests.unit.broker.loops import in_loop, turns


async def filled(batches: int = 20) -> tuple[World, PartitionLog, FakeLog]:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    for _ in range(batches):
        data = batch(2)
        await log.append(data, log.check(data))
    log.tail.clear()
    return world, log, world.log("t")


async def beginning(_offset: int) -> Place:
    return Place(DLSN(1, 0, 0), LedgerId(1))


def source(stream: FakeLog, in_memory_from: int = 1000) -> Source:
    marks = Bookmarks()
    return Source(stream, marks, beginning, lambda at: at >= in_memory_from)  # type: ignore[arg-type]


def bases(parts: list[Buffer] | tuple[Buffer, ...]) -> list[int]:
    return [read_header(part).base_offset for part in parts]


@in_loop
async def test_a_consumer_that_reads_on_uses_one_reader() -> None:
    _, log, stream = await filled()
    size = len(batch(2))
    offset, seen = 0, []
    while offset < 40:
        found = await log.read_log(offset, 3 * size, at_least_one=True)
        seen += bases(list(found.parts))
        assert len(found.parts) <= 3
        offset = read_header(found.parts[-1]).last_offset + 1
    assert seen == list(range(0, 40, 2))
    assert stream.readers_opened == 2, "one to look, one that stays"
    assert (await log.read_log(40, 1000, at_least_one=True)).parts == ()


@in_loop
async def test_what_comes_next_is_asked_for_when_the_reader_says_so_and_once() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(4)
    there = source(stream)
    for offset, asked in ((0, []), (2, []), (4, [1]), (6, [1, 2])):
        await readers.read(there, ReadRange(offset, 40, 1))
        assert stream.asked_ahead == asked, "by the reader that stays, behind its last entry"
        readers.ask_ahead()
        readers.ask_ahead()
    assert stream.asked_ahead == [1, 2, 3]
    await readers.read(there, ReadRange(8, 40, 1))
    await readers.forget(stream)
    readers.ask_ahead()
    assert stream.asked_ahead == [1, 2, 3]


@in_loop
async def test_who_takes_much_at_once_and_leaves_more_has_a_reader_at_once() -> None:
    _, log, stream = await filled(0)
    for _ in range(8):
        data = batch(1, size=READS_ON_BYTES // 2)
        await log.append(data, log.check(data))
    log.tail.clear()
    readers = OpenReaders(4)
    there = source(stream)
    size = len(batch(1, size=READS_ON_BYTES // 2))
    for span, kept in (
        (ReadRange(3, 8, size), 0),  # too little
        (ReadRange(5, 8, 10 * size), 0),  # all there is
        (ReadRange(0, 8, 2 * size), 1),
    ):
        await readers.read(there, span)
        assert len(readers) == kept
    readers.ask_ahead()
    assert stream.asked_ahead == [1]
    await readers.close()

    readers = OpenReaders(4)
    await readers.read(there, ReadRange(0, 8, 2 * size))
    mark = there.marks.take(2)
    assert mark is None
    await readers.forget(stream)
    there.marks.leave(2, Bookmark(Place(DLSN(1, 2, 0), LedgerId(1)), -9, 0, 0, 0))
    await readers.read(there, ReadRange(2, 8, 2 * size))
    assert len(readers) == 0, "its consumer did not come back in time before"


@in_loop
async def test_a_reader_of_a_log_that_was_rewritten_is_not_told_to_read_on() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(4)
    there = source(stream)
    for offset in (0, 2):
        await readers.read(there, ReadRange(offset, 40, 1))
    stream.rewrites += 1
    readers.ask_ahead()
    assert (len(readers), stream.asked_ahead) == (1, [])


@in_loop
async def test_a_reader_in_use_does_not_stay_when_its_log_is_forgotten_meanwhile() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(4)
    there = source(stream)
    for offset in (0, 2):
        await readers.read(there, ReadRange(offset, 40, 1))
    reading = asyncio.create_task(readers.read(there, ReadRange(4, 40, 1)))
    await asyncio.sleep(0)
    await readers.forget(stream)
    assert bases(list((await reading).parts)) == [4]
    assert len(readers) == 0
    assert stream.readers_opened == stream.readers_closed


@in_loop
async def test_nothing_is_taken_for_the_first_batch() -> None:
    """The offset lies behind the first entries that a reader meets, and no byte was asked for."""
    _, _, stream = await filled()
    readers = OpenReaders(4)
    found = await readers.read(source(stream), ReadRange(7, 40, 0))
    assert (bases(list(found.parts)), found.limited) == ([6], True)


@in_loop
async def test_who_goes_on_in_memory_leaves_no_reader() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(4)
    there = source(stream, in_memory_from=8)
    for offset, kept in ((2, 0), (4, 1), (6, 0)):
        found = await readers.read(there, ReadRange(offset, 40, 1))
        assert bases(list(found.parts)) == [offset]
        assert len(readers) == stream.readers_opened - stream.readers_closed == kept


@in_loop
async def test_a_consumer_that_comes_to_the_tail_cache_leaves_no_reader() -> None:
    _, log, stream = await filled()
    data = batch(2)
    await log.append(data, log.check(data))  # the only one in the cache
    for offset in range(0, 40, 2):
        await log.read_log(offset, 1, at_least_one=True)
        assert stream.readers_opened - stream.readers_closed == (0 < offset < 38)
    assert log.read_tail(40, 1, at_least_one=True) is not None


@in_loop
async def test_limits_and_the_range_hold() -> None:
    _, _, stream = await filled()
    size = len(batch(2))
    readers = OpenReaders(4)
    there = source(stream)

    async def read(*span: object) -> tuple[list[int], bool]:
        found = await readers.read(there, ReadRange(*span))  # type: ignore[arg-type]
        return bases(list(found.parts)), found.limited

    assert await read(5, 40, 2 * size) == ([4, 6], True)
    assert await read(5, 40, 1) == ([4], True)
    assert await read(5, 40, 1, False) == ([], True)
    assert await read(5, 8, 100 * size) == ([4, 6], False)
    assert await read(8, 8, 100 * size) == ([], False)
    assert await read(5, 8, size) == ([4], True)
    assert await read(4, 8, 2 * size) == ([4, 6], False)
    for _ in range(2):
        assert await read(4, 5, size - 1, False) == ([], False), "the batch is not shown whole"
    assert await read(30, 40, 100 * size) == ([30, 32, 34, 36, 38], False)


@in_loop
async def test_the_number_of_open_readers_is_bounded() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(3)
    there = source(stream)
    for offset in range(0, 36, 6):
        await readers.read(there, ReadRange(offset, 40, 1))
        await readers.read(there, ReadRange(offset + 2, 40, 1))
        assert len(readers) == min(3, offset // 6 + 1)
    assert len(readers) == 3
    assert stream.readers_opened - stream.readers_closed == 3
    await readers.forget(stream)
    assert len(readers) == 0
    assert stream.readers_opened == stream.readers_closed


@in_loop
async def test_the_number_of_readers_in_use_is_bounded_too() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(2)
    inside, most = 0, 0

    async def start(_offset: int) -> Place:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await turns()
        inside -= 1
        return Place(DLSN(1, 0, 0), LedgerId(1))

    there = source(stream)._replace(locate=start)
    reads = [readers.read(there, ReadRange(0, 40, 100 + n)) for n in range(6)]
    assert all([(await read).parts for read in asyncio.as_completed(reads)])
    assert most == 2


@in_loop
async def test_a_read_that_is_cancelled_or_fails_leaves_no_reader_open() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(3)
    there = source(stream)

    async def read() -> None:
        await readers.read(there, ReadRange(0, 40, 1 << 20))

    task = asyncio.get_running_loop().create_task(read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(readers) == 0
    await readers.close()
    assert stream.readers_opened == stream.readers_closed

    reader = await stream.open_reader(DLSN(1, 0, 0))

    async def broken(max_bytes: int) -> None:
        raise BookieUnavailable("away")

    reader.read_entries = broken  # type: ignore[method-assign, assignment]

    async def open_broken(_start: int, _near: Place, **_: bool) -> object:
        return reader

    stream.open_reader = open_broken  # type: ignore[method-assign, assignment]
    with pytest.raises(BookieUnavailable):
        await read()
    await readers.close()
    assert stream.readers_opened == stream.readers_closed


@in_loop
async def test_consumers_that_are_too_many_to_keep_readers_read_only_what_they_ask_for() -> None:
    streams = [source((await filled())[2]) for _ in range(4)]
    readers = OpenReaders(3)
    for offset in range(0, 40, 2):
        for stream in streams:
            found = await readers.read(stream, ReadRange(offset, 40, 1))
            assert bases(list(found.parts)) == [offset]
            assert len(stream.marks) == 1
    assert len(readers) == 0
    for stream in streams:
        assert stream.log.readers_ahead == 0  # type: ignore[attr-defined]
        assert stream.log.readers_closed == 20  # type: ignore[attr-defined]
        assert stream.log.located_by_reader == list(range(20))  # type: ignore[attr-defined]


@in_loop
async def test_a_batch_that_is_known_to_be_too_large_is_not_read_again() -> None:
    """Of a hundred partitions in a fetch for one byte each, one has a batch in the answer."""
    _, _, stream = await filled()
    size = len(batch(2))
    readers = OpenReaders(3)
    there = source(stream)
    for _ in range(5):
        found = await readers.read(there, ReadRange(4, 40, size - 1, at_least_one=False))
        assert (list(found.parts), found.limited) == ([], True)
        assert stream.readers_opened == 1
    found = await readers.read(there, ReadRange(4, 40, size, at_least_one=False))
    assert bases(list(found.parts)) == [4]
    await readers.read(there, ReadRange(20, 40, 1, at_least_one=False))
    assert bases(list((await readers.read(there, ReadRange(20, 40, 1))).parts)) == [20]
    await readers.read(there, ReadRange(30, 40, 1, at_least_one=False))
    opened = stream.readers_opened
    stream.rewrites += 1
    await readers.read(there, ReadRange(30, 40, 1, at_least_one=False))
    assert stream.readers_opened == opened + 1


@in_loop
async def test_a_reader_that_makes_room_for_another_leaves_a_bookmark() -> None:
    one, other = [source((await filled())[2]) for _ in range(2)]
    other.log.rewrites = 7  # type: ignore[misc]
    readers = OpenReaders(1)
    for stream in (one, other):
        for offset in (0, 2, 4):
            await readers.read(stream, ReadRange(offset, 40, 1))
    assert (len(readers), len(one.marks), len(other.marks)) == (1, 1, 0)
    mark = one.marks.find(6)
    assert mark is not None
    assert (mark.place.dlsn, mark.read_number, mark.rewrites) == (DLSN(1, 3, 0), 3, 0)


@in_loop
async def test_as_many_consumers_as_readers_are_kept_have_one_each() -> None:
    streams = [source((await filled())[2]) for _ in range(3)]
    readers = OpenReaders(3)
    for offset in range(0, 40, 2):
        for stream in streams:
            found = await readers.read(stream, ReadRange(offset, 40, 1))
            assert bases(list(found.parts)) == [offset]
    assert len(readers) == 3
    assert [stream.log.readers_opened for stream in streams] == [2, 2, 2]  # type: ignore[attr-defined]


@in_loop
async def test_a_bookmark_of_a_log_that_was_rewritten_meanwhile_is_not_left() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(3)
    there = source(stream)
    opened = stream.open_reader

    async def open_reader(*where: object, **how: bool) -> object:
        reader = await opened(*where, **how)  # type: ignore[arg-type]
        stream.rewrites += 1
        return reader

    stream.open_reader = open_reader  # type: ignore[method-assign, assignment]
    assert bases(list((await readers.read(there, ReadRange(0, 40, 1))).parts)) == [0]
    assert len(there.marks) == 0
    assert bases(list((await readers.read(there, ReadRange(2, 40, 1))).parts)) == [2]


@cache
def three_logs() -> list[FakeLog]:
    return [asyncio.run(filled())[2] for _ in range(3)]


Wanted = tuple[int, int, int, int]
"""Which log, from where, up to where, how many bytes."""
wanted = st.tuples(st.integers(0, 2), st.integers(0, 39), st.integers(0, 20), st.integers(1, 2000))


@given(st.lists(wanted | st.integers(0, 2), max_size=30), st.integers(1, 4))
def test_any_reads_of_any_consumers_give_what_is_there(
    steps: list[Wanted | int], limit: int
) -> None:
    """A number alone: the consumer of that log reads on."""
    asyncio.run(any_reads(three_logs(), steps, limit))


async def any_reads(logs: list[FakeLog], steps: list[Wanted | int], limit: int) -> None:
    streams = [source(log) for log in logs]
    size = len(batch(2))
    readers = OpenReaders(limit)
    nexts = [0, 0, 0]
    for step in steps:
        each, offset, batches, room = (
            (step, nexts[step], 20, 3 * size) if isinstance(step, int) else step
        )
        end = min(offset - offset % 2 + 2 * batches, 40)
        found = await readers.read(streams[each], ReadRange(offset, end, room))
        there = list(range(offset - offset % 2, end, 2))
        expected = there[: max(room // size, 1)]
        assert bases(list(found.parts)) == expected
        assert found.limited == (len(expected) < len(there))
        if expected:
            nexts[each] = expected[-1] + 2
        readers.ask_ahead()
        assert len(readers) <= limit
    await readers.close()
    for log in logs:
        assert log.readers_opened == log.readers_closed


@in_loop
async def test_an_offset_that_no_record_reaches_is_nothing() -> None:
    _, _, stream = await filled(1)

    async def nowhere(_offset: int) -> None:
        return None

    there = source(stream)._replace(locate=nowhere)
    found = await OpenReaders(1).read(there, ReadRange(7, 40, 100))
    assert (found.parts, found.size) == ((), 0)


@in_loop
async def test_a_read_that_outlives_its_log_leaves_no_reader_for_another_of_that_name() -> None:
    world, log, stream = await filled()
    reading = asyncio.create_task(log.read_log(0, len(batch(2)), at_least_one=True))
    await asyncio.sleep(0)
    assert stream.readers_opened == 1
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    await reading
    recreated = FakeLog("t-0")
    world.namespace.logs["t-0"] = recreated
    other = await world.open("t")
    for _ in range(3):
        data = batch(2, size=77)
        await other.append(data, other.check(data))
    other.tail.clear()
    found = await other.read_log(2, 1, at_least_one=True)
    assert [len(part) for part in found.parts] == [len(batch(2, size=77))]
