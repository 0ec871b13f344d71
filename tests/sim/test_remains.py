"""The end of a world: nothing of it goes on, and what is said behind it fails its seed."""

import asyncio
import logging

import pytest

from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks
from tailrace.simulation.schedule import Result, run_story
from tailrace.simulation.seeds import run_one
from tailrace.simulation.world import World
from tests.sim.test_seeds import run

logger = logging.getLogger(__name__)


def test_unfinished_work_ends_with_its_world_whoever_keeps_it() -> None:
    ended: list[str] = []
    kept: list[object] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            kept[0].call_soon(ended.append, "never")  # type: ignore[attr-defined]
            ended.append("ended")

    async def tell(world: World) -> None:
        tasks = Tasks("kept")
        kept.extend((world.loop, tasks, work, tasks.spawn(work(), "work")))
        await asyncio.sleep(0)

    assert run_story(1, tell).violations == ()
    assert ended == ["ended"]


def test_work_that_cannot_be_ended_fails_the_seed() -> None:
    is_over: list[bool] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except BaseException:  # noqa: BLE001 - what must not be
                if is_over:
                    return

    async def tell(world: World) -> None:
        world.stubborn = asyncio.ensure_future(stubborn())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    (violation,) = run_story(1, tell).violations
    is_over.append(True)
    assert "could not end" in violation.what


def test_a_bug_in_what_runs_for_ever_fails_the_seed() -> None:
    async def step() -> None:
        raise ZeroDivisionError("a bug")

    async def tell(_: World) -> None:
        task = asyncio.ensure_future(Forever("a").run(step))
        await asyncio.sleep(0.01)
        task.cancel()

    (violation,) = run_story(1, tell).violations
    assert "ZeroDivisionError" in violation.what


class Late:
    """Kept by somebody behind the end of its world; raises when it goes."""

    def __del__(self) -> None:
        raise RuntimeError("Event loop is closed")


@pytest.mark.parametrize("how", ["logged", "raised"])
def test_what_is_said_behind_the_end_of_a_world_fails_its_seed(how: str) -> None:
    def one(seed: int, **_: object) -> Result:
        if how == "logged":
            logger.error("task_failed")
        else:
            Late()
        return Result(seed, "", (), {}, (), 1.0, 1)

    (violation,) = run_one(one, 1).violations
    assert violation.what.startswith("said after the end: ")


def test_seed_7000_of_logs_says_nothing_behind_its_end() -> None:
    """Its dead bookies' work was kept by a traceback, and ran when the loop was closed."""
    assert "seed 7000" in run("--world", "logs", "--seed", "7000")
