"""A connection as clients see it: order, limits, and what bad bytes get."""

import asyncio
import logging
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker import serial_requests
from tailrace.broker.handlers import HANDLERS, Handler
from tailrace.core.runtime.net import FrameChannel
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, METADATA, PRODUCE
from tailrace.protocol.kafka.codec import encode_request
from tailrace.protocol.kafka.header import RequestHeader, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.unit.broker.fakes import batch
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.virtual import VirtualBroker, in_virtual_time
from tests.unit.broker.wire import Served, WireClient

V = 8


def produce_of(
    *partitions: int, acks: int = -1, timeout_ms: int = 30_000, data: memoryview | None = None
) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name="t",
                partition_data=[
                    PartitionProduceData(index=each, records=data or batch()) for each in partitions
                ],
            )
        ],
    )


def fetch_of(offset: int, wait_ms: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic="t",
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
                ],
            )
        ],
    )


def codes(response: ProduceResponse) -> list[tuple[int, int]]:
    """Return (error code, base offset) of every partition."""
    return [
        (each.error_code, each.base_offset)
        for topic in response.responses
        for each in topic.partition_responses
    ]


@in_loop
async def test_answers_come_in_request_order_though_produces_run_side_by_side() -> None:
    async with Served(auto=False) as served:
        served.world.topics.add("t", 2)
        logs = [await served.world.open("t", p) for p in (0, 1)]
        client = await served.client()
        sent = [client.send(PRODUCE, V, produce_of(p)) for p in (0, 1, 0)]
        sent.append(client.send(METADATA, 1, MetadataRequest(topics=())))
        await until(lambda: not (logs[0].log_end_offset < 2 or logs[1].log_end_offset < 1))
        for partition in (1, 0):
            writer = served.world.log("t", partition).writer
            assert writer is not None
            writer.confirm()
            await turns()
        got = [await client.receive(PRODUCE, V) for _ in range(3)]
        assert [each[0] for each in got] == sent[:3]
        assert [codes(each[1]) for each in got] == [[(0, 0)], [(0, 0)], [(0, 1)]]
        assert (await client.receive(METADATA, 1))[0] == sent[3]


@in_loop
async def test_all_that_one_confirmation_answers_leaves_in_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Served(auto=False) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        client = await served.client()
        sent = [client.send(PRODUCE, V, produce_of(0)) for _ in range(20)]
        await until(lambda: log.log_end_offset == 20)
        writes: list[int] = []
        send = FrameChannel.send
        monkeypatch.setattr(
            FrameChannel, "send", lambda self, parts: (writes.append(1), send(self, parts))
        )
        writer = served.world.log("t").writer
        assert writer is not None
        writer.confirm()
        assert [(await client.receive(PRODUCE, V))[0] for _ in sent] == sent
        assert len(writes) == 1


@in_loop
async def test_produces_before_the_partition_is_open_keep_their_order() -> None:
    async with Served() as served:
        served.world.topics.add("t")
        served.world.log("t").opening = asyncio.Event()
        client = await served.client()
        for _ in range(5):
            client.send(PRODUCE, V, produce_of(0))
        await turns(20)
        served.world.log("t").opening.set()
        offsets = [codes((await client.receive(PRODUCE, V))[1]) for _ in range(5)]
        assert offsets == [[(0, n)] for n in range(5)]


@in_loop
async def test_a_produce_is_applied_while_a_fetch_waits_and_answered_after_it() -> None:
    async with Served() as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client = await served.client()
        first = client.send(FETCH, 11, fetch_of(0, wait_ms=10_000))
        second = client.send(PRODUCE, V, produce_of(0))
        assert (await client.receive(FETCH, 11))[0] == first
        assert (await client.receive(PRODUCE, V))[0] == second


@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
def test_acks_0_has_no_timeout(partitions: tuple[int, ...]) -> None:
    """As in Kafka: its client waits for nothing, and the log goes on with what it was given."""

    @in_virtual_time
    async def story() -> None:
        at = VirtualBroker()
        at.world.topics.add("t", 2)
        for number in partitions:
            at.world.log("t", number).auto = False
            await at.world.open("t", number)
        silent, waits = at.client(), at.client()
        silent.send(PRODUCE, V, produce_of(*partitions, acks=0, timeout_ms=100), "app")
        waits.send(PRODUCE, V, produce_of(*partitions, timeout_ms=100), "app")
        await asyncio.sleep(60)
        for connection in list(at.server._connections):
            connection.check(asyncio.get_running_loop().time())
        late = (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert codes(await waits.receive(PRODUCE, V)) == [late] * len(partitions)
        assert not silent.transport.closed.is_set()
        for number in partitions:
            writer = at.world.log("t", number).writer
            assert writer is not None
            writer.confirm()
        assert (await silent.ask(METADATA, 1, MetadataRequest(topics=()))).topics == ()

    story()


@in_loop
async def test_acks_0_gets_no_answer_and_a_failure_closes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Served() as served:
        served.world.topics.add("t", 2)
        client = await served.client()
        client.send(PRODUCE, V, produce_of(0, acks=0))
        client.send(PRODUCE, V, produce_of(0, 1, acks=0))
        assert codes(await client.ask(PRODUCE, V, produce_of(0))) == [(0, 2)]
        with caplog.at_level(logging.WARNING):
            client.send(PRODUCE, V, produce_of(9, acks=0))
            assert await client.is_closed()
        assert "UNKNOWN_TOPIC_OR_PARTITION" in caplog.text
        again = await served.client()
        again.send(PRODUCE, V, produce_of(0, 9, acks=0))
        assert await again.is_closed()


@in_loop
async def test_a_produce_past_its_deadline_is_answered_and_may_still_land() -> None:
    async with Served(auto=False) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        client = await served.client()
        response = await client.ask(PRODUCE, V, produce_of(0, timeout_ms=1))
        assert codes(response) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
        writer = served.world.log("t").writer
        assert writer is not None
        writer.confirm()
        await turns()
        assert log.high_watermark == 1
        assert served.world.broker.metrics.requests_expired_total == 1


@in_loop
async def test_an_unsupported_api_versions_gets_a_v0_body_with_error_35() -> None:
    async with Served() as served:
        client = await served.client()
        header = RequestHeader(API_VERSIONS.key, 99, 5, "future")
        client.writer.write(request_frame(API_VERSIONS, header, b"\xffunknown body"))
        correlation, response = await client.receive(API_VERSIONS, 0)
        assert correlation == 5
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [
            (18, 0, 4)
        ]
        after = await client.ask(API_VERSIONS, 0, ApiVersionsRequest())
        assert after.error_code == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 0, 2, 1, -1),
        struct.pack(">hhih", 0, 99, 1, -1),
        struct.pack(">hhih", 3, 1, 1, 500) + b"x",
        struct.pack(">hhih", 3, 1, 1, -1) + b"\xff\xff\xff",
        b"abc",
        b"",
    ],
)
@in_loop
async def test_nonsense_closes_with_one_line_and_disturbs_nobody(
    frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with Served() as served:
        bystander, client = await served.client(), await served.client()
        await bystander.ask(API_VERSIONS, 0, ApiVersionsRequest())
        caplog.clear()
        client.writer.write(struct.pack(">i", len(frame)) + frame)
        assert await client.is_closed()
        await turns()
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert caplog.records[0].exc_info is None
        assert await bystander.ask(API_VERSIONS, 0, ApiVersionsRequest())
        assert served.server._requests.used == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 80), st.integers(0, 20), st.binary(max_size=200))
def test_random_requests_are_answered_or_closed(key: int, version: int, body: bytes) -> None:
    @in_loop
    async def check() -> None:
        async with Served() as served:
            client = await served.client()
            frame = struct.pack(">hhih", key, version, 7, -1) + body
            client.writer.write(struct.pack(">i", len(frame)) + frame)
            client.writer.write_eof()
            await client.reader.read()
            assert served.server._requests.used == 0

    logging.disable(logging.CRITICAL)
    try:
        check()
    finally:
        logging.disable(logging.NOTSET)


@in_loop
async def test_too_many_requests_in_flight_stop_the_reading_until_some_are_answered() -> None:
    async with Served(auto=False, connection_requests_max=4) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        client = await served.client()
        for _ in range(20):
            client.send(PRODUCE, V, produce_of(0))
        await until(lambda: not (log.log_end_offset < 4))
        await turns(50)
        assert log.log_end_offset == 4
        writer = served.world.log("t").writer
        assert writer is not None
        served.world.log("t").auto = True
        writer.confirm()
        offsets = [codes((await client.receive(PRODUCE, V))[1])[0][1] for _ in range(20)]
        assert offsets == list(range(20))


@in_loop
async def test_requests_behind_one_that_waits_are_run_in_a_loop_however_many() -> None:
    """400 of them, each calling the next, would be more calls than the stack holds."""
    async with Served(connection_requests_max=1000) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client, other = await served.client(), await served.client()
        sent = [client.send(FETCH, 11, fetch_of(0, wait_ms=10_000))]
        sent += [client.send(API_VERSIONS, 0, ApiVersionsRequest()) for _ in range(400)]
        await turns(50)
        await other.ask(PRODUCE, V, produce_of(0))
        got = [(await client.receive(FETCH, 11))[0]]
        got += [(await client.receive(API_VERSIONS, 0))[0] for _ in range(400)]
        assert got == sent


@in_loop
async def test_answers_to_unsupported_versions_count_as_in_flight_while_they_wait() -> None:
    async with Served(connection_requests_max=4) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client, other = await served.client(), await served.client()
        client.send(FETCH, 11, fetch_of(0, wait_ms=10_000))
        header = RequestHeader(API_VERSIONS.key, 99, 7, "c")
        client.writer.write(request_frame(API_VERSIONS, header, b"") * 50)
        await until(lambda: served.world.broker.metrics.requests_total >= 4)
        await turns(50)
        assert served.world.broker.metrics.requests_total == 4
        await other.ask(PRODUCE, V, produce_of(0))
        await client.receive(FETCH, 11)
        for _ in range(50):
            assert (await client.receive(API_VERSIONS, 0))[1].error_code == 35


@in_loop
async def test_requests_of_all_connections_share_one_budget() -> None:
    async with Served(auto=False, queued_bytes_max=1000) as served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        data = batch(1, size=900)
        first, second = await served.client(), await served.client()
        first.send(PRODUCE, V, produce_of(0, data=data))
        await until(lambda: not (log.log_end_offset < 1))
        second.send(PRODUCE, V, produce_of(0, data=batch(1, size=900)))
        await turns(50)
        assert log.log_end_offset == 1
        budget = served.server._requests
        assert budget.full
        served.world.log("t").auto = True
        writer = served.world.log("t").writer
        assert writer is not None
        writer.confirm()
        assert codes((await first.receive(PRODUCE, V))[1]) == [(0, 0)]
        assert codes((await second.receive(PRODUCE, V))[1]) == [(0, 1)]
        assert budget.used == 0


@in_loop
async def test_who_fills_the_budget_behind_a_request_that_waits_is_cut(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fetch may wait for minutes; what its client sends meanwhile must not stop all others."""
    monkeypatch.setattr(serial_requests, "HURRY_S", 0.3)
    async with Served(queued_bytes_max=100_000) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        hoarder, modest, other = [await served.client() for _ in range(3)]
        for client in (hoarder, modest):
            client.send(FETCH, 11, fetch_of(0, wait_ms=15_000))
        modest.send(API_VERSIONS, 0, ApiVersionsRequest())
        header = RequestHeader(API_VERSIONS.key, 0, 2, "c")
        hoarder.writer.write(request_frame(API_VERSIONS, header, bytes(200_000)))
        assert await hoarder.is_closed()
        await other.ask(PRODUCE, V, produce_of(0))
        await modest.receive(FETCH, 11)
        await modest.receive(API_VERSIONS, 0)
    assert [r.getMessage().rpartition("=")[2] for r in caplog.records] == [
        "too much waits behind one request"
    ]


@in_loop
async def test_a_client_that_does_not_drain_gets_one_answer_built_and_is_cut() -> None:
    async with Served(unsent_bytes_max=1000, stall_ms=300) as served:
        served.world.topics.add("t", configs={"max.message.bytes": "5000000"})
        log = await served.world.open("t")
        for _ in range(8):
            data = batch(1, size=1_000_000)
            await log.append(data, log.check(data))
        loop = asyncio.get_running_loop()
        client = socket.socket()  # a bare one: asyncio's reader would drain it
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", served.server.port))
        body = encode_request(FETCH, 11, fetch_of(0, max_bytes=8_000_000))
        frame = request_frame(FETCH, RequestHeader(FETCH.key, 11, 1, "slow"), body)
        built = 0
        original = HANDLERS[FETCH.key]

        def counting(ctx: object, request: FetchRequest) -> object:
            nonlocal built
            built += 1
            return original.function(ctx, request)  # type: ignore[arg-type]

        HANDLERS[FETCH.key] = Handler(original.api, counting, original.pipelined, True)
        try:
            await loop.sock_sendall(client, frame * 10)
            await until(lambda: bool(served.world.broker.metrics.connections_cut_total))
        finally:
            HANDLERS[FETCH.key] = original
        client.close()
        assert built == 1
        await turns()
        assert served.world.broker.unsent.used == 0
        assert served.world.broker.metrics.connections == 0


@in_loop
async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async with Served(auto=False, idle_ms_max=100) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        idle, busy = await served.client(), await served.client()
        busy.send(PRODUCE, V, produce_of(0))
        assert await idle.is_closed()
        writer = served.world.log("t").writer
        assert writer is not None
        writer.confirm()
        assert codes((await busy.receive(PRODUCE, V))[1]) == [(0, 0)]


@in_loop
async def test_connections_beyond_the_limits_are_closed_at_once() -> None:
    async with Served(connections_per_ip_max=2) as served:
        kept = [await served.client() for _ in range(2)]
        for client in kept:
            await client.ask(API_VERSIONS, 0, ApiVersionsRequest())
        refused = await served.client()
        assert await refused.is_closed()
        metrics = served.world.broker.metrics
        assert (metrics.connections, metrics.connections_refused_total) == (2, 1)
        kept[0].close()
        await until(lambda: not (metrics.connections > 1))
        again = await served.client()
        assert (await again.ask(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0


@in_loop
async def test_a_handler_that_fails_ends_its_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Served() as served:
        original = HANDLERS[API_VERSIONS.key]

        def bug(ctx: object, request: object) -> ApiVersionsResponse:
            raise ZeroDivisionError

        async def late_bug(ctx: object, request: object) -> ApiVersionsResponse:
            await asyncio.sleep(0)
            raise ZeroDivisionError

        bystander = await served.client()
        await bystander.ask(METADATA, 1, MetadataRequest(topics=()))
        for function in (bug, late_bug):
            client = await served.client()
            HANDLERS[API_VERSIONS.key] = Handler(API_VERSIONS, function, False, False)
            try:
                client.send(API_VERSIONS, 0, ApiVersionsRequest())
                assert await client.is_closed()
            finally:
                HANDLERS[API_VERSIONS.key] = original
        assert len([each for each in caplog.records if each.exc_info]) == 2
        await bystander.ask(METADATA, 1, MetadataRequest(topics=()))


@in_loop
async def test_what_is_in_flight_is_answered_before_the_server_stops() -> None:
    served = Served(auto=False)
    async with served:
        served.world.topics.add("t")
        log = await served.world.open("t")
        client = await served.client()
        client.send(PRODUCE, V, produce_of(0))
        await until(lambda: not (log.log_end_offset < 1))
        writer = served.world.log("t").writer
        assert writer is not None
        asyncio.get_running_loop().call_later(0.05, writer.confirm)
        await served.server.close()
        assert codes((await client.receive(PRODUCE, V))[1]) == [(0, 0)]
        assert await client.is_closed()


@in_loop
async def test_a_waiting_fetch_does_not_hold_up_the_stop() -> None:
    async with Served() as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client: WireClient = await served.client()
        client.send(FETCH, 11, fetch_of(0, wait_ms=60_000))
        await until(lambda: bool(served.world.broker.metrics.fetch_parked_total))
        async with asyncio.timeout(20):
            await served.server.close()


@in_loop
async def test_a_client_that_is_gone_before_it_is_accepted_leaves_no_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Served() as served:
        for _ in range(20):
            gone = socket.create_connection(("127.0.0.1", served.server.port))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
        client = await served.client()
        assert (await client.ask(API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0
        await until(lambda: served.world.broker.metrics.connections == 1)
    assert not [record for record in caplog.records if record.exc_info]


@in_loop
async def test_many_idle_connections_disturb_nobody() -> None:
    async with Served() as served:
        clients = [await served.client() for _ in range(300)]
        worker = await served.client()
        served.world.topics.add("t")
        assert codes(await worker.ask(PRODUCE, V, produce_of(0))) == [(0, 0)]
        assert served.world.broker.metrics.connections == 301
        for client in clients:
            client.close()
