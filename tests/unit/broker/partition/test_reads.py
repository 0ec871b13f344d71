"""Readers behind the cache: sequential reads do not seek, and nothing stays open for ever."""

import asyncio

import pytest

from broker.partition.partition_log import PartitionLog
from broker.partition.reads import OpenReaders, ReadRange
from core.errors import BookieUnavailable
from core.log.resume import Place
from protocol.distributedlog.dlsn import DLSN
from protocol.ids import Buffer, LedgerId, TopicPartition
from protocol.records.batch import read_header
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
    assert stream.readers_opened == 1
    assert (await log.read_log(40, 1000, at_least_one=True)).parts == ()


@in_loop
async def test_limits_and_the_range_hold() -> None:
    _, _, stream = await filled()
    size = len(batch(2))
    readers = OpenReaders(4)

    async def start() -> Place:
        return Place(DLSN(1, 0, 0), LedgerId(1))

    async def read(*span: object) -> tuple[list[int], bool]:
        found = await readers.read(stream, ReadRange(*span), start)  # type: ignore[arg-type]
        return bases(list(found.parts)), found.limited

    assert await read(5, 40, 2 * size) == ([4, 6], True)
    assert await read(5, 40, 1) == ([4], True)
    assert await read(5, 40, 1, False) == ([], True)
    assert await read(5, 8, 100 * size) == ([4, 6], False)
    assert await read(8, 8, 100 * size) == ([], False)
    assert await read(5, 8, size) == ([4], True)
    assert await read(30, 40, 100 * size) == ([30, 32, 34, 36, 38], False)


@in_loop
async def test_the_number_of_open_readers_is_bounded() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(3)

    async def at_start() -> Place:
        return Place(DLSN(1, 0, 0), LedgerId(1))

    for offset in range(0, 40, 4):
        await readers.read(stream, ReadRange(offset, 40, 1), at_start)
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

    async def start() -> Place:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await turns()
        inside -= 1
        return Place(DLSN(1, 0, 0), LedgerId(1))

    reads = [readers.read(stream, ReadRange(0, 40, 100 + n), start) for n in range(6)]
    assert all([(await read).parts for read in asyncio.as_completed(reads)])
    assert most == 2


@in_loop
async def test_a_read_that_is_cancelled_or_fails_leaves_no_reader_open() -> None:
    _, _, stream = await filled()
    readers = OpenReaders(3)

    async def at_start() -> Place:
        return Place(DLSN(1, 0, 0), LedgerId(1))

    async def read() -> None:
        await readers.read(stream, ReadRange(0, 40, 1 << 20), at_start)

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

    async def open_broken(_start: int, _near: Place) -> object:
        return reader

    stream.open_reader = open_broken  # type: ignore[method-assign, assignment]
    with pytest.raises(BookieUnavailable):
        await read()
    await readers.close()
    assert stream.readers_opened == stream.readers_closed


@in_loop
async def test_an_offset_that_no_record_reaches_is_nothing() -> None:
    _, _, stream = await filled(1)

    async def nowhere() -> None:
        return None

    found = await OpenReaders(1).read(stream, ReadRange(7, 40, 100), nowhere)
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
