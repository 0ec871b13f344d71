"""What stands for a future at an append: who is called, when, and what a bad callback costs."""

import asyncio

from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.loops import in_loop, turns

RESULT = AppendResult(5, -1, 0)


def _append() -> Append:
    return Append(memoryview(b"batch"), 5, 7, -1)


@in_loop
async def test_everybody_who_waits_is_called_at_once_and_in_order() -> None:
    append = _append()
    heard: list[tuple[int, object]] = []
    for number in range(3):
        append.add_done_callback(lambda done, number=number: heard.append((number, done.result())))
    assert (append.done(), heard) == (False, [])
    append.settle(RESULT)
    assert heard == [(0, RESULT), (1, RESULT), (2, RESULT)]
    append.add_done_callback(lambda done: heard.append((3, done.result())))
    assert heard[3:] == [(3, RESULT)], "who comes late is called at once"


@in_loop
async def test_a_callback_that_fails_is_told_to_the_loop_and_costs_nobody_else_the_answer() -> None:
    append = _append()
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    heard: list[object] = []
    append.add_done_callback(lambda _: 1 / 0)
    append.add_done_callback(lambda done: heard.append(done.result()))
    append.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asyncio.get_running_loop().set_exception_handler(None)
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert len(told) == 1


@in_loop
async def test_it_can_be_awaited_by_many_one_of_whom_goes_away() -> None:
    append = _append()

    async def wait() -> object:
        return await append

    first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
    await turns()
    first.cancel()
    await turns()
    append.settle(RESULT)
    assert await second == RESULT
    assert first.cancelled()
    assert await append == RESULT, "also afterwards"
