"""Budgets of connections: what is counted in them, and until when."""

import asyncio

import pytest

from tailrace.core.runtime.receive_buffer import READ_BYTES_MIN, RECEIVE_BUFFER_BYTES
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, PRODUCE
from tailrace.protocol.kafka.codec import encode_request
from tailrace.protocol.kafka.header import RequestHeader, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.unit.broker.fakes import FakeWriter, batch
from tests.unit.broker.handlers.test_verified_produce import Coordinator, request
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.partition.transaction_support import transactional
from tests.unit.broker.test_connection import codes, fetch_of, produce_of
from tests.unit.broker.wire import Served, WireClient

V = 8
SIZE = 5000
HELLO = ApiVersionsRequest()


def data() -> memoryview:
    return batch(1, size=SIZE)


async def gone(served: Served, client: WireClient) -> None:
    """Have a client go, and wait until the broker knows it."""
    before = served.world.broker.metrics.connections
    client.close()
    await until(lambda: served.world.broker.metrics.connections < before)


def writer_of(served: Served) -> FakeWriter:
    writer = served.world.log("t").writer
    assert writer is not None
    return writer


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
@pytest.mark.parametrize("acks", [-1, 0])
@in_loop
async def test_a_produce_is_counted_until_it_is_settled_though_its_client_is_gone(
    partitions: tuple[int, ...], acks: int
) -> None:
    async with Served(auto=False) as served:
        served.world.topics.add("t", 2)
        logs = [await served.world.open("t", each) for each in (0, 1)]
        client = await served.client()
        client.send(PRODUCE, V, produce_of(*partitions, acks=acks, data=data()))
        await until(lambda: logs[0].log_end_offset == 1)
        used = served.server.budgets[0]
        assert used.used > SIZE
        await gone(served, client)
        assert used.used > SIZE
        for each in partitions:
            writer = served.world.log("t", each).writer
            assert writer is not None
            writer.confirm()
        await turns()
        assert used.used == 0


@in_loop
async def test_clients_that_come_back_again_and_again_are_bounded_by_what_the_log_has_of_them() -> (
    None
):
    async with Served(auto=False, queued_bytes_max=4 * SIZE) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        for _ in range(12):
            client = await served.client()
            client.send(PRODUCE, V, produce_of(0, data=data()))
            await client.writer.drain()
            await turns(20)
            client.close()
            await turns(20)
        assert log.log_end_offset == 4
        served.world.log("t").auto = True
        writer_of(served).confirm()


@in_loop
async def test_a_produce_that_is_answered_at_its_timeout_is_counted_until_it_is_settled() -> None:
    async with Served(auto=False) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client = await served.client()
        answer = await client.ask(PRODUCE, V, produce_of(0, data=data(), timeout_ms=1))
        assert codes(answer) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
        assert served.server.budgets[0].used > SIZE
        writer_of(served).confirm()
        assert served.server.budgets[0].used == 0


@in_loop
async def test_produces_answered_at_their_timeout_keep_their_connection_from_sending_more() -> None:
    async with Served(auto=False, connection_bytes_max=2 * SIZE) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        client = await served.client()
        for _ in range(4):
            client.send(PRODUCE, V, produce_of(0, data=data(), timeout_ms=1))
        for _ in range(2):
            got = codes((await client.receive(PRODUCE, V))[1])
            assert got == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
        await turns(20)
        assert log.log_end_offset == 2
        writer_of(served).confirm()
        await until(lambda: log.log_end_offset == 4)


@in_loop
async def test_a_produce_that_waits_for_its_partition_is_counted_though_its_client_is_gone() -> (
    None
):
    async with Served() as served:
        served.world.topics.add("t")
        opening = served.world.log("t").opening = asyncio.Event()
        client = await served.client()
        client.send(PRODUCE, V, produce_of(0, data=data()))
        await until(lambda: served.server.budgets[0].used > SIZE)
        await gone(served, client)
        assert served.server.budgets[0].used > SIZE
        opening.set()
        await until(lambda: served.server.budgets[0].used == 0)
        assert (await served.world.open("t")).log_end_offset == 1


@in_loop
async def test_a_produce_that_waits_for_its_coordinator_is_counted_though_its_client_is_gone() -> (
    None
):
    async with Served() as served:
        served.world.topics.add("t")
        coordinator = Coordinator()
        served.world.broker.transactions = coordinator  # type: ignore[assignment]
        coordinator.holds = asyncio.Event()
        client = await served.client()
        client.send(PRODUCE, V, request((0, transactional(0, 0, count=SIZE // 10))))
        await until(lambda: bool(coordinator.asked))
        await gone(served, client)
        assert served.server.budgets[0].used > SIZE
        coordinator.holds.set()
        await until(lambda: served.server.budgets[0].used == 0)
        assert (await served.world.open("t")).log_end_offset == SIZE // 10


@in_loop
async def test_a_request_that_goes_on_without_its_client_is_counted_until_it_ends() -> None:
    async with Served() as served:
        served.world.topics.add("t")
        opening = served.world.log("t").opening = asyncio.Event()
        client = await served.client()
        client.send(FETCH, 11, fetch_of(0))
        await until(lambda: served.server.budgets[0].used > 0)
        await gone(served, client)
        opening.set()
        await until(lambda: served.server.budgets[0].used == 0)


# -- bytes that were read and may not be looked at ------------------------------------------------


def hellos(size: int) -> bytes:
    """Return requests of 4 KB, as many as fit."""
    header = RequestHeader(API_VERSIONS.key, 0, 1, "held".ljust(4000))
    frame = request_frame(API_VERSIONS, header, encode_request(API_VERSIONS, 0, HELLO))
    return frame * (size // len(frame))


@in_loop
async def test_what_held_connections_keep_is_counted_and_has_a_bound() -> None:
    async with Served(auto=False, queued_bytes_max=SIZE) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        first = await served.client()
        first.send(PRODUCE, V, produce_of(0, data=data()))
        requests, _, _, held, *_ = served.server.budgets
        held.limit = 2 * RECEIVE_BUFFER_BYTES
        await until(lambda: requests.full)
        clients = [await served.client() for _ in range(20)]
        sent = hellos(RECEIVE_BUFFER_BYTES)
        for client in clients:
            client.writer.write(sent)
        await until(lambda: held.full)
        await turns(100)
        assert held.used <= held.limit + RECEIVE_BUFFER_BYTES + 20 * READ_BYTES_MIN
        kept = [len(each._channel._backlog or b"") for each in served.server._connections]  # type: ignore[union-attr]
        assert held.used == sum(kept)
        clients[0].close()
        served.world.log("t").auto = True
        writer_of(served).confirm()
        for client in clients[1:]:
            for _ in range(sent.count(b"held")):
                assert (await client.receive(API_VERSIONS, 0))[1].error_code == 0
        assert held.used == 0
