"""What a transport does, told as stories that run over real sockets and over the simulated ones.

A test class inherits and gives `run`, which runs a story on the loop under test.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from typing_extensions import override

HOST = "127.0.0.1"
BIG = 8 * 1024 * 1024


class Ear(asyncio.Protocol):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.data = bytearray()
        self.transport: Any = None
        self._changed = asyncio.Event()

    @override
    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._note("made")

    @override
    def data_received(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    @override
    def eof_received(self) -> bool:
        self._note("eof")
        return False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._note(("lost", type(exc)))

    @override
    def pause_writing(self) -> None:
        self._note("pause")

    @override
    def resume_writing(self) -> None:
        self._note("resume")

    def _note(self, what: Any) -> None:
        self.log.append(what)
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def lost(self) -> Any:
        await self.until(lambda: isinstance(self.log[-1], tuple))
        return self.log[-1][1]


class BufferedEar(asyncio.BufferedProtocol):
    """Receives into a buffer of seven bytes."""

    def __init__(self, until: int) -> None:
        self.data = bytearray()
        self.done = asyncio.get_running_loop().create_future()
        self._until = until
        self._buffer = bytearray(7)

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]
        if len(self.data) == self._until:
            self.done.set_result(None)


Story = Callable[[Ear, Ear], Awaitable[None]]


class TransportContract:
    def run(self, story: Coroutine[Any, Any, None]) -> None:
        raise AssertionError("the test class gives this")

    def run_pair(self, story: Story) -> None:
        """Run a story with (client, server) connected."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            accepted: asyncio.Queue[Ear] = asyncio.Queue(1)

            def accept() -> Ear:
                ear = Ear()
                accepted.put_nowait(ear)
                return ear

            server = await loop.create_server(accept, HOST, 0)
            port = server.sockets[0].getsockname()[1]
            _, client = await loop.create_connection(Ear, HOST, port)
            assert client.log == ["made"]
            async with asyncio.timeout(20):
                other = await accepted.get()
            await other.until(lambda: bool(other.log))
            await story(client, other)
            for ear in (client, other):
                if not isinstance(ear.log[-1], tuple):
                    ear.transport.abort()
                await ear.lost()
            server.close()
            await server.wait_closed()

        self.run(main())

    def test_bytes_arrive_whole_and_in_order_both_ways(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            for number in range(500):
                client.transport.write(b"%d," % number)
                server.transport.writelines([b"%d" % number, b";"])
            wanted = b"".join(b"%d," % n for n in range(500))
            await server.until(lambda: len(server.data) == len(wanted))
            assert server.data == wanted
            wanted = wanted.replace(b",", b";")
            await client.until(lambda: len(client.data) == len(wanted))
            assert client.data == wanted

        self.run_pair(story)

    def test_names_of_both_ends(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            names = [client.transport.get_extra_info(n) for n in ("sockname", "peername")]
            assert names[::-1] == [
                server.transport.get_extra_info(n) for n in ("sockname", "peername")
            ]
            assert names[1][0] == HOST
            assert client.transport.get_extra_info("nothing", 3) == 3

        self.run_pair(story)

    def test_writer_is_paused_above_high_and_resumed_at_low(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            transport = client.transport
            transport.set_write_buffer_limits(high=100_000, low=1_000)
            assert transport.get_write_buffer_limits() == (1_000, 100_000)
            server.transport.pause_reading()
            transport.write(bytes(BIG))
            assert client.log == ["made", "pause"]  # told before write returned
            assert transport.get_write_buffer_size() > 100_000
            transport.write(b"more")
            assert client.log == ["made", "pause"]
            server.transport.resume_reading()
            await client.until(lambda: client.log[-1] == "resume")
            assert transport.get_write_buffer_size() <= 1_000
            await server.until(lambda: len(server.data) == BIG + 4)

        self.run_pair(story)

    def test_paused_reader_gets_nothing_until_it_resumes(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            server.transport.pause_reading()
            server.transport.pause_reading()
            assert not server.transport.is_reading()
            client.transport.write(b"one")
            server.transport.write(b"two")
            await client.until(lambda: client.data == b"two")
            for _ in range(20):
                await asyncio.sleep(0)
            assert server.data == b""
            server.transport.resume_reading()
            assert server.transport.is_reading()
            await server.until(lambda: server.data == b"one")

        self.run_pair(story)

    def test_close_sends_what_was_written_and_tells_both_sides_in_order(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            client.transport.write(bytes(BIG))
            client.transport.close()
            client.transport.close()
            assert client.transport.is_closing()
            assert client.log[-1] != ("lost", type(None))  # never inside the call
            assert await client.lost() is type(None)
            assert await server.lost() is type(None)
            assert len(server.data) == BIG
            assert server.log == ["made", "eof", ("lost", type(None))]

        self.run_pair(story)

    def test_nothing_is_received_after_close(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            client.transport.close()
            server.transport.write(b"too late")
            await client.lost()
            await server.lost()
            assert client.data == b""

        self.run_pair(story)

    def test_abort_drops_what_is_unsent(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            server.transport.pause_reading()
            client.transport.write(bytes(BIG))
            client.transport.abort()
            client.transport.abort()
            assert client.transport.get_write_buffer_size() == 0
            assert await client.lost() is type(None)
            server.transport.resume_reading()
            await server.lost()
            assert len(server.data) < BIG

        self.run_pair(story)

    def test_writes_after_the_end_are_ignored(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            client.transport.abort()
            client.transport.write(b"x")
            await client.lost()
            client.transport.write(b"x")
            client.transport.close()
            await server.lost()
            await asyncio.sleep(0.001)
            assert client.log.count(("lost", type(None))) == 1

        self.run_pair(story)

    def test_closing_with_unread_bytes_resets_the_peer(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            server.transport.pause_reading()
            client.transport.write(b"unread")
            server.transport.write(b"ready")
            await client.until(lambda: client.data == b"ready")
            for _ in range(20):
                await asyncio.sleep(0.001)
            server.transport.close()
            assert await client.lost() is ConnectionResetError

        self.run_pair(story)

    def test_protocol_that_raises_loses_its_connection(self) -> None:
        async def story(client: Ear, server: Ear) -> None:
            heard: list[Any] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))

            def fail(data: bytes) -> None:
                raise ZeroDivisionError

            server.data_received = fail  # type: ignore[method-assign]
            client.transport.write(b"x")
            assert await server.lost() is ZeroDivisionError
            assert [type(error) for error in heard] == [ZeroDivisionError]
            await client.lost()

        self.run_pair(story)

    def test_buffered_protocol_is_given_its_own_buffer(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            ears: list[BufferedEar] = []

            def accept() -> BufferedEar:
                ears.append(BufferedEar(100))
                return ears[-1]

            server = await loop.create_server(accept, HOST, 0)
            transport, ear = await loop.create_connection(
                Ear, HOST, server.sockets[0].getsockname()[1]
            )
            transport.write(bytes(range(100)))
            async with asyncio.timeout(20):
                while not ears:  # noqa: ASYNC110 - nobody tells of an accept
                    await asyncio.sleep(0.001)
                await ears[0].done
            assert ears[0].data == bytes(range(100))
            transport.abort()
            await ear.lost()
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0.01)

        self.run(main())

    def test_nobody_listens_any_more(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(Ear, HOST, 0)
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(OSError, match="use"):
                await loop.create_server(Ear, HOST, port)
            server.close()
            await server.wait_closed()
            with pytest.raises(ConnectionRefusedError):
                await loop.create_connection(Ear, HOST, port)

        self.run(main())
