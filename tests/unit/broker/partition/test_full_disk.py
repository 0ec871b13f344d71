"""A partition whose bookies have no room: taken over and read; written again once there is some."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import GAPS_EXCUSED_S, PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.producer_state import ActiveProducer
from tailrace.broker.partition.trimming import delete_records
from tailrace.core.log.config import LogConfig
from tailrace.core.log.rolling import FIRST_RETRY_S
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import Producer
from tests.unit.broker.fakes import FakeNamespace, FakeTopics, batch
from tests.unit.broker.partition.transaction_support import end, write
from tests.unit.core.log.full_disk import Disk
from tests.unit.core.log.world import World, run_world

THREE = LogConfig(
    control_flush_ms=0, lock_timeout_s=0, ensemble_size=3, write_quorum=3, ack_quorum=2
)
T0 = TopicPartition("t", 0)
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


def process(world: World) -> PartitionLogs:
    """The partitions of another broker process over the same metadata and bookies."""
    topics: Any = FakeTopics(FakeNamespace())
    topics.add("t")
    return PartitionLogs(world.namespace(), topics, world.clock, PartitionConfig())


def idempotent(log: PartitionLog, sequence: int) -> Append:
    data = batch(2, producer=Producer(9, 0, sequence))
    return log.append(data, log.check(data))


async def bases(log: PartitionLog) -> list[int]:
    log.tail.clear()
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.high_watermark:
        for part in await log.read(offset, 1000):
            found.append(read_header(part).base_offset)
            offset = read_header(part).last_offset + 1
    return found


async def write_all(log: PartitionLog) -> None:
    """Write two idempotent batches, a transaction that stays open, one that is aborted."""
    await idempotent(log, 0)  # 0, 1
    await write(log, 7, 0)  # 2
    await write(log, 8, 0)  # 3
    await end(log, 8, commit=False)  # 4
    assert await idempotent(log, 2) == AppendResult(5, -1, 0)  # 5, 6


async def written(world: World) -> tuple[Disk, PartitionLogs, PartitionLog]:
    """Return the disk, a process, and its open partition with all of that in it."""
    disk = Disk(world)
    await world.namespace().create_log("t-0")
    partitions = process(world)
    log = await partitions.open(T0)
    await write_all(log)
    return disk, partitions, log


def check_readable(log: PartitionLog, epoch: int, producers: list[ActiveProducer]) -> None:
    """Hold a partition against the epoch and the producers that it had before."""
    assert log.failure is None
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (0, 2, 7)
    assert log.log_end_offset == 7
    assert list(log.producers()) == producers
    assert log.leader_epoch > epoch
    assert log.end_of_epoch(epoch) == (epoch, 7)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_partition_is_read_while_full_and_goes_on_where_it_was(
    tmp_path: Path, *, is_killed: bool
) -> None:
    """`is_killed`: the process ended before; else its log failed, for want of room."""

    async def story(world: World) -> None:
        disk, partitions, before = await written(world)
        known = before.leader_epoch, list(before.producers())
        disk.fill()
        if is_killed:
            partitions = process(world)
        else:
            assert await idempotent(before, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = await partitions.open(T0)
        assert log is not before
        check_readable(log, *known)
        assert await bases(log) == [0, 2, 3, 4, 5]
        assert [each[:3] for each in await log.aborted_between(2, 4)] == [(8, 3, 4)]
        for _ in range(3):  # as clients do
            appends = [
                write(log, 8, 1),
                idempotent(log, 4),
                write(log, 7, 1),
                end(log, 7),
                idempotent(log, 6),
            ]
            assert idempotent(log, 4) is appends[1], "a duplicate of one that waits"
            assert [await each for each in appends] == [REFUSED] * 5
            check_readable(log, *known)
        assert log.has_open_transaction(7, 0)
        assert not log.has_open_transaction(8, 0), "its batch is verified again"
        await log.roll()
        assert await delete_records(log, 1) == 1
        if is_killed:
            log = await process(world).open(T0)
        assert await bases(log) == [0, 2, 3, 4, 5]
        disk.free()
        world.clock.advance_ms(round(FIRST_RETRY_S * 1000))
        assert await idempotent(log, 2) == AppendResult(5, -1, 1), "a duplicate from before"
        assert await idempotent(log, 4) == AppendResult(7, -1, 1)
        assert await end(log, 7) == AppendResult(9, -1, 1)
        assert log.last_stable_offset == log.high_watermark == 10
        (newest,) = await log.read(9, 1)
        assert read_header(newest).partition_leader_epoch == log.leader_epoch
        assert await bases(log) == [0, 2, 3, 4, 5, 7, 9]
        again = await process(world).open(T0)
        assert again.leader_epoch > log.leader_epoch
        assert list(again.producers()) == list(log.producers())
        assert await bases(again) == [0, 2, 3, 4, 5, 7, 9]

    run_world(tmp_path, story, 3, THREE)


def test_what_comes_behind_a_batch_that_was_given_back_is_tried_again(tmp_path: Path) -> None:
    """Out of order makes librdkafka number anew what may be in the log: it would be there twice."""

    async def story(world: World) -> None:
        disk, partitions, before = await written(world)
        disk.fill()
        assert await idempotent(before, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        log = await partitions.open(T0)
        assert await idempotent(log, 6) is REFUSED, "it was sent before 4 was answered"
        world.clock.advance_ms(round(GAPS_EXCUSED_S * 1000))
        assert await idempotent(log, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await idempotent(log, 4) is REFUSED
        assert await idempotent(log, 6) is REFUSED
        world.clock.advance_ms(round(GAPS_EXCUSED_S * 1000))
        assert await idempotent(log, 6) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        disk.free()
        assert await idempotent(log, 4) == AppendResult(7, -1, 0)

    run_world(tmp_path, story)
