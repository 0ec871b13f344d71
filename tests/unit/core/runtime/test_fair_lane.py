"""One thread, users by turns; what goes wrong in a piece is its user's alone."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

from tailrace.core.errors import CorruptData, Unavailable
from tailrace.core.runtime.fair_lane import FairLane
from tailrace.core.runtime.fair_queue import Named
from tailrace.protocol.errors import BadValue
from tests.unit.broker.loops import in_loop, until

A, B = Named("a"), Named("b")


def raising(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


@in_loop
async def test_pieces_run_beside_the_loop_one_at_a_time_by_turns() -> None:
    lane, go, seen, results = FairLane("l"), threading.Event(), [], []

    def work(name: str) -> Callable[[], str]:
        def run() -> str:
            assert go.wait(10)
            seen.append(threading.current_thread())
            return name

        return run

    usual = sys.getswitchinterval()
    for user, name in ((A, "a1"), (A, "a2"), (A, "a3"), (B, "b1")):
        assert lane.submit(user, work(name), results.append)
    assert len(lane) == 4
    assert sys.getswitchinterval() < usual
    go.set()
    await until(lambda: len(results) == 4)
    assert results == ["a1", "b1", "a2", "a3"] or results == ["a1", "a2", "b1", "a3"]
    assert set(seen) != {threading.current_thread()}
    assert len(set(seen)) == 1
    assert sys.getswitchinterval() == usual
    assert (len(lane), lane.metrics.pieces_total) == (0, 4)
    await lane.close()


@in_loop
async def test_what_a_piece_raises_is_its_result_and_a_bug_ends_no_other(
    caplog: Any,
) -> None:
    lane, results = FairLane("l"), []
    bad, lost = BadValue("bytes"), CorruptData("log")
    for work in (raising(bad), raising(lost), raising(ZeroDivisionError()), lambda: "after"):
        lane.submit(A, work, results.append)
    await until(lambda: len(results) == 4)
    assert results[:2] == [bad, lost]
    assert bad.__traceback__ is None
    assert isinstance(results[2], Unavailable)
    assert results[3] == "after"
    assert [record.message for record in caplog.records] == ["worker_failed name=l"]
    await lane.close()


@in_loop
async def test_beyond_the_bound_a_piece_is_refused() -> None:
    lane, go, results = FairLane("l", waiting_max=2), threading.Event(), []
    taken = [lane.submit(A, lambda: go.wait(10), results.append) for _ in range(5)]
    assert taken == [True, True, True, False, False]
    assert lane.metrics.refused_total == 2
    go.set()
    await until(lambda: len(results) == 3)
    await lane.close()


@in_loop
async def test_the_end_gives_up_what_waits_and_waits_for_what_runs() -> None:
    lane, began, go, results = FairLane("l"), threading.Event(), threading.Event(), []

    def work() -> str:
        began.set()
        assert go.wait(10)
        return "done"

    for _ in range(3):
        lane.submit(A, work, results.append)
    await until(began.is_set)
    closing = asyncio.ensure_future(lane.close())
    await until(lambda: len(results) == 2)
    assert all(isinstance(each, Unavailable) for each in results)
    go.set()
    await closing
    assert results[2] == "done"
    assert not lane.submit(A, work, results.append)


@in_loop
async def test_the_end_does_not_wait_for_ever() -> None:
    lane, began, go, results = FairLane("l"), threading.Event(), threading.Event(), []

    def work() -> None:
        began.set()
        assert go.wait(10)

    lane.submit(A, work, results.append)
    await until(began.is_set)
    await lane.close(0.01)
    assert isinstance(results[0], Unavailable)
    go.set()
    await asyncio.sleep(0.01)  # its result comes, and is dropped
    assert len(results) == 1
