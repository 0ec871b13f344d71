"""What the adapter adds to a rewrite: the index of what is left, and turns for others."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tailrace.broker.partition.cleanable import BATCHES_AT_ONCE, PartitionRewrite
from tailrace.broker.partition.offsets import SegmentIndex
from tailrace.broker.partition.timestamps import TimestampedOffset, newest
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.broker.fakes import make_world
from tests.unit.broker.heavy import walked
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.test_cleaning import cleaning, compacted, held


class Fast:
    """A rewrite that never has to wait for room."""

    async def append(self, _lssn: int, _txid: int, _parts: Sequence[Buffer], _length: int) -> int:
        return 0


@in_loop
async def test_others_have_their_turns_among_tiny_batches() -> None:
    log: Any = await compacted(make_world())
    fast: Any = Fast()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    batch = build_batch([Record(0, key=b"k", value=b"v")])
    rewrite = PartitionRewrite(log, fast, {1: SegmentIndex()})
    await rewrite.append(1, [batch] * (4 * BATCHES_AT_ONCE))
    task.cancel()
    assert turns == 4


@in_loop
async def test_the_newest_record_is_none_that_was_cleaned_away() -> None:
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0")
    for value, time, producer in ((b"1", 100, Producer(1, 0, 0)), (b"2", 50, Producer())):
        built = build_batch([Record(0, time, key=b"k", value=value)], producer=producer)
        sent = memoryview(bytearray(built))
        await log.append(sent, log.check(sent))
        await log.roll()
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
    assert await held(log) == {b"k": b"2"}
    found = await newest(log, walked)
    assert found == TimestampedOffset(1, 50, log.leader_epoch)
