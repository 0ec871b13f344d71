"""Room for work on the loop: of a request, of a client, of a step."""

import asyncio

from tailrace.core.runtime.loop_work import (
    CLIENT_WORK_MAX,
    REQUEST_WORK_MAX,
    STEP_WORK_MAX,
    LoopWork,
)
from tests.unit.broker.loops import in_loop, turns


@in_loop
async def test_a_request_a_client_and_a_step_have_their_room() -> None:
    work = LoopWork()
    assert work.room("a", work.total) == REQUEST_WORK_MAX
    work.add(1000)
    assert work.room("a", 0) == REQUEST_WORK_MAX - 1000
    assert work.room("a", work.total) == REQUEST_WORK_MAX
    done = 0
    for client in map(str, range(100)):
        of_client = 0
        while room := work.room(client, work.total):
            work.add(room)
            of_client += room
        assert of_client <= CLIENT_WORK_MAX
        done += of_client
    assert done + 1000 == STEP_WORK_MAX
    await turns()
    assert work.most == STEP_WORK_MAX
    assert work.room("a", 0) == 0
    assert work.room("a", work.total) == REQUEST_WORK_MAX


@in_loop
async def test_too_much_leaves_no_room_and_a_step_without_work_costs_nothing() -> None:
    work, loop = LoopWork(), asyncio.get_running_loop()
    work.add(2 * STEP_WORK_MAX)
    assert work.room("a", work.total) == 0
    await turns()
    handles = len(loop._ready)  # type: ignore[attr-defined]
    assert work.room("a", work.total) == REQUEST_WORK_MAX
    assert len(loop._ready) == handles  # type: ignore[attr-defined]
