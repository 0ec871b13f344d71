"""What readers of committed records cost over segments that ended by a crash.

    python -m tests.bench.committed_reads [--segments 1000] [--records 5]

No transaction ever ran. A broker that has just started over the data is read whole, by a client
that wants all records and by one that wants committed ones; its CPU seconds are compared, those of
the start and of the partition's opening not counted. The objective is a ratio of 1.3.
"""

import argparse
import asyncio
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tailrace.broker.partition.appends import AppendResult
from tailrace.core.errors import Unavailable
from tailrace.protocol.ids import TopicPartition as Partition
from tests.bench.brokers import TAILRACE, Running, started
from tests.cluster.in_process import running_broker
from tests.unit.broker.fakes import batch

TOPIC: Final = "crashes"
_TIMEOUT_S: Final = 120.0
_QUIET_S: Final = 0.02
"""CPU of a second in which a broker does nothing."""


async def write(data: Path, segments: int, records: int) -> None:
    """Make a topic of so many segments, each left by its writer as a crash leaves it."""
    async with running_broker(data) as broker:
        await broker.topics.create(TOPIC, 1)
        for _ in range(segments):
            log = await broker.partitions.open(Partition(TOPIC, 0))
            for _ in range(records):
                made = batch(1)
                assert isinstance(await log.append(made, log.check(made)), AppendResult)
            writer = log.log.writer
            assert writer is not None
            writer.fail(Unavailable("left as by a crash"))


def read(folder: Path, data: Path, total: int, isolation: str) -> float:
    """Return the CPU seconds of a broker that is read from start to end."""
    with started(TAILRACE, folder, data) as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "bench",
                "isolation.level": isolation,
                "fetch.message.max.bytes": 1024 * 1024,
            }
        )
        newest = TopicPartition(TOPIC, 0, total - 1)
        consumer.assign([newest])
        assert consumer.consume(1, timeout=_TIMEOUT_S), "the partition does not open"
        cpu = _when_quiet(broker)
        consumer.seek(TopicPartition(TOPIC, 0, 0))
        left = total
        while left:
            messages = consumer.consume(left, timeout=_TIMEOUT_S)
            if not messages:
                raise TimeoutError(f"{left} of {total} records did not come")
            left -= len(messages)
        spent = broker.cpu_s() - cpu
        consumer.close()
        return spent


def _when_quiet(broker: Running) -> float:
    """Return the CPU seconds that it has used once it uses no more: its start takes some time."""
    before, now = -1.0, broker.cpu_s()
    while now - before > _QUIET_S:
        time.sleep(1)
        before, now = now, broker.cpu_s()
    return now


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--records", type=int, default=5)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    total = arguments.segments * arguments.records
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        data = folder / "data"
        asyncio.run(write(data, arguments.segments, arguments.records))
        found = {
            level: round(read(folder, data, total, level), 3)
            for level in ("read_uncommitted", "read_committed")
        }
    found["ratio"] = round(found["read_committed"] / found["read_uncommitted"], 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
