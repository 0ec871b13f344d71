"""Consumers behind the tail cache, on a real log and bookie: all is read, and about once."""

from pathlib import Path

from tailrace.broker.broker import Broker
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.trimming import raise_log_start
from tailrace.compaction.cleaner.cleanable import SegmentCounts
from tailrace.compaction.cleaner.means import BLOCK_BYTES
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header
from tests.cluster.in_process import running_broker
from tests.unit.broker.fakes import batch
from tests.unit.broker.loops import in_loop

READERS = 4
PARTITIONS = 12
BATCHES = 24
BATCH_BYTES = 4000
CONFIG = BrokerConfig(
    network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)),
    partitions=PartitionConfig(readers_max=READERS),
)


async def filled(broker: Broker, number: int) -> PartitionLog:
    """A partition of two segments, each batch an entry of its own, none in memory."""
    log = await broker.partitions.open(TopicPartition("t", number))
    for at in range(BATCHES):
        data = batch(1, size=BATCH_BYTES)
        await log.append(data, log.check(data))
        if at == BATCHES // 2:
            await log.roll()
    log.tail.clear()
    return log


async def entries_read_in_turns(logs: list[PartitionLog], max_bytes: int) -> int:
    """Read all logs to their ends, a little of each in turns; return what the ledgers gave."""
    metrics = logs[0].log._ledgers.metrics
    before = metrics.reads_total
    seen: list[list[int]] = [[] for _ in logs]
    while any(len(found) < BATCHES for found in seen):
        for log, found in zip(logs, seen, strict=True):
            read = await log.read_log(len(found), max_bytes, at_least_one=True)
            assert read.parts or len(found) == BATCHES
            found += [read_header(part).base_offset for part in read.parts]
    assert seen == [list(range(BATCHES))] * len(logs)
    return metrics.reads_total - before


@in_loop
async def test_partitions_that_are_read_in_turns_are_read_about_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", PARTITIONS)
        logs = [await filled(broker, number) for number in range(PARTITIONS)]
        stored = PARTITIONS * BATCHES
        many = await entries_read_in_turns(logs, 4 * BATCH_BYTES)
        assert many < 2 * stored, "of each read one entry more than fits"
        few = await entries_read_in_turns(logs[:READERS], 4 * BATCH_BYTES)
        assert few < 1.5 * READERS * BATCHES, "readers that stay read on where they are"


@in_loop
async def test_bookmarks_hold_in_segments_that_are_cleaned_or_cut_meanwhile(tmp_path: Path) -> None:
    """Each consumer is between two batches of the first segment when that is written anew."""
    async with running_broker(tmp_path / "data", CONFIG) as broker:
        await broker.topics.create("t", PARTITIONS)
        logs = [await filled(broker, number) for number in range(PARTITIONS)]
        seen: list[list[int]] = [[] for _ in logs]

        async def read_on(steps: int) -> None:
            for _ in range(steps):
                for log, found in zip(logs, seen, strict=True):
                    offset = max(found[-1] + 1 if found else 0, log.log_start_offset)
                    read = await log.read_log(offset, 2 * BATCH_BYTES, at_least_one=True)
                    found += [read_header(part).base_offset for part in read.parts]

        await read_on(3)
        assert seen == [[0, 1, 2]] * PARTITIONS
        assert all(len(log._source.marks) for log in logs), "no reader stays for so many"
        for log in logs[: PARTITIONS // 2]:
            await leave_even_batches(log)
        for log in logs[PARTITIONS // 2 :]:
            await raise_log_start(log, 7)
        await read_on(BATCHES)
        even = [at for at in range(BATCHES) if at > BATCHES // 2 or at % 2 == 0 or at == 1]
        assert seen[: PARTITIONS // 2] == [even] * (PARTITIONS // 2)
        cut = [0, 1, 2, *range(7, BATCHES)]
        assert seen[PARTITIONS // 2 :] == [cut] * (PARTITIONS // 2)


async def leave_even_batches(log: PartitionLog) -> None:
    """Do with the first segment what the cleaner does."""
    cleanable = CleanablePartition(log)
    lssn = (await cleanable.segments())[0].lssn
    rewrite = await cleanable.rewrite([lssn])
    async for part in cleanable.read(lssn, lambda: BLOCK_BYTES):
        kept = [each for each in part.batches if read_header(each).base_offset % 2 == 0]
        await rewrite.append(lssn, kept)
    await rewrite.finish(lssn, SegmentCounts(0, -1))
    await rewrite.commit()
