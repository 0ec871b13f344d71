"""What runs for ever goes on whatever fails, says so, and ends only when it is to."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.forever import PAUSE_S_FIRST, PAUSE_S_MAX, Forever, StrayCancel
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.core.runtime.tasks import Tasks
from tests.unit.core.ledger.fast_world import InstantLoop


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Time jumps to the next timer."""
    with asyncio.Runner(loop_factory=InstantLoop, debug=True) as runner:
        runner.run(story())


def script(*errors: BaseException | None) -> Callable[[], Awaitable[None]]:
    """A step that does what is listed, one after the other, and then waits for ever."""
    left = list(errors)

    async def step() -> None:
        if not left:
            await asyncio.sleep(1e9)
        error = left.pop(0)
        if error is not None:
            raise error

    return step


async def exhausted(forever: Forever, *errors: BaseException | None) -> None:
    """Run what is listed, until the step waits for ever; then end it."""
    task = asyncio.create_task(forever.run(script(*errors)))
    await asyncio.sleep(1e6)
    assert not task.done(), task
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def test_it_goes_on_whatever_fails_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        metrics = Metrics()
        task_health().register(metrics)
        bug, away = ZeroDivisionError("a bug"), Unavailable("away")
        forever = Forever("owner.work")
        task = asyncio.create_task(forever.run(script(bug, bug, None, away, bug)))
        await asyncio.sleep(1e6)
        (said,) = task_health().status()["failed_tasks"]
        assert said["seconds_ago"] > 1e5
        assert said == {
            "task": "owner.work",
            "failing": True,  # the step that waits has not succeeded yet
            "failures": 4,
            "error": "ZeroDivisionError: a bug",
            "seconds_ago": said["seconds_ago"],
        }
        assert task_health().status()["status"] == "degraded"
        assert metrics.snapshot() == {
            "background_task_failures_total{task=owner.work}": 4,
            "background_task_failing{task=owner.work}": 1,
        }
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert task_health().status()["status"] == "ok", "what has ended fails no more"

    run(story)
    lines = [(r.levelname, r.exc_info is not None) for r in caplog.records]
    whole, short = ("ERROR", True), ("WARNING", False)
    assert lines == [whole, short, short, whole], "the log has each cause in a row whole once"


def test_what_fails_again_and_again_is_told_ever_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        forever = Forever("owner.work", about="/path")
        await exhausted(forever, *[Unavailable("away")] * 70)

    run(story)
    told = [r.getMessage().rpartition(" failures=")[2] for r in caplog.records]
    assert told == ["1", "2", "4", "8", "16", "32", "64"]
    assert "item=/path " in caplog.text


def test_a_success_ends_the_row(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        bug = ZeroDivisionError("a bug")
        await exhausted(Forever("a", ends_after=2), bug, None, bug, Unavailable("away"), bug)
        assert task_health().status()["status"] == "ok"

    run(story)
    assert [r.levelname for r in caplog.records] == ["ERROR", "ERROR", "WARNING"]


def test_so_many_bugs_in_a_row_end_it_and_its_owner() -> None:
    async def story() -> None:
        told: list[Exception] = []
        tasks = Tasks("owner", told.append)
        bugs = [ZeroDivisionError(str(number)) for number in range(4)]
        forever = Forever("owner.work", ends_after=3)
        task = tasks.spawn(forever.run(script(*bugs)), "work")
        await asyncio.wait([task])
        assert told == [bugs[2]]
        await tasks.close()

    run(story)


def test_errors_that_pass_end_nothing() -> None:
    async def story() -> None:
        await exhausted(Forever("a", ends_after=1), *[Unavailable("away")] * 40)
        await exhausted(Forever("b", ends_after=1, expected=(OSError,)), *[OSError(28, "full")] * 3)

    run(story)


@pytest.mark.parametrize("seed", range(3))
def test_pauses_double_up_to_a_bound_and_are_spread(seed: int) -> None:
    async def story() -> None:
        task_health().random = Random(seed)
        times: list[float] = []

        async def step() -> None:
            times.append(asyncio.get_running_loop().time())
            raise Unavailable("away")

        task = asyncio.create_task(Forever("a").run(step))
        await asyncio.sleep(1000)
        task.cancel()
        await asyncio.wait([task])
        pauses = [after - before for before, after in pairwise(times)]
        bounds = [min(PAUSE_S_FIRST * 2**n, PAUSE_S_MAX) for n in range(len(pauses))]
        for pause, bound in zip(pauses, bounds, strict=True):
            assert bound / 2 - 1e-6 <= pause <= bound + 1e-6
        assert len({round(pause, 3) for pause in pauses[-5:]}) == 5

    run(story)


def test_one_item_keeps_no_other_from_its_turn() -> None:
    async def story() -> None:
        forever, done = Forever("a"), []
        rounds = 0

        async def step() -> None:
            nonlocal rounds
            rounds += 1
            if rounds > 2:
                await asyncio.sleep(1e9)
            for item in range(4):
                with forever.item(item):
                    if item == 1 and rounds == 1:
                        raise ZeroDivisionError("a bug")
                    done.append(item)
            if rounds == 2:
                assert task_health().status()["status"] == "degraded", "until a round went well"

        task = asyncio.create_task(forever.run(step))
        await asyncio.sleep(1)
        assert done == [0, 2, 3, 0, 1, 2, 3]
        (said,) = task_health().status()["failed_tasks"]
        assert (said["error"], said["failing"]) == ("1: ZeroDivisionError: a bug", False)
        task.cancel()
        await asyncio.wait([task])

    run(story)


def test_something_else_that_was_cancelled_ends_nothing() -> None:
    """Else a future that somebody gave up would end the loop without a word."""

    async def story() -> None:
        forever = Forever("a")
        given_up = asyncio.get_running_loop().create_future()
        given_up.cancel()
        steps = 0

        async def step() -> None:
            nonlocal steps
            steps += 1
            if steps == 1:
                with forever.item("one"):
                    await given_up
                await given_up
            await asyncio.sleep(1e9)

        task = asyncio.create_task(forever.run(step))
        await asyncio.sleep(1)
        (said,) = task_health().status()["failed_tasks"]
        assert (steps, said["failures"]) == (2, 2)
        assert said["error"].startswith(StrayCancel.__name__)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(story)


@pytest.mark.parametrize("within_item", [True, False])
def test_a_cancel_passes(within_item: bool) -> None:
    async def story() -> None:
        forever = Forever("a")

        async def step() -> None:
            if within_item:
                with forever.item("one"):
                    await asyncio.sleep(1e9)
            await asyncio.sleep(1e9)

        task = asyncio.create_task(forever.run(step))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert task_health().status() == {"status": "ok", "failed_tasks": []}

    run(story)


def test_a_step_that_never_waits_holds_up_nobody() -> None:
    async def story() -> None:
        async def step() -> None:
            return

        task = asyncio.create_task(Forever("a").run(step))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run(story)


def test_until_done_tries_until_it_is() -> None:
    async def story() -> None:
        errors = [ZeroDivisionError("a bug"), Unavailable("away")]

        async def step() -> str:
            if errors:
                raise errors.pop()
            return "done"

        assert await Forever("a").until_done(step) == "done"
        assert task_health().status()["status"] == "ok"
        assert task_health().status()["failed_tasks"][0]["failures"] == 2

    run(story)


def test_a_task_that_fails_is_told_of_by_its_owner() -> None:
    async def story() -> None:
        tasks = Tasks("owner")
        await asyncio.wait([tasks.spawn(script(ValueError("no luck"))(), "open t-0")])  # type: ignore[arg-type]
        (said,) = task_health().status()["failed_tasks"]
        assert (said["task"], said["error"]) == ("owner", "open t-0: ValueError: no luck")
        await tasks.close()

    run(story)


def test_loops_do_not_share_what_fails() -> None:
    async def story() -> None:
        assert task_health().status()["failed_tasks"] == []
        await exhausted(Forever("a"), ZeroDivisionError("a bug"))
        assert task_health().status()["failed_tasks"]

    run(story)
    run(story)
