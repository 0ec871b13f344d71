"""Calls that block: bounded in number and time, and a stuck one is in nobody's way."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from tailrace.core.errors import OverCapacity, Unavailable
from tailrace.core.runtime.job_pool import JobPool


def in_loop(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def bounded() -> None:
            async with asyncio.timeout(30):
                await story()

        asyncio.run(bounded())

    run.__name__ = story.__name__
    run.__doc__ = story.__doc__
    return run


@in_loop
async def test_results_and_errors_come_back() -> None:
    pool = JobPool("p", 2)
    assert await pool.call(lambda: 7, 5) == 7

    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await pool.call(fail, 5)
    assert await pool.call(lambda: 8, 5) == 8
    await pool.close(1)


@in_loop
async def test_no_more_calls_run_than_there_are_threads() -> None:
    pool = JobPool("p", 2)
    gate, running, most = threading.Event(), 0, 0
    loop, both = asyncio.get_running_loop(), asyncio.Event()
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if running == 2:
            loop.call_soon_threadsafe(both.set)
        gate.wait()
        with lock:
            running -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(pool.call(work, 20))
        await both.wait()
        gate.set()
    assert most == 2
    await pool.close(1)


@in_loop
async def test_a_stuck_call_fails_in_time_and_holds_up_nobody() -> None:
    pool = JobPool("p", 2)
    gate = threading.Event()
    with pytest.raises(Unavailable, match="no answer"):
        await pool.call(gate.wait, 0.01)
    assert await pool.call(lambda: 1, 5) == 1
    with pytest.raises(Unavailable, match="no answer"):
        await pool.call(gate.wait, 0.01)
    with pytest.raises(Unavailable, match="no thread"):
        await pool.call(lambda: 1, 0.01)
    gate.set()
    assert await pool.call(lambda: 2, 20) == 2  # the threads are back
    await pool.close(1)


@in_loop
async def test_too_many_waiting_calls_are_refused() -> None:
    pool = JobPool("p", 1, waiting_max=1)
    gate = threading.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(pool.call(gate.wait, 20))
        await asyncio.sleep(0)
        group.create_task(pool.call(gate.wait, 20))
        await asyncio.sleep(0)
        with pytest.raises(OverCapacity):
            await pool.call(lambda: 1, 20)
        gate.set()
    await pool.close(1)


@in_loop
async def test_a_bug_in_a_call_fails_its_caller_and_no_other() -> None:
    pool = JobPool("p", 2)
    gate = threading.Event()

    def bug() -> None:
        raise ZeroDivisionError

    async with asyncio.TaskGroup() as group:
        other = group.create_task(pool.call(gate.wait, 20))
        await asyncio.sleep(0)
        for _ in range(3):  # more than there are threads
            with pytest.raises(Unavailable, match="ZeroDivisionError"):
                await pool.call(bug, 20)
        gate.set()
    assert other.result() is True
    assert [await pool.call(lambda: 1, 20) for _ in range(3)] == [1, 1, 1]
    await pool.close(1)


@in_loop
async def test_a_system_without_a_thread_to_give_costs_that_call_only() -> None:
    pool = JobPool("p", 1)
    with pytest.MonkeyPatch.context() as system:
        system.setattr(threading.Thread, "start", _no_more_threads)
        with pytest.raises(Unavailable, match="can't start new thread"):
            await pool.call(lambda: 1, 5)
    assert await pool.call(lambda: 1, 5) == 1
    await pool.close(1)


def _no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")  # as Python says it at a limit of processes


@in_loop
async def test_a_bug_in_a_call_that_nobody_waits_for_any_more_costs_nothing() -> None:
    pool = JobPool("p", 1)
    gate = threading.Event()

    def bug() -> None:
        gate.wait()
        raise ZeroDivisionError

    task = asyncio.create_task(pool.call(bug, 20))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await pool.call(lambda: 1, 20) == 1
    await pool.close(1)


@in_loop
async def test_a_cancelled_caller_leaves_its_call_to_end() -> None:
    pool = JobPool("p", 1)
    gate = threading.Event()
    task = asyncio.create_task(pool.call(gate.wait, 20))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert await pool.call(lambda: 1, 20) == 1
    await pool.close(1)
