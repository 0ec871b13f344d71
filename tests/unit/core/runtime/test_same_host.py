"""Which connections are not paced: those of one host, wherever the system allows it."""

import asyncio
import socket
import sys

import pytest

from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.net import FrameChannel
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.same_host import UNPACED
from tests.unit.core.runtime.test_net import FakeTransport, Recorder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such option")
HERE = ("10.0.0.1", 9092)


class Socket:
    """Remembers its options; `allows` none if the system does not."""

    def __init__(self, *, allows: bool = True) -> None:
        self.options: list[tuple[int, int, bytes]] = []
        self._allows = allows

    def setsockopt(self, level: int, name: int, value: bytes) -> None:
        if not self._allows:
            raise PermissionError(1, "Operation not permitted")
        self.options.append((level, name, value))


class Transport(FakeTransport):
    def __init__(self, **info: object) -> None:
        super().__init__()
        self._info = info

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._info.get(name, default)


def opened(transport: Transport) -> bool:
    """Tell whether a channel over this transport opened."""

    async def story() -> bool:
        user = Recorder()
        channel = FrameChannel(user, FrameLimits(), Budget("bytes", 1), ReceiveBuffer(16))
        channel.connection_made(transport)
        return user.channel is channel

    return asyncio.run(story())


def test_a_peer_on_this_host_is_not_paced() -> None:
    sock = Socket()
    assert opened(Transport(peername=("10.0.0.1", 5), sockname=HERE, socket=sock))
    assert sock.options == [(socket.IPPROTO_TCP, socket.TCP_CONGESTION, UNPACED)]


@pytest.mark.parametrize("peer", [("10.0.0.2", 5), None, ""])
def test_others_are_left_to_the_system(peer: object) -> None:
    sock = Socket()
    assert opened(Transport(peername=peer, sockname=HERE, socket=sock))
    assert sock.options == []


def test_a_connection_opens_where_the_system_does_not_allow_it() -> None:
    assert opened(Transport(peername=HERE, sockname=HERE, socket=Socket(allows=False)))


def test_a_transport_without_a_socket_opens() -> None:
    assert opened(Transport(peername=HERE, sockname=HERE))


def test_the_system_takes_the_name() -> None:
    async def story() -> bytes:
        user = Recorder()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            transport, _ = await loop.create_connection(
                lambda: FrameChannel(user, FrameLimits(), Budget("bytes", 1), ReceiveBuffer(16)),
                "127.0.0.1",
                port,
            )
            found = transport.get_extra_info("socket").getsockopt(
                socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16
            )
            transport.close()
        return bytes(found).rstrip(b"\0")

    assert asyncio.run(story()) == UNPACED
