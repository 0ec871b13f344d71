"""Produce: Kafka's checks in Kafka's order, per partition."""

import asyncio

import pytest

from tailrace.broker.handlers import HANDLERS
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import PRODUCE
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.records.batch import TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.counted_loop import CALLS_MAX, CountedLoop, run_counted
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop, until

E = ErrorCode
UNKNOWN_ID = b"\7" * 16


async def produce(
    world: World,
    *what: tuple[str, int, memoryview | bytes | None],
    acks: int = -1,
    version: int = 9,
    client: str = "test",
    transactional_id: str | None = None,
) -> list[PartitionProduceResponse]:
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        transactional_id=transactional_id,
        topic_data=[
            TopicProduceData(
                name=topic,
                topic_id=known.topic_id if (known := world.topics.get(topic)) else UNKNOWN_ID,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
            for topic, partition, records in what
        ],
    )
    response = await ask(world, PRODUCE, version, request, client)
    return [each for topic in response.responses for each in topic.partition_responses]


def prepared() -> World:
    world = make_world()
    world.topics.add("t", 3)
    world.topics.add("__consumer_offsets", 1)
    world.topics.add("two", configs={"min.insync.replicas": "2"})
    world.topics.add("keyed", configs={"cleanup.policy": "compact"})
    return world


@pytest.mark.parametrize("version", [3, 5, 8, 9, 11, 12, 13])
@in_loop
async def test_each_partition_is_answered_on_its_own(version: int) -> None:
    world = prepared()
    answers = await produce(
        world, ("t", 0, batch(2)), ("t", 9, batch()), ("none", 0, batch()), ("t", 1, batch(1)),
        version=version,
    )  # fmt: skip
    assert [(a.index, a.error_code, a.base_offset) for a in answers] == [
        (0, E.NONE, 0),
        (9, E.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (0, E.UNKNOWN_TOPIC_ID if version >= 13 else E.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (1, E.NONE, 0),
    ]


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("transactional_id", [None, "x"])
@in_loop
async def test_of_a_partition_that_is_named_again_the_last_batch_is_appended_and_answered_once(
    version: int, transactional_id: str | None
) -> None:
    """As Kafka, which keeps the batches of a request in a map by partition."""
    world = prepared()
    answers = await produce(
        world, ("t", 0, batch(2)), ("t", 1, batch()), ("t", 0, b""), ("t", 0, batch(3)),
        version=version, transactional_id=transactional_id,
    )  # fmt: skip
    assert [(a.index, a.error_code, a.base_offset) for a in answers] == [
        (1, E.NONE, 0), (0, E.NONE, 0),
    ]  # fmt: skip
    assert (await world.open("t")).log_end_offset == 3


@pytest.mark.parametrize(
    ("what", "options", "code"),
    [
        (("t", 0, batch()), {"acks": 2}, E.INVALID_REQUIRED_ACKS),
        (("t", 0, None), {}, E.INVALID_RECORD),
        (("t", 0, b""), {}, E.INVALID_RECORD),
        (("t", 0, b"x" * 40), {}, E.INVALID_RECORD),
        (("t", -1, batch()), {}, E.UNKNOWN_TOPIC_OR_PARTITION),
        (("__consumer_offsets", 0, batch()), {}, E.INVALID_TOPIC_EXCEPTION),
        (
            ("__consumer_offsets", 0, batch()),
            {"client": "__admin_client"},
            E.INVALID_TOPIC_EXCEPTION,
        ),
        (("two", 0, batch()), {}, E.NOT_ENOUGH_REPLICAS),
        (("two", 0, batch()), {"acks": 1}, E.NONE),
        (("t", 0, batch()), {"transactional_id": "x"}, E.NONE),
        (
            ("t", 0, memoryview(build_batch([Record(value=b"v")], attributes=TRANSACTIONAL))),
            {},
            E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (("t", 0, batch(1, size=2_000_000)), {}, E.MESSAGE_TOO_LARGE),
    ],
)
@in_loop
async def test_the_table(
    what: tuple[str, int, memoryview], options: dict[str, object], code: ErrorCode
) -> None:
    world = prepared()
    for opened in (False, True):
        answer = (await produce(world, what, **options))[0]  # type: ignore[arg-type]
        assert ErrorCode(answer.error_code) is code
        if not opened:
            await world.open("t")


@pytest.mark.parametrize("transactional_id", [None, "x"])
@in_loop
async def test_what_waits_for_a_topic_that_is_made_again_is_not_written_into_the_new_one(
    transactional_id: str | None,
) -> None:
    world = prepared()
    task = asyncio.get_running_loop().create_task(
        produce(world, ("t", 0, batch(2)), version=13, transactional_id=transactional_id)
    )
    await asyncio.sleep(0)  # the request came, and has the partition opened
    world.topics.replace("t")
    assert [each.error_code for each in await task] == [E.UNKNOWN_TOPIC_ID]
    assert (await world.open("t")).log_end_offset == 0


@in_loop
async def test_zstd_needs_version_7() -> None:
    world = prepared()
    data = memoryview(build_batch([Record(value=b"v")], 4))
    early = await produce(world, ("t", 0, data), version=6)
    assert early[0].error_code == E.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produce(world, ("t", 0, data), version=7))[0].error_code == E.NONE


@in_loop
async def test_records_without_a_key_are_named() -> None:
    world = prepared()
    data = memoryview(build_batch([Record(key=b"k"), Record(offset=1, value=b"v")]))
    answer = (await produce(world, ("keyed", 0, data)))[0]
    assert answer.error_code == E.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert answer.error_message


@in_loop
async def test_a_repeat_is_answered_like_the_original() -> None:
    world = prepared()
    for _ in range(2):
        answer = (await produce(world, ("t", 1, batch(3, producer=Producer(5, 0, 0)))))[0]
        assert (answer.error_code, answer.base_offset) == (E.NONE, 0)
    late = (await produce(world, ("t", 1, batch(1, producer=Producer(5, 0, 9)))))[0]
    assert late.error_code == E.OUT_OF_ORDER_SEQUENCE_NUMBER


@in_loop
async def test_metrics_move() -> None:
    world = prepared()
    data = batch(3)
    await produce(world, ("t", 0, data), ("t", 1, batch(3)))
    metrics = world.broker.metrics
    assert (metrics.produce_batches_total, metrics.produce_bytes_total) == (2, 2 * len(data))


def test_a_request_for_very_many_partitions_leaves_others_their_turns() -> None:
    """Counted in calls. It is appended in order, and behind it what its connection sends next."""
    count = 1000

    def request(*what: tuple[str, range]) -> ProduceRequest:
        topics = [
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=i, records=batch()) for i in indexes],
            )
            for name, indexes in what
        ]
        return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)

    async def story(loop: CountedLoop) -> None:
        world = make_world()
        world.topics.add("t", count)
        for partition in range(count):
            await world.open("t", partition)
        requests = request(("t", range(count)), ("none", range(count))), request(("t", range(2)))
        context, done = world.context(PRODUCE.key, 9), []
        with loop.counting():
            await asyncio.sleep(0)
            answers = [HANDLERS[PRODUCE.key].function(context, each) for each in requests]
            for answer in answers:
                answer.future.add_done_callback(done.append)
            await until(lambda: len(done) == 2)
        many, last = (
            [
                (each.error_code, each.base_offset)
                for topic in answer.build().responses
                for each in topic.partition_responses
            ]
            for answer in answers
        )
        assert many == [(E.NONE, 0)] * count + [(E.UNKNOWN_TOPIC_OR_PARTITION, -1)] * count
        assert last == [(E.NONE, 1)] * 2
        assert loop.longest <= CALLS_MAX, loop.where

    run_counted(story)
