"""The log start: on disk before it is told, never back, segments after it."""

import asyncio
from typing import Any

import pytest

from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.notes import LogNotes, read_notes
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.trimming import (
    SegmentFacts,
    delete_records,
    delete_segments_before,
    segments_for_retention,
)
from tailrace.core.errors import (
    BadVersion,
    BookieUnavailable,
    ColdObjectNotFound,
    CorruptData,
    EntryNotFound,
    LedgerNotFound,
    Unavailable,
)
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop


async def with_segments(*batches: int) -> tuple[World, PartitionLog]:
    """Return a partition whose segments hold so many batches of two records."""
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    for number, count in enumerate(batches):
        if number:
            await log.roll()
        for _ in range(count):
            await log.append(batch(2, timestamp=1000 * (number + 1)))
    return world, log


def lssns(world: World) -> list[int]:
    return [segment.lssn for segment in world.log("t").segments]


@in_loop
async def test_deleting_records_hides_them_and_deletes_whole_segments() -> None:
    world, log = await with_segments(2, 2, 2, 2)
    assert await delete_records(log, 6) == 6
    assert log.log_start_offset == 6
    assert lssns(world) == [2, 3, 4]
    assert world.log("t").truncated is not None
    assert await delete_records(log, -1) == 16
    assert lssns(world) == [3, 4]  # the last completed one stays
    assert log.end_of_epoch(log.leader_epoch) == (log.leader_epoch, 16)


@pytest.mark.parametrize("offset", [-2, 5])
@in_loop
async def test_an_offset_outside_is_refused(offset: int) -> None:
    _, log = await with_segments(2)
    with pytest.raises(KafkaError) as refused:
        await delete_records(log, offset)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@in_loop
async def test_a_topic_that_only_compacts_keeps_its_records() -> None:
    world, log = await with_segments(2)
    world.topics.add("t", configs={"cleanup.policy": "compact"})
    with pytest.raises(KafkaError) as refused:
        await delete_records(log, 1)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


@in_loop
async def test_a_topic_of_which_nothing_goes_by_itself_may_be_cut_by_hand() -> None:
    """As in Kafka 4.3.1: there is no other way to make room."""
    world, log = await with_segments(2)
    world.topics.add("t", configs={"cleanup.policy": ""})
    assert await delete_records(log, 2) == 2


@in_loop
async def test_the_log_start_survives_a_restart_and_never_falls() -> None:
    world, log = await with_segments(3)
    async with asyncio.TaskGroup() as group:
        for offset in (5, 2, 4):
            group.create_task(delete_records(log, offset))
    assert log.log_start_offset == 5
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    again = await world.open("t")
    assert (again.log_start_offset, again.log_end_offset) == (5, 6)
    await delete_segments_before(again, 1)
    assert again.log_start_offset == 5


@in_loop
async def test_a_log_without_records_keeps_its_place() -> None:
    world, log = await with_segments(2, 1)
    await delete_records(log, -1)
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    again = await world.open("t")
    assert (again.log_start_offset, again.log_end_offset) == (6, 6)


@in_loop
async def test_notes_that_do_not_decode_are_corrupt_data() -> None:
    world = make_world()
    world.topics.add("t")
    world.log("t").data = b'{"log_start_offset": "x"}'
    with pytest.raises(KafkaError) as refused:
        await world.open("t")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert issubclass(CorruptData, Exception)


@in_loop
async def test_segments_are_known_from_memory_from_their_index_and_by_reading() -> None:
    world, log = await with_segments(1, 2, 3)
    live = await segments_for_retention(log)
    size = len(batch(2))
    assert live == [
        SegmentFacts(1, 0, 2, size, 1000, in_progress=False),
        SegmentFacts(2, 2, 6, 2 * size, 2000, in_progress=False),
        SegmentFacts(3, 6, 12, 3 * size, 3000, in_progress=True),
    ]
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    world.log("t").segments[1].index = None
    again = await world.open("t")
    assert again.state.indexes == {}
    late = await segments_for_retention(again)
    assert [each._replace(in_progress=False) for each in live] == late
    reads = world.log("t").reads
    await segments_for_retention(again)
    assert world.log("t").reads == reads


@in_loop
async def test_a_partition_that_was_given_up_trims_nothing_any_more() -> None:
    """Whoever opened it since, perhaps as another topic of that name, has a start of its own."""
    world, log = await with_segments(2, 2, 2)
    await log.close()
    kept = lssns(world)
    with pytest.raises(Unavailable):
        await delete_segments_before(log, 6)
    assert (world.log("t").data, world.log("t").truncated, lssns(world)) == (b"", None, kept)


@in_loop
async def test_a_partition_that_is_given_up_meanwhile_trims_no_further() -> None:
    world, log = await with_segments(2, 2, 2)
    kept = lssns(world)
    trimming = asyncio.create_task(delete_segments_before(log, 6))  # waits for its first write
    await asyncio.sleep(0)
    await log.close()
    with pytest.raises(Unavailable):
        await trimming
    assert (world.log("t").truncated, lssns(world)) == (None, kept)


@in_loop
async def test_a_start_that_is_not_on_disk_is_told_to_nobody() -> None:
    world, log = await with_segments(2, 2, 2)
    kept = lssns(world)

    async def refuse(_data: bytes) -> None:
        raise Unavailable("the disk is full")

    world.log("t").set_data = refuse  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        await delete_records(log, 6)
    assert (log.log_start_offset, lssns(world)) == (0, kept)


@in_loop
async def test_a_start_that_a_former_owner_put_on_disk_late_does_not_fall() -> None:
    world, log = await with_segments(2, 2, 2)
    stream = world.log("t")
    set_data = stream.set_data

    async def refuse_once(_data: bytes) -> None:
        stream.set_data = set_data  # type: ignore[method-assign]
        raise BadVersion("not what you knew")

    stream.data = LogNotes(log_start_offset=6).encode()
    stream.set_data = refuse_once  # type: ignore[method-assign]
    with pytest.raises(BadVersion):
        await delete_records(log, 4)
    assert await delete_records(log, 4) == 6
    assert (await read_notes(stream)).log_start_offset == 6  # type: ignore[arg-type]


def lose(world: World, lost: int, error: type[Exception]) -> None:
    """Let nothing of a segment be read."""
    stream = world.log("t")
    read, open_reader = stream.read_index, stream.open_reader

    async def read_index(lssn: int) -> bytes | None:
        if lssn == lost:
            raise error(f"segment {lost}")
        return await read(lssn)

    async def open_lost(start: Any, **how: Any) -> Any:
        if isinstance(start, DLSN) and start.lssn == lost:
            raise error(f"segment {lost}")
        return await open_reader(start, **how)

    stream.read_index = read_index  # type: ignore[method-assign]
    stream.open_reader = open_lost  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("error", [CorruptData, ColdObjectNotFound, LedgerNotFound, EntryNotFound])
@in_loop
async def test_a_lost_segment_keeps_no_other_from_being_trimmed(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    world, _ = await with_segments(2, 2, 2, 2)
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    log = await world.open("t")  # knows no totals yet
    lose(world, 1, error)
    for _ in range(2):
        lost, *others = await segments_for_retention(log)
        assert (lost.lssn, lost.next_offset, lost.size_bytes) == (1, 4, 0)
        assert lost.newest_ms >= others[0].newest_ms, "it goes with the next one"
        assert [each.next_offset for each in others] == [8, 12, 16]
    assert caplog.text.count("segment_unreadable") == 1
    assert await delete_records(log, 9) == 9
    assert lssns(world) == [3, 4]


@pytest.mark.parametrize("error", [Unavailable, BookieUnavailable])
@in_loop
async def test_what_is_only_away_is_waited_for(error: type[Exception]) -> None:
    world, _ = await with_segments(2, 2, 2)
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    log = await world.open("t")
    lose(world, 1, error)
    with pytest.raises(error):
        await segments_for_retention(log)


@in_loop
async def test_a_segment_in_progress_is_never_taken_for_lost() -> None:
    world, log = await with_segments(2, 2)
    newest = world.log("t").segments[-1]
    assert newest.in_progress
    del log.state.indexes[newest.lssn]
    lose(world, newest.lssn, CorruptData)
    with pytest.raises(CorruptData):
        await segments_for_retention(log)
