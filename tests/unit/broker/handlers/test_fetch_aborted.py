"""Looking up what was aborted: partitions of one fetch side by side, each with its own error."""

import asyncio

from tailrace.broker.fetching.collection import ABORTED_AT_ONCE
from tailrace.broker.partition.aborted import AbortedTransaction
from tailrace.core.errors import BookieUnavailable, CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import AbortedTransaction as Answered
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.handlers.test_fetch import bases, data_of, filled, wanted
from tests.unit.broker.loops import in_loop, turns

PARTITIONS = ABORTED_AT_ONCE + 2


@in_loop
async def test_partitions_do_not_wait_for_each_other_and_keep_their_own_errors() -> None:
    world = await filled(PARTITIONS, 2)
    begun: list[int] = []
    goes_on = asyncio.Event()
    for partition in range(PARTITIONS):
        log = await world.open("t", partition)

        def unknown(_first: int, _last: int) -> None:
            return None

        async def found(first: int, last: int, partition: int = partition) -> object:
            begun.append(partition)
            if partition == 0:
                await goes_on.wait()
            if partition == 1:
                error: CoreError = BookieUnavailable("b1")
                raise error
            assert (first, last) == (0, 3)
            return [AbortedTransaction(partition, 0, 3, 4)]

        log.aborted_in_memory = unknown  # type: ignore[method-assign]
        log.aborted_between = found  # type: ignore[method-assign, assignment]
    asked = wanted(*((partition, 0) for partition in range(PARTITIONS)), isolation_level=1)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 11, asked))
    await turns(50)
    assert sorted(begun) == list(range(PARTITIONS)), "the first one holds up nobody"
    goes_on.set()
    answers = data_of(await task)
    assert (answers[1].error_code, bases(answers[1])) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    for partition, answer in enumerate(answers):
        if partition != 1:
            assert bases(answer) == [0, 2]
            assert answer.aborted_transactions == (Answered(producer_id=partition, first_offset=0),)


@in_loop
async def test_records_of_ledgers_that_were_replaced_meanwhile_are_left_out() -> None:
    """What was aborted is told of the new ledgers: it says nothing of what was cleaned away."""
    world = await filled(2, 2)
    for partition in (0, 1):
        log = await world.open("t", partition)

        def unknown(_first: int, _last: int) -> None:
            return None

        async def found(_first: int, _last: int, partition: int = partition) -> object:
            world.log("t", partition).rewrites += partition  # of one of them
            return []

        log.aborted_in_memory = unknown  # type: ignore[method-assign]
        log.aborted_between = found  # type: ignore[method-assign, assignment]
    kept, replaced = data_of(await ask(world, FETCH, 11, wanted((0, 0), (1, 0), isolation_level=1)))
    assert (kept.error_code, bases(kept)) == (ErrorCode.NONE, [0, 2])
    assert (replaced.error_code, bases(replaced)) == (ErrorCode.NONE, [])
    plain = data_of(await ask(world, FETCH, 11, wanted((1, 0))))
    assert bases(plain[0]) == [0, 2]
