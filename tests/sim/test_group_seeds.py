"""Random schedules of a group: the same seeds in every run of the tests; bugs that they find."""

import pytest

from broker.coordinator import membership
from broker.coordinator.effects import AssignmentWritten
from broker.coordinator.group import ClassicGroup
from broker.coordinator.records import group_record
from broker.replicated.effects import Now, Write
from protocol.errors import ErrorCode
from protocol.kafka.messages.sync_group import SyncGroupRequest
from tests.sim.groups.schedule import run_group_seed
from tests.sim.test_seeds import run

SEEDS = 16
HUNTED = range(40)
"""Seeds in which a planted bug has to show at least once."""


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


def test_assignments_handed_out_before_they_are_stored_are_seen_to_be_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def store(group: ClassicGroup, request: SyncGroupRequest) -> None:
        given = {each.member_id: bytes(each.assignment) for each in request.assignments}
        group.write(Write((group_record(group.group_id, group.to_value(given)),)))
        written = AssignmentWritten(group.group_id, group.generation, given)
        membership.on_assignment_written(group, written, Now(0, 0))

    monkeypatch.setattr(membership, "_store_assignments", store)
    assert any("of generation" in violation for violation in _hunt())


def _hunt() -> list[str]:
    """Return what the first seed finds that finds anything."""
    for seed in HUNTED:
        if found := run_group_seed(seed).violations:
            return [str(violation) for violation in found]
    return []
