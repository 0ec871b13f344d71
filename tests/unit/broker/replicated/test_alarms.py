"""Alarms with a clock that tests move, and in a task with the real one."""

import asyncio

from broker.replicated.alarms import Alarms
from core.runtime.clock import ManualClock, SystemClock
from tests.unit.broker.loops import in_loop, turns


@in_loop
async def test_only_what_is_due_is_told_once() -> None:
    clock, told = ManualClock(), list[str]()
    alarms = Alarms(clock, told.append)
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
    alarms = Alarms(clock, lambda _key: woken.set())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(alarms.run())
        alarms.schedule("far", int(clock.monotonic_s() * 1000) + 3_600_000)
        await turns()
        alarms.schedule("near", int(clock.monotonic_s() * 1000))
        await woken.wait()
        task.cancel()
