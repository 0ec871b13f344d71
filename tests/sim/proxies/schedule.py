"""A random schedule of proxies: one seed is one cluster, its proxies, clients, faults."""

import asyncio
from random import Random

from tailrace.core.log.config import LogConfig
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.simulation.schedule import END_S, QUORUMS, Result, draw_settings, run_story
from tailrace.simulation.world import World
from tests.sim.proxies.client import LARGE_BYTES, Writer
from tests.sim.proxies.nemesis import ProxyNemesis
from tests.sim.proxies.occurrences import COUNTS as OCCURRENCES
from tests.sim.proxies.server import ProxySettings
from tests.sim.proxies.world import ProxyWorld

COUNTS = (
    *("streams", "records written", "records read", "copies", "claims", "redirects"),
    *OCCURRENCES,
)

PROGRESS_S = 300.0
"""Virtual time from the end of all faults in which a client's record is acknowledged."""


def run_proxy_seed(seed: int, *, show: bool = False) -> Result:
    """Run one schedule of proxies."""
    return run_story(seed, _story, show=show)


async def _story(world: World) -> None:
    rng = Random(f"{world.seed}/proxy story")
    bookies = rng.randint(1, 5)
    world.metadata.usual_delay_s = rng.choice((0.001, 0.001, 0.02, 0.15))
    world.metadata.session_timeout_s = rng.choice((1.0, 1.0, 3.0, 9.0))
    world.network.spread_s = rng.choice((0.0, 0.005, 0.05))
    await world.start(bookies, draw_settings(rng))
    proxies = ProxyWorld(world, _draw_log_config(rng, bookies))
    await proxies.create_streams(rng.choice((1, 1, 2, 3)))
    settings = ProxySettings(
        _draw_owner_config(rng, world), _draw_service_config(rng), _draw_reading(rng)
    )
    for _ in range(rng.randint(2, 4)):
        proxies.add_shard(settings, writes=True)
    for _ in range(rng.randint(1, 2)):
        proxies.add_shard(settings, writes=False)
    for _ in range(rng.randint(2, 4)):
        proxies.populate()
    proxies.start_writer(proxies.new_thin_client())
    nemesis = ProxyNemesis(
        world,
        replace_client=proxies.populate,
        tolerance=proxies.log_config.ack_quorum - 1,
        beyond=False,
    )
    nemesis.add_proxy_faults(proxies)
    await _begin(proxies, nemesis)
    await nemesis.rage(rng.choice((2.0, 5.0, 12.0)), rng.choice((0.1, 0.3, 1.0)))
    proxies.is_over = True
    await _see_progress(proxies)
    async with asyncio.timeout(END_S):
        await _end(proxies)
    _count(proxies)


async def _begin(proxies: ProxyWorld, nemesis: ProxyNemesis) -> None:
    """Wait until records are being written, mostly: some trouble is there from the beginning.

    Some things only happen to those that are busy: with all that goes wrong later few are.
    """
    rng = Random(f"{proxies.world.seed}/begin")
    until_s = proxies.world.loop.time() + rng.choice((0.0, 10.0, 10.0))
    while proxies.world.loop.time() < until_s and not any(m.writes for m in proxies.models):  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    await asyncio.sleep(rng.choice((0.0, 0.0, 2.0)))
    if rng.random() < 0.3:
        await nemesis.take_over_unheard()


async def _see_progress(proxies: ProxyWorld) -> None:
    """With nothing wrong any more, a client that comes now writes to each stream."""
    world = proxies.world
    began_s = world.loop.time()
    async with asyncio.timeout(PROGRESS_S):
        await world.all_well()
        await _replace_damaged(proxies)
    client = proxies.new_thin_client(finds_all=True)
    for model in proxies.models:
        writer = Writer(client, model, f"last {model.name}", Random(world.seed))
        try:
            async with asyncio.timeout(PROGRESS_S - world.loop.time() + began_s):
                while not await client.process.run(writer.write_one(), "last write"):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except TimeoutError:
            model.expect(holds=False, what=f"no record was taken within {PROGRESS_S} s of peace")
    world.trace("schedule", "progress", f"{world.loop.time() - began_s:.1f}")


async def _replace_damaged(proxies: ProxyWorld) -> None:
    """Start new bookies, as an operator does, where those whose disks are damaged leave too few."""
    world = proxies.world
    whole = sum(not each.given_up for each in world.machines)
    for _ in range(proxies.log_config.ensemble_size - whole):
        machine = world.add_machine(draw_settings(Random(f"{world.seed}/new bookie")))
        world.trace("schedule", "new bookie", machine.name)
    await world.all_well()


async def _end(proxies: ProxyWorld) -> None:
    world = proxies.world
    await world.all_well()
    running = [task for client, task in proxies.actors if client.process.alive]
    await asyncio.wait(running)
    for number, shard in enumerate(proxies.shards):
        shard.stopped = True
        if number % 2:
            await shard.drain()
        elif shard.life is not None:
            shard.life.kill("the end")
        await shard.end()
    checking = proxies.new_log_client()
    await checking.process.run(proxies.check(checking), "check")


def _draw_log_config(rng: Random, bookies: int) -> LogConfig:
    """Return how streams are written: small segments, few entries in flight."""
    ensemble_size, write_quorum, ack_quorum = rng.choice([q for q in QUORUMS if q[0] <= bookies])
    refuses = rng.random() < 0.5  # some records are too large, or find too many before them
    return LogConfig(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        segment_bytes=rng.choice((0, 500, 5_000, 100_000)),
        unacked_entries_max=rng.choice((1, 4, 64)),
        record_bytes_max=LARGE_BYTES - 500 if refuses else 1_040_364,
        waiting_bytes_max=9_000 if refuses else 1 << 26,
        control_flush_ms=rng.choice((0, 5, 100)),
        lac_poll_ms=rng.choice((50, 1_000)),
        read_ahead_entries=rng.choice((1, 10, 256)),
        lock_reacquire_timeout_s=rng.choice((1, 120)),
    )


def _draw_owner_config(rng: Random, world: World) -> OwnerConfig:
    """A claim and the first segment take two dozen round trips: they must fit into the time-out."""
    claim_ms = round(60_000 * world.metadata.usual_delay_s)
    return OwnerConfig(
        service_timeout_ms=rng.choice((0, 0, 2_000 + claim_ms, 10_000 + claim_ms)),
        probation_ms=rng.choice((500, 5_000)),
        close_timeout_ms=rng.choice((100, 1_000)),
        claim_pause_ms=rng.choice((0, 1_000)),
        queued_operations_max=rng.choice((1, 20, 1_000)),
    )


def _draw_service_config(rng: Random) -> WriteServiceConfig:
    return WriteServiceConfig(
        stream_records_max=rng.choice((1, 8, 8_192, 8_192)),
        stream_bytes_max=rng.choice((100, 8 << 20, 8 << 20)),
    )


def _draw_reading(rng: Random) -> ReadConfig:
    return ReadConfig(
        cache_bytes=rng.choice((0, 10_000, 256 << 20, 256 << 20)),
        stream_cache_bytes=rng.choice((100, 1_000, 1_000, 5_000, 8 << 20)),
        readers_max=rng.choice((1, 50_000, 50_000, 50_000)),
        stream_feeds_max=rng.choice((1, 2, 100)),
        feed_linger_ms=rng.choice((1, 1_000)),
        retries=rng.choice((0, 1, 5)),
    )


def _count(proxies: ProxyWorld) -> None:
    counts = proxies.world.trace.counts
    models = proxies.models
    counts["streams"] = len(models)
    counts["records written"] = sum(model.writes for model in models)
    counts["records read"] = sum(len(run) for model in models for _, run in model.runs)
    seen = [payload for model in models for payload in model.seen.values()]
    counts["copies"] = len(seen) - len(set(seen))
    counts["claims"] = sum(len(model.owners) for model in models)
    occurrences = proxies.checker.occurrences
    counts["redirects"] = occurrences.answers["FOUND"]
    fallen_behind = [each.fallen_behind_total for shard in proxies.reading for each in shard.reads]
    counts.update(occurrences.counts(sum(fallen_behind)))
