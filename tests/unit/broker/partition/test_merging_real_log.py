"""What cleaning empties does not stay: a real log's oldest segments are merged after a pass."""

from pathlib import Path
from random import Random
from typing import Any

from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.compaction.cleaner.means import BLOCK_BYTES
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import batch
from tests.unit.broker.partition.test_cleaning_real_log import Process, Reader, _cleaned
from tests.unit.broker.partition.transaction_support import end, write
from tests.unit.core.log.world import World as LogWorld
from tests.unit.core.log.world import run_world

ROUNDS = 15


class Slow(Reader):
    """Writes one key once, and five again and again."""

    keys: list[bytes]

    def _change(self) -> tuple[bytes, bytes | None]:
        key = self.keys.pop(0) if self.keys else b"key-%d" % (self.number % 5)
        self.number += 1
        value = b"value-%d" % self.number
        self._made.append((key, value))
        return key, value


async def filled(logs: LogWorld, seed: int) -> Slow:
    """Return a client of a topic with a segment for each of its rounds."""
    await logs.namespace().create_log("t-0")
    world: Any = Process(logs)
    world.broker.topics.add("t", configs={"cleanup.policy": "compact"})
    reader = Slow(Random(seed), world, await world.open("t"))
    reader.keys = [b"first"]
    for _ in range(ROUNDS):
        for _ in range(6):
            await reader.write()
        await reader.end_all()
        await reader.log.roll()
    return reader


def numbers(reader: Reader) -> list[int]:
    return [segment.lssn for segment in reader.log.log.segments]


def test_few_keys_end_in_few_segments(tmp_path: Path) -> None:
    async def story(logs: LogWorld) -> None:
        reader = await filled(logs, 1)
        before = numbers(reader)
        assert len(before) > ROUNDS
        middle = reader.log.log_end_offset // 2
        begun = await reader.log.read(middle, 300)  # a consumer in the middle, its reader kept
        await _cleaned(reader)
        after = numbers(reader)
        assert len(after) <= 3
        assert after == before[-len(after) :], "the oldest numbers went, no hole"
        assert reader.log.log_start_offset == 0
        await reader.check()
        at = read_header(begun[-1]).last_offset + 1
        rest: list[int] = []
        while at < reader.log.high_watermark:
            batches = await reader.log.read(at, 300)
            headers = [read_header(batch) for batch in batches]
            assert headers[0].last_offset >= at
            rest += [header.last_offset for header in headers]
            at = rest[-1] + 1
        assert rest == sorted(set(rest))
        await reader.reopen()
        await reader.check()
        await reader.restart()
        await reader.check()
        await reader.world.broker.partitions.close()

    run_world(tmp_path, story)


def test_ever_again(tmp_path: Path) -> None:
    """Merged segments are cleaned and merged like others; what was aborted stays known."""

    async def story(logs: LogWorld) -> None:
        reader = await filled(logs, 2)
        for _ in range(6):
            await _cleaned(reader)
            await reader.check()
            for _ in range(6):
                await reader.write()
                await reader.end()
            await reader.log.roll()
            logs.clock.advance_ms(90_000_000)
        await reader.end_all()
        await reader.log.roll()
        await _cleaned(reader)
        await reader.check()
        assert len(numbers(reader)) <= 6, "of 22"
        await reader.restart()
        await reader.check()
        await reader.check_repeats()
        await reader.world.broker.partitions.close()

    run_world(tmp_path, story)


def test_what_was_aborted_in_segments_that_went_is_still_known(tmp_path: Path) -> None:
    """It is noted by the numbers of segments: of those that went, the oldest one is asked."""

    async def story(logs: LogWorld) -> None:
        await logs.namespace().create_log("t-0")
        world: Any = Process(logs)
        log = await world.open("t")
        for number in range(2):
            await write(log, 11, 2 * number, count=2)
            await end(log, 11, commit=False)
            await log.roll()
        for _ in range(2):  # nothing was aborted in the one that they are merged into
            await log.append(batch(1))
            await log.roll()
        await log.append(batch(1))
        last = log.high_watermark - 1
        before = await log.aborted_between(0, last)
        assert len(before) == 2
        cleanable = CleanablePartition(log)
        merge = await cleanable.merge([1, 2, 3])
        for lssn in (1, 2, 3):
            async for block in cleanable.read(lssn, lambda: BLOCK_BYTES):
                await merge.append(lssn, block.batches)
        await merge.finish_all()
        await merge.commit()
        assert [segment.lssn for segment in log.log.segments] == [3, 4, 5]
        assert await log.aborted_between(0, last) == before
        log = await Process(logs).open("t")
        await log.log.refresh()  # as whoever read these records did
        assert await log.aborted_between(0, last) == before
        assert await log.aborted_between(0, 0) == before[:1]

    run_world(tmp_path, story)
