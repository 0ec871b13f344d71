"""Random schedules over regions: writers, readers and recoverers everywhere, regions in trouble.

A region is lost with its power, cut off, slow, or closed to new copies; never more of them at once
than the promise allows to be lost, and in the end so many are lost for the first check.
"""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tailrace.core.errors import CoreError
from tailrace.core.metadata.region_rules import RegionRules
from tailrace.simulation.machine import Client
from tailrace.simulation.schedule import END_S
from tailrace.simulation.workload import Workload
from tests.sim.regions import RegionStage

Trouble = Callable[[str], Coroutine[Any, Any, None]]


class RegionNemesis:
    """Draws troubles of one world."""

    def __init__(self, stage: RegionStage, rng: Random) -> None:
        self._stage = stage
        self._rng = rng

    async def rage(self, duration_s: float) -> None:
        """Make one trouble after the other, some regions at a time; heal them all."""
        stage, rng = self._stage, self._rng
        loop = asyncio.get_running_loop()
        end_s = loop.time() + duration_s
        troubles: tuple[Trouble, ...] = (self._lose, self._part, self._slow, self._close)
        while loop.time() < end_s:
            await asyncio.sleep(2 * rng.random())
            trouble = rng.choice(troubles)
            count = rng.randint(1, stage.globe.regions_min - 1)
            async with asyncio.TaskGroup() as group:
                for region in rng.sample(stage.globe.regions, count):
                    stage.world.trace(region, trouble.__name__)
                    group.create_task(trouble(region))

    async def _for_a_while(self) -> None:
        await asyncio.sleep(self._rng.choice((0.5, 3.0, 15.0)) * (0.5 + self._rng.random()))

    async def _lose(self, region: str) -> None:
        self._stage.lose(region)
        await self._for_a_while()
        await self._stage.bring_back(region)

    async def _part(self, region: str) -> None:
        self._stage.part(region)
        await self._for_a_while()
        self._stage.heal()

    async def _slow(self, region: str) -> None:
        ways = self._stage.world.network.ways_s
        former = {way: delay_s for way, delay_s in ways.items() if region in way}
        extra_s = self._rng.choice((0.3, 2.0, 8.0))
        ways.update({way: delay_s + extra_s for way, delay_s in former.items()})
        await self._for_a_while()
        ways.update(former)

    async def _close(self, region: str) -> None:
        rules = RegionRules(disallowed=frozenset({region}))
        for those in (rules, RegionRules()):
            try:
                await self._stage.set_rules(those)
            except CoreError as error:
                self._stage.world.trace(region, "rules failed", type(error).__name__)
            await self._for_a_while()


async def random_story(stage: RegionStage) -> None:
    """Run one schedule; the checkers of the world judge."""
    world = stage.world
    rng = Random(f"{world.seed}/regions")
    workload = Workload(world, [stage.globe.quorums])

    def populate(client: Client, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            workload.start(client, kind)

    for region in stage.globe.regions:
        kinds = ("writer", "reader") if rng.random() < 0.7 else ("writer", "recoverer", "reader")
        populate(stage.client(region), kinds)
    await RegionNemesis(stage, rng).rage(rng.choice((10.0, 40.0)))
    workload.ended = True
    async with asyncio.timeout(END_S):
        lost = rng.sample(stage.globe.regions, stage.globe.regions_min - 1)
        stage.lose(*lost)
        left = [region for region in stage.globe.regions if region not in lost]
        await _check(stage, workload, rng.choice(left))
        await stage.bring_back(*lost)
        await _check(stage, workload, rng.choice(stage.globe.regions))


async def _check(stage: RegionStage, workload: Workload, region: str) -> None:
    checking = stage.client(region)
    await checking.process.run(workload.check_all(checking), "check")
