"""Consumers behind the tail cache, on a real log and bookie: all is read, and about once."""

from pathlib import Path

from broker.config import BrokerConfig, NetworkConfig
from broker.partition.config import PartitionConfig
from broker.partition.partition_log import PartitionLog
from broker.server import BrokerServer
from protocol.ids import TopicPartition
from protocol.records.batch import read_header
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


async def filled(server: BrokerServer, number: int) -> PartitionLog:
    """A partition of two segments, each batch an entry of its own, none in memory."""
    log = await server._broker.partitions.open(TopicPartition("t", number))
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
    async with running_broker(tmp_path / "data", CONFIG) as server:
        await server._broker.topics.create("t", PARTITIONS)
        logs = [await filled(server, number) for number in range(PARTITIONS)]
        stored = PARTITIONS * BATCHES
        many = await entries_read_in_turns(logs, 4 * BATCH_BYTES)
        assert many < 2 * stored, "of each read one entry more than fits"
        few = await entries_read_in_turns(logs[:READERS], 4 * BATCH_BYTES)
        assert few < 1.5 * READERS * BATCHES, "readers that stay read on where they are"
