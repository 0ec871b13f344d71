"""The connections of a thin client's process, in the place of gRPC's channels."""

import asyncio
from typing import Final

from google.protobuf.message import Message
from typing_extensions import override

from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import Call, CallFailed, Transport
from tailrace.proxy.routing.ring import Host
from tailrace.simulation.process import SimProcess, State
from tests.sim.proxies.wire import Door, SimCall, Wire

CONNECT_S: Final = 0.2
"""In which a connection is made, or is held for impossible (`connect.timeout.ms`)."""


class SimTransport(Transport):
    """The connections of one client's process."""

    def __init__(self, wire: Wire, process: SimProcess) -> None:
        self._wire = wire
        self._process = process
        self._connected: dict[Host, Door] = {}
        self._is_closed = False

    @override
    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Message:
        call = await self._begin(host, method)
        try:
            async with asyncio.timeout(timeout_s):
                await call.send(request)
                await call.done_sending()
                answer = await call.receive()
        except TimeoutError:
            raise CallFailed(Trouble.TIMED_OUT, f"no answer within {timeout_s} s") from None
        finally:
            call.cancel()
        if answer is None:
            raise CallFailed(Trouble.BROKEN, "there was no answer")
        return answer

    @override
    async def open(self, host: Host, method: Method) -> Call:
        return await self._begin(host, method)

    @override
    def forget(self, host: Host) -> None:
        self._connected.pop(host, None)

    @override
    async def close(self) -> None:
        self._is_closed = True
        self._connected.clear()
        for call in list(self._wire.calls.values()):
            if call.source is self._process:
                call.fail(Trouble.BROKEN, "the client closed its connections")

    async def _begin(self, host: Host, method: Method) -> SimCall:
        door = self._connected.get(host)
        if door is None or not door.process.alive:
            self._connected.pop(host, None)
            door = self._connected[host] = await self._connect(host)
        return SimCall(self._wire, self._process, door, method)

    async def _connect(self, host: Host) -> Door:
        """Return the door of a host. A process that is paused makes no connection."""
        network, here = self._wire.world.network, self._process.host
        await asyncio.sleep(network.delay_s(here, host.name))
        passes = network.passes(here, host.name) and network.passes(host.name, here)
        door = self._wire.doors.get(host)
        if self._is_closed:
            raise CallFailed(Trouble.BROKEN, "the client is closed")
        if passes and door is not None and door.process.state is State.RUNNING:
            await asyncio.sleep(network.delay_s(host.name, here))
            return door
        self._wire.world.trace(self._process.name, "not connected", f"{host.name}:{host.port}")
        if not passes or door is not None:
            await asyncio.sleep(CONNECT_S)
        raise CallFailed(Trouble.NOT_CONNECTED, "no connection could be made")
