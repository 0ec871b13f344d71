"""When a bookie is read-only, and when it takes entries again."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tailrace.bookie.disk_check import BYTES_PER_S, DiskCheck
from tailrace.bookie.disk_watch import DiskRules, DiskWatch
from tailrace.bookie.health import Health
from tailrace.core.runtime.files import Space
from tailrace.simulation.loop import SimLoop

A, B = Path("/a"), Path("/b")
RULES = DiskRules(full=0.9, warn=0.8, low_water=0.85, high_priority_bytes=50)


def used(percent: int, total: int = 1000) -> Space:
    return Space(total, total * (100 - percent) // 100)


def test_a_full_disk_makes_the_bookie_read_only_and_says_why() -> None:
    verdict = DiskWatch(RULES).on_room({A: used(91)})
    assert verdict.reason == "/a is 91.0% full, the limit is 90.0%"
    assert verdict.writable == ()
    assert verdict.nearly_full == (A,)


def test_it_is_back_only_below_the_low_water_mark() -> None:
    watch = DiskWatch(RULES)
    watch.on_room({A: used(91)})
    assert watch.on_room({A: used(86)}).reason
    assert not watch.on_room({A: used(84)}).reason
    assert not watch.on_room({A: used(89)}).reason  # going up again: not full yet


@pytest.mark.parametrize(("on_any", "is_read_only"), [(True, True), (False, False)])
def test_one_full_disk_of_two(on_any: bool, is_read_only: bool) -> None:
    rules = DiskRules(full=0.9, warn=0.8, low_water=0.9, on_any_full=on_any)
    verdict = DiskWatch(rules).on_room({A: used(95), B: used(10)})
    assert bool(verdict.reason) is is_read_only
    assert verdict.writable == (B,)


def test_a_write_without_room_counts_at_once_and_until_a_check_says_otherwise() -> None:
    watch = DiskWatch(RULES)
    assert not watch.on_room({A: used(50)}).reason
    assert watch.on_no_room(A).reason == "a write found no room in /a"
    assert watch.on_room({A: used(87)}).reason
    assert not watch.on_room({A: used(50)}).reason


def test_high_priority_writes_go_on_while_there_is_room_for_them() -> None:
    assert DiskWatch(RULES).on_room({A: used(95)}).high_priority
    assert not DiskWatch(RULES).on_room({A: used(96)}).high_priority


@pytest.mark.parametrize(
    "wrong",
    [{"full": 1.0}, {"low_water": 0.99}, {"low_water": 0.0}, {"warn": 0.97}, {"full": 0.5}],
)
def test_thresholds_that_contradict_each_other_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="disk thresholds"):
        DiskRules(**wrong)  # type: ignore[arg-type]


steps = st.lists(st.one_of(st.integers(0, 100), st.none()), max_size=30)


@given(steps)
def test_as_a_plain_reading_of_the_rules_says(history: list[int | None]) -> None:
    """The oracle: look back to the last step that decided."""
    watch = DiskWatch(RULES)
    full = False
    for percent in history:
        if percent is None:
            verdict, full = watch.on_no_room(A), True
        else:
            verdict = watch.on_room({A: used(percent)})
            full = percent > 90 or (full and percent >= 85)
        assert bool(verdict.reason) == full
        assert (A in verdict.writable) == (not full)


def test_what_may_be_written_is_that_of_the_disk_that_is_full_first() -> None:
    watch = DiskWatch(RULES)
    assert watch.bytes_until_full() == 0, "nobody looked yet"
    watch.on_room({A: used(50), B: used(80, 10_000)})
    assert watch.bytes_until_full() == 400
    watch.on_room({A: used(91), B: used(80, 10_000)})
    assert watch.bytes_until_full() == 1000, "A is full"


@pytest.mark.parametrize(
    ("free_gb", "is_full", "pause_s"),
    [(900, False, 10), (104, False, 4), (100, False, 0.05), (1, True, 10)],
)
def test_a_disk_is_looked_at_more_often_the_fuller_it_is(
    free_gb: int, is_full: bool, pause_s: float
) -> None:
    health = Health(DiskWatch(RULES))
    storage: Any = None
    check = DiskCheck(storage, health, 10_000)
    health.on_rooms({A: Space(1000 * 10**9, free_gb * 10**9)})
    assert health.is_read_only is is_full
    assert check.pause_s() == pytest.approx(pause_s)


class FillingDisk:
    """Is written to as fast as the check believes anybody can; may not answer."""

    def __init__(self) -> None:
        self.looks: list[float] = []
        self.is_dead = False

    async def rooms(self) -> dict[Path, Space]:
        now_s = asyncio.get_running_loop().time()
        self.looks.append(now_s)
        if self.is_dead:
            raise OSError("no answer")
        return {A: Space(100 * BYTES_PER_S, max(0, int((100 - now_s) * BYTES_PER_S)))}


async def look_for(seconds: float, disk: FillingDisk, health: Health) -> None:
    storage: Any = disk
    check = DiskCheck(storage, health, 10_000)
    await check.look()
    running = asyncio.create_task(check.run())
    await asyncio.sleep(seconds)
    running.cancel()
    await asyncio.wait([running])


def in_virtual_time(story: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(Random(1))) as runner:
        runner.run(story)


def test_adds_do_not_outrun_the_looks() -> None:
    disk, health = FillingDisk(), Health(DiskWatch(RULES))
    in_virtual_time(look_for(95, disk, health))
    assert health.is_read_only
    first_full_s = next(at for at in disk.looks if at > 90)
    assert first_full_s < 90.1, "the limit is 90 %"
    assert len(disk.looks) < 50


def test_a_disk_that_does_not_answer_is_not_asked_more_often() -> None:
    disk, health = FillingDisk(), Health(DiskWatch(RULES))
    in_virtual_time(look_for(89.99, disk, health))
    assert not health.is_read_only
    disk.is_dead, seen = True, len(disk.looks)
    in_virtual_time(look_for(95, disk, health))
    assert len(disk.looks) - seen == 10


def test_a_bug_in_a_look_does_not_end_the_looks() -> None:
    health = Health(DiskWatch(RULES))

    class Failing(FillingDisk):
        @override
        async def rooms(self) -> dict[Path, Space]:
            found = await super().rooms()
            if len(self.looks) == 3:
                raise KeyError("a bug")
            return found

    disk = Failing()
    in_virtual_time(look_for(95, disk, health))
    assert health.is_read_only
