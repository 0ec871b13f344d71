"""Produce of batches that cost much to check: what the loop does, whose turn it is, the order."""

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.handlers import Deferred
from tailrace.broker.partition.batch_work import RECORD_WORK, UNPACKED_WORK
from tailrace.core.runtime import loop_work
from tailrace.core.runtime.loop_work import CLIENT_WORK_MAX, REQUEST_WORK_MAX, STEP_WORK_MAX
from tailrace.protocol.compression import Codec
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.records.batch import TRANSACTIONAL, read_header
from tailrace.protocol.records.record import Producer
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import call
from tests.unit.broker.handlers.test_verified_produce import Coordinator
from tests.unit.broker.heavy import MIB, bomb, counting, heavy, packed_batch
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.partition.transaction_support import end, transactional
from tests.unit.broker.test_connection import codes
from tests.unit.broker.virtual import VirtualBroker, in_virtual_time

E = ErrorCode
V = 9
LITTLE = 1000 * UNPACKED_WORK
"""A room that a packed batch of 2 KB does not fit."""
HELLO = ApiVersionsRequest(client_software_name="x", client_software_version="1")


def request_of(
    *what: tuple[int, memoryview], transactional_id: str | None = None
) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=60_000,
        transactional_id=transactional_id,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[PartitionProduceData(index=i, records=r) for i, r in what],
            )
        ],
    )


# -- how much is done on the loop -----------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 5_000_000])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@in_virtual_time
async def test_bombs_in_one_request_cost_the_loop_what_one_request_may(
    codec: Codec, records: int
) -> None:
    """Taken or refused: a batch with a wrong count is found wrong only when all of it came out."""
    broker = VirtualBroker()
    broker.world.topics.add("t", 6)
    bombs = request_of(*((each, bomb(codec, 8 * MIB, records=records)) for each in range(6)))
    hostile, other = broker.client("10.0.0.1"), broker.client("10.0.0.2")
    await hostile.ask(PRODUCE, V, request_of(*((each, batch()) for each in range(6))))
    with counting() as count:
        hostile.send(PRODUCE, V, bombs, "hostile")
        await other.ask(API_VERSIONS, 3, HELLO)
        assert not hostile.transport.written
        answer = await hostile.receive(PRODUCE, V)
    assert {code for code, _ in codes(answer)} == {E.NONE if records == 1 else E.INVALID_RECORD}
    assert count.most * UNPACKED_WORK <= REQUEST_WORK_MAX
    assert count.beside > 6 * 8 * MIB - 1000


@in_virtual_time
async def test_one_partition_named_again_and_again_is_checked_once() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t")
    log = await broker.world.open("t")
    client = broker.client()
    with counting() as count:
        what = [(0, bomb(Codec.ZSTD, 8 * MIB)) for _ in range(60)]
        answer = await client.ask(PRODUCE, V, request_of(*what, (0, batch(3))))
    assert codes(answer) == [(E.NONE, 0)]
    assert log.log_end_offset == 3
    assert count.most <= 3 * RECORD_WORK // UNPACKED_WORK  # three records
    assert count.beside == 0


@in_virtual_time
async def test_many_requests_in_one_read_cost_the_loop_what_one_client_may() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t", 1)
    await broker.world.open("t")
    client = broker.client()
    size = (REQUEST_WORK_MAX - 5000) // UNPACKED_WORK
    with counting() as count:
        for _ in range(40):
            client.send(PRODUCE, V, request_of((0, bomb(Codec.ZSTD, size))), "many")
        offsets = [codes(await client.receive(PRODUCE, V))[0][1] for _ in range(40)]
    assert offsets == list(range(40))
    assert REQUEST_WORK_MAX < count.most * UNPACKED_WORK <= CLIENT_WORK_MAX
    assert sum(count.steps) + count.beside >= 40 * size


@in_virtual_time
async def test_many_clients_cost_the_loop_what_one_step_may() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t", 20)
    clients = [broker.client(f"10.0.0.{each}") for each in range(20)]
    for partition, client in enumerate(clients):
        await client.ask(PRODUCE, V, request_of((partition, batch())))
    size = (REQUEST_WORK_MAX - 5000) // UNPACKED_WORK
    with counting() as count:
        for partition, client in enumerate(clients):
            for _ in range(5):
                client.send(PRODUCE, V, request_of((partition, bomb(Codec.ZSTD, size))), "many")
        for client in clients:
            got = [codes(await client.receive(PRODUCE, V))[0] for _ in range(5)]
            assert got == [(E.NONE, offset) for offset in range(1, 6)]
    assert CLIENT_WORK_MAX < count.most * UNPACKED_WORK <= STEP_WORK_MAX


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
@in_virtual_time
async def test_a_batch_of_very_many_small_blocks_is_not_taken_apart_on_the_loop(
    codec: Codec,
) -> None:
    """Little comes out of them, but each takes its time."""
    blocks = 9_000
    if codec == Codec.SNAPPY:
        packed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"\0\0\0\3\1\0a" * blocks
    else:
        packed = bytes.fromhex("04224d18604082") + b"\1\0\0\x80a" * blocks + bytes(4)
    broker = VirtualBroker()
    broker.world.topics.add("t", 4)
    client = broker.client()
    await client.ask(PRODUCE, V, request_of(*((each, batch()) for each in range(4))))
    lane = broker.world.broker.partitions.admission.lane
    what = [(each, packed_batch(codec, packed)) for each in range(4)]
    answer = await client.ask(PRODUCE, V, request_of(*what))
    assert {code for code, _ in codes(answer)} == {E.INVALID_RECORD}
    assert lane.metrics.pieces_total >= (4 if codec == Codec.SNAPPY else 2)


@in_virtual_time
async def test_what_most_produces_are_needs_no_lane() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t", 4)
    client = broker.client()
    lane = broker.world.broker.partitions.admission.lane
    await client.ask(PRODUCE, V, request_of((0, batch())))
    for codec in Codec:
        data = heavy(50_000 // UNPACKED_WORK, codec=codec)
        await client.ask(PRODUCE, V, request_of(*((each, data) for each in range(4))))
    assert lane.metrics.pieces_total == 0


@in_virtual_time
async def test_recompression_is_done_beside_the_loop() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t", configs={"compression.type": "gzip"})
    log = await broker.world.open("t")
    client = broker.client()
    with counting() as count:
        for size in (9_000, 4_000, 6_000):
            client.send(PRODUCE, V, request_of((0, heavy(size, codec=Codec.ZSTD))), "c")
        offsets = [codes(await client.receive(PRODUCE, V))[0][1] for _ in range(3)]
    assert offsets == [0, 1, 2]
    assert count.most < 30_000  # to be checked only
    assert count.beside > 19_000
    assert [read_header(each).codec for each in await log.read(0, MIB)] == [Codec.GZIP] * 3


# -- whose turn it is -----------------------------------------------------------------------------


@in_virtual_time
async def test_who_has_much_in_the_lane_waits_for_himself() -> None:
    broker = VirtualBroker()
    broker.world.topics.add("t", 2)
    hostile, other = broker.client("10.0.0.1"), broker.client("10.0.0.2")
    for partition, client in enumerate((hostile, other)):
        await client.ask(PRODUCE, V, request_of((partition, batch())))
    lane = broker.world.broker.partitions.admission.lane
    for _ in range(30):
        hostile.send(PRODUCE, V, request_of((0, bomb(Codec.ZSTD, MIB))), "hostile")
    answer = await other.ask(PRODUCE, V, request_of((1, bomb(Codec.ZSTD, MIB))))
    assert codes(answer) == [(E.NONE, 1)]
    assert lane.metrics.pieces_total <= 3
    for _ in range(30):
        await hostile.receive(PRODUCE, V)
    assert lane.metrics.pieces_total == 31


@in_loop
async def test_too_much_in_the_lane_is_refused_and_what_comes_behind_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer numbers its batches: none is taken before the one that was given back."""
    monkeypatch.setattr(loop_work, "REQUEST_WORK_MAX", LITTLE)
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    lane = world.broker.partitions.admission.lane
    lane._queue._of_user_max = 2
    answers = [sent(world, (0, heavy(producer=Producer(7, 0, number)))) for number in range(4)] + [
        sent(world, (0, batch(producer=Producer(7, 0, 4))))
    ]
    got = [codes(await each)[0] for each in answers]
    tried_again = (E.NOT_ENOUGH_REPLICAS, -1)
    assert got == [(E.NONE, 0), (E.NONE, 1), (E.NONE, 2), tried_again, tried_again]
    again = [sent(world, (0, heavy(producer=Producer(7, 0, n)))) for n in (3, 4)]
    assert [codes(await each)[0] for each in again] == [(E.NONE, 3), (E.NONE, 4)]
    assert log.log_end_offset == 5
    assert lane.metrics.refused_total == 1
    await world.broker.partitions.close()


@in_loop
async def test_the_end_of_the_broker_answers_what_waits_in_the_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_work, "REQUEST_WORK_MAX", LITTLE)
    world = make_world()
    world.topics.add("t")
    await world.open("t")
    answers = [sent(world, (0, heavy())) for _ in range(5)]
    await world.broker.partitions.close()
    assert {codes(await each)[0] for each in answers} == {(E.NOT_LEADER_OR_FOLLOWER, -1)}


# -- the order in a partition ---------------------------------------------------------------------


def sent(
    world: World, *what: tuple[int, memoryview], transactional_id: str | None = None
) -> "asyncio.Task[ProduceResponse]":
    """Call the handler now; return its answer to come."""
    answer = call(world, PRODUCE, V, request_of(*what, transactional_id=transactional_id))

    async def receive() -> Any:
        if isinstance(answer, Deferred):
            done = asyncio.Event()
            answer.future.add_done_callback(lambda _: done.set())
            await done.wait()
            return answer.build()
        return answer

    return asyncio.ensure_future(receive())


@pytest.fixture
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every packed batch be too much for the loop."""
    monkeypatch.setattr(loop_work, "REQUEST_WORK_MAX", LITTLE)


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_cheap_batch_waits_behind_a_heavy_one_of_its_partition_only() -> None:
    world = make_world()
    world.topics.add("t", 2)
    logs = [await world.open("t", each) for each in (0, 1)]
    first = sent(world, (0, heavy(producer=Producer(7, 0, 0))))
    second = sent(world, (0, batch(2, producer=Producer(7, 0, 1))))
    elsewhere = sent(world, (1, batch()))
    assert codes(await elsewhere) == [(E.NONE, 0)]
    assert not first.done()
    assert logs[0].log_end_offset == 0
    assert codes(await second) == [(E.NONE, 1)]
    assert codes(first.result()) == [(E.NONE, 0)]


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_retry_of_a_batch_that_is_in_the_lane_gets_what_the_batch_gets() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    answers = [sent(world, (0, heavy(producer=Producer(7, 0, 0)))) for _ in range(3)]
    assert [codes(await each) for each in answers] == [[(E.NONE, 0)]] * 3
    assert log.log_end_offset == 1


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_bad_batch_in_the_lane_is_refused_and_what_is_behind_it_goes_on() -> None:
    world = make_world()
    world.topics.add("t")
    await world.open("t")
    bad = sent(world, (0, bomb(Codec.ZSTD, 5000, records=1000)))
    good = sent(world, (0, batch()))
    assert codes(await good) == [(E.NONE, 0)]
    answer = bad.result().responses[0].partition_responses[0]
    assert answer.error_code == E.INVALID_RECORD
    assert answer.error_message


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_marker_behind_a_batch_of_its_transaction_ends_it() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    first = log.append(transactional(7, 0), log.check(transactional(7, 0)), verified=True)
    assert log.has_open_transaction(7, 0)
    second = sent(
        world,
        (0, heavy(producer=Producer(7, 0, 1), flags=TRANSACTIONAL)),
        transactional_id="x",
    )
    marker = end(log, 7)
    own = log.append(batch(), None)
    assert log.has_open_transaction(7, 0)
    assert [first.base_offset, codes(await second)] == [0, [(E.NONE, 1)]]
    assert (await marker).base_offset == 2  # type: ignore[union-attr]
    assert (await own).base_offset == 3  # type: ignore[union-attr]
    assert not log.has_open_transaction(7, 0)


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_transaction_that_begins_behind_a_marker_that_waits_is_verified() -> None:
    world, coordinator = make_world(), Coordinator()
    world.broker.transactions = coordinator  # type: ignore[assignment]
    world.topics.add("t")
    log = await world.open("t")
    await log.append(transactional(7, 0), log.check(transactional(7, 0)), verified=True)
    answers = [sent(world, (0, heavy()))]
    marker = end(log, 7)
    answers += [sent(world, (0, transactional(7, 1)), transactional_id="x")]
    assert [codes(await each) for each in answers] == [[(E.NONE, 1)], [(E.NONE, 3)]]
    assert (await marker).base_offset == 2  # type: ignore[union-attr]
    assert len(coordinator.asked) == 1
    assert log.has_open_transaction(7, 0)


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_a_heavy_batch_that_is_verified_is_checked_beside_the_loop() -> None:
    world, coordinator = make_world(), Coordinator()
    world.broker.transactions = coordinator  # type: ignore[assignment]
    world.topics.add("t")
    with counting() as count:
        first = sent(
            world,
            (0, heavy(5000, producer=Producer(7, 0, 0), flags=TRANSACTIONAL)),
            transactional_id="x",
        )
        second = sent(world, (0, transactional(7, 1)), transactional_id="x")
        assert [codes(await first), codes(await second)] == [[(E.NONE, 0)], [(E.NONE, 1)]]
    assert count.beside > 5000
    assert count.most <= 1000


@pytest.mark.usefixtures("_little_room")
@in_virtual_time
async def test_heavy_batches_that_wait_for_their_partition_keep_their_order() -> None:
    world = make_world()
    world.topics.add("t")
    opening = world.log("t").opening = asyncio.Event()
    answers = [sent(world, (0, heavy() if each % 2 else batch())) for each in range(6)]
    await turns()
    opening.set()
    assert [codes(await each) for each in answers] == [[(E.NONE, each)] for each in range(6)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 2), st.integers(0, 3)),
        max_size=25,
    )
)
def test_offsets_are_in_the_order_of_the_requests_whatever_each_costs(
    what: list[tuple[int, bool, int, int]],
) -> None:
    """The oracle appends one after the other, each at once."""

    @in_virtual_time
    async def check() -> None:
        world = make_world()
        world.topics.add("t", 2)
        for each in (0, 1):
            await world.open("t", each)
        sequences: dict[tuple[int, int], int] = {}
        ends = [0, 0]
        expected: list[list[tuple[int, int]]] = []
        answers = []
        for partition, is_heavy, producer, pause in what:
            sequence = sequences.get((partition, producer), 0)
            made_by = Producer(producer, 0, sequence)
            data = heavy(producer=made_by) if is_heavy else batch(producer=made_by)
            answers.append(sent(world, (partition, data)))
            expected.append([(E.NONE, ends[partition])])
            sequences[partition, producer] = sequence + 1
            ends[partition] += 1
            await turns(pause)
        assert [codes(await each) for each in answers] == expected

    room = loop_work.REQUEST_WORK_MAX
    loop_work.REQUEST_WORK_MAX = LITTLE  # type: ignore[misc]
    try:
        check()
    finally:
        loop_work.REQUEST_WORK_MAX = room  # type: ignore[misc]
