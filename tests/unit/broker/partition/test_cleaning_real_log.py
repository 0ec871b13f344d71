"""The random client of `test_cleaning_random` over real segments, with deletions and kills."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.trimming import delete_records
from tailrace.protocol.ids import Buffer, TopicPartition
from tailrace.protocol.records.batch import BatchHeader, read_header
from tailrace.protocol.records.control import read_marker
from tailrace.protocol.records.record import iter_records
from tests.unit.broker.fakes import FakeNamespace, FakeTopics
from tests.unit.broker.partition.test_cleaning import cleaning
from tests.unit.broker.partition.test_cleaning_random import Client, Kept
from tests.unit.core.log.world import World as LogWorld
from tests.unit.core.log.world import run_world

PARTITION = TopicPartition("t", 0)
STEPS = 60
WEIGHTS = {
    "write": 9, "end": 4, "roll": 4, "clean": 3, "kill": 1, "reopen": 1, "delete": 1, "wait": 2,
}  # fmt: skip
CONFIGS = {
    "cleanup.policy": "compact,delete",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "50000",
    "retention.ms": "-1",
}


class Process:
    """A broker's partitions over real logs; the metadata and the bookies outlive it."""

    def __init__(self, logs: LogWorld, configs: Mapping[str, str] = CONFIGS) -> None:
        self.logs, self.clock, self.configs = logs, logs.clock, configs
        topics: Any = FakeTopics(FakeNamespace())
        topics.add("t", configs=dict(configs))
        partitions = PartitionLogs(logs.namespace(), topics, logs.clock, PartitionConfig())
        self.broker = SimpleNamespace(partitions=partitions, topics=topics)

    async def open(self, _topic: str) -> PartitionLog:
        log: PartitionLog = await self.broker.partitions.open(PARTITION)
        return log


class Reader(Client):
    """Remembers besides all that it wrote, and reads as Java's consumer does."""

    def __init__(self, random: Random, world: Any, log: PartitionLog) -> None:
        super().__init__(random, world, log)
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self._made: list[tuple[bytes, bytes | None]] = []

    @override
    def _change(self) -> tuple[bytes, bytes | None]:
        self._made.append(super()._change())
        return self._made[-1]

    @override
    async def write(self) -> None:
        self._made, base = [], self.log.log_end_offset
        await super().write()
        self.written |= dict(enumerate(self._made, base))

    @override
    async def check(self) -> None:
        """Hold what a reader from the start gets against all that was written and is decided."""
        self.log.tail.clear()
        stable = self.log.last_stable_offset
        found: dict[bytes, Kept] = {}
        offset = self.log.log_start_offset
        while offset < stable:
            batches = await self.log.read(offset, 300)
            assert batches, f"nothing at {offset}, before {stable}"
            headers = [read_header(batch) for batch in batches]
            assert all(e.last_offset >= offset for e in headers[:1])
            stop = min(headers[-1].last_offset, stable - 1)
            aborted = await self.log.aborted_between(offset, stop)
            for batch in _committed(batches, headers, aborted):
                for record in iter_records(batch):
                    if self.log.log_start_offset <= record.offset < stable:
                        assert self.written[record.offset] == (record.key, record.value)
                        assert record.key is not None
                        found[record.key] = Kept(record.offset, record.value)
            assert headers[-1].last_offset + 1 > offset
            offset = headers[-1].last_offset + 1
        start = self.log.log_start_offset
        if stable == self.log.high_watermark:
            want = {key: kept for key, kept in self.table.items() if kept.offset >= start}
            assert _values(found) == _values(want)

    async def restart(self) -> None:
        """Go on in another process."""
        end = self.log.log_end_offset
        world: Any = self.world
        self.world = Process(world.logs, world.configs)  # type: ignore[assignment]
        self.log = await self.world.open("t")
        assert self.log.log_end_offset == end


def _committed(
    batches: Sequence[Buffer], headers: Sequence[BatchHeader], aborted: Sequence[Any]
) -> list[Buffer]:
    """Return what Java's CompletedFetch gives out of one answer."""
    left = sorted(aborted, key=lambda each: each.first_offset)
    producers: set[int] = set()
    found = []
    for header, batch in zip(headers, batches, strict=True):
        while left and left[0].first_offset <= header.last_offset:
            producers.add(left.pop(0).producer_id)
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in producers):
            found.append(batch)
    return found


def _values(table: dict[bytes, Kept]) -> dict[bytes, Kept]:
    return {key: kept for key, kept in table.items() if kept.value is not None}


async def _killed(reader: Reader) -> None:
    """Let a process that cleans die at some turn of its loop."""
    async with cleaning(reader.world) as pool:
        task = asyncio.create_task(pool.clean_filthiest())
        for _ in range(reader.random.randrange(400)):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await reader.restart()


async def _step(reader: Reader, what: str) -> None:
    if what == "write":
        await reader.write()
    elif what == "end":
        await reader.end()
    elif what == "roll":
        await reader.log.roll()
    elif what == "clean":
        await _cleaned(reader)
    elif what == "kill":
        await _killed(reader)
    elif what == "reopen":
        await reader.reopen()
    elif what == "delete":
        high = reader.log.high_watermark
        span = min(high - reader.log.log_start_offset, 8)
        await delete_records(
            reader.log, reader.log.log_start_offset + reader.random.randint(0, span)
        )
    else:
        reader.world.clock.advance_ms(30_000)
        await reader.log.log.upkeep.trimmer.collect()


async def _cleaned(reader: Reader) -> None:
    async with cleaning(reader.world) as pool:
        await pool.clean_filthiest()
        assert pool.status()["uncleanable"] == []
        assert pool.status()["failures"] == 0


@pytest.mark.parametrize("seed", range(8))
def test_readers_see_what_they_must(tmp_path: Path, seed: int) -> None:
    async def story(logs: LogWorld) -> None:
        await logs.namespace().create_log("t-0")
        world: Any = Process(logs)
        reader = Reader(Random(seed), world, await world.open("t"))
        for _ in range(STEPS):
            (what,) = reader.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            await _step(reader, what)
            await reader.check()
        await reader.end_all()
        await reader.log.roll()
        await _cleaned(reader)
        await reader.check()
        await reader.reopen()
        await reader.check()
        await reader.check_repeats()
        await reader.world.broker.partitions.close()

    run_world(tmp_path, story)
