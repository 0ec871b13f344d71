"""Opening partitions: once, in order of asking, again after a failure."""

import asyncio

import pytest

from tailrace.broker.errors import KafkaError
from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.partition_log import GAPS_EXCUSED_S, PartitionLog
from tailrace.core.errors import BookieUnavailable, LedgerFenced, OwnershipAcquireFailed
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.record import Producer
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop, turns

T0 = TopicPartition("t", 0)


def world_with_topic() -> World:
    world = make_world()
    world.topics.add("t", 2)
    return world


@in_loop
async def test_all_who_ask_while_it_opens_get_the_same_in_order_of_asking() -> None:
    world = world_with_topic()
    partitions = world.broker.partitions
    gate = world.log("t").opening = asyncio.Event()
    asked: list[int] = []
    logs: list[object] = []
    for number in range(3):
        partitions.visit("t", 0, lambda log, n=number: (asked.append(n), logs.append(log)))
    await turns()
    assert asked == []
    assert partitions.get(T0) is None
    gate.set()
    log = await partitions.open(T0)
    assert asked == [0, 1, 2]
    assert logs == [log] * 3
    partitions.visit("t", 0, lambda log: asked.append(9))
    assert asked[-1] == 9


@in_loop
async def test_nobody_overtakes_those_who_wait() -> None:
    """Visitors run before the partition shows up in `get`."""
    world = world_with_topic()
    partitions = world.broker.partitions
    seen: list[PartitionLog | None] = []
    partitions.visit("t", 0, seen.append)  # type: ignore[arg-type]
    partitions.visit("t", 0, lambda log: seen.append(partitions.get(T0)))
    await partitions.open(T0)
    assert seen[0] is seen[1]


@pytest.mark.parametrize("partition", [TopicPartition("none", 0), TopicPartition("t", 2)])
@in_loop
async def test_what_does_not_exist_is_not_opened(partition: TopicPartition) -> None:
    world = world_with_topic()
    with pytest.raises(KafkaError) as refused:
        await world.broker.partitions.open(partition)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@in_loop
async def test_a_failed_opening_answers_all_and_a_later_one_tries_again() -> None:
    world = world_with_topic()
    partitions, stream = world.broker.partitions, world.log("t")
    for pause_ms in (100, 200, 500, 1_000, 2_000, 2_000):
        stream.open_error = BookieUnavailable("away")
        answers = await asyncio.gather(*(partitions.opening(*T0) for _ in range(3)))
        assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        stream.open_error = None
        world.clock.advance_ms(pause_ms - 1)
        for _ in range(3):
            with pytest.raises(KafkaError) as refused:
                await partitions.open(T0)
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        world.clock.advance_ms(2)
    log = await partitions.open(T0)
    assert log.log_end_offset == 0
    await partitions.close_partition(T0)
    stream.open_error = BookieUnavailable("away again")
    await partitions.opening(*T0)
    stream.open_error = None
    world.clock.advance_ms(101)
    assert (await partitions.open(T0)).log_end_offset == 0, "pauses begin anew"


@in_loop
async def test_who_could_not_take_a_partition_over_may_try_at_once() -> None:
    world = world_with_topic()
    world.log("t").open_error = OwnershipAcquireFailed("another's", current_owner="other")
    assert await world.broker.partitions.opening(*T0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.log("t").open_error = None
    assert (await world.broker.partitions.open(T0)).log_end_offset == 0


@in_loop
async def test_a_partition_that_failed_is_opened_anew_by_the_next_request() -> None:
    world = world_with_topic()
    log = await world.open("t")
    assert await log.append(batch()) == AppendResult(0, -1, 0)
    writer = world.log("t").writer
    assert writer is not None
    writer.fail(LedgerFenced("another owner"))
    assert world.broker.partitions.get(T0) is None
    again = await world.open("t")
    assert again is not log
    assert await again.append(batch()) == AppendResult(1, -1, 0)
    assert writer.is_closed


@pytest.mark.parametrize("failed_openings", [0, 1, 3])
@in_loop
async def test_what_was_on_its_way_behind_a_lost_batch_is_tried_again(failed_openings: int) -> None:
    world = world_with_topic()
    log = await world.open("t")
    assert await idempotent(log, 0) == AppendResult(0, -1, 0)
    stream = world.log("t")
    assert stream.writer is not None
    stream.writer.fail(LedgerFenced("its fate is unknown"))  # with sequence 1
    stream.open_error = BookieUnavailable("away")
    for _ in range(failed_openings):
        await world.broker.partitions.opening(*T0)
        world.clock.advance_ms(2_001)
    stream.open_error = None
    again = await world.open("t")
    assert await idempotent(again, 2) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await idempotent(again, 1) == AppendResult(1, -1, 0)
    assert await idempotent(again, 2) == AppendResult(2, -1, 0)
    world.clock.advance_ms(round(GAPS_EXCUSED_S * 1000))
    assert await idempotent(again, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@in_loop
async def test_a_new_producers_second_batch_does_not_overtake_its_first() -> None:
    world = world_with_topic()
    stream = world.log("t")
    await world.open("t")
    assert stream.writer is not None
    stream.writer.fail(LedgerFenced("its fate is unknown"))  # with sequence 0
    log = await world.open("t")
    assert await idempotent(log, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await idempotent(log, 0) == AppendResult(0, -1, 0)
    assert await idempotent(log, 1) == AppendResult(1, -1, 0)


@in_loop
async def test_what_is_behind_all_that_is_known_is_never_excused() -> None:
    world = world_with_topic()
    log = await world.open("t")
    for sequence in range(7):
        await idempotent(log, sequence)
    log.excuse_gaps()
    assert await idempotent(log, 0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await idempotent(log, 6) == AppendResult(6, -1, 0), "a duplicate"
    assert await idempotent(log, 8) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await idempotent(log, 7) == AppendResult(7, -1, 0)


@in_loop
async def test_a_gap_in_what_never_failed_is_out_of_order() -> None:
    world = world_with_topic()
    log = await world.open("t")
    assert await idempotent(log, 0) == AppendResult(0, -1, 0)
    assert await idempotent(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def idempotent(log: PartitionLog, sequence: int) -> Append:
    data = batch(producer=Producer(9, 0, sequence))
    return log.append(data, log.check(data))


@in_loop
async def test_a_partition_that_fails_while_it_opens_is_not_handed_out() -> None:
    world = world_with_topic()
    stream = world.log("t")
    original = stream.open_writer

    async def fails(listener: PartitionLog, state: object = None) -> object:
        writer = await original(listener, state)
        listener.on_failed(LedgerFenced("at once"))
        return writer

    stream.open_writer = fails  # type: ignore[method-assign, assignment]
    log = await world.open("t")
    assert log.failure is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.broker.partitions.get(T0) is None


@in_loop
async def test_closing_waits_for_an_opening_and_then_nothing_opens() -> None:
    world = world_with_topic()
    partitions = world.broker.partitions
    gate = world.log("t").opening = asyncio.Event()
    opening = partitions.opening("t", 0)
    asyncio.get_running_loop().call_soon(gate.set)
    await partitions.close()
    log = opening.result()
    assert isinstance(log, PartitionLog)
    assert log.failure is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as refused:
        await partitions.open(T0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.all() == []


@in_loop
async def test_a_deleted_topics_partitions_are_closed() -> None:
    world = world_with_topic()
    log = await world.open("t", 1)
    topic = world.topics.get("t")
    assert topic is not None
    await world.broker.partitions.on_topic_deleting(topic)
    assert log.failure is not None
    assert world.broker.partitions.get(("t", 1)) is None
