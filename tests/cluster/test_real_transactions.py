"""Transactions of partitions over real log, ledgers and bookie: segments and restarts."""

from pathlib import Path

from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_state import PartitionState
from tailrace.broker.partition.trimming import delete_records
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tests.cluster.in_process import running_broker
from tests.unit.broker.fakes import batch
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write

CONFIG = BrokerConfig(network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)))
T0 = TopicPartition("t", 0)


async def aborted(log: PartitionLog, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return producer, first offset and marker of what was aborted."""
    return [each[:3] for each in await log.aborted_between(first, last)]


async def begin_two_lives(log: PartitionLog) -> None:
    """Write over three segments: 7 aborts over all of them, 8 stays open, 9 commits."""
    await write(log, 7, 0)  # 0
    await write(log, 8, 0, count=2)  # 1, 2
    await log.roll()
    await write(log, 9, 0)  # 3
    await end(log, 9)  # 4
    await log.roll()
    await end(log, 7, commit=False)  # 5
    await log.append(batch(1))  # 6


@in_loop
async def test_transactions_go_on_in_the_next_life(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1)
        log = await broker.partitions.open(T0)
        await begin_two_lives(log)
        assert (log.last_stable_offset, log.high_watermark) == (1, 7)
        producers = list(log.producers())
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        log = await broker.partitions.open(T0)
        assert (log.last_stable_offset, log.high_watermark) == (1, 7)
        assert list(log.producers()) == producers
        assert log.has_open_transaction(8, 0)
        assert end(log, 7, epoch=-1).result() is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await end(log, 8, commit=False) == AppendResult(7, -1, 0)
        assert log.last_stable_offset == 8
        both = [(7, 0, 5), (8, 1, 7)]
        assert log.aborted_in_memory(0, 7) is None, "the segments of the life before are read"
        assert await aborted(log, 0, 7) == both
        assert await aborted(log, 0, 0) == both[:1]
        assert await aborted(log, 3, 5) == both
        assert await aborted(log, 6, 7) == both[1:]
        await delete_records(log, 6)
        assert await aborted(log, 6, 7) == both[1:]


@in_loop
async def test_a_segment_is_read_again_from_the_snapshot_that_begins_it(tmp_path: Path) -> None:
    """As for a segment that recovery completed: it has no index record."""
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", 1)
        log = await broker.partitions.open(T0)
        await begin_two_lives(log)
        await log.roll()
        first, _, third = [segment.lssn for segment in log.log.segments][:3]
        assert await log.log.read_snapshot(first) == PartitionState(0).snapshot()
        state = PartitionState(0)
        state.restore(await log.log.read_snapshot(third))
        assert (state.next_offset, state.producers.open) == (5, {0: 7, 1: 8})
        written = await log.segments.index(third)
        again = await log.segments._read_through(third)
        assert again.encode() == written.encode()
        assert again.aborted.encode() == written.aborted.encode()
        assert again.aborted.all() == [(7, 0, 5, 1)]
