"""A random schedule of logs: one seed is one cluster, its logs, their users and their faults."""

import asyncio
from random import Random

from tailrace.core.log.config import LogConfig
from tailrace.simulation.logs.client import LogClient
from tailrace.simulation.logs.nemesis import LogNemesis
from tailrace.simulation.logs.workload import LogWorkload
from tailrace.simulation.machine import Client
from tailrace.simulation.schedule import END_S, QUORUMS, Result, draw_settings, run_story
from tailrace.simulation.world import World

COUNTS = ("logs", "openings", "records confirmed", "records checked", "segments completed")


def run_log_seed(seed: int, *, show: bool = False) -> Result:
    """Run one schedule of logs."""
    return run_story(seed, _story, show=show)


async def _story(world: World) -> None:
    rng = Random(f"{world.seed}/log story")
    bookies = rng.randint(1, 5)
    world.metadata.usual_delay_s = rng.choice((0.001, 0.001, 0.02, 0.15))
    world.network.spread_s = rng.choice((0.0, 0.005, 0.05))
    await world.start(bookies, draw_settings(rng))
    config = _draw_config(rng, bookies)
    workload = LogWorkload(world, [f"log{number}" for number in range(rng.choice((1, 1, 2, 3)))])

    def new_client() -> LogClient:
        number = len(world.clients) + 1
        client = LogClient(world, number, config, rng.choice((300, 1_000, 5_000)))
        world.clients.append(client)
        return client

    def populate(_: Client | None = None) -> None:
        client = new_client()
        for kind, most in (("owner", 2), ("reader", 2)):
            for _number in range(rng.randint(0, most)):
                workload.start(client, kind)

    for _ in range(rng.randint(2, 3)):
        populate()
    workload.start(world.clients[0], "owner")
    workload.start(world.clients[-1], "reader")
    nemesis = LogNemesis(
        world,
        replace_client=populate,
        workload=workload,
        tolerance=config.ack_quorum - 1,
        beyond=False,
    )
    nemesis.add_log_faults()
    await nemesis.rage(rng.choice((2.0, 5.0, 12.0)), rng.choice((0.1, 0.3, 1.0)))
    workload.ended = True
    async with asyncio.timeout(END_S):
        await world.all_well()
        checking = new_client()
        await checking.process.run(workload.check_logs(checking), "check")
    _count(world, workload)


def _draw_config(rng: Random, bookies: int) -> LogConfig:
    """Return how logs are written and read: small segments, few entries in flight."""
    ensemble_size, write_quorum, ack_quorum = rng.choice([q for q in QUORUMS if q[0] <= bookies])
    return LogConfig(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        segment_bytes=rng.choice((0, 500, 5_000, 100_000)),
        unacked_entries_max=rng.choice((1, 4, 64)),
        control_flush_ms=rng.choice((0, 5, 100)),
        lac_poll_ms=rng.choice((50, 1_000)),
        read_ahead_entries=rng.choice((1, 10, 256)),
        lock_timeout_s=rng.choice((0, 0, 2, 15)),
        lock_reacquire_timeout_s=rng.choice((1, 120)),
    )


def _count(world: World, workload: LogWorkload) -> None:
    counts = world.trace.counts
    models = workload.models.values()
    counts["logs"] = len(models)
    counts["openings"] = workload.takeovers
    counts["records confirmed"] = sum(len(model.confirmed) for model in models)
    counts["records checked"] = sum(model.records_checked for model in models)
    counts["segments completed"] = sum(model.completed for model in models)
