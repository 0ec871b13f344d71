"""Fetch: limits, order, epochs, ids, and waiting without polling."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tailrace.broker.fetching import collection
from tailrace.broker.handlers import HANDLERS
from tailrace.broker.partition.found import Found
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.errors import LedgerFenced
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.records.batch import TRANSACTIONAL, read_header, split_batches
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask, call
from tests.unit.broker.loops import in_loop, turns

E = ErrorCode
SIZE = len(batch(2))


async def filled(partitions: int = 2, batches: int = 5, *, auto: bool = True) -> World:
    """Return a world whose partitions of topic t hold batches of two records."""
    world = make_world()
    world.topics.add("t", partitions)
    for partition in range(partitions):
        log = await world.open("t", partition)
        for _ in range(batches):
            await log.append(batch(2))
        world.log("t", partition).auto = auto
    return world


def wanted(
    *partitions: tuple[int, int] | FetchPartition,
    topic: str = "t",
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    each_max: int = 1 << 20,
    **more: object,
) -> FetchRequest:
    """Return a request for (partition, offset) pairs."""
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=bytes(15) + b"\1",
                partitions=[
                    each
                    if isinstance(each, FetchPartition)
                    else FetchPartition(
                        partition=each[0], fetch_offset=each[1], partition_max_bytes=each_max
                    )
                    for each in partitions
                ],
            )
        ],
        **more,  # type: ignore[arg-type]
    )


def data_of(response: FetchResponse) -> list[PartitionData]:
    return [each for topic in response.responses for each in topic.partitions]


def bases(data: PartitionData) -> list[int]:
    records = bytes(data.records or b"")  # type: ignore[arg-type]
    return [read_header(records, start).base_offset for start, _ in split_batches(records)]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
@in_loop
async def test_batches_begin_with_the_one_that_holds_the_offset(version: int, cached: bool) -> None:
    world = await filled()
    if not cached:
        (await world.open("t", 0)).tail.clear()
    response = await ask(world, FETCH, version, wanted((0, 3), (1, 10)))
    first, second = data_of(response)
    assert bases(first) == [2, 4, 6, 8]
    assert bases(second) == []
    assert (first.high_watermark, first.last_stable_offset) == (10, 10)
    assert (response.error_code, response.session_id) == (0, 0)


@pytest.mark.parametrize("cached", [True, False])
@in_loop
async def test_limits_hold_in_request_order_and_spare_the_first_batch(cached: bool) -> None:
    world = await filled()
    if not cached:
        for partition in (0, 1):
            (await world.open("t", partition)).tail.clear()

    async def shown(**limits: int) -> list[list[int]]:
        return [
            bases(each)
            for each in data_of(await ask(world, FETCH, 11, wanted((1, 0), (0, 0), **limits)))
        ]

    assert await shown(max_bytes=3 * SIZE) == [[0, 2, 4], []]
    assert await shown(max_bytes=3 * SIZE, each_max=2 * SIZE) == [[0, 2], [0]]
    assert await shown(max_bytes=1) == [[0], []]
    assert await shown(each_max=1) == [[0], []]
    assert await shown(each_max=2 * SIZE - 1) == [[0], [0]]


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (
            FetchPartition(partition=0, fetch_offset=11, partition_max_bytes=9),
            E.OFFSET_OUT_OF_RANGE,
        ),
        (
            FetchPartition(partition=0, fetch_offset=-1, partition_max_bytes=9),
            E.OFFSET_OUT_OF_RANGE,
        ),
        (
            FetchPartition(
                partition=0, fetch_offset=0, partition_max_bytes=9, current_leader_epoch=0
            ),
            E.FENCED_LEADER_EPOCH,
        ),
        (
            FetchPartition(
                partition=0, fetch_offset=0, partition_max_bytes=9, current_leader_epoch=9
            ),
            E.UNKNOWN_LEADER_EPOCH,
        ),
    ],
)
@in_loop
async def test_a_partition_in_error_is_answered_at_once_beside_the_others(
    partition: FetchPartition, code: ErrorCode
) -> None:
    world = await filled()
    answer = call(world, FETCH, 11, wanted(partition, (1, 10), wait_ms=60_000))
    assert isinstance(answer, FetchResponse)
    first, second = data_of(answer)
    assert (ErrorCode(first.error_code), first.high_watermark) == (code, -1)
    assert second.error_code == 0


@in_loop
async def test_below_the_log_start_is_out_of_range() -> None:
    world = await filled()
    (await world.open("t", 0)).move_start(4)
    low = data_of(await ask(world, FETCH, 11, wanted((0, 3))))[0]
    assert low.error_code == E.OFFSET_OUT_OF_RANGE
    start = data_of(await ask(world, FETCH, 11, wanted((0, 4))))[0]
    assert (start.error_code, start.log_start_offset, bases(start)[0]) == (0, 4, 4)


@in_loop
async def test_unknown_names_and_ids() -> None:
    world = await filled()
    by_name = data_of(await ask(world, FETCH, 12, wanted((0, 0), topic="none")))
    assert by_name[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert by_name[0].aborted_transactions == ()
    request = wanted((0, 0))
    request.topics[0].topic_id = b"\7" * 16
    by_id = data_of(await ask(world, FETCH, 13, request))
    assert by_id[0].error_code == E.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("partitions", [((9, 0), (0, 10)), ((0, 10), (-1, 0))])
@in_loop
async def test_what_is_not_there_does_not_end_the_wait_for_the_others(
    partitions: tuple[tuple[int, int], ...],
) -> None:
    """As in Kafka: a client that goes on asking for it would be answered at once each time."""
    world = await filled()
    request = wanted(*partitions, wait_ms=60_000)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 11, request))
    await turns(20)
    assert not task.done()
    await (await world.open("t", 0)).append(batch(2))
    codes = {each.partition_index: each.error_code for each in data_of(await task)}
    unknown = next(index for index, _ in partitions if index)
    assert codes == {0: 0, unknown: E.UNKNOWN_TOPIC_OR_PARTITION}
    alone = call(world, FETCH, 11, wanted((9, 0), (8, 0), wait_ms=60_000))
    assert isinstance(alone, FetchResponse), "there is nothing to wait for"


@in_loop
async def test_a_client_that_read_another_history_is_told_where_it_parted() -> None:
    world = await filled()
    log = await world.open("t", 0)
    asked = FetchPartition(
        partition=0, fetch_offset=10, partition_max_bytes=999, last_fetched_epoch=log.leader_epoch
    )
    same = data_of(await ask(world, FETCH, 12, wanted(asked)))[0]
    assert same.diverging_epoch.epoch == -1
    log.epochs.begin(9, 8)
    parted = data_of(await ask(world, FETCH, 12, wanted(asked)))[0]
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (1, 8)
    assert bases(parted) == []
    at_once = call(world, FETCH, 12, wanted(asked, (1, 10), wait_ms=60_000))
    assert isinstance(at_once, FetchResponse)
    assert data_of(at_once)[0].diverging_epoch.epoch == 1
    asked.last_fetched_epoch = 10  # to come: nothing to part from
    ahead = data_of(await ask(world, FETCH, 12, wanted(asked)))[0]
    assert ahead.error_code == E.OFFSET_OUT_OF_RANGE
    assert ahead.diverging_epoch.epoch == -1


@in_loop
async def test_what_is_not_confirmed_is_not_shown() -> None:
    world = await filled(auto=False)
    log = await world.open("t", 0)
    log.append(batch(2))
    data = data_of(await ask(world, FETCH, 11, wanted((0, 10))))[0]
    assert (data.error_code, bases(data), data.high_watermark) == (0, [], 10)
    beyond = data_of(await ask(world, FETCH, 11, wanted((0, 11))))[0]
    assert (beyond.error_code, bases(beyond)) == (0, [])


@in_loop
async def test_a_waiting_fetch_is_woken_by_enough_bytes_only() -> None:
    world = await filled()
    logs = [await world.open("t", partition) for partition in (0, 1)]
    loop = asyncio.get_running_loop()
    request = wanted((0, 10), (1, 10), wait_ms=60_000, min_bytes=3 * SIZE)
    task = loop.create_task(ask(world, FETCH, 11, request))
    await turns()
    await logs[0].append(batch(2))
    await logs[1].append(batch(2))
    await turns(20)
    assert not task.done()
    assert world.broker.metrics.fetch_parked_total == 1  # nobody looked again in between
    await logs[0].append(batch(2))
    first, second = data_of(await task)
    assert (bases(first), bases(second)) == ([10, 12], [10])
    assert [len(log.waiters) for log in logs] == [0, 0]


@in_loop
async def test_a_waiting_fetch_is_answered_when_its_time_is_up() -> None:
    world = await filled()
    data = data_of(await ask(world, FETCH, 11, wanted((0, 10), wait_ms=20)))
    assert (data[0].error_code, bases(data[0])) == (0, [])
    assert len((await world.open("t", 0)).waiters) == 0


@in_loop
async def test_a_failure_wakes_the_waiting() -> None:
    world = await filled()
    loop = asyncio.get_running_loop()
    task = loop.create_task(ask(world, FETCH, 11, wanted((0, 10), wait_ms=60_000)))
    await turns()
    writer = world.log("t").writer
    assert writer is not None
    writer.fail(LedgerFenced("another owner"))
    assert data_of(await task)[0].error_code == E.NOT_LEADER_OR_FOLLOWER


@in_loop
async def test_a_cancelled_fetch_leaves_nothing_behind() -> None:
    world = await filled()
    assert HANDLERS[FETCH.key].abandoned
    loop = asyncio.get_running_loop()
    task = loop.create_task(call(world, FETCH, 11, wanted((0, 10), wait_ms=60_000)))
    await turns()
    assert len((await world.open("t", 0)).waiters) == 1
    task.cancel()
    await turns()
    assert len((await world.open("t", 0)).waiters) == 0


@in_loop
async def test_a_fetch_opens_its_partitions() -> None:
    world = make_world()
    world.topics.add("t", 2)
    answers = data_of(await ask(world, FETCH, 11, wanted((0, 0), (1, 0))))
    assert [(each.error_code, each.high_watermark) for each in answers] == [(0, 0), (0, 0)]


@in_loop
async def test_while_slow_clients_hold_the_memory_answers_are_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "READ_BYTES_HELD_BACK", 2 * len(batch(2)))
    world = await filled()
    world.broker.unsent.take(world.broker.unsent.limit)
    data = data_of(await ask(world, FETCH, 11, wanted((0, 0))))[0]
    assert bases(data) == [0, 2]


@in_loop
async def test_what_is_being_read_counts_as_unsent_until_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await filled(2)
    log, other = await world.open("t", 0), await world.open("t", 1)
    log.tail.clear()
    other.tail.clear()
    read, seen = log.read_log, []

    async def read_log(offset: int, max_bytes: int, **more: bool) -> Found:
        seen.append(world.broker.unsent.used)
        return await read(offset, max_bytes, at_least_one=more["at_least_one"])

    monkeypatch.setattr(log, "read_log", read_log)
    monkeypatch.setattr(other, "read_log", read_log)
    request = wanted((0, 0), (1, 0), each_max=1000, max_bytes=1 << 20)
    data = data_of(await ask(world, FETCH, 11, request))
    first = len(data[0].records)
    assert seen == [1000, first + 1000]
    assert world.broker.unsent.used == 0


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("partitions", "min_bytes", "limits", "waits"),
    [
        (1, 3 * SIZE, {"each_max": 3 * SIZE}, False),
        (1, 3 * SIZE + 1, {"each_max": 3 * SIZE + 1}, False),  # the fourth would be cut off
        (1, 4 * SIZE - 1, {"each_max": 4 * SIZE - 1}, False),
        (1, 4 * SIZE, {"each_max": 4 * SIZE - 1}, True),
        (1, 4 * SIZE - 1, {"max_bytes": 4 * SIZE - 1}, False),
        (1, 9 * SIZE, {"max_bytes": 4 * SIZE - 1}, False),  # never more than the answer may have
        (2, 9 * SIZE - 1, {"max_bytes": 9 * SIZE - 1, "each_max": 5 * SIZE}, False),
        (2, 8 * SIZE - 2, {"each_max": 4 * SIZE - 1}, False),  # from both
        (2, 8 * SIZE - 1, {"each_max": 4 * SIZE - 1}, True),
        (2, SIZE + 1, {"each_max": 1}, False),  # the first batch is above its limit
        (2, SIZE + 2, {"each_max": 1}, True),
        (2, 10 * SIZE, {"each_max": 5 * SIZE}, False),  # all that is there
        (2, 10 * SIZE + 1, {"each_max": 5 * SIZE + 1}, True),
        (1, 5 * SIZE + 1, {}, True),
    ],
)
@in_loop
async def test_batches_that_a_limit_cuts_off_count_for_the_minimum(
    partitions: int, min_bytes: int, limits: dict[str, int], waits: bool, cached: bool
) -> None:
    """As in Kafka: a minimum between two batches is waited for in vain, each time."""
    world = await filled()
    if not cached:
        for partition in (0, 1):
            (await world.open("t", partition)).tail.clear()
    asked = [(partition, 0) for partition in range(partitions)]
    request = wanted(*asked, min_bytes=min_bytes, wait_ms=60_000, **limits)
    answer = asyncio.ensure_future(ask(world, FETCH, 11, request))
    if waits:
        await turns(200)
        assert world.broker.metrics.fetch_parked_total == 1
        assert not answer.done()
        answer.cancel()
    else:
        assert sum(len(bases(each)) for each in data_of(await answer)) >= min(min_bytes // SIZE, 3)
        assert world.broker.metrics.fetch_parked_total == 0


@in_loop
async def test_a_fetch_that_waits_hears_of_the_batch_that_makes_it_due() -> None:
    world = await filled()
    limits = {"min_bytes": 5 * SIZE - 1, "each_max": 4 * SIZE - 1, "wait_ms": 60_000}
    answer = asyncio.ensure_future(ask(world, FETCH, 11, wanted((0, 0), (1, 10), **limits)))
    await turns(200)
    assert not answer.done()
    await (await world.open("t", 1)).append(batch(2))
    assert [bases(each) for each in data_of(await answer)] == [[0, 2, 4], [10]]


@in_loop
async def test_an_answer_that_may_have_no_bytes_has_a_batch() -> None:
    world = await filled(3)
    for partition in range(3):
        (await world.open("t", partition)).tail.clear()
    request = wanted((0, 10), (1, 0), (2, 0), max_bytes=0, wait_ms=60_000)
    assert [bases(each) for each in data_of(await ask(world, FETCH, 11, request))] == [[], [0], []]


@in_loop
async def test_once_an_answer_is_full_no_further_partition_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fifty that did not fit into 50 MiB cost a read each, of which nothing was used."""
    world = await filled(4)
    read: list[int] = []
    for partition in range(4):
        log = await world.open("t", partition)
        log.tail.clear()
        monkeypatch.setattr(log, "read_log", partial(read_noted, log.read_log, partition, read))
    data = data_of(await ask(world, FETCH, 11, wanted(*((p, 0) for p in range(4)), max_bytes=SIZE)))
    assert [bases(each) for each in data] == [[0], [], [], []]
    assert [each.high_watermark for each in data] == [10] * 4
    assert read == [0]
    read.clear()
    request = wanted((0, 0), (1, 0), (2, 0), (3, 11), max_bytes=SIZE * 3 // 2)
    data = data_of(await ask(world, FETCH, 11, request))
    assert [bases(each) for each in data] == [[0], [], [], []]
    assert [each.error_code for each in data] == [0, 0, 0, E.OFFSET_OUT_OF_RANGE]
    assert read == [0, 1], "what is left might have been enough for the second"


@in_loop
async def test_once_enough_was_read_an_answer_goes_with_what_else_is_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "READ_BYTES_IN_ALL", 2 * SIZE)
    world = await filled(5)
    read: list[int] = []
    for partition in range(5):
        log = await world.open("t", partition)
        if partition != 3:
            log.tail.clear()
        monkeypatch.setattr(log, "read_log", partial(read_noted, log.read_log, partition, read))
    asked = [(0, 10), *((partition, 0) for partition in range(1, 5))]
    monkeypatch.setattr(world.broker.partitions, "next_turn", lambda _places: 0)
    request = wanted(*asked, each_max=SIZE, min_bytes=1 << 20, wait_ms=60_000)
    data = data_of(await ask(world, FETCH, 11, request))
    assert [bases(each) for each in data] == [[], [0], [0], [0], []]
    assert read == [1, 2]
    from_memory = wanted((3, 0), (1, 0), (2, 0), (4, 0), each_max=3 * SIZE)
    data = data_of(await ask(world, FETCH, 11, from_memory))
    assert [bases(each) for each in data] == [[0, 2, 4], [0, 2, 4], [], []]
    read.clear()
    data = data_of(await ask(world, FETCH, 11, wanted((1, 0), (2, 0), (4, 0), each_max=SIZE)))
    assert read == [1, 2]
    read[:] = [1, 2]
    # What did not come is news of the session: it comes first with the next poll.
    request = wanted(*asked, each_max=SIZE, session_epoch=0)
    first = await ask(world, FETCH, 11, request)
    assert read == [1, 2] * 2
    again = FetchRequest(
        max_bytes=1 << 20, min_bytes=1, session_id=first.session_id, session_epoch=1
    )
    second = data_of(await ask(world, FETCH, 11, again))
    assert read[4:] == [4, 1]
    assert [each.partition_index for each in second] == [4, 1, 3]


@pytest.mark.parametrize("clients", [1, 2, 3, 4])
@in_loop
async def test_who_asks_in_one_order_all_the_time_gets_to_every_partition(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones lag again and again, and may have all that is read for one answer."""
    monkeypatch.setattr(collection, "READ_BYTES_IN_ALL", 2 * SIZE)
    world = await filled(4)
    next_offsets = [[0, 0, 0, 0] for _ in range(clients)]
    for _ in range(8 * 5):
        for partition in range(4):
            log = await world.open("t", partition)
            if partition < 2:
                await log.append(batch(2))
            log.tail.clear()
        for mine in next_offsets:
            request = wanted(*enumerate(mine), each_max=SIZE)
            for each in data_of(await ask(world, FETCH, 11, request)):
                mine[each.partition_index] += 2 * len(bases(each))
    assert next_offsets == [[80, 80, 10, 10]] * clients


async def read_noted(
    read: Callable[..., Awaitable[Found]], partition: int, noted: list[int], *args: Any, **more: Any
) -> Found:
    noted.append(partition)
    return await read(*args, **more)


@in_loop
async def test_while_they_hold_twice_of_it_fetches_wait_and_get_nothing() -> None:
    world = await filled()
    world.broker.unsent.take(2 * world.broker.unsent.limit)
    started = asyncio.get_running_loop().time()
    data = data_of(await ask(world, FETCH, 11, wanted((0, 0), wait_ms=30)))[0]
    assert asyncio.get_running_loop().time() - started >= 0.025
    assert (data.error_code, bases(data)) == (0, [])


@pytest.mark.parametrize("cached", [True, False])
@in_loop
async def test_a_fetch_that_got_nothing_for_want_of_memory_is_answered_once_there_is_some(
    cached: bool,
) -> None:
    """Not at its deadline: that is later than any test ends."""
    world = await filled()
    if not cached:
        (await world.open("t")).tail.clear()
    unsent = world.broker.unsent
    unsent.take(2 * unsent.limit)
    request = wanted((0, 0), wait_ms=200_000)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 11, request))
    await turns()
    assert not task.done()
    assert unsent.used == 2 * unsent.limit, "it holds something while it waits"
    unsent.give(2 * unsent.limit)
    data = data_of(await task)[0]
    assert (data.error_code, bases(data)) == (0, [0, 2, 4, 6, 8])


@in_loop
async def test_batches_leave_uncopied() -> None:
    world = await filled(batches=0)
    log = await world.open("t", 0)
    data = batch(2)
    await log.append(data)
    kept = log.read_tail(0, 1000, at_least_one=True)
    answer = call(world, FETCH, 11, wanted((0, 0)))
    assert isinstance(answer, FetchResponse)
    assert kept is not None
    assert data_of(answer)[0].records[0] is kept.parts[0] == data  # type: ignore[index]


async def transactional(log: PartitionLog, producer_id: int, sequence: int = 0) -> None:
    """Append two records of a producer's transaction."""
    data = memoryview(
        build_batch(
            [Record(offset=n, timestamp=0, value=b"v") for n in range(2)],
            producer=Producer(producer_id=producer_id, epoch=0, base_sequence=sequence),
            attributes=TRANSACTIONAL,
        )
    )
    await log.append(data, log.check(data), verified=True)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("version", [4, 11, 12, 18])
@in_loop
async def test_readers_of_committed_records_see_what_is_decided_and_what_to_drop(
    version: int, cached: bool
) -> None:
    world = await filled(1, 1)
    log = await world.open("t")
    await transactional(log, 7)  # 2, 3
    await transactional(log, 8)  # 4, 5
    await log.append_marker(7, 0, 0, committed=False)  # 6
    if not cached:
        log.tail.clear()

    async def fetched(offset: int, isolation: int) -> PartitionData:
        request = wanted((0, offset), isolation_level=isolation)
        return data_of(await ask(world, FETCH, version, request))[0]

    plain = await fetched(0, 0)
    assert (bases(plain), plain.aborted_transactions) == ([0, 2, 4, 6], None)
    committed = await fetched(0, 1)
    assert (committed.high_watermark, committed.last_stable_offset) == (7, 4)
    assert bases(committed) == [0, 2]
    aborted = (AbortedTransaction(producer_id=7, first_offset=2),)
    assert committed.aborted_transactions == aborted
    assert (await fetched(4, 1)).aborted_transactions == ()
    await log.append_marker(8, 0, 0, committed=True)  # 7
    whole = await fetched(0, 1)
    assert (bases(whole), whole.aborted_transactions) == ([0, 2, 4, 6, 7], aborted)
    assert whole.last_stable_offset == 8
    beyond = await fetched(99, 1)
    assert (beyond.error_code, beyond.aborted_transactions) == (E.OFFSET_OUT_OF_RANGE, None)


@in_loop
async def test_a_waiting_reader_of_committed_records_is_woken_by_the_end_of_a_transaction() -> None:
    world = await filled(1, 1)
    log = await world.open("t")
    task = asyncio.get_running_loop().create_task(
        ask(world, FETCH, 11, wanted((0, 2), wait_ms=60_000, isolation_level=1))
    )
    await turns()
    await transactional(log, 7)
    await turns(20)
    assert not task.done()
    await log.append_marker(7, 0, 0, committed=True)
    assert bases(data_of(await task)[0]) == [2, 4]


@in_loop
async def test_a_reader_behind_the_tail_that_has_too_little_still_hears_what_is_decided() -> None:
    world = await filled(1, 1)
    log = await world.open("t")
    await transactional(log, 7)
    log.tail.clear()
    enough = len(batch(2)) + 1
    request = wanted((0, 0), wait_ms=60_000, min_bytes=enough, isolation_level=1)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 11, request))
    await turns(20)
    assert not task.done()
    await log.append_marker(7, 0, 0, committed=True)
    assert bases(data_of(await task)[0]) == [0, 2, 4]


@in_loop
async def test_aborted_transactions_of_a_former_owner_are_read() -> None:
    world = await filled(1, 1)
    log = await world.open("t")
    await transactional(log, 7)
    await log.append_marker(7, 0, 0, committed=False)
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    await world.open("t")
    request = wanted((0, 0), isolation_level=1)
    (data,) = data_of(await ask(world, FETCH, 11, request))
    assert data.aborted_transactions == (AbortedTransaction(producer_id=7, first_offset=2),)


@in_loop
async def test_the_leader_is_named_to_those_who_know_an_older_epoch() -> None:
    world = await filled()
    fenced = FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=9, current_leader_epoch=0
    )
    response = await ask(world, FETCH, 16, wanted(fenced, (1, 0)))
    data = data_of(response)[0]
    assert data.error_code == E.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 1)
    (node,) = response.node_endpoints
    assert (node.node_id, node.host, node.port) == (1, "broker.test", 9092)
    assert (await ask(world, FETCH, 16, wanted((1, 0)))).node_endpoints == ()


@in_loop
async def test_an_id_that_became_another_topics_while_the_fetch_waited_mixes_nothing() -> None:
    world = await filled()
    request = wanted((0, 10), wait_ms=60_000)
    task = asyncio.get_running_loop().create_task(ask(world, FETCH, 13, request))
    await turns()
    log = await world.open("t", 0)
    log.topic_id = b"\2" * 16
    log.waiters.wake_all()
    assert data_of(await task)[0].error_code == E.INCONSISTENT_TOPIC_ID


@in_loop
async def test_where_histories_parted_comes_before_the_range() -> None:
    world = await filled()
    log = await world.open("t", 0)
    log.epochs.begin(9, 10)
    ahead = FetchPartition(
        partition=0, fetch_offset=50, partition_max_bytes=999, last_fetched_epoch=5
    )
    data = data_of(await ask(world, FETCH, 12, wanted(ahead)))[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (
        0, 1, 10,
    )  # fmt: skip
