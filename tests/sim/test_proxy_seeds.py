"""Random schedules of proxies: the same seeds in every run of the tests; bugs that they find."""

import pytest

from tests.sim.proxies.planted import BUGS, hunt, planted
from tests.sim.proxies.schedule import run_proxy_seed
from tests.sim.test_seeds import run

SEEDS = 4
HUNTED = range(206, 230)
"""Seeds in which a planted bug has to show at least once."""


@pytest.mark.slow
def test_proxies_break_no_promise() -> None:
    out = run("--world", "proxies", "--seeds", str(SEEDS), "--jobs", "1")
    assert f"{SEEDS} seeds, 0 failed" in out


@pytest.mark.parametrize("seed", [5])
def test_one_seed_is_one_schedule_of_proxies(seed: int) -> None:
    first, second = run_proxy_seed(seed), run_proxy_seed(seed)
    assert first.digest == second.digest
    assert (first.turns, first.virtual_s) == (second.turns, second.virtual_s)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_takes_the_place_of_a_function_that_is_there(bug: str) -> None:
    kind, method, planted_one = BUGS[bug]
    with planted(bug):
        assert getattr(kind, method) is planted_one
    assert getattr(kind, method) is not planted_one


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        ("a reader skips an entry's rest", "missed ["),
        ("sent again in another order", "was given"),
    ],
)
def test_a_planted_bug_is_found(bug: str, said: str) -> None:
    found = hunt(bug, HUNTED)
    assert found is not None
    assert said in found[1]
