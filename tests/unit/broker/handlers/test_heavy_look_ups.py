"""Offsets by time where a batch is much to look into: beside the loop, until a deadline."""

import asyncio
import threading

import pytest

from tailrace.broker.partition.batch_work import UNPACKED_WORK
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.runtime.fair_queue import Named
from tailrace.core.runtime.loop_work import REQUEST_WORK_MAX
from tailrace.protocol.compression import Codec, compress
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS, LIST_OFFSETS
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    pack_header,
    read_header,
    stamp_crc,
)
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.heavy import counting
from tests.unit.broker.loops import in_loop, until
from tests.unit.broker.virtual import VirtualBroker, in_virtual_time

E = ErrorCode
V = 10
TIME = 1000
HELLO = ApiVersionsRequest(client_software_name="x", client_software_version="1")
EMPTY = bytes([12, 0, 0, 0, 1, 1, 0])
"""A record of the batch's own time without key and value; all have the same offset."""


def at_time(timestamp: int, timeout_ms: int = 60_000) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    return ListOffsetsRequest(replica_id=-1, timeout_ms=timeout_ms, topics=topics)


async def store(log: PartitionLog, count: int, codec: Codec, *, claims: int = 0) -> None:
    """Store a batch as a version did that believed what a header claims: a later time than any."""
    packed = compress(codec, EMPTY * count)
    length = HEADER_SIZE - LOG_OVERHEAD + len(packed)
    claims = claims or count
    header = BatchHeader(
        0, length, -1, MAGIC, 0, codec, claims - 1, 0, 2 * TIME, -1, -1, -1, claims
    )
    batch = bytearray(pack_header(header))
    batch += packed
    stamp_crc(batch)
    await log.append(memoryview(batch), read_header(batch))


async def look_up(world: World, timestamp: int, **options: int) -> ListOffsetsPartitionResponse:
    answer = await ask(world, LIST_OFFSETS, V, at_time(timestamp, **options))
    return answer.topics[0].partitions[0]


@pytest.mark.parametrize("timestamp", [TIME, -3])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@in_virtual_time
async def test_a_look_up_costs_the_loop_what_one_request_may(codec: Codec, timestamp: int) -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    broker.world.log("t").record_bytes_max = 10_000_000
    for _ in range(5):
        await store(log, 300_000, codec)
    hostile, other = broker.client("10.0.0.1"), broker.client("10.0.0.2")
    with counting() as count:
        hostile.send(LIST_OFFSETS, V, at_time(timestamp), "hostile")
        await other.ask(API_VERSIONS, 3, HELLO)
        assert not hostile.transport.written
        answer = await hostile.receive(LIST_OFFSETS, V)
    assert answer.topics[0].partitions[0].error_code == E.NONE
    assert count.most * UNPACKED_WORK <= REQUEST_WORK_MAX
    assert count.beside > 5 * len(EMPTY) * 300_000


@in_virtual_time
async def test_many_small_batches_cost_the_loop_what_one_request_may() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    for _ in range(40):
        await store(log, 2_000, Codec.ZSTD)
    client = broker.client()
    with counting() as count:
        answer = await client.ask(LIST_OFFSETS, V, at_time(TIME))
    assert answer.topics[0].partitions[0].offset == -1
    assert sum(count.steps) * UNPACKED_WORK <= REQUEST_WORK_MAX
    assert sum(count.steps) + count.beside >= 40 * len(EMPTY) * 2_000


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@in_virtual_time
async def test_nothing_is_spent_on_what_a_header_only_claims(codec: Codec) -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    await store(log, 10, codec, claims=9_500_000)
    with counting() as count:
        assert (await look_up(world, TIME)).error_code == E.KAFKA_STORAGE_ERROR
    assert sum(count.steps) + count.beside <= 10 * len(EMPTY)


@in_loop
async def test_a_look_up_that_waits_too_long_is_given_up_and_its_batch_left_alone() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    await store(log, 100_000, Codec.ZSTD)
    lane, go = world.broker.partitions.admission.lane, threading.Event()
    lane.submit(Named("other"), lambda: go.wait(10), id)
    with counting() as count:
        assert (await look_up(world, TIME, timeout_ms=10)).error_code == E.REQUEST_TIMED_OUT
        go.set()
        await until(lambda: not len(lane))
    assert (sum(count.steps), count.beside) == (0, 0)
    assert lane.metrics.pieces_total == 2
    await world.broker.partitions.close()


@in_loop
async def test_a_look_up_that_finds_the_lane_full_is_tried_again_later() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    await store(log, 100_000, Codec.ZSTD)
    lane, go = world.broker.partitions.admission.lane, threading.Event()
    lane._queue._waiting_max = 1
    for name in ("runs", "waits"):
        lane.submit(Named(name), lambda: go.wait(10), id)
    assert (await look_up(world, TIME)).error_code == E.REQUEST_TIMED_OUT
    go.set()
    await until(lambda: not len(lane))
    assert (await look_up(world, TIME)).error_code == E.NONE
    await world.broker.partitions.close()


@in_loop
async def test_many_partitions_in_one_request_leave_others_their_turns() -> None:
    world = make_world()
    world.topics.add("t")
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(3000)]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)]
    asking = asyncio.ensure_future(
        ask(world, LIST_OFFSETS, V, ListOffsetsRequest(replica_id=-1, topics=topics))
    )
    steps = 0
    while not asking.done():
        await asyncio.sleep(0)
        steps += 1
    assert len((await asking).topics[0].partitions) == 3000
    assert steps >= 3000 // 100
