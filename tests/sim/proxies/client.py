"""Thin clients in the simulated cluster: the client's own machinery over simulated calls."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.protocol.distributedlog.dlsn import DLSN, INVALID
from tailrace.proxy.client.client import ClientRoutes, ProxyClient
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import ProxyError
from tailrace.proxy.client.messages import dlsn_of
from tailrace.proxy.client.routes import Routes, Source
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.members import MemberWatch
from tailrace.proxy.routing.ring import Host
from tailrace.simulation.machine import SimClock
from tailrace.simulation.process import SimProcess
from tests.sim.proxies.checker import StreamModel
from tests.sim.proxies.server import PORT, READ_SET, WRITE_SET
from tests.sim.proxies.transport import SimTransport

if TYPE_CHECKING:
    from tailrace.proxy.client.stream_writer import StreamWriter
    from tests.sim.proxies.world import ProxyWorld

_BUFFER_BYTES: Final = 100_000
LARGE_BYTES: Final = 5_000
"""Of a record that some streams refuse (`schedule.py`)."""


class ThinProcess:
    """A process with a thin client, in the place of a `Client`."""

    def __init__(
        self,
        proxies: "ProxyWorld",
        number: int,
        *,
        finds_all: bool = False,
        config: ClientConfig | None = None,
    ) -> None:
        """`finds_all`: it follows the server sets; others may know addresses of the beginning.

        `config`: its settings, if they are not drawn.
        """
        self.name = f"t{number}"
        self.world = world = proxies.world
        self.wire = proxies.wire
        self.rng = Random(f"{world.seed}/{self.name}")
        self.process = SimProcess(self.name, f"10.0.3.{number}")
        self.clock = SimClock(world.loop)
        self.config = config or _draw_config(self.rng)
        self._is_fixed = self.rng.random() < 0.3 and not finds_all
        self.process.call(self._build, proxies)

    def _build(self, proxies: "ProxyWorld") -> None:
        sources = [Source(is_fixed=self._is_fixed)]
        self.client = client = ProxyClient(
            self.config,
            SimTransport(self.wire, self.process),
            self.clock,
            ClientRoutes(Routes(sources), Routes(sources)),
            lambda: self.rng.randbytes(16),
        )
        if self._is_fixed:  # nothing may be at some of these addresses
            for side, shards in (
                (client.writing, proxies.writing),
                (client.reading, proxies.reading),
            ):
                hosts = [Host(shard.first_address, PORT) for shard in shards]
                side.update(0, [Member(0, -1, host) for host in hosts])
        else:
            store = self.world.metadata.open()
            for side, path in ((client.writing, WRITE_SET), (client.reading, READ_SET)):
                MemberWatch(store, path, lambda found, side=side: side.update(0, found)).start()  # type: ignore[misc]
        if self.rng.random() < 0.5:
            client.start_handshakes()

    def kill(self, cause: str) -> None:
        """End the process; its calls end a little later, or when the proxies notice."""
        if self.process.alive:
            self.world.trace(self.name, "killed", cause)
            self.process.kill(cause)
            for call in list(self.wire.calls.values()):
                if call.source is self.process:
                    call.break_off()


def _draw_config(rng: Random) -> ClientConfig:
    return ClientConfig(
        idempotence=rng.random() < 0.5,
        request_timeout_ms=rng.choice((5_000, 20_000, 120_000)),
        rpc_timeout_ms=rng.choice((300, 1_000, 5_000)),
        batch_records=rng.choice((1, 3, 1_000)),
        batch_bytes=rng.choice((100, 256 * 1024)),
        in_flight_max=rng.choice((1, 4, 32)),
        writer_idle_ms=rng.choice((200, 60_000)),
        owners_max=rng.choice((1, 100_000)),
        buffer_bytes=rng.choice((1, _BUFFER_BYTES, _BUFFER_BYTES)),
        handshake_interval_ms=rng.choice((1_000, 300_000)),
        stream_failfast=rng.random() < 0.1,
        redirects_max=rng.choice((-1, -1, -1, 3)),
    )


class Writer:
    """One actor that writes numbered payloads to one stream, in one way, and tells the model."""

    def __init__(self, client: ThinProcess, model: StreamModel, name: str, rng: Random) -> None:
        self._client = client
        self._model = model
        self._name = name
        self._rng = rng
        self._number = 0

    async def run(self, is_over: Any) -> None:
        """Write until it is over."""
        rng = self._rng
        how = rng.choice((self._one, self._bulk, self._pipelined, self._pipelined, self._burst))
        think_s = rng.choice((0.02, 0.1, 0.5))
        while not is_over():
            await how()
            await asyncio.sleep(0.001 + think_s * 2 * rng.random())

    async def write_one(self) -> bool:
        """Write a record in one way; tell whether it was acknowledged."""
        return await self._await_submitted(await self._submit_all(1))

    def _payload(self, *sizes: int) -> bytes:
        self._number += 1
        size = self._rng.choice(sizes or (0, 20, 20, 300, LARGE_BYTES))
        head = b"%s:%d:" % (self._name.encode(), self._number)
        return (head * (size // len(head) + 1))[: max(size, len(head))]

    def _begin(self, *sizes: int) -> bytes:
        payload = self._payload(*sizes)
        is_numbered = self._client.config.idempotence
        self._model.on_submit(self._name, self._number, payload, is_numbered=is_numbered)
        return payload

    async def _one(self) -> None:
        payload = self._begin()
        try:
            dlsn = await self._client.client.write(self._model.name, payload)
        except ProxyError as error:
            self._failed(payload, error)
        else:
            self._written(payload, dlsn)

    async def _bulk(self) -> None:
        payloads = [self._begin() for _ in range(self._rng.randint(1, 5))]
        try:
            places = await self._client.client.write_bulk(self._model.name, payloads)
        except ProxyError as error:  # it is that of one of them
            self._client.world.trace(self._name, "bulk failed", f"{type(error).__name__}")
            return
        for payload, dlsn in zip(payloads, places, strict=True):
            self._written(payload, dlsn)

    async def _pipelined(self) -> None:
        await self._await_submitted(await self._submit_all(self._rng.choice((1, 3, 10))))

    async def _burst(self) -> None:
        """Write many small records with a large one among them, which some streams refuse."""
        begun = [*await self._submit_all(self._rng.choice((1, 4)), 20)]
        begun += await self._submit_all(1, LARGE_BYTES)
        begun += await self._submit_all(self._rng.choice((4, 12)), 20)
        await self._await_submitted(begun)

    async def _submit_all(
        self, count: int, *sizes: int
    ) -> list[tuple[bytes, "asyncio.Future[DLSN]"]]:
        begun = []
        for _ in range(count):
            payload = self._begin(*sizes)
            begun.append((payload, await self._writer().submit(payload)))
        return begun

    def _writer(self) -> "StreamWriter":
        return self._client.client.writer(self._model.name)

    async def _await_submitted(self, begun: list[tuple[bytes, "asyncio.Future[DLSN]"]]) -> bool:
        is_all = True
        for payload, written in begun:
            try:
                dlsn = await written
            except ProxyError as error:
                is_all = False
                self._failed(payload, error)
            else:
                self._written(payload, dlsn)
        return is_all

    def _written(self, payload: bytes, dlsn: DLSN) -> None:
        self._client.world.trace(self._name, "written", f"{self._number} {dlsn}")
        self._model.on_written(payload, None if dlsn == INVALID else dlsn)

    def _failed(self, payload: bytes, error: ProxyError) -> None:
        what = type(error).__name__
        self._client.world.trace(self._name, "not acknowledged", f"{self._number} {what}")
        if not error.is_unknown:
            self._model.on_refused(payload)


async def change_things(
    process: ThinProcess, models: list[StreamModel], rng: Random, is_over: Any
) -> None:
    """Do at random what is no write: heartbeats, releases, truncations, questions."""
    client, trace = process.client, process.world.trace
    while not is_over():
        await asyncio.sleep(rng.choice((0.1, 1.0, 4.0)) * 2 * rng.random())
        model = rng.choice(models)
        draw = rng.random()
        try:
            if draw < 0.3:
                await client.heartbeat(model.name, to_readers=rng.random() < 0.5)
            elif draw < 0.6:
                trace(process.name, "releases", model.name)
                await client.change("release", model.name)
            elif draw < 0.8:
                await _ask(process, model, rng)
            elif model.seen:
                before = rng.choice(sorted(model.seen)[: len(model.seen) // 2 + 1])
                model.truncated = max(model.truncated, before)
                trace(process.name, "truncates", f"{model.name} {before}")
                await client.truncate(model.name, before)
        except ProxyError as error:
            trace(process.name, "change failed", type(error).__name__)


async def _ask(process: ThinProcess, model: StreamModel, rng: Random) -> None:
    """Ask for a stream's owner, its last record, its segments."""
    client = process.client
    draw = rng.random()
    if draw < 0.3:
        await client.owner(model.name)
    elif draw < 0.6:
        await client.segments(model.name)
    else:
        safe = max(model.seen, default=None)
        last = await client.read_last(model.name)
        if last is not None:
            model.on_record(process.name, [], dlsn_of(last.dlsn), last.payload)
        elif safe is not None:
            model.expect(safe < model.truncated, f"{process.name}: no last record after {safe}")


class Reading(NamedTuple):
    """How one reader goes about it."""

    records: int
    """After which it ends."""
    pause_s: float
    """Between two answers, at most: the slow leave answers where they are."""
    patience_s: tuple[float, ...] = (0.5, 5.0)
    """It ends when none comes for so long."""


def draw_readings(rng: Random) -> list[Reading]:
    """Draw one, or two that read a stream side by side: the proxy keeps too little for the slow."""
    if rng.random() < 0.5:
        return [Reading(1_000, pause_s, (10.0,)) for pause_s in (0.0, 3.0)]
    return [Reading(rng.choice((5, 50, 1_000)), rng.choice((0.0, 0.0, 0.5)))]


async def read(
    process: ThinProcess, model: StreamModel, name: str, rng: Random, how: Reading, is_over: Any
) -> None:
    """Read one stream through read proxies for a while. Errors: ProxyError."""
    start = rng.choice(sorted(model.seen)) if model.seen and rng.random() < 0.7 else None
    run = model.new_run(f"{name}@{process.world.loop.time():.3f}")
    reader = process.client.reader(model.name, start, tails=rng.random() < 0.8)
    left = how.records
    try:
        while left and not reader.is_at_end and not is_over():
            async with asyncio.timeout(rng.choice(how.patience_s)):
                await reader.fill()
            while reader.ready and left:
                record = reader.ready.popleft()
                model.on_record(name, run, dlsn_of(record.dlsn), record.payload)
                left -= 1
            await asyncio.sleep(how.pause_s * rng.random())
    except TimeoutError:
        process.world.trace(name, "waited long enough")
    finally:
        await process.client.close_reader(reader)
