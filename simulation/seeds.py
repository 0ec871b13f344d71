"""Seeds of one kind of schedule: many in parallel, or one again with its events."""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from tailrace.simulation.checkers import Violation
from tailrace.simulation.logs import schedule as logs
from tailrace.simulation.remains import nothing_said_afterwards
from tailrace.simulation.schedule import COUNTS, Result, run_seed

FAILURES_MAX: Final = 10
TAIL: Final = 60
"""Events that are shown of a seed that failed."""


class Schedules(NamedTuple):
    """A kind of schedule: what runs a seed of it, and the names of what it counts."""

    run: Callable[..., Result]
    counts: tuple[str, ...]


OURS: Final = {
    "ledgers": Schedules(run_seed, COUNTS),
    "logs": Schedules(logs.run_log_seed, logs.COUNTS),
}
"""Schedules of Tailrace itself."""


def run_one(run: Callable[..., Result], seed: int, *, show: bool = False) -> Result:
    """Run one seed; what is logged as an error once its world has ended fails it too."""
    with nothing_said_afterwards() as heard:
        result = run(seed, show=show)
        gc.collect()
    said = tuple(Violation(result.virtual_s, f"said after the end: {text}") for text in heard)
    return replace(result, violations=result.violations + said)


def run_each(run: Callable[..., Result], seeds: Iterable[int], jobs: int) -> Iterator[Result]:
    """Yield the result of each seed, with `jobs` processes in the order in which they end."""
    of_seed = partial(run_one, run)
    if jobs == 1:
        yield from map(of_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(of_seed, seeds)


def main(module: str, kinds: Mapping[str, Schedules] = OURS) -> int:
    """Run the command line of `python -m module`; return its exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run only this one and show its end")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event")
    parser.add_argument("--world", choices=sorted(kinds), default="ledgers")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # sets of names are ordered by it
        os.execve(
            sys.executable,
            [sys.executable, "-m", module, *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    gc.freeze()  # what was imported is never garbage: collections between seeds stay short
    schedules = kinds[options.world]
    if options.seed is not None:
        return _show_one(schedules, options.seed, is_traced=options.trace)
    seeds = range(options.first, options.first + options.seeds)
    again = f"python -m {module} --world {options.world} --seed"
    return _show_many(schedules, seeds, options.jobs, again)


def _show_one(schedules: Schedules, seed: int, *, is_traced: bool) -> int:
    result = run_one(schedules.run, seed, show=is_traced)
    if result.violations and not is_traced:
        _print(*result.tail[-TAIL:])
    _print(
        f"seed {seed}: trace {result.digest}, {result.turns} turns,"
        f" {result.virtual_s:.1f} virtual seconds, {_mix(schedules, Counter(result.counts))}",
        *(f"VIOLATION {violation}" for violation in result.violations[:20]),
    )
    return bool(result.violations)


def _show_many(schedules: Schedules, seeds: range, jobs: int, again: str) -> int:
    started = time.monotonic()
    done, failed, virtual_s = 0, 0, 0.0
    counts: Counter[str] = Counter()
    for result in run_each(schedules.run, seeds, jobs):
        done += 1
        virtual_s += result.virtual_s
        counts.update(result.counts)
        if result.violations:
            failed += 1
            first = str(result.violations[0]).partition("\n")[0]
            _print(f"seed {result.seed} failed: {first}", f"  again: {again} {result.seed}")
            if failed == FAILURES_MAX:
                break
    elapsed_s = time.monotonic() - started
    _print(
        f"{done} seeds, {failed} failed, {done / elapsed_s:.1f} seeds/s,"
        f" {virtual_s / 3600:.1f} virtual hours in {elapsed_s:.0f} s",
        _mix(schedules, counts),
    )
    return bool(failed)


def _mix(schedules: Schedules, counts: Counter[str]) -> str:
    done = ", ".join(f"{counts[name]} {name}" for name in schedules.counts)
    faults = sorted(name for name in counts if name.startswith("fault."))
    return f"{done}; faults: " + ", ".join(f"{name[6:]} {counts[name]}" for name in faults)


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
