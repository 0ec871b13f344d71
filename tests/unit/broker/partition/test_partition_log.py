"""A partition over a log in memory: order, watermark, duplicates, failure, restart."""

import struct

import pytest

from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.producers import BATCHES_KEPT
from tailrace.broker.partition.timestamps import first_at, newest
from tailrace.core.errors import (
    CoreError,
    CorruptData,
    LedgerFenced,
    LogRecordTooLong,
    LogTruncated,
    NotEnoughBookies,
    OverCapacity,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header, stamp_crc, verify_crc
from tailrace.protocol.records.record import Producer
from tailrace.protocol.records.validate import InvalidBatch
from tests.unit.broker.fakes import FakeWriter, World, batch, make_world
from tests.unit.broker.heavy import walked
from tests.unit.broker.loops import in_loop, turns

LEADERLESS = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def opened(world: World, configs: dict[str, str] | None = None) -> PartitionLog:
    world.topics.add("t", configs=configs)
    return await world.open("t")


def writer_of(world: World) -> FakeWriter:
    writer = world.log("t").writer
    assert writer is not None
    return writer


def produce(log: PartitionLog, data: memoryview) -> Append:
    """Append as the produce handler does."""
    return log.append(data, log.check(data))


@in_loop
async def test_offsets_are_dense_and_readable_only_once_confirmed() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    first, second = produce(log, batch(3)), produce(log, batch(2))
    assert (log.log_end_offset, log.high_watermark) == (5, 0)
    assert not first.done()
    assert await log.read(0, 1000) == ()
    writer_of(world).confirm(2)
    assert first.result() == AppendResult(0, -1, 0)
    assert not second.done()
    assert log.high_watermark == 3
    writer_of(world).confirm(4)
    assert second.result() == AppendResult(3, -1, 0)
    assert [read_header(each).base_offset for each in await log.read(0, 10_000)] == [0, 3]


@in_loop
async def test_what_is_stored_is_what_came_but_for_offset_and_epoch() -> None:
    world = make_world()
    log = await opened(world)
    await produce(log, batch(2))
    data = batch(3)
    before = bytes(data)
    await produce(log, data)
    stored = bytes((await log.read(2, 1000))[0])
    header = read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (2, log.leader_epoch)
    assert stored[8:12] + stored[16:] == before[8:12] + before[16:]
    verify_crc(stored)
    assert (await log.read(2, 1000))[0] == data


@pytest.mark.parametrize("said", [-1, 5, 9_000_000_000_000])
@in_loop
async def test_the_max_timestamp_is_put_right(said: int) -> None:
    """It decides look-ups by time, retention and rolls, and some clients never set it."""
    world = make_world()
    log = await opened(world)
    now_ms = world.clock.now_ms()
    for made_ms in (now_ms - 2000, now_ms - 1000):
        lies = batch(2, timestamp=made_ms)
        struct.pack_into(">q", lies, 35, said)
        stamp_crc(lies)
        await produce(log, lies)
        stored = (await log.read(log.log_end_offset - 1, 1000))[0]
        verify_crc(stored)
        assert read_header(stored).max_timestamp == made_ms
    found = await newest(log, walked)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, now_ms - 1000)
    late = await first_at(log, now_ms - 1500, walked)
    assert late is not None
    assert late.offset == 2


@in_loop
async def test_log_append_time_is_stamped_answered_and_kept() -> None:
    world = make_world()
    log = await opened(world, {"message.timestamp.type": "LogAppendTime"})
    outcome = await produce(log, batch(1, producer=Producer(1, 0, 0)))
    assert outcome == AppendResult(0, world.clock.now_ms(), 0)
    stored = (await log.read(0, 1000))[0]
    verify_crc(stored)
    assert read_header(stored).is_log_append_time
    world.clock.advance_ms(5000)
    again = await produce(log, batch(1, producer=Producer(1, 0, 0)))
    assert again == outcome


@in_loop
async def test_a_duplicate_gets_the_original_answer_even_while_that_is_in_flight() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    original = produce(log, batch(2, producer=Producer(9, 0, 0)))
    repeat = produce(log, batch(2, producer=Producer(9, 0, 0)))
    assert log.log_end_offset == 2
    await turns()
    assert not repeat.done()
    writer_of(world).confirm()
    assert original.result() == repeat.result() == AppendResult(0, -1, 0)
    late = produce(log, batch(2, producer=Producer(9, 0, 0)))
    assert late.result() == AppendResult(0, -1, 0)


@in_loop
async def test_sequences_that_do_not_follow_are_refused_and_leave_no_trace() -> None:
    world = make_world()
    log = await opened(world)
    await produce(log, batch(1, producer=Producer(9, 1, 0)))
    outcome = produce(log, batch(1, producer=Producer(9, 1, 5))).result()
    assert outcome is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    outcome = produce(log, batch(1, producer=Producer(9, 0, 1))).result()
    assert outcome is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1
    assert await produce(log, batch(1, producer=Producer(9, 1, 1))) == AppendResult(1, -1, 0)


@in_loop
async def test_the_brokers_own_batches_are_taken_as_they_are() -> None:
    world = make_world()
    log = await opened(world)
    readonly = memoryview(bytes(batch(2, producer=Producer(9, 0, 100))))
    assert await log.append(readonly) == AppendResult(0, -1, 0)
    assert await log.append(readonly) == AppendResult(2, -1, 0)


@in_loop
async def test_bad_batches_are_refused_before_anything_is_enqueued() -> None:
    world = make_world()
    log = await opened(world, {"max.message.bytes": "200"})
    with pytest.raises(InvalidBatch) as too_large:
        produce(log, batch(1, size=500))
    assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE
    broken = batch(1)
    broken[-1] ^= 1
    with pytest.raises(InvalidBatch) as corrupt:
        produce(log, broken)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


@in_loop
async def test_what_the_log_cannot_take_is_refused_and_the_partition_lives() -> None:
    world = make_world()
    log = await opened(world, {"max.message.bytes": "3000000"})
    world.log("t").record_bytes_max = 1000
    data = batch(1, size=5000, producer=Producer(3, 0, 0))
    assert produce(log, data).result() is ErrorCode.MESSAGE_TOO_LARGE
    assert await produce(log, batch(1, producer=Producer(3, 0, 0))) == AppendResult(0, -1, 0)


@in_loop
async def test_settings_follow_the_topic() -> None:
    world = make_world()
    log = await opened(world, {"segment.bytes": "1048576"})
    assert writer_of(world).rolling.segment_bytes == 1048576
    world.topics.add("t", configs={"max.message.bytes": "100", "segment.ms": "77"})
    with pytest.raises(InvalidBatch):
        produce(log, batch(1, size=200))
    assert writer_of(world).rolling.segment_ms == 77


@in_loop
async def test_a_failure_answers_what_is_in_flight_as_unknown_and_wakes_readers() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    in_flight = produce(log, batch(1))
    writer_of(world).fail(LedgerFenced("somebody else"))
    assert in_flight.result() is LEADERLESS
    assert log.failure is LEADERLESS
    assert produce(log, batch(1)).result() is LEADERLESS
    assert world.broker.partitions.get(("t", 0)) is None


@in_loop
async def test_a_refusal_of_the_writer_is_an_outcome() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    writer_of(world).error = OverCapacity("full")
    assert produce(log, batch(1)).result() is ErrorCode.KAFKA_STORAGE_ERROR


@in_loop
@pytest.mark.parametrize(
    ("error", "refused", "behind"),
    [
        (OverCapacity("full"), ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (NotEnoughBookies(), ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (
            LogRecordTooLong("large"),
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ),
    ],
)
async def test_what_is_behind_a_batch_that_comes_again_comes_again_too(
    error: CoreError, refused: ErrorCode, behind: ErrorCode
) -> None:
    """Out of order makes librdkafka number its records anew, and idempotence ends."""
    world = make_world()
    log = await opened(world)
    assert await produce(log, batch(1, producer=Producer(9, 0, 0))) == AppendResult(0, -1, 0)
    writer_of(world).error = error
    assert produce(log, batch(1, producer=Producer(9, 0, 1))).result() is refused
    writer_of(world).error = None
    assert produce(log, batch(1, producer=Producer(9, 0, 2))).result() is behind
    assert await produce(log, batch(1, producer=Producer(9, 0, 1))) == AppendResult(1, -1, 0)
    assert await produce(log, batch(1, producer=Producer(9, 0, 2))) == AppendResult(2, -1, 0)


@in_loop
async def test_after_a_restart_everything_goes_on_where_it_was() -> None:
    world = make_world()
    log = await opened(world)
    for number in range(7):
        await produce(log, batch(1, producer=Producer(9, 0, number)))
    epoch = log.leader_epoch
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    again = await world.open("t")
    assert again is not log
    assert (again.log_end_offset, again.high_watermark) == (7, 7)
    assert again.leader_epoch > epoch
    assert again.end_of_epoch(epoch) == (epoch, 7)
    assert again.end_of_epoch(again.leader_epoch) == (again.leader_epoch, 7)
    for number in range(7 - BATCHES_KEPT, 7):
        repeat = produce(again, batch(1, producer=Producer(9, 0, number)))
        assert await repeat == AppendResult(number, -1, 0)
    assert await produce(again, batch(1, producer=Producer(9, 0, 7))) == AppendResult(7, -1, 0)


@pytest.mark.parametrize("landed", [False, True])
@in_loop
async def test_after_a_crash_only_what_is_in_the_log_counts(landed: bool) -> None:
    world = make_world(auto=False)
    log = await opened(world)
    acked = produce(log, batch(1, producer=Producer(9, 0, 0)))
    writer_of(world).confirm()
    assert acked.done()
    produce(log, batch(1, producer=Producer(9, 0, 1)))
    world.log("t").keep_unconfirmed = landed
    writer_of(world).fail(LedgerFenced("kill -9"))
    again = await world.open("t")
    assert again.high_watermark == (2 if landed else 1)
    repeat = produce(again, batch(1, producer=Producer(9, 0, 1)))
    writer_of(world).confirm()
    assert await repeat == AppendResult(1, -1, 0)
    assert again.log_end_offset == 2


@in_loop
async def test_a_roll_snapshots_only_what_is_in_the_log() -> None:
    """A batch that waits for the new segment must not be in its snapshot: it may yet be lost."""
    world = make_world()
    log = await opened(world)
    await produce(log, batch(1, producer=Producer(9, 0, 0)))
    log._producers.record(read_header(batch(1, producer=Producer(9, 0, 1))), 1, 0)
    await log.roll()
    assert len(world.log("t").segments) == 2
    log.on_failed(LedgerFenced("crash right after the roll"))
    again = await world.open("t")
    assert await produce(again, batch(1, producer=Producer(9, 0, 1))) == AppendResult(1, -1, 0)


@in_loop
async def test_reading_behind_the_cache_goes_through_the_log() -> None:
    world = make_world()
    log = await opened(world)
    for _ in range(10):
        await produce(log, batch(2))
    log.tail.clear()
    assert log.read_tail(4, 1000, at_least_one=True) is None
    parts = await log.read(5, 250)
    assert [read_header(each).base_offset for each in parts] == [4, 6]
    log.move_start(4)
    with pytest.raises(LogTruncated):
        await log.read(3, 100)


@in_loop
async def test_epochs_are_compared_with_ours() -> None:
    world = make_world()
    log = await opened(world)
    assert log.check_epoch(-1) is ErrorCode.NONE
    assert log.check_epoch(log.leader_epoch) is ErrorCode.NONE
    assert log.check_epoch(log.leader_epoch - 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert log.check_epoch(log.leader_epoch + 1) is ErrorCode.UNKNOWN_LEADER_EPOCH


@in_loop
async def test_producers_expire_in_both_views() -> None:
    world = make_world()
    log = await opened(world)
    await produce(log, batch(1, producer=Producer(9, 0, 0)))
    assert log.expire_producers(world.clock.now_ms() + 1) == 1
    assert len(log.state.producers) == 0
    assert await produce(log, batch(1, producer=Producer(9, 0, 44))) == AppendResult(1, -1, 0)


@in_loop
async def test_closing_finishes_what_is_in_flight_and_takes_nothing_new() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    future = produce(log, batch(1))
    await log.close()
    assert future.result() == AppendResult(0, -1, 0)
    assert produce(log, batch(1)).result() is LEADERLESS
    await log.close()


@in_loop
async def test_a_log_that_does_not_decode_cannot_be_opened() -> None:
    world = make_world()
    world.topics.add("t")
    world.log("t").open_error = CorruptData("bad snapshot")
    with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
        await world.open("t")


@in_loop
async def test_a_producer_that_wrote_lately_outlives_expiry_a_roll_and_a_restart() -> None:
    world = make_world()
    log = await opened(world)
    await produce(log, batch(producer=Producer(7, 0, 0)))
    world.clock.advance_ms(100_000)
    await produce(log, batch(producer=Producer(7, 0, 1)))
    assert log.expire_producers(world.clock.now_ms() - 50_000) == 0
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    again = await world.open("t")
    assert await produce(again, batch(producer=Producer(7, 0, 1))) == AppendResult(1, -1, 0)
    assert again.log_end_offset == 2
