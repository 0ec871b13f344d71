"""`python -m tests.sim`: many seeds in parallel, or one again.

python -m tests.sim --seeds 1000          seeds 0..999 on all cores, stops after ten failures
python -m tests.sim --seed 17             one seed; --trace prints every event
python -m tests.sim --world logs ...      logs and their owners, on the same simulated cluster
python -m tests.sim --world groups ...    a consumer group's members and their coordinator
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tests.sim.checkers import Violation
from tests.sim.groups import schedule as groups
from tests.sim.logs import schedule as logs
from tests.sim.remains import nothing_said_afterwards
from tests.sim.schedule import COUNTS, Result, run_seed

FAILURES_MAX = 10


class Kind(NamedTuple):
    """A kind of world."""

    name: str
    run: Callable[..., Result]
    counts: tuple[str, ...]


WORLDS = {
    kind.name: kind
    for kind in (
        Kind("ledgers", run_seed, COUNTS),
        Kind("logs", logs.run_log_seed, logs.COUNTS),
        Kind("groups", groups.run_group_seed, groups.COUNTS),
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run only this one and show its end")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event")
    parser.add_argument("--world", choices=sorted(WORLDS), default="ledgers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names are ordered by it
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.sim", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    gc.freeze()  # what was imported is never garbage: collections between seeds stay short
    if options.seed is not None:
        return _run_one(WORLDS[options.world], options.seed, show=options.trace)
    seeds = range(options.first, options.first + options.seeds)
    return _run_many(WORLDS[options.world], seeds, options.jobs)


def _run_one(world: Kind, seed: int, *, show: bool) -> int:
    result = _run_seed(world, seed, show=show)
    if result.violations and not show:
        print(*result.tail[-60:], sep="\n")
    print(
        f"seed {seed}: trace {result.digest}, {result.turns} turns,"
        f" {result.virtual_s:.1f} virtual seconds, {_mix(world, Counter(result.counts))}"
    )
    for violation in result.violations[:20]:
        print(f"VIOLATION {violation}")
    return bool(result.violations)


def _run_many(world: Kind, seeds: range, jobs: int) -> int:
    started = time.monotonic()
    done, failed, virtual_s = 0, 0, 0.0
    counts: Counter[str] = Counter()
    for result in _results(world, seeds, jobs):
        done += 1
        virtual_s += result.virtual_s
        counts.update(result.counts)
        if result.violations:
            failed += 1
            first = str(result.violations[0]).partition("\n")[0]
            print(f"seed {result.seed} failed: {first}")
            again = f"python -m tests.sim --world {world.name} --seed {result.seed}"
            print(f"  again: {again}", flush=True)
            if failed == FAILURES_MAX:
                break
    elapsed_s = time.monotonic() - started
    print(
        f"{done} seeds, {failed} failed, {done / elapsed_s:.1f} seeds/s,"
        f" {virtual_s / 3600:.1f} virtual hours in {elapsed_s:.0f} s"
    )
    print(_mix(world, counts))
    return bool(failed)


def _results(world: Kind, seeds: range, jobs: int) -> Iterator[Result]:
    run = partial(_run_seed, world)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run_seed(world: Kind, seed: int, *, show: bool = False) -> Result:
    """Run one seed; what is said once its world has ended fails it too."""
    with nothing_said_afterwards() as heard:
        result = world.run(seed, show=show)
        gc.collect()
    said = tuple(Violation(result.virtual_s, f"said after the end: {text}") for text in heard)
    return replace(result, violations=result.violations + said)


def _mix(world: Kind, counts: Counter[str]) -> str:
    done = ", ".join(f"{counts[name]} {name}" for name in world.counts)
    faults = sorted(name for name in counts if name.startswith("fault."))
    return f"{done}; faults: " + ", ".join(f"{name[6:]} {counts[name]}" for name in faults)


if __name__ == "__main__":
    sys.exit(main())
