"""A random schedule: one seed is one cluster, one workload, one series of faults."""

import asyncio
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from tailrace.bookie.compaction_rules import GcConfig
from tailrace.bookie.config import DiskConfig
from tailrace.bookie.scrub import ScrubConfig
from tailrace.simulation.checkers import Violation
from tailrace.simulation.loop import Deadlock, Livelock
from tailrace.simulation.machine import Client
from tailrace.simulation.nemesis import Nemesis
from tailrace.simulation.workload import Workload
from tailrace.simulation.world import World, simulate

QUORUMS = ((1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 3), (4, 3, 2), (5, 3, 2))
END_S = 3_600.0
"""Virtual time in which everything must be well again once all faults are healed."""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    digest: str
    violations: tuple[Violation, ...]
    counts: dict[str, int]
    tail: tuple[str, ...]
    virtual_s: float
    turns: int


COUNTS = ("ledgers", "entries confirmed", "entries checked", "ensemble changes", "recoveries")
"""What was done in a schedule, as the command line sums it up."""


def run_seed(seed: int, *, show: bool = False) -> Result:
    """Run one schedule of ledgers."""
    return run_story(seed, _story, show=show)


def run_story(
    seed: int, tell: Callable[[World], Coroutine[Any, Any, None]], *, show: bool = False
) -> Result:
    """Run a story in the world of a seed, to its end or to where it got stuck."""
    trouble: list[str] = []
    worlds: list[World] = []

    async def story(world: World) -> None:
        worlds.append(world)
        await tell(world)

    try:
        simulate(seed, story, show=show)
    except (Deadlock, Livelock, Exception) as error:  # noqa: BLE001 - of whatever code a story has
        trouble.append(f"{error!r}\n{traceback.format_exc(limit=-3)}")
    world = worlds[0]
    for what in trouble:
        world.checker.fail(what)
    counts = dict(world.trace.counts)
    counts["ledgers"] = len(world.checker.ledgers)
    counts["entries confirmed"] = sum(m.confirmed + 1 for m in world.checker.ledgers.values())
    counts["entries checked"] = world.checker.entries_checked
    counts["ensemble changes"] = world.checker.ensemble_changes
    counts["recoveries"] = world.checker.recoveries
    return Result(
        seed,
        world.trace.digest,
        tuple(world.checker.violations),
        counts,
        tuple(world.trace.tail),
        world.loop.time(),
        world.loop.turns,
    )


async def _story(world: World) -> None:
    rng = Random(f"{world.seed}/story")
    bookies = rng.randint(1, 6)
    possible = [quorum for quorum in QUORUMS if quorum[0] <= bookies]
    quorums = rng.sample(possible, min(len(possible), rng.randint(1, 3)))
    tolerance = min(ack for _, _, ack in quorums) - 1
    world.metadata.usual_delay_s = rng.choice((0.001, 0.001, 0.02, 0.15))
    world.network.spread_s = rng.choice((0.0, 0.005, 0.05, 0.3))
    await world.start(bookies, draw_settings(rng))
    workload = Workload(world, quorums)

    def populate(client: Client) -> None:
        for kind, most in (("writer", 2), ("reader", 2), ("recoverer", 1), ("deleter", 1)):
            for _ in range(rng.randint(0, most)):
                workload.start(client, kind)

    def replace_client(_: Client) -> None:
        populate(world.new_client(rng.choice((300, 1_000, 5_000))))

    for _ in range(rng.randint(2, 4)):
        replace_client(world.clients[0] if world.clients else None)  # type: ignore[arg-type]
    workload.start(world.clients[0], "writer")
    nemesis = Nemesis(
        world,
        replace_client=replace_client,
        workload=workload,
        tolerance=tolerance,
        beyond=rng.random() < 0.15,
    )
    await nemesis.rage(rng.choice((2.0, 6.0, 20.0)), rng.choice((0.1, 0.4, 1.5)))
    workload.ended = True
    async with asyncio.timeout(END_S):
        await world.all_well()
        checking = world.new_client(5_000)
        await checking.process.run(workload.check_all(checking), "check")
        await _replay(world)
        await checking.process.run(workload.check_all(checking), "check")


async def _replay(world: World) -> None:
    """Restart every bookie, some cleanly, some not: what they say then is what they said."""
    rng = Random(f"{world.seed}/replay")
    for machine in world.machines:
        if machine.up and rng.random() < 0.5:
            await machine.stop()
            machine.stopped = False
        else:
            machine.kill("replay", power=rng.random() < 0.5)
    await world.all_well()


def draw_settings(rng: Random) -> dict[str, Any]:
    """Return settings of all bookies: small files, early checkpoints, few things kept."""
    return {
        "preallocate_mb": rng.choice((0, 0, 1)),
        "journal_write_data": rng.random() < 0.3,
        "journal_max_size_mb": rng.choice((0, 1, 1)),
        "page_cache_mb": rng.choice((0, -1)),
        "log_size_limit": rng.choice((4_000, 20_000, 200_000, 1 << 30)),
        "flush_entry_log_bytes": rng.choice((2_000, 30_000, 1 << 28)),
        "flush_interval_ms": rng.choice((50, 500, 10_000)),
        "flush_when_queue_empty": rng.random() < 0.8,
        "group_entries_max": rng.choice((0, 5)),
        "memtable_bytes_max": rng.choice((1_000, 100_000, 64 << 20)),
        "group_bytes_max": rng.choice((100, 4_000, 4 << 20)),
        "cached_ledgers_max": rng.choice((0, 2, 20_000)),
        "cached_index_pages_max": rng.choice((1, 1_024)),
        "open_file_limit": rng.choice((1, 512)),
        "gc": _draw_gc(rng),
        "disks": DiskConfig(check_interval_ms=rng.choice((200, 10_000))),
        "scrub": ScrubConfig(interval_s=rng.choice((0, 2, 30)), rate_limit=100.0),
        "journals": rng.choice((1, 1, 2)),
        "ledger_directories": rng.choice((1, 1, 3)),
    }


def _draw_gc(rng: Random) -> GcConfig:
    """Return when garbage is collected and half-empty logs are rewritten: mostly often."""
    if rng.random() < 0.3:
        return GcConfig()
    return GcConfig(
        wait_ms=300,
        minor_threshold=0.4,
        minor_interval_s=1,
        major_threshold=0.95,
        major_interval_s=3,
        rate_by_entries=rng.choice((20, 10_000)),
    )
