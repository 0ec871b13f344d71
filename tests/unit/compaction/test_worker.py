"""The retention loop over logs that behave, and one that does not."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tailrace.compaction.retention import Limits, RetainedSegment
from tailrace.compaction.worker import RetainedLog, RetentionWorker
from tailrace.core.errors import BookieUnavailable
from tailrace.core.runtime.clock import ManualClock


class FakeLog:
    def __init__(self, name: str, newest_ms: int, *, broken: Exception | None = None) -> None:
        self.name = name
        self.limits = Limits(1000, -1, deletes=True)
        self.local_limits: Limits | None = None
        self.log_start_offset = 0
        self.purges = 0
        self.broken = broken
        self.done: list[object] = []
        self._newest_ms = newest_ms

    async def segments_for_retention(self) -> Sequence[RetainedSegment]:
        if self.broken:
            raise self.broken
        return [RetainedSegment(0, 10, 100, self._newest_ms, in_progress=True)]

    async def roll(self) -> None:
        self.done.append("roll")

    async def delete_segments_before(self, offset: int) -> None:
        self.done.append(offset)

    async def copy_to_cold(self) -> None:
        self.done.append("copy")

    async def release_segments_before(self, offset: int) -> None:
        self.done.append(("release", offset))

    async def delete_purged(self) -> None:
        self.purges += 1

    def expire_producers(self, now_ms: int) -> int:
        return 2


@pytest.mark.parametrize(
    "error", [BookieUnavailable("away"), OSError(28, "No space left on device"), KeyError(3)]
)
def test_each_log_is_judged_and_a_broken_one_holds_up_nobody(error: Exception) -> None:
    clock = ManualClock()
    logs = [
        FakeLog("broken", 0, broken=error),
        FakeLog("old", clock.now_ms() - 5000),
        FakeLog("young", clock.now_ms()),
    ]

    async def all_of_them() -> AsyncIterator[RetainedLog]:
        for log in logs:
            yield log

    worker = RetentionWorker(all_of_them, clock, 1000)
    asyncio.run(worker.round())
    assert [log.done for log in logs] == [[], ["roll", 10], []]
    metrics = worker.metrics
    assert (metrics.rounds_total, metrics.logs_trimmed_total, metrics.failures_total) == (1, 1, 1)
    assert metrics.producers_expired_total == 6
    assert [log.purges for log in logs] == [0, 1, 1], "also where nothing goes today"


def test_a_log_in_two_tiers_is_copied_before_it_leaves_the_bookies() -> None:
    clock = ManualClock()
    log = FakeLog("tiered", clock.now_ms() - 500)
    log.local_limits = Limits(100, -1, deletes=True)

    async def one() -> AsyncIterator[RetainedLog]:
        yield log

    asyncio.run(RetentionWorker(one, clock, 1000).round())
    assert log.done == ["copy", ("release", 10)]


def test_the_loop_ends_when_it_is_cancelled() -> None:
    async def nothing() -> AsyncIterator[RetainedLog]:
        for log in ():
            yield log

    async def body() -> None:
        worker = RetentionWorker(nothing, ManualClock(), 1)
        task = asyncio.get_running_loop().create_task(worker.run())
        while not worker.metrics.rounds_total:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(body())


def test_a_round_that_fails_as_a_whole_is_followed_by_the_next_one() -> None:
    async def body() -> None:
        rounds = 0

        async def logs() -> AsyncIterator[RetainedLog]:
            nonlocal rounds
            rounds += 1
            if rounds == 1:
                raise RuntimeError("dictionary changed size during iteration")
            for log in ():
                yield log

        worker = RetentionWorker(logs, ManualClock(), 1)
        task = asyncio.get_running_loop().create_task(worker.run())
        while not worker.metrics.rounds_total:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(body())
