"""Entries of a single copy that cannot be read: only their batches are missing to clients."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.timestamps import first_at, newest
from tailrace.broker.partition.trimming import segments_for_retention
from tailrace.core.errors import CorruptData
from tailrace.core.log.search import DAMAGED
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import FakeNamespace, FakeTopics, batch
from tests.unit.broker.heavy import walked
from tests.unit.broker.partition.transaction_support import end, write
from tests.unit.core.log.world import World, run_world

PARTITION = TopicPartition("t", 0)
BATCHES = 12
"""Of each segment, of two records and in an entry each, dated with their offset."""


async def opened(world: World) -> tuple[PartitionLogs, PartitionLog]:
    topics: Any = FakeTopics(FakeNamespace())
    topics.add("t")
    partitions = PartitionLogs(world.namespace(), topics, world.clock, PartitionConfig())
    return partitions, await partitions.open(PARTITION)


async def filled(world: World, *, aborts: bool = False) -> tuple[PartitionLogs, PartitionLog]:
    """Return a partition of three segments that another process wrote."""
    await world.namespace().create_log(stream_name(*PARTITION))
    partitions, log = await opened(world)
    for number in range(3):
        for _ in range(BATCHES):
            made = batch(2, timestamp=world.clock.now_ms() + log.log_end_offset)
            assert isinstance(await log.append(made, log.check(made)), AppendResult)
        if aborts and number == 1:
            await write(log, 7, 0)
            await end(log, 7, commit=False)
        await log.roll()
    await partitions.close()
    partitions, log = await opened(world)
    await log.log.refresh()
    return partitions, log


def lose(world: World, log: PartitionLog, lssn: int, *entries: int) -> None:
    """Have the bookie know nothing of some entries of a segment; negative: from its end on."""
    segment = log.log.segments.find(lssn)
    assert segment is not None
    there = len(world.bookie.ledgers[segment.ledger_id].entries)
    lost = {entry % there for entry in entries}

    def fault(request: Any) -> StatusCode | None:
        is_lost = isinstance(request, ReadRequest) and request.entry_id in lost
        return StatusCode.ENOENTRY if is_lost and request.ledger_id == segment.ledger_id else None

    world.bookie.fault = fault


async def base_at(log: PartitionLog, offset: int) -> int | None:
    """Return the base offset of the batch that a client gets at an offset; None for an error."""
    try:
        first, *_ = await log.read(offset, 1)
    except DAMAGED:
        return None
    return read_header(first).base_offset


@pytest.mark.parametrize("lost", [(1,), (4,), (4, 5, 6), (BATCHES,), (4, 8), (-1,), (0, -1)])
def test_every_other_batch_is_found_by_offset_and_by_time(
    tmp_path: Path, lost: tuple[int, ...]
) -> None:
    async def story(world: World) -> None:
        partitions, log = await filled(world)
        lose(world, log, 2, *lost)
        gone = {2 * (BATCHES + entry - 1) for entry in lost if 1 <= entry <= BATCHES}
        bases = range(0, 6 * BATCHES, 2)
        for offset in range(6 * BATCHES):
            base = offset // 2 * 2
            assert await base_at(log, offset) == (None if base in gone else base)
        for base in bases:
            found = await first_at(log, world.clock.now_ms() + base, walked)
            there = next(each for each in bases if each >= base and each not in gone)
            assert found is not None
            assert (found.offset, found.timestamp) == (there, world.clock.now_ms() + there)
        last = await newest(log, walked)
        assert last is not None
        assert last.offset == bases[-1]
        facts = await segments_for_retention(log)
        assert [(each.first_offset, each.next_offset) for each in facts][:3] == [
            (2 * BATCHES * number, 2 * BATCHES * (number + 1)) for number in range(3)
        ]
        await partitions.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("lost", "is_known"),
    [((3,), True), ((-1,), True), ((0, -1), True), ((3, -1), False), ((-2, -1), False)],
)
def test_what_was_aborted_is_known_or_refused(
    tmp_path: Path, lost: tuple[int, ...], *, is_known: bool
) -> None:
    async def story(world: World) -> None:
        partitions, log = await filled(world, aborts=True)
        marker = 4 * BATCHES + 1
        lose(world, log, 2, *lost)
        for _ in range(2):
            if is_known:
                assert await log.aborted_between(0, marker) == [(7, marker - 1, marker, marker + 1)]
            else:
                with pytest.raises(CorruptData, match="what was aborted in segment 2"):
                    await log.aborted_between(0, marker)
        assert await log.aborted_between(marker + 1, marker + 9) == []
        await partitions.close()

    run_world(tmp_path, story)
