"""Random schedules of logs: the same seeds in every run of the tests."""

import pytest

from tailrace.simulation.logs.schedule import run_log_seed
from tests.sim.test_seeds import run

SEEDS = 40
CHUNK = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_logs_break_no_promise(first: int) -> None:
    out = run("--world", "logs", "--first", str(first), "--seeds", str(CHUNK), "--jobs", "1")
    assert f"{CHUNK} seeds, 0 failed" in out


@pytest.mark.parametrize("seed", [1, 2])
def test_one_seed_is_one_schedule_of_logs(seed: int) -> None:
    first, second = run_log_seed(seed), run_log_seed(seed)
    assert first.digest == second.digest
    assert (first.turns, first.virtual_s) == (second.turns, second.virtual_s)
