"""Worlds of several regions with ways of different lengths between them, and stories in them.

`@regional(GLOBE)` makes a test of a story, once per seed. Every client places region-aware and says
where it stands; every bookie says so in its registration. The checker wants each confirmed entry in
as many regions as are promised.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from tailrace.core.ledger.config import LedgerClientConfig, ReadConfig
from tailrace.core.ledger.placement_config import PlacementConfig, PolicyName
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.region_rules import REGION_RULES_PATH, RegionRules, encode_region_rules
from tailrace.core.metadata.store import ANY_VERSION
from tailrace.protocol.ids import BookieId
from tailrace.simulation.machine import Client, Machine
from tailrace.simulation.world import World, simulate
from tests.sim.script import SETTINGS, Stage, WrittenLedger

_PATHS = LedgerPaths("/ledgers")
_INSIDE_S = 0.0005
_HOP_S = 0.03
"""Between neighbours; regions stand in a row."""


@dataclass(frozen=True, slots=True)
class Globe:
    """How a world is made. Shape: bookies by region; E, Qw, Qa of its ledgers."""

    bookies: dict[str, int]
    quorums: tuple[int, int, int]
    regions_min: int

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self.bookies)

    def places(self) -> list[str]:
        return [f"/{region}/{n % 2}" for region, each in self.bookies.items() for n in range(each)]


THREE = Globe({"eu": 3, "us": 3, "asia": 3}, (6, 6, 4), 2)
FIVE = Globe({"eu": 2, "us": 2, "asia": 2, "af": 2, "au": 2}, (6, 6, 5), 3)


def set_ways(world: World, regions: tuple[str, ...]) -> None:
    """Put the regions in a row."""
    for i, one in enumerate(regions):
        world.network.set_way(one, one, _INSIDE_S)
        for j, other in enumerate(regions[:i]):
            world.network.set_way(one, other, _HOP_S * (i - j))


def client_config(globe: Globe, region: str) -> LedgerClientConfig:
    return LedgerClientConfig(
        read=ReadConfig(speculative_timeout_ms=500, long_poll_speculative_timeout_ms=500),
        placement=PlacementConfig(
            policy=PolicyName.REGION_AWARE,
            own_location=f"/{region}/0",
            regions_min=globe.regions_min,
        ),
    )


class RegionStage(Stage):
    """What a story works with."""

    def __init__(self, world: World, globe: Globe) -> None:
        super().__init__(world)
        self.globe = globe
        self.store = world.metadata.open()

    def client(self, region: str) -> Client:
        return self.world.new_client(5_000, 1_000, client_config(self.globe, region))

    async def ledger(self, client: Client) -> WrittenLedger:
        return await self.create(client, *self.globe.quorums)

    def region_of(self, machine: Machine) -> str:
        return self.world.network.regions[machine.host]

    def machines(self, region: str) -> list[Machine]:
        return [m for m in self.world.machines if self.region_of(m) == region]

    def spread(self, ledger: WrittenLedger) -> list[str]:
        """Return the regions of the present ensemble, sorted."""
        return sorted(map(self.region_of, ledger.machines))

    def lose(self, *regions: str) -> None:
        """Let the power of whole regions go, until `bring_back`."""
        for region in regions:
            for machine in self.machines(region):
                machine.stopped = True
                machine.kill("region lost", power=True)

    async def gone(self, *regions: str) -> None:
        """Wait until nobody of these regions is registered any more."""
        ids = [BookieId(m.config.identity) for r in regions for m in self.machines(r)]
        tree = self.world.metadata.tree
        await self.until(lambda: not any(tree.find(_PATHS.bookie(b)) for b in ids))

    async def bring_back(self, *regions: str) -> None:
        machines = [machine for region in regions for machine in self.machines(region)]
        for machine in machines:
            machine.stopped = False
        await self.until(lambda: all(machine.up for machine in machines), 120)
        await self.news()

    async def news(self) -> None:
        """Let everybody hear what changed in the metadata."""
        await asyncio.sleep(1)

    def part(self, region: str) -> None:
        """Let nothing pass between a region and the rest of the world, until `heal`."""
        inside = self.world.network.hosts_of(region)
        self.world.network.part(region, [h for h in self.world.hosts() if h not in inside])

    async def set_rules(self, rules: RegionRules) -> None:
        data = encode_region_rules(rules)
        if await self.store.exists(REGION_RULES_PATH) is None:
            await self.store.create(REGION_RULES_PATH, data, parents=True)
        else:
            await self.store.set(REGION_RULES_PATH, data, ANY_VERSION)

    def crossings(self, region: str) -> int:
        """Return how many packets left a region for another one since the last call."""
        crossed = self.world.network.crossed
        count = sum(n for (source, target), n in crossed.items() if source == region != target)
        crossed.clear()
        return count


Story = Callable[[RegionStage], Coroutine[Any, Any, None]]


def regional(globe: Globe, seeds: int = 3) -> Callable[[Story], Callable[[int], None]]:
    """Make a test of a story: no checker may have found anything in the end."""

    def decorate(story: Story) -> Callable[[int], None]:
        @pytest.mark.parametrize("seed", range(1, seeds + 1))
        @functools.wraps(story)
        def test(seed: int) -> None:
            async def on_stage(world: World) -> None:
                world.checker.regions_min = globe.regions_min
                set_ways(world, globe.regions)
                places = globe.places()
                await world.start(len(places), SETTINGS, places)
                await story(RegionStage(world, globe))

            world = simulate(seed, on_stage)
            assert not world.checker.violations, "\n".join(map(str, world.checker.violations))

        del test.__wrapped__  # type: ignore[attr-defined] - pytest would ask for its parameters
        return test

    return decorate
