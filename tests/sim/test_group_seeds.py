"""Random schedules of a group: the same seeds in every run of the tests; bugs that they find."""

from typing import Any

import pytest

from tailrace.broker.coordinator.group import ClassicGroup
from tailrace.broker.replicated.effects import Write
from tailrace.broker.replicated.runner import Runner
from tailrace.protocol.errors import ErrorCode
from tests.sim.groups.schedule import run_group_seed
from tests.sim.test_seeds import run

SEEDS = 16
HUNTED = range(30, 60)
"""Seeds in which a planted bug has to show at least once."""


@pytest.mark.slow
def test_groups_break_no_promise() -> None:
    out = run("--world", "groups", "--seeds", str(SEEDS), "--jobs", "1")
    assert f"{SEEDS} seeds, 0 failed" in out


@pytest.mark.parametrize("seed", [2])
def test_one_seed_is_one_schedule_of_a_group(seed: int) -> None:
    first, second = run_group_seed(seed), run_group_seed(seed)
    assert first.digest == second.digest
    assert (first.turns, first.virtual_s) == (second.turns, second.virtual_s)


def test_commits_of_anybody_are_seen_to_be_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassicGroup, "check_commit", lambda *_: ErrorCode.NONE)
    assert any("back to" in violation for violation in _hunt())


def test_answers_before_the_log_has_confirmed_are_seen_to_be_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def believe(self: Runner[Any], machine: Any, writes: list[Write]) -> None:
        if machine is not self.machine or self._log is None or not writes:
            return
        records = [record for write in writes for record in write.records]
        if records or writes[0].transaction is not None:
            self._hand_over(self._log, records, writes[0].transaction)
        self._confirm(machine, writes)

    monkeypatch.setattr(Runner, "_append", believe)
    assert any("was told" in violation or "of generation" in violation for violation in _hunt())


def _hunt() -> list[str]:
    """Return what the first seed finds that finds anything."""
    for seed in HUNTED:
        if found := run_group_seed(seed).violations:
            return [str(violation) for violation in found]
    return []
