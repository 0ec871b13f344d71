"""Which mode a bookie is in, and who hears of it."""

from pathlib import Path

import pytest

from tailrace.bookie.disk_watch import DiskRules, DiskWatch
from tailrace.bookie.health import Health
from tailrace.core.runtime.files import Space

A = Path("/a")
FULL, EMPTY, GONE = Space(1000, 40), Space(1000, 900), Space(1000, 0)


def health(*, forced: bool = False) -> Health:
    return Health(DiskWatch(DiskRules(high_priority_bytes=10)), forced=forced)


def test_a_new_bookie_is_writable() -> None:
    found = health()
    assert not found.is_read_only
    assert not found.refuses(0)
    assert found.metrics.mode_changes_total == 0


def test_full_disks_refuse_ordinary_writes_and_room_again_takes_them() -> None:
    found, heard = health(), list[bool]()
    found.on_rooms({A: EMPTY})
    found.on_change(lambda: heard.append(found.is_read_only))
    for rooms in ({A: EMPTY}, {A: FULL}, {A: FULL}, {A: EMPTY}):
        found.on_rooms(rooms)
    assert heard == [True, False]
    assert (found.metrics.mode_changes_total, found.metrics.read_only) == (2, 0)
    assert found.metrics.disk_usage_ratio == pytest.approx(0.1)


def test_high_priority_writes_are_refused_only_without_room() -> None:
    found = health()
    found.on_rooms({A: FULL})
    assert found.refuses(0)
    assert not found.refuses(100)
    found.on_rooms({A: GONE})
    assert found.refuses(100)


def test_a_write_without_room_makes_it_read_only_at_once() -> None:
    found = health()
    found.on_rooms({A: EMPTY})
    found.on_no_room(A)
    assert found.reason == "a write found no room in /a"


def test_disks_do_not_undo_what_an_operator_did() -> None:
    found = health()
    found.set_manual(read_only=True)
    found.on_rooms({A: FULL})
    found.on_rooms({A: EMPTY})
    assert found.reason == "an operator made it read-only"
    found.set_manual(read_only=False)
    assert not found.is_read_only


def test_a_change_of_the_directories_with_room_is_told_too() -> None:
    rules = DiskRules(on_any_full=False)
    found, heard = Health(DiskWatch(rules)), list[tuple[Path, ...]]()
    found.on_change(lambda: heard.append(found.verdict.writable))
    b = Path("/b")
    for rooms in ({A: EMPTY, b: EMPTY}, {A: FULL, b: EMPTY}, {A: EMPTY, b: EMPTY}):
        found.on_rooms(rooms)
    assert heard == [(A, b), (b,), (A, b)]
    assert not found.is_read_only


def test_an_operator_does_not_undo_full_disks() -> None:
    found = health()
    found.on_rooms({A: FULL})
    found.set_manual(read_only=True)
    found.set_manual(read_only=False)
    assert found.is_read_only


def test_a_forced_bookie_stays_read_only_and_says_every_reason() -> None:
    found = health(forced=True)
    found.on_rooms({A: FULL})
    assert found.reason.startswith("forceReadOnlyBookie is set; /a is 96.0% full")
    found.on_rooms({A: EMPTY})
    assert found.is_read_only
    assert found.is_forced


def test_the_log_says_it_once(caplog: pytest.LogCaptureFixture) -> None:
    found = health()
    for _ in range(3):
        found.on_rooms({A: FULL})
    assert [record.message.split()[0] for record in caplog.records] == [
        "disk_nearly_full",
        "bookie_read_only",
    ]
