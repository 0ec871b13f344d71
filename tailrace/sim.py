"""A cluster in your test, from one seed: your code, logs, bookies, and what goes wrong.

    async def story(world: sim.World) -> None:
        await world.start(bookies=3)
        world.new_program().start(...)
        await world.rage(10.0)
        await world.all_well()
        world.expect(..., "a payment is missing")

    def test_no_payment_is_lost():
        assert sim.failures(story, range(50)) == []

Bookies, ledgers and logs run as they are; time, network, disks and metadata are simulated, so that
minutes pass in milliseconds and a seed is the same schedule each time (with PYTHONHASHSEED=0: sets
are ordered by it). Beside what a story expects, every promise of ledgers is checked in each seed.
A story may use asyncio and `world.rng`, and neither threads nor the real time.

`python -m tailrace.sim --seeds 50` runs Tailrace's own schedules (`--world logs`, `--help`).
"""

import sys
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeAlias

from tailrace.simulation.checkers import Violation
from tailrace.simulation.schedule import Result, run_story
from tailrace.simulation.seeds import main, run_each, run_one
from tailrace.simulation.story import Bookie, Program, ProgramDied, World
from tailrace.simulation.world import World as _Cluster

__all__ = ["Bookie", "Program", "ProgramDied", "Result", "Violation", "World", "failures", "run"]

_Story: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]


def run(story: _Story, seed: int, *, show: bool = False) -> Result:
    """Run a story in the world of a seed, to its end.

    Its `violations` are what went wrong: what the story did not `expect`, what it raised, broken
    promises of ledgers, errors that nothing handled. `show` prints each event on stdout.
    """
    return run_one(partial(_run, story), seed, show=show)


def failures(story: _Story, seeds: Iterable[int], *, jobs: int = 1) -> list[Result]:
    """Run a story once for each seed; return the results of those that failed.

    `jobs`: so many processes run seeds side by side; then the story is a function of a module.
    """
    results = run_each(partial(_run, story), seeds, jobs)
    return [result for result in results if result.violations]


def _run(story: _Story, seed: int, *, show: bool = False) -> Result:
    async def tell(cluster: _Cluster) -> None:
        await story(World(cluster))

    return run_story(seed, tell, show=show)


if __name__ == "__main__":
    sys.exit(main("tailrace.sim"))
