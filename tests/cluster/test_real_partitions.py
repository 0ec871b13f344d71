"""Partitions over real log, ledgers and bookie in one process: rolls, restarts, times, trims."""

from pathlib import Path

import pytest

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.retained import RetainedPartition
from tailrace.broker.partition.timestamps import first_at, newest
from tailrace.broker.partition.trimming import delete_records, segments_for_retention
from tailrace.compaction.retention import judge
from tailrace.core.log import timed_roll
from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import Producer
from tests.cluster.in_process import running_broker
from tests.unit.broker.fakes import batch
from tests.unit.broker.heavy import walked
from tests.unit.broker.loops import in_loop

CONFIG = BrokerConfig(network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)))
T0 = TopicPartition("t", 0)


async def append(log: PartitionLog, number: int, count: int = 2, size: int = 10) -> None:
    """Append batch `number` of producer 9, its records made at 1000 + number."""
    data = batch(count, producer=Producer(9, 0, number * count), size=size, timestamp=1000 + number)
    outcome = await log.append(data, log.check(data))
    assert outcome == AppendResult(number * count, -1, log.log_start_offset)


async def bases(log: PartitionLog, offset: int) -> list[int]:
    """Read everything from `offset` on through the log, in small steps."""
    found: list[int] = []
    while offset < log.high_watermark:
        for part in (await log.read_log(offset, 3000, at_least_one=True)).parts:
            header = read_header(part)
            found.append(header.base_offset)
            offset = header.last_offset + 1
    return found


@in_loop
async def test_rolls_and_restarts_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    for life in range(3):
        async with running_broker(tmp_path / "data", CONFIG) as broker:
            if life == 0:
                await broker.topics.create("t", 1)
            log = await broker.partitions.open(T0)
            assert log.log_end_offset == life * 40
            for number in range(max(life * 20 - 5, 0), life * 20):  # retries from the life before
                await append(log, number)
            for number in range(life * 20, life * 20 + 20):
                await append(log, number)
                if number % 7 == 0:
                    await log.roll()
            assert await bases(log, 0) == list(range(0, log.log_end_offset, 2))
            assert log.end_of_epoch(log.leader_epoch) == (log.leader_epoch, log.log_end_offset)
            for timestamp, offset in [(1000, 0), (1013, 26), (1000 + life * 20 + 19, None)]:
                found = await first_at(log, timestamp, walked)
                assert found is not None
                assert found.offset == (log.log_end_offset - 2 if offset is None else offset)
            latest = await newest(log, walked)
            assert latest is not None
            assert latest.offset == log.log_end_offset - 2


@in_loop
async def test_history_that_is_written_now_lies_in_segments_of_its_own_ages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_roll, "HOLD_S", 60)  # however slow the machine is
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        configs = {"segment.ms": "60000", "retention.ms": "3600000"}
        await broker.topics.create("t", 1, configs=configs)
        log = await broker.partitions.open(T0)
        now_ms = SystemClock().now_ms()
        for hours in (5, 4, 0):
            data = batch(1, timestamp=now_ms - hours * 3_600_000)
            await log.append(data, log.check(data))
        facts = await segments_for_retention(log)
        assert [each.first_offset for each in facts] == [0, 1, 2]
        seen = RetainedPartition(log, CONFIG.partitions)
        verdict = judge(await seen.segments_for_retention(), seen.limits, 0, now_ms)
        assert verdict.log_start == 2


@in_loop
async def test_the_leader_epoch_rises_with_every_owner_and_with_those_who_write_nothing(
    tmp_path: Path,
) -> None:
    epochs: list[int] = []
    for life in range(6):
        async with running_broker(tmp_path / "data", CONFIG) as broker:
            if life == 0:
                await broker.topics.create("t", 1)
            log = await broker.partitions.open(T0)
            epochs.append(log.leader_epoch)
            if life in (1, 3):
                await append(log, life // 2)
                await log.roll()
                assert log.leader_epoch == epochs[-1]
            ends = [log.end_of_epoch(epoch) for epoch in epochs]
    assert epochs == sorted(set(epochs))
    nobody, first, second = epochs[0], epochs[1], epochs[3]
    assert ends == [(nobody, 0), (first, 2), (first, 2), (second, 4), (second, 4), (epochs[5], 4)]


@in_loop
async def test_an_epoch_is_above_those_in_the_log_though_the_lock_was_made_anew(
    tmp_path: Path,
) -> None:
    """As after the metadata store was restored; a list that does not rise could not be read."""
    paths = LogPaths(DEFAULT_ROOT, stream_name("t", 0))
    for life in range(4):
        async with running_broker(tmp_path / "data", CONFIG) as broker:
            if life == 0:
                await broker.topics.create("t", 1)
            log = await broker.partitions.open(T0)
            if life == 0:
                await append(log, 0)
                former = log.leader_epoch
                continue
            assert log.leader_epoch > former
            assert log.end_of_epoch(former) == (former, 2 * life)
            former = log.leader_epoch
            await append(log, life)
            await log.roll()
            await broker.partitions.close_partition(T0)
            await broker.store.delete(paths.lock)
            await broker.store.create(paths.lock)


@in_loop
async def test_segments_tell_the_same_from_memory_and_from_their_records(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1)
        log = await broker.partitions.open(T0)
        for number in range(12):
            await append(log, number, size=500)
            if number % 3 == 2:
                await log.roll()
        live = await segments_for_retention(log)
        assert sum(each.next_offset - each.first_offset for each in live) == 24
        await broker.partitions.close_partition(T0)
        again = await broker.partitions.open(T0)
        late = await segments_for_retention(again)
        assert [each._replace(in_progress=False) for each in live] == late


@in_loop
async def test_records_that_were_deleted_stay_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1)
        log = await broker.partitions.open(T0)
        for number in range(10):
            await append(log, number)
            await log.roll()
        assert await delete_records(log, 13) == 13
        assert (await segments_for_retention(log))[0].first_offset == 12
        assert (await bases(log, 13))[0] == 12
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        log = await broker.partitions.open(T0)
        assert (log.log_start_offset, log.log_end_offset) == (13, 20)
        assert await delete_records(log, -1) == 20
        await append(log, 10)
        assert await bases(log, 20) == [20]


@in_loop
async def test_retention_empties_a_quiet_topic_and_offsets_go_on(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1, {"retention.ms": "1000"})
        log = await broker.partitions.open(T0)
        await append(log, 0)
        await log.roll()
        await append(log, 1)
        seen = RetainedPartition(log, CONFIG.partitions)
        verdict = judge(
            await seen.segments_for_retention(), seen.limits, seen.log_start_offset, 10_000_000
        )
        assert verdict.roll_first
        await seen.roll()
        await seen.delete_segments_before(verdict.log_start)
        assert (log.log_start_offset, log.log_end_offset) == (4, 4)
        await append(log, 2)
        assert await bases(log, 4) == [4]


@in_loop
async def test_records_without_a_time_are_as_old_as_the_end_of_their_segment(
    tmp_path: Path,
) -> None:
    """Else they would stay for ever, and whatever came after them."""
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1, {"retention.ms": "1000"})
        log = await broker.partitions.open(T0)
        data = batch(1, timestamp=-1)
        assert isinstance(await log.append(data, log.check(data)), AppendResult)
        seen = RetainedPartition(log, CONFIG.partitions)
        assert [each.newest_ms for each in await seen.segments_for_retention()] == [-1]
        began_ms = broker.partitions.shared.clock.now_ms()
        await broker.partitions.close_partition(T0)
        again = await broker.partitions.open(T0)
        (ended,) = await RetainedPartition(again, CONFIG.partitions).segments_for_retention()
        assert ended.newest_ms >= began_ms


@pytest.mark.parametrize("size", [1_040_000, 1_048_000, 4_900_000])
@in_loop
async def test_batches_above_distributedlogs_limit_are_stored_and_read(
    tmp_path: Path, size: int
) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1, {"max.message.bytes": "5242880"})
        log = await broker.partitions.open(T0)
        await append(log, 0, count=1, size=size)
        await append(log, 1, count=1)
        assert await bases(log, 0) == [0, 1]


@in_loop
async def test_a_segment_rolls_by_the_topics_own_size(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1, {"internal.segment.bytes": "2000"})
        log = await broker.partitions.open(T0)
        number = 0
        while len(log.state.indexes) < 4:  # rolling goes on beside appending
            await append(log, number, size=400)
            number += 1
        *full, _ = await segments_for_retention(log)
        assert all(each.size_bytes >= 2000 for each in full)
        assert await bases(log, 0) == list(range(0, 2 * number, 2))


@in_loop
async def test_a_failed_disk_answers_whoever_waits_and_lets_the_broker_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 2)
        log = await broker.partitions.open(T0)
        await append(log, 0)

        def sync(_files: SystemFiles, _fd: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(SystemFiles, "sync", sync)
            data = batch(2, producer=Producer(9, 0, 2))
            outcome = await log.append(data, log.check(data))
            assert outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER
            with pytest.raises(KafkaError):
                await broker.partitions.open(T0)
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        log = await broker.partitions.open(T0)
        await append(log, 1)  # whether it had landed or not, it is there once
        assert await bases(log, 0) == [0, 2]


async def fence(log: PartitionLog) -> None:
    """Recover the segment that is being written, as another owner would."""
    last = log.log.segments.last
    if last is not None:
        await log.log._ledgers.open_ledger(last.ledger_id, recover=True)


@in_loop
async def test_a_log_that_is_fenced_again_and_again_keeps_each_batch_once(tmp_path: Path) -> None:
    """The producer retries what it was not told; rolls go on beside it; all is there once."""
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1, {"internal.segment.bytes": "3000"})
        partitions = broker.partitions
        acknowledged: dict[int, int] = {}
        epochs: list[int] = []

        async def produce(first: int, count: int) -> None:
            """Send batches one right after the other, as with five in flight; retry from a gap."""
            log = await partitions.open(T0)
            epochs.append(log.leader_epoch)
            sent = []
            for number in range(first, first + count):
                data = batch(2, producer=Producer(9, 0, number * 2), size=200)
                sent.append(log.append(data, log.check(data)))
            if first % 3 == 0:
                await fence(log)
            for number, future in enumerate(sent, first):
                outcome = await future
                if isinstance(outcome, AppendResult):
                    assert acknowledged.setdefault(number, outcome.base_offset) == number * 2

        done = 0
        while done < 60:
            await produce(done, 5)
            while done in acknowledged:
                done += 1
        log = await partitions.open(T0)
        assert await bases(log, 0) == list(range(0, log.log_end_offset, 2))
        assert log.log_end_offset == 2 * len(acknowledged)
        assert epochs == sorted(epochs)
        assert len(set(epochs)) > 2
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        log = await broker.partitions.open(T0)
        assert await bases(log, 0) == list(range(0, 2 * len(acknowledged), 2))
