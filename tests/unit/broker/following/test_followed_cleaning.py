"""A follower of a compacted topic: what its consumers end with is what they must end with."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import override

from tailrace.broker.following.followed import FollowedPartition
from tailrace.broker.partition.partition_log import PartitionLog
from tests.unit.broker.following.world import OWNER, PARTITION, Pair, reached, run_pair
from tests.unit.broker.loops import until
from tests.unit.broker.partition.test_cleaning_real_log import CONFIGS, Reader, _step

SEEDS = 2
STEPS = 40
WEIGHTS = {"write": 9, "end": 4, "roll": 4, "clean": 3, "move": 1, "delete": 1, "wait": 2}


class FollowingReader(Reader):
    """Reads by the follower what the owner wrote and cleaned."""

    def __init__(self, pair: Pair, random: Random, log: PartitionLog) -> None:
        world: Any = SimpleNamespace(clock=pair.clock)
        super().__init__(random, world, log)
        self.pair = pair
        self.follow_world()

    def follow_world(self) -> None:
        """Have what cleans be the owner."""
        self.world.broker = SimpleNamespace(  # type: ignore[misc]
            partitions=self.pair.owners[-1], topics=self.pair.topics
        )

    async def move(self) -> None:
        self.log = await self.pair.own()
        self.follow_world()

    @override
    async def check(self) -> None:
        followed = await self.pair.follow()
        owner = self.log
        await reached(followed, owner)
        await until(lambda: followed.log_start_offset == owner.log_start_offset)
        await owner.log.refresh()
        self.log = _Whole(followed)  # type: ignore[assignment]
        try:
            await super().check()
        finally:
            self.log = owner


class _Whole:
    """A follower whose answers are of one generation of ledgers, as those of fetches are."""

    def __init__(self, followed: FollowedPartition) -> None:
        self._followed = followed
        self._rewrites = 0
        self.tail = SimpleNamespace(clear=lambda: None)  # what is in memory counts as well

    def __getattr__(self, name: str) -> Any:
        return getattr(self._followed, name)

    async def read(self, offset: int, max_bytes: int) -> Any:
        await self._followed.log.refresh(is_forced=True)
        self._rewrites = self._followed.log.rewrites
        return await self._followed.read(offset, max_bytes)

    async def aborted_between(self, first: int, last: int) -> Any:
        found = await self._followed.aborted_between(first, last)
        assert self._followed.log.rewrites == self._rewrites
        return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_consumers_of_a_follower_see_what_they_must(tmp_path: Path, seed: int) -> None:
    async def story(pair: Pair) -> None:
        pair.topics.add(PARTITION.topic, 2, configs=CONFIGS)
        pair.owned_by(OWNER)
        log = await pair.own()
        reader = FollowingReader(pair, Random(seed), log)
        for _ in range(STEPS):
            (what,) = reader.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            if what == "move":
                await reader.move()
            else:
                await _step(reader, what)
            await reader.check()
        assert pair.followed.metrics.failures_total == 0

    run_pair(tmp_path, story)
