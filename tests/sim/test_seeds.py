"""Random schedules, as `make sim` runs them: the same seeds in every run of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.simulation.schedule import run_seed

ROOT = Path(__file__).parents[2]
SEEDS = 100
CHUNK = 10


def run(*arguments: str) -> str:
    """Run the simulator as a user does: its sets are ordered by its own hash seed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_schedules_break_no_promise(first: int) -> None:
    out = run("--first", str(first), "--seeds", str(CHUNK), "--jobs", "1")
    assert f"{CHUNK} seeds, 0 failed" in out


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_one_seed_is_one_schedule(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.digest == second.digest
    assert (first.turns, first.virtual_s) == (second.turns, second.virtual_s)
    assert first.digest != run_seed(seed + 1).digest


def test_one_seed_is_one_schedule_in_every_process() -> None:
    assert run("--seed", "14") == run("--seed", "14")
