"""The TCP client against a bookie that a test can spoil: frames in, frames out, on 127.0.0.1."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
import uvloop

from tailrace.core.errors import BookieUnavailable
from tailrace.core.ledger.bookie_client import (
    BookieClient,
    UnreachableBookie,
    ask,
    ask_all,
)
from tailrace.core.ledger.bookie_registry import LocalBookies, RegisteredBookies
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.core.metadata.bookie_service_info import encode_service_info, rpc_service_info
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.bookkeeper import v2_answers, v2_requests
from tailrace.protocol.bookkeeper.codec import decode_request, encode_response
from tailrace.protocol.bookkeeper.messages import (
    ErrorResponse,
    OperationType,
    ReadRequest,
    Response,
    StatusCode,
)
from tailrace.protocol.ids import BookieId, Buffer, LedgerId
from tests.unit.core.ledger.bookie_contract import BookieContract, add_request
from tests.unit.core.ledger.fake_bookie import FakeBookie

QUICK = BookieClientConfig(request_timeout_ms=100, connect_timeout_ms=1000)


class TcpBookie:
    """A fake bookie behind a socket."""

    def __init__(self, bookie: FakeBookie | None = None) -> None:
        self.bookie = bookie or FakeBookie("b1")
        self.port = 0
        self.reads_batches = True
        """Else it ends a connection at a batch read, as bookies before 4.17."""
        self.connections: list[asyncio.StreamWriter] = []
        self.accepted = 0
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        for writer in self.connections:
            writer.close()
        self.connections.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        self.accepted += 1
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                self._submit(memoryview(await reader.readexactly(size)), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _submit(self, frame: memoryview, writer: asyncio.StreamWriter) -> None:
        is_v2 = v2_requests.is_v2(frame)
        if is_v2 and not self.reads_batches:
            raise ConnectionError("an opcode that it does not know")
        encode: Callable[[Response], list[Buffer]]
        if is_v2:
            origin, request = v2_requests.decode_request(frame)
            encode = partial(v2_answers.encode_response, origin)
        else:
            txn_id, request = decode_request(frame)
            encode = partial(encode_response, txn_id)

        def reply(response: Response) -> None:
            if not writer.is_closing():
                writer.writelines(encode(response))

        self.bookie.submit(request, reply)


class TestTcpBookieClient(BookieContract):
    async def open_client(self) -> BookieClient:
        self.server = TcpBookie()
        await self.server.start()
        return client_of(self.server, BookieClientConfig())

    async def close_client(self, client: BookieClient) -> None:
        await client.close()
        await self.server.stop()


def client_of(server: TcpBookie, config: BookieClientConfig = QUICK) -> TcpBookieClient:
    async def resolve() -> tuple[str, int]:
        return "127.0.0.1", server.port

    return TcpBookieClient(BookieId("b1"), resolve, config)


def run(
    story: Callable[[TcpBookie, TcpBookieClient], Coroutine[Any, Any, None]],
    config: BookieClientConfig = QUICK,
) -> None:
    async def main() -> None:
        server = TcpBookie()
        await server.start()
        client = client_of(server, config)
        try:
            async with asyncio.timeout(30):
                await story(server, client)
        finally:
            await client.close()
            await server.stop()

    asyncio.run(main(), debug=True)


def test_it_works_on_the_loop_that_our_processes_run() -> None:
    """uvloop keeps buffer limits in 32 bits; a larger one left the connection without an owner."""

    async def main() -> None:
        server = TcpBookie()
        await server.start()
        client = client_of(server)
        answers = [ask(client, add_request(i)) for i in range(3)]
        async with asyncio.timeout(10):
            assert [(await answer).status for answer in answers] == [StatusCode.EOK] * 3
        await client.close()
        await server.stop()

    uvloop.run(main())


def test_requests_before_the_connection_keep_their_order() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        answers = [ask(client, add_request(i)) for i in range(5)]
        for answer in answers:
            assert (await answer).status is StatusCode.EOK
        asked = [request.entry_id for request in server.bookie.requests]  # type: ignore[union-attr]
        assert asked == [0, 1, 2, 3, 4]
        assert server.accepted == 1

    run(story)


def test_request_made_when_a_connection_fails_begins_another() -> None:
    """Who hears of the failure may ask again at once; nobody else would connect for him."""

    async def story(server: TcpBookie, _: TcpBookieClient) -> None:
        ports = [1, server.port]

        async def resolve() -> tuple[str, int]:
            return "127.0.0.1", ports.pop(0)

        client = TcpBookieClient(BookieId("b1"), resolve, BookieClientConfig())
        answers: asyncio.Queue[Response] = asyncio.Queue()

        def again(response: Response) -> None:
            answers.put_nowait(response)
            client.submit(add_request(1), answers.put_nowait)

        client.submit(add_request(0), again)
        statuses = [(await answers.get()).status for _ in range(2)]
        await client.close()
        assert statuses == [StatusCode.LOCAL_UNAVAILABLE, StatusCode.EOK]

    run(story)


def test_reply_that_raises_costs_nobody_else_his_time_out() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        heard: list[object] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
        server.bookie.hold()

        def broken(_: Response) -> None:
            raise ValueError("a bug of its owner")

        client.submit(add_request(0), broken)
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*(ask(client, add_request(i)) for i in (1, 2)))
        assert {answer.status for answer in answers} == {StatusCode.LOCAL_TIMEOUT}
        assert [type(error) for error in heard] == [ValueError]

    run(story)


def test_lost_connection_fails_what_is_outstanding_and_the_next_request_connects_again() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await ask(client, add_request(0))
        assert client.losses == 0
        server.bookie.hold()
        lost = [ask(client, add_request(i)) for i in (1, 2)]
        while server.bookie.held_count < 2:  # noqa: ASYNC110 - the fake tells nobody
            await asyncio.sleep(0)
        server.cut()
        for answer in lost:
            assert (await answer).status is StatusCode.LOCAL_UNAVAILABLE
        server.bookie.release()
        assert (await ask(client, add_request(3))).status is StatusCode.EOK
        assert (server.accepted, client.losses) == (2, 1)

    run(story)


def test_silent_bookie_times_out_and_a_late_answer_is_dropped() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        # Once it is connected, the request reaches the bookie however slow this machine is.
        assert (await ask(client, add_request(0))).status is StatusCode.EOK
        server.bookie.hold()
        response = await ask(client, add_request(1))
        assert response == ErrorResponse(StatusCode.LOCAL_TIMEOUT, OperationType.ADD_ENTRY)
        server.bookie.release()
        assert (await ask(client, ReadRequest(LedgerId(7), 1))).status is StatusCode.EOK
        assert server.accepted == 1

    run(story, BookieClientConfig(request_timeout_ms=1000))


def test_nobody_listens() -> None:
    async def main() -> None:
        server = TcpBookie()
        await server.start()
        await server.stop()
        client = client_of(server, BookieClientConfig())
        for _ in range(2):
            response = await ask(client, add_request(0))
            assert response.status is StatusCode.LOCAL_UNAVAILABLE
        await server.start(server.port)
        assert (await ask(client, add_request(0))).status is StatusCode.EOK
        await client.close()
        await server.stop()

    asyncio.run(main(), debug=True)


def test_a_bookie_that_stays_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """An open ledger that lacks a member asks for it with each entry: that is no line each."""

    def told() -> int:
        return sum("bookie_unreachable" in each.message for each in caplog.records)

    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        for times in (1, 2):
            await server.stop()
            for _ in range(20):
                assert (await ask(client, add_request(0))).status is StatusCode.LOCAL_UNAVAILABLE
            assert told() == times
            await server.start(server.port)
            assert (await ask(client, add_request(0))).status is StatusCode.EOK

    with caplog.at_level(logging.INFO):
        run(story)


def test_unregistered_bookie_is_unavailable() -> None:
    async def main() -> None:
        async def resolve() -> tuple[str, int]:
            raise BookieUnavailable("not registered")

        client = TcpBookieClient(BookieId("b1"), resolve, QUICK)
        assert (await ask(client, add_request(0))).status is StatusCode.LOCAL_UNAVAILABLE
        await client.close()

    asyncio.run(main(), debug=True)


def test_slow_address_lookup_ends_with_the_connect_timeout() -> None:
    async def main() -> None:
        async def resolve() -> tuple[str, int]:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

        config = BookieClientConfig(connect_timeout_ms=20)
        client = TcpBookieClient(BookieId("b1"), resolve, config)
        assert (await ask(client, add_request(0))).status is StatusCode.LOCAL_UNAVAILABLE
        await client.close()

    asyncio.run(main(), debug=True)


def test_too_many_outstanding_requests_fail_at_once() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        server.bookie.hold()
        first = [ask(client, add_request(i)) for i in range(3)]
        assert (await ask(client, add_request(3))).status is StatusCode.ETOOMANYREQUESTS
        server.bookie.release()
        for answer in first:
            assert (await answer).status is StatusCode.EOK
        assert (await ask(client, add_request(3))).status is StatusCode.EOK

    run(story, BookieClientConfig(outstanding_requests_max=3))


def test_bookie_that_does_not_read_is_not_fed_without_end() -> None:
    async def main() -> None:
        async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await stop.wait()
            writer.close()

        stop = asyncio.Event()
        server = await asyncio.start_server(swallow, "127.0.0.1", 0, limit=1)
        deaf = TcpBookie()
        deaf.port = server.sockets[0].getsockname()[1]
        config = BookieClientConfig(unsent_bytes_max=1024 * 1024, request_timeout_ms=300)
        client = client_of(deaf, config)
        payload = bytes(1024 * 1024)
        statuses = set()
        answers = []
        for i in range(40):
            answers.append(ask(client, add_request(i, payload)))
            await asyncio.sleep(0)
            while client._channel is None:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
        for answer in answers:
            statuses.add((await answer).status)
        assert statuses == {StatusCode.ETOOMANYREQUESTS, StatusCode.LOCAL_TIMEOUT}
        stop.set()
        await client.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x05hello", b"\0\0\0\0"]
)
def test_garbage_ends_the_connection_and_nothing_hangs(garbage: bytes) -> None:
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(garbage)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        spoiled = TcpBookie()
        spoiled.port = port
        client = client_of(spoiled, BookieClientConfig())
        for _ in range(2):
            response = await ask(client, add_request(0))
            assert response.status is StatusCode.LOCAL_UNAVAILABLE
        await client.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main(), debug=True)


def test_close_fails_what_is_outstanding_and_what_comes_later() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        await ask(client, add_request(0))
        server.bookie.hold()
        pending = ask(client, add_request(1))
        await client.close()
        await client.close()
        assert (await pending).status is StatusCode.LOCAL_UNAVAILABLE
        assert (await ask(client, add_request(2))).status is StatusCode.LOCAL_UNAVAILABLE

    run(story)


def test_close_while_connecting() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        pending = ask(client, add_request(0))
        await client.close()
        assert (await pending).status is StatusCode.LOCAL_UNAVAILABLE

    run(story)


def test_cancelled_ask_drops_its_answer() -> None:
    async def story(server: TcpBookie, client: TcpBookieClient) -> None:
        ask(client, add_request(0)).cancel()
        assert (await ask(client, ReadRequest(LedgerId(7), 0))).status is StatusCode.EOK

    run(story)


def test_ask_all_answers_once_for_each() -> None:
    async def main() -> None:
        bookies = [FakeBookie("b1"), UnreachableBookie(BookieId("b2"))]
        answers = ask_all(bookies, add_request(0))
        got = dict([await answers.get() for _ in bookies])
        assert {bookie: response.status for bookie, response in got.items()} == {
            "b1": StatusCode.EOK,
            "b2": StatusCode.LOCAL_UNAVAILABLE,
        }

    asyncio.run(main(), debug=True)


def test_local_bookies() -> None:
    async def main() -> None:
        fakes = [FakeBookie("b2"), FakeBookie("b1")]
        bookies = LocalBookies(fakes)
        assert await bookies.available() == await bookies.registered() == ["b1", "b2"]
        full = LocalBookies(fakes, lambda bookie: bookie != "b1")
        assert (await full.available(), await full.registered()) == (["b2"], ["b1", "b2"])
        assert bookies.client(BookieId("b2")) is fakes[0]
        assert isinstance(bookies.client(BookieId("b9")), UnreachableBookie)
        await bookies.close()
        assert all(fake.closed for fake in fakes)

    asyncio.run(main(), debug=True)


def test_registered_bookies_are_found_where_they_say(tmp_path: Any) -> None:
    async def main() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        await initialize_layout(store)
        server = TcpBookie()
        await server.start()
        writable, read_only, lost = BookieId("b1"), BookieId("b2"), BookieId("b3")
        door = encode_service_info(rpc_service_info("127.0.0.1", server.port))
        await store.create(f"/ledgers/available/{writable}", door, ephemeral=True)
        await store.create(f"/ledgers/available/readonly/{read_only}", door, ephemeral=True)
        bookies = RegisteredBookies(store, QUICK)
        assert await bookies.available() == [writable]
        assert await bookies.registered() == [writable, read_only]
        assert bookies.client(writable) is bookies.client(writable)
        statuses = [
            (await ask(bookies.client(bookie), add_request(0))).status
            for bookie in (writable, read_only, lost)
        ]
        assert statuses == [StatusCode.EOK, StatusCode.EOK, StatusCode.LOCAL_UNAVAILABLE]
        await bookies.close()
        await server.stop()
        await store.close()

    asyncio.run(main(), debug=True)
