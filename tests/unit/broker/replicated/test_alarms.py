"""Alarms with a clock that tests move, and in a task with the real one."""

import asyncio

from tailrace.broker.replicated.alarms import RETRY_MS, Alarms
from tailrace.core.runtime.clock import ManualClock, SystemClock
from tailrace.core.runtime.task_health import task_health
from tests.unit.broker.loops import in_loop, turns


@in_loop
async def test_only_what_is_due_is_told_once() -> None:
    clock, told = ManualClock(), list[str]()
    alarms = Alarms("groups", clock, told.append)
    start_ms = int(clock.monotonic_s() * 1000)
    alarms.schedule("late", start_ms + 20)
    alarms.schedule("early", start_ms + 10)
    alarms.fire_due()
    assert told == []
    clock.advance_ms(10)
    alarms.fire_due()
    alarms.fire_due()
    assert told == ["early"]
    clock.advance_ms(10)
    alarms.fire_due()
    assert told == ["early", "late"]


@in_loop
async def test_an_earlier_deadline_wakes_the_task_that_sleeps_for_a_later_one() -> None:
    clock, woken = SystemClock(), asyncio.Event()
    alarms = Alarms("groups", clock, lambda _key: woken.set())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(alarms.run())
        alarms.schedule("far", int(clock.monotonic_s() * 1000) + 3_600_000)
        await turns()
        alarms.schedule("near", int(clock.monotonic_s() * 1000))
        await woken.wait()
        task.cancel()


@in_loop
async def test_a_bug_of_one_key_costs_that_key_only_and_it_is_woken_again() -> None:
    clock, told, good = ManualClock(), list[str](), asyncio.Event()

    def on_due(key: str) -> None:
        told.append(key)
        if key == "bad":
            raise AssertionError("illegal transition")
        good.set()

    alarms = Alarms("groups", clock, on_due)
    now_ms = int(clock.monotonic_s() * 1000)
    task = asyncio.create_task(alarms.run())
    alarms.schedule("bad", now_ms)
    alarms.schedule("good", now_ms)
    await good.wait()
    clock.advance_ms(RETRY_MS)
    alarms.fire_due()
    assert told == ["bad", "good", "bad"]
    (said,) = task_health().status()["failed_tasks"]
    assert (said["task"], said["failures"]) == ("groups.deadlines", 2)
    assert said["error"] == "bad: AssertionError: illegal transition"
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
