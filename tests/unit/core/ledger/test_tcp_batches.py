"""Batch reads over TCP: a second connection, and bookies that do not know them."""

import asyncio
import logging

import pytest

from tailrace.core.ledger import tcp_bookie
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.protocol.bookkeeper import v2_answers, v2_requests
from tailrace.protocol.bookkeeper.entry import MAX_FRAME_BYTES
from tailrace.protocol.bookkeeper.messages import (
    BatchReadRequest,
    BatchReadResponse,
    ErrorResponse,
    OperationType,
    ReadRequest,
    StatusCode,
)
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.ledger.bookie_contract import add_request
from tests.unit.core.ledger.test_bookie_client import TcpBookie, run

L7 = LedgerId(7)
BATCH = BatchReadRequest(L7, 0, 10, MAX_FRAME_BYTES)
PATIENT = BookieClientConfig(request_timeout_ms=60_000)


async def added(client: TcpBookieClient, count: int = 3) -> None:
    for entry_id in range(count):
        assert (await ask(client, add_request(entry_id))).status is StatusCode.EOK


async def batch_of(client: TcpBookieClient, first: int, count: int) -> int:
    """Return how many entries came, right ones."""
    response = await ask(client, BatchReadRequest(L7, first, count, MAX_FRAME_BYTES))
    assert isinstance(response, BatchReadResponse), response
    assert (response.status, response.entry_id) == (StatusCode.EOK, first)
    ids = [int.from_bytes(body[8:16], "big") for body in response.bodies]
    assert ids == list(range(first, first + len(ids)))
    return len(ids)


def batch_frame(delimited: bytes) -> bytes:
    """Return an answer to the first request of a connection."""
    origin = v2_requests.Origin(v2_requests.Opcode.BATCH_READ_ENTRY, L7, 0, 1)
    nothing = BatchReadResponse(StatusCode.EOK, L7, 0)
    return b"".join(v2_answers.encode_response(origin, nothing))[4:] + delimited


async def held(server: TcpBookie, count: int) -> None:
    while server.bookie.held_count < count:  # noqa: ASYNC110 - the fake tells nobody
        await asyncio.sleep(0)


async def lost(client: TcpBookieClient, count: int) -> None:
    while client._metrics.losses_total < count:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0)


def test_batches_have_a_connection_of_their_own_and_nothing_else_is_on_it() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        assert server.accepted == 1, "nobody read a batch yet"
        for _ in range(3):
            assert await batch_of(client, 0, 10) == 3
            assert (await ask(client, ReadRequest(L7, 0))).status is StatusCode.EOK
        assert (server.accepted, client.losses) == (2, 0)

    run(story, PATIENT)


def test_answers_find_who_asked_in_any_order() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client, 20)
        server.bookie.hold()
        wanted = [(first, count) for first in range(15) for count in (1, 3, 5)]
        batches = [asyncio.ensure_future(batch_of(client, *batch)) for batch in wanted]
        await held(server, len(batches))
        assert server.bookie._held is not None
        server.bookie._held.reverse()
        server.bookie.release()
        assert [await batch for batch in batches] == [count for _, count in wanted]

    run(story, PATIENT)


def test_older_bookie_is_asked_once_and_serves_everything_else_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        server.reads_batches = False
        await added(client)
        assert client.reads_batches
        waiting = [ask(client, BATCH) for _ in range(3)]
        nothing = ErrorResponse(StatusCode.LOCAL_UNAVAILABLE, OperationType.BATCH_READ_ENTRY)
        with caplog.at_level(logging.WARNING):
            assert [await answer for answer in waiting] == [nothing] * 3
        assert not client.reads_batches
        assert caplog.text.count("batch_reads_refused bookie=b1") == 1
        assert client._metrics.batch_refusals_total == 1
        assert (await ask(client, ReadRequest(L7, 0))).status is StatusCode.EOK
        assert (server.accepted, client.losses) == (2, 0)

    run(story, PATIENT)


@pytest.mark.parametrize(
    "answer",
    [
        bytes(32),
        batch_frame(b"\xff\xff\xff\xff"),
        batch_frame(bytes(400)),
        batch_frame(b"\0\0\0\x20entry"),
    ],
    ids=["another version", "a length beyond the frame", "empty entries", "an entry that is cut"],
)
def test_answer_that_makes_no_sense_is_a_refusal_too(answer: bytes) -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        serve = server._submit

        def spoiled(frame: memoryview, writer: asyncio.StreamWriter) -> None:
            if v2_requests.is_v2(frame):
                writer.write(len(answer).to_bytes(4, "big") + answer)
            else:
                serve(frame, writer)

        server._submit = spoiled  # type: ignore[method-assign]
        assert (await ask(client, BATCH)).status is StatusCode.LOCAL_UNAVAILABLE
        assert not client.reads_batches
        assert (await ask(client, ReadRequest(L7, 0))).status is StatusCode.EOK

    run(story, PATIENT)


def test_refusal_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        server.reads_batches = False
        await ask(client, BATCH)
        while not client.reads_batches:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        server.reads_batches = True
        assert await batch_of(client, 0, 10) == 3

    monkeypatch.setattr(tcp_bookie, "REFUSED_S", 0.001)
    run(story, PATIENT)


def test_connection_that_is_lost_after_an_answer_is_no_refusal() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        assert await batch_of(client, 0, 10) == 3
        server.bookie.hold()
        waiting = ask(client, BATCH)
        await held(server, 1)
        server.cut()
        server.bookie.release()
        assert (await waiting).status is StatusCode.LOCAL_UNAVAILABLE
        assert client.reads_batches
        assert await batch_of(client, 0, 10) == 3

    run(story, PATIENT)


def test_bookie_that_cannot_be_reached_refused_nothing() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await server.stop()
        assert (await ask(client, BATCH)).status is StatusCode.LOCAL_UNAVAILABLE
        assert client.reads_batches
        await server.start(server.port)

    run(story, PATIENT)


def test_loss_of_the_batches_connection_is_no_loss_of_unsynced_adds() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        await batch_of(client, 0, 10)
        server.connections[1].close()
        await lost(client, 1)
        assert client.losses == 0

    run(story, PATIENT)


def test_setting_turns_them_off() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        assert not client.reads_batches

    run(story, BookieClientConfig(batch_reads=False))


def test_both_connections_are_closed_when_idle_and_at_the_end() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await added(client)
        server.bookie.hold()
        waiting = ask(client, BATCH)
        await held(server, 1)
        assert not client.disconnect_if_idle(), "an answer is owed"
        server.bookie.release()
        assert (await waiting).status is StatusCode.EOK
        assert client.disconnect_if_idle()
        await lost(client, 2)
        assert await batch_of(client, 0, 10) == 3
        server.bookie.hold()
        waiting = ask(client, BATCH)
        await held(server, 1)
        await client.close()
        assert (await waiting).status is StatusCode.LOCAL_UNAVAILABLE
        assert (await ask(client, BATCH)).status is StatusCode.LOCAL_UNAVAILABLE
        server.bookie.release()

    run(story, PATIENT)


def test_close_that_is_cancelled_leaves_nobody_waiting() -> None:
    async def story(server: TcpBookie, _: TcpBookieClient) -> None:
        ports = [server.port]

        async def resolve() -> tuple[str, int]:
            if not ports:
                await asyncio.Event().wait()  # the second connection hangs
            return "127.0.0.1", ports.pop()

        client = TcpBookieClient(BookieId("b1"), resolve, PATIENT)
        await added(client)
        server.bookie.hold()
        waiting = [ask(client, ReadRequest(L7, 0)), ask(client, BATCH)]
        await held(server, 1)
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        async with asyncio.timeout(10):
            assert {(await answer).status for answer in waiting} == {StatusCode.LOCAL_UNAVAILABLE}
        server.bookie.release()

    run(story, PATIENT)
