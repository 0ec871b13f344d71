"""A follower shows what the owner shows, whatever happened to the log: random schedules."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tailrace.broker.following.followed import FollowedPartition
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.trimming import delete_records
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import batch
from tests.unit.broker.following.world import PARTITION, Pair, reached, run_pair
from tests.unit.broker.loops import until
from tests.unit.broker.partition.transaction_support import end, write

SEEDS = 5
STEPS = 40
PRODUCERS = 3


class Story:
    """One schedule: an owner that writes, dies and moves; a follower that comes and goes."""

    def __init__(self, pair: Pair, random: Random) -> None:
        self.pair = pair
        self.random = random
        self.sequences = dict.fromkeys(range(PRODUCERS), 0)
        self.open: set[int] = set()

    async def run(self) -> None:
        log = await self.pair.own()
        followed = await self.pair.follow()
        for _ in range(STEPS):
            step = self.random.choice(
                ["plain", "plain", "write", "write", "write", "end", "end", "roll", "move", "kill",
                 "reopen", "delete", "look"]
            )  # fmt: skip
            if step in ("move", "kill"):
                log = await self.moved(log, is_killed=step == "kill")
            elif step == "reopen":
                await self.pair.followed.let_go(PARTITION)
                followed = await self.pair.follow()
            elif step == "look":
                await reached(followed, log)
                await self.compare(followed, log)
            else:
                await self.change(log, step)
        await reached(followed, log)
        await self.compare(followed, log)

    async def change(self, log: PartitionLog, step: str) -> None:
        producer = self.random.randrange(PRODUCERS)
        if step == "plain":
            await log.append(batch(self.random.randint(1, 4)))
        elif step == "write":
            await write(log, producer, self.sequences[producer])
            self.sequences[producer] += 1
            self.open.add(producer)
        elif step == "end" and producer in self.open:
            await end(log, producer, commit=self.random.random() < 0.4)
            self.open.discard(producer)
        elif step == "roll":
            await log.roll()
        elif step == "delete" and log.high_watermark:
            await delete_records(log, self.random.randrange(log.high_watermark))

    async def moved(self, log: PartitionLog, *, is_killed: bool) -> PartitionLog:
        """Have another process own the log; the one before closed it, or died."""
        if is_killed:
            assert log._writer is not None
            await log._writer.abort()
        else:
            await log.close()
        return await self.pair.own()

    async def compare(self, followed: FollowedPartition, log: PartitionLog) -> None:
        await until(lambda: followed.log_start_offset == log.log_start_offset)
        assert followed.last_stable_offset == log.last_stable_offset
        start, stable = log.log_start_offset, log.last_stable_offset
        assert await self.batches(followed) == await self.batches(log)
        for _ in range(4):
            first, last = sorted(self.random.randrange(start, stable + 1) for _ in range(2))
            if last < stable:
                theirs = await log.aborted_between(first, last)
                assert await followed.aborted_between(first, last) == theirs
        for epoch, _ in log.epochs.entries[:-1]:  # the last one may have written nothing yet
            if log.end_of_epoch(epoch)[1] > start:  # of older ones an owner may know less
                assert followed.end_of_epoch(epoch) == log.end_of_epoch(epoch)

    async def batches(self, log: FollowedPartition | PartitionLog) -> list[bytes]:
        """Return all that a consumer reads from the start on."""
        found: list[bytes] = []
        at = log.log_start_offset
        while at < log.high_watermark:
            some = [bytes(each) for each in await log.read(at, 200)]
            assert some, at
            found += some
            at = read_header(some[-1]).last_offset + 1
        return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_follower_shows_what_the_owner_shows(tmp_path: Path, seed: int) -> None:
    async def story(pair: Pair) -> None:
        async with asyncio.timeout(50):
            await Story(pair, Random(seed)).run()

    run_pair(tmp_path, story)
