"""How calls travel between thin clients and proxies: a `Transport` in place of gRPC.

Each call has two directions. Messages keep their order and none is lost from the middle, as in one
HTTP/2 stream: a blocked way holds them back, a broken connection ends the call on both sides, on
the proxy's side perhaps later. So a request may arrive and its answer not, and a request may arrive
when its client has given it up long ago.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import Any, Final, Protocol

from google.protobuf.message import Message
from typing_extensions import override

from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import Call, CallFailed, encoded
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.service.invalid import InvalidRequest
from tailrace.simulation.process import SimProcess
from tailrace.simulation.world import World

WINDOW: Final = 4
"""Messages on their way, or not taken yet, in one direction of a call; then the sender waits."""
SILENCE_S: Final = 15.0
"""Until a client hears that a host is gone whose power went, by `keepalive.ms`."""
_POLL_S: Final = 0.05
_NO_PROCESS: Final = contextvars.Context()
"""Of what happens on the way."""


class _Mark:
    """What is on the way beside messages."""

    def __init__(self, trouble: Trouble | None = None, text: str = "") -> None:
        self.trouble = trouble
        self.text = text


BEGIN: Final = _Mark()
END: Final = _Mark()
CANCEL: Final = _Mark()


class Ears(Protocol):
    """What hears of each message that a proxy takes, and of each that it answers with."""

    def on_request(self, door: "Door", call: int, method: Method, request: Message) -> None:
        """Hear of a request when its proxy takes it."""

    def on_response(self, door: "Door", call: "SimCall", method: Method, response: Message) -> None:
        """Hear of an answer when its proxy gives it."""


class Door:
    """Where one process of a proxy listens."""

    def __init__(self, process: SimProcess, host: Host, services: dict[str, object]) -> None:
        """`services`: by the names that the methods' paths have."""
        self.process = process
        self.host = host
        self.services = services

    def serves(self, method: Method) -> Any:
        """Return the service's own method; None: it is not served here."""
        return getattr(self.services.get(method.path.split("/")[1]), method.name, None)


class Wire:
    """All calls of one world."""

    def __init__(self, world: World, ears: Ears) -> None:
        self.world = world
        self.ears = ears
        self.doors: dict[Host, Door] = {}
        self.calls: dict[int, SimCall] = {}
        """That are not over on their clients' side."""
        self.broken_share = 0.0
        """How many calls' connections break."""
        self.rng = Random(f"{world.seed}/wire")
        self.response_window = self.rng.choice((1, WINDOW))
        """As `WINDOW`, of answers."""
        self._last_call = 0

    def open_door(self, door: Door) -> None:
        """Let calls come in, until the process ends or `close_door`."""
        self.doors[door.host] = door
        door.process.on_death.append(lambda: self.close_door(door))

    def close_door(self, door: Door) -> None:
        """Let none come in any more. Calls end when the process does."""
        if self.doors.get(door.host) is door:
            del self.doors[door.host]

    def died(self, door: Door, *, power: bool) -> None:
        """End the calls of a process that is dead: its kernel says so, or nothing does."""
        for call in list(self.calls.values()):
            if call.door is door:
                delay_s = SILENCE_S if power else self.world.network.delay_s(*call.way_back)
                self.later(delay_s, call.fail, Trouble.BROKEN, "the proxy died")

    def reset(self, share: float) -> None:
        """Break some of the calls' connections now."""
        for call in list(self.calls.values()):
            if self.rng.random() < share:
                call.break_off()

    def number(self) -> int:
        self._last_call += 1
        return self._last_call

    def later(self, delay_s: float, function: Any, *args: Any) -> None:
        """Have something happen on the way: it belongs to no process."""
        self.world.loop.call_later(delay_s, function, *args, context=_NO_PROCESS)


class _Pipe:
    """One direction of a call. Messages arrive in their order, when the way is free."""

    def __init__(self, wire: Wire, source: str, target: str, window: int = WINDOW) -> None:
        self._wire = wire
        self._window = window
        self._source, self._target = source, target
        self._way: deque[tuple[float, Any]] = deque()
        self._arrived: deque[Any] = deque()
        self._last_s = 0.0
        self._is_pumped = False
        self._waiters: list[asyncio.Future[None]] = []
        self.is_cut = False

    def put(self, item: Any) -> None:
        """Send: it arrives, unless the pipe is cut before."""
        loop, network = self._wire.world.loop, self._wire.world.network
        delay_s = network.delay_s(self._source, self._target)
        self._last_s = max(self._last_s + 1e-9, loop.time() + delay_s)
        self._way.append((self._last_s, item))
        if not self._is_pumped:
            self._is_pumped = True
            self._wire.later(delay_s, self._pump)

    @property
    def size(self) -> int:
        return len(self._way) + len(self._arrived)

    async def wait_for_room(self) -> None:
        while self.size >= self._window and not self.is_cut:
            await self._wait()

    async def get(self) -> Any:
        """Return what arrives next."""
        while not self._arrived:
            await self._wait()
        item = self._arrived.popleft()
        self._wake()
        return item

    def cut(self, last: Any = None) -> None:
        """Let nothing arrive any more, but `last`."""
        self.is_cut = True
        self._way.clear()
        if last is not None:
            self._arrived.append(last)
        self._wake()

    def _pump(self) -> None:
        now_s, network = self._wire.world.loop.time(), self._wire.world.network
        is_free = network.passes(self._source, self._target)
        while self._way and is_free and self._way[0][0] <= now_s:
            self._arrive(self._way.popleft()[1])
        self._is_pumped = bool(self._way)
        if self._way:
            self._wire.later(max(self._way[0][0] - now_s, 1e-6 if is_free else _POLL_S), self._pump)

    def _arrive(self, item: Any) -> None:
        self._arrived.append(item)
        self._wake()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class _Requests(_Pipe):
    """The direction to the proxy: what begins and ends its handler comes in order, too."""

    call: "SimCall"

    @override
    def _arrive(self, item: Any) -> None:
        if item is BEGIN:
            self.call.begin()
        elif item is CANCEL:
            self.call.end_handler()
        else:
            super()._arrive(item)


class SimCall(Call):
    """One call, as its client sees it."""

    def __init__(self, wire: Wire, source: SimProcess, door: Door, method: Method) -> None:
        self.number = wire.number()
        self.door = door
        self.way_back = (door.host.name, source.host)
        self.source = source
        self._wire = wire
        self._method = method
        self._requests = _Requests(wire, source.host, door.host.name)
        self._requests.call = self
        self._responses = _Pipe(wire, door.host.name, source.host, wire.response_window)
        self._handler: asyncio.Task[None] | None = None
        self._is_over = False
        wire.calls[self.number] = self
        wire.world.trace(source.name, "call", f"{self.number} {method.name} {door.process.name}")
        self._requests.put(BEGIN)
        if wire.rng.random() < wire.broken_share:
            wire.later(wire.rng.choice((0.001, 0.02, 1.0)) * wire.rng.random(), self.break_off)

    # The client's side

    @override
    async def send(self, message: Message | bytes) -> None:
        await self._requests.wait_for_room()
        if self._is_over or self._requests.is_cut:
            raise CallFailed(Trouble.BROKEN, "the call is over")
        self._requests.put(encoded(message))

    @override
    async def done_sending(self) -> None:
        if not self._is_over:
            self._requests.put(END)

    @override
    async def receive(self) -> Message | None:
        item = await self._responses.get()
        if isinstance(item, _Mark):
            self._end()
            if item.trouble is not None:
                self._wire.world.trace(
                    self.source.name, "call failed", f"{self.number} {item.text}"
                )
                raise CallFailed(item.trouble, item.text)
            return None
        return self._method.response.FromString(item)

    @property
    def unread(self) -> int:
        """How many messages are on their way to the proxy, or not taken yet."""
        return self._requests.size

    @override
    def cancel(self) -> None:
        if not self._is_over:
            self._end()
            rng = self._wire.rng
            if rng.random() < 0.3:  # it is lost, and comes with a retransmission
                self._wire.later(rng.choice((0.1, 3.0)) * rng.random(), self._requests.put, CANCEL)
            else:
                self._requests.put(CANCEL)

    def _end(self) -> None:
        self._is_over = True
        self._wire.calls.pop(self.number, None)

    # On the way

    def fail(self, trouble: Trouble, text: str) -> None:
        """Tell the client that the call is over."""
        if not self._is_over:
            self._responses.cut(_Mark(trouble, text))
            self._requests.cut()

    def break_off(self) -> None:
        """Break the connection: the client hears of it now, the proxy perhaps later."""
        if self._is_over:
            return
        rng = self._wire.rng
        self._wire.world.trace(self.source.name, "fault.broken", self.number)
        self._responses.cut(_Mark(Trouble.BROKEN, "the connection broke"))
        if rng.random() < 0.5:
            self._requests.cut()
        self._wire.later(rng.choice((0.0, 0.01, 3.0)) * rng.random(), self.end_handler)

    # The proxy's side

    def begin(self) -> None:
        """Have the proxy serve the call."""
        if self.door.process.alive and self._wire.doors.get(self.door.host) is self.door:
            self._handler = self.door.process.spawn(self._serve(), f"call {self.number}")
        else:
            self.fail(Trouble.BROKEN, "the connection was closed")

    def end_handler(self) -> None:
        """Have the proxy hear that its client is gone."""
        self._responses.cut()
        if self._handler is not None and self.door.process.alive:
            self._handler.cancel()

    async def _serve(self) -> None:
        serve = self.door.serves(self._method)
        last = _Mark()
        if serve is None:
            last = _Mark(Trouble.NOT_SERVED, "it is not served here")
        else:
            try:
                await self._answer(serve)
            except InvalidRequest as error:
                last = _Mark(Trouble.REFUSED, str(error))
            except Exception as error:  # noqa: BLE001 - what gRPC's server answers with INTERNAL
                self._wire.world.checker.fail(f"{self._method.name} raised {error!r}")
                last = _Mark(Trouble.BROKEN, "the proxy failed")
        self._responses.put(last)

    async def _answer(self, serve: Any) -> None:
        async with aclosing(self._each_request()) as requests:
            if self._method.is_request_stream:
                await self._respond_all(serve(requests))
                return
            request = await anext(requests, None)
            if request is None:
                return
            if self._method.is_response_stream:
                await self._respond_all(serve(request))
            else:
                await self._respond(await serve(request))

    async def _respond_all(self, responses: Any) -> None:
        async with aclosing(responses):
            async for response in responses:
                await self._respond(response)

    async def _each_request(self) -> AsyncGenerator[Message, None]:
        while (item := await self._requests.get()) is not END:
            request = self._method.request.FromString(item)
            self._wire.ears.on_request(self.door, self.number, self._method, request)
            yield request

    async def _respond(self, response: Message | bytes) -> None:
        data = response if isinstance(response, bytes) else response.SerializeToString()
        heard = self._method.response.FromString(data)
        self._wire.ears.on_response(self.door, self, self._method, heard)
        await self._responses.wait_for_room()
        if not self._responses.is_cut:
            self._responses.put(data)
