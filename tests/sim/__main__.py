"""`python -m tests.sim`: many seeds in parallel, or one again.

python -m tests.sim --seeds 1000          seeds 0..999 on all cores, stops after ten failures
python -m tests.sim --seed 17             one seed; --trace prints every event
"""

import argparse
import gc
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

from tests.sim.schedule import Result, run_seed

FAILURES_MAX = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run only this one and show its end")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every event")
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
        return _run_one(options.seed, show=options.trace)
    return _run_many(range(options.first, options.first + options.seeds), options.jobs)


def _run_one(seed: int, *, show: bool) -> int:
    result = run_seed(seed, show=show)
    if result.violations and not show:
        print(*result.tail[-60:], sep="\n")
    print(
        f"seed {seed}: trace {result.digest}, {result.turns} turns,"
        f" {result.virtual_s:.1f} virtual seconds, {_mix(Counter(result.counts))}"
    )
    for violation in result.violations[:20]:
        print(f"VIOLATION {violation}")
    return bool(result.violations)


def _run_many(seeds: range, jobs: int) -> int:
    started = time.monotonic()
    done, failed, virtual_s = 0, 0, 0.0
    counts: Counter[str] = Counter()
    for result in _results(seeds, jobs):
        done += 1
        virtual_s += result.virtual_s
        counts.update(result.counts)
        if result.violations:
            failed += 1
            first = str(result.violations[0]).partition("\n")[0]
            print(f"seed {result.seed} failed: {first}")
            print(f"  again: python -m tests.sim --seed {result.seed}", flush=True)
            if failed == FAILURES_MAX:
                break
    elapsed_s = time.monotonic() - started
    print(
        f"{done} seeds, {failed} failed, {done / elapsed_s:.1f} seeds/s,"
        f" {virtual_s / 3600:.1f} virtual hours in {elapsed_s:.0f} s"
    )
    print(_mix(counts))
    return bool(failed)


def _results(seeds: range, jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(run_seed, seeds)


def _mix(counts: Counter[str]) -> str:
    shown = ("ledgers", "entries confirmed", "entries checked", "ensemble changes", "recoveries")
    done = ", ".join(f"{counts[name]} {name}" for name in shown)
    faults = sorted(name for name in counts if name.startswith("fault."))
    return f"{done}; faults: " + ", ".join(f"{name[6:]} {counts[name]}" for name in faults)


if __name__ == "__main__":
    sys.exit(main())
