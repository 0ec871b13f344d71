"""Proxies in the simulated cluster: shards whose processes come and go.

A life of a shard is a process with a session of its own. It does what `processes/proxy.py` does
around the same services; only gRPC, signals and settings are not there.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typing_extensions import override

from tailrace.core.errors import CoreError
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.processes.proxy_locks import OwnLocks
from tailrace.processes.proxy_members import follow_members
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.proxy.owner.config import OwnerConfig, proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.routing.members import (
    READ_PROXIES,
    WRITE_PROXIES,
    Endpoint,
    MemberNode,
    MemberRegistration,
)
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.routing.stopped_regions import StopWatch
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.proxy.service.write_service import WriteService
from tailrace.simulation.logs.client import LogClient
from tailrace.simulation.process import ProcessGone
from tests.sim.proxies.wire import Door

if TYPE_CHECKING:
    from tailrace.proxy.reading.metrics import ReadMetrics
    from tests.sim.proxies.world import ProxyWorld

PORT: Final = 8000
REGIONS: Final = ("eu", "us")
"""Shards are in one and the other, in turn."""
WRITE_SET: Final = f"{DEFAULT_ROOT}/{WRITE_PROXIES}"
READ_SET: Final = f"{DEFAULT_ROOT}/{READ_PROXIES}"


class Life(LogClient, ABC):
    """One process of a proxy."""

    door: Door
    registration: MemberRegistration

    def __init__(self, shard: "Shard", number: int, config: LogConfig) -> None:
        self.shard = shard
        self.location = ProxyLocation(shard.number, shard.address, PORT)
        self._started = asyncio.Event()
        super().__init__(shard.world, number, config, shard.timeout_ms)

    @override
    def _build(self, timeout_ms: int, connect_timeout_ms: int) -> None:
        shard = self.shard
        shard.lives += 1
        self.name = self.process.name = f"{shard.name}.{shard.lives}"
        self.process.host = shard.address
        super()._build(timeout_ms, connect_timeout_ms)
        self.registration = MemberRegistration(
            self.store,
            shard.path,
            MemberNode(service_endpoint=Endpoint(shard.address, PORT), shard=shard.number),
        )
        self.door = Door(self.process, Host(shard.address, PORT), self._serve_what())

    @abstractmethod
    def _serve_what(self) -> dict[str, object]:
        """Return what it serves, by the services' names."""

    async def serve(self) -> None:
        """Register and serve, as long as that makes sense."""
        await self._begin()
        self.shard.wire.open_door(self.door)
        await self._insist(self.registration.register)
        self.world.trace(self.name, "registered", self.location.text)
        self._started.set()
        await self._wait()

    async def _begin(self) -> None:
        """Do what comes before the port is served."""

    async def _insist(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do a step of the start until it is done: a process that gave up is started again."""
        while True:
            try:
                await step()
            except CoreError as error:
                self.world.trace(self.name, "start failed", type(error).__name__)
                await asyncio.sleep(0.2)
            else:
                return

    async def _wait(self) -> None:
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """End as at SIGTERM, once the start is over."""
        await self._started.wait()
        await self.registration.close()

    @override
    def kill(self, cause: str, *, power: bool | None = None) -> None:
        if not self.process.alive:
            return
        world = self.world
        power = world.rng.random() < 0.3 if power is None else power
        world.trace(self.name, "killed", f"{cause} power={power}")
        self.process.kill(cause)
        world.network.host_died(self.process, power=power)
        self.shard.wire.died(self.door, power=power)


class WriteLife(Life):
    """One process of a write proxy."""

    streams: Streams

    def __init__(self, shard: "Shard", number: int, config: LogConfig) -> None:
        location = ProxyLocation(shard.number, shard.address, PORT)
        super().__init__(shard, number, proxy_log_config(config, location))

    @override
    def _serve_what(self) -> dict[str, object]:
        shard = self.shard
        session_ms = round(self.world.metadata.session_timeout_s * 1000)
        self.locks = OwnLocks(self.store, self.clock, session_ms)
        self.streams = Streams(
            self.namespace,
            self.location,
            self.clock,
            shard.settings.owner,
            session_timeout_ms=session_ms,
            events=self.locks,
        )
        service = WriteService(self.streams, self.location, shard.settings.write)
        return {WRITE_PROXY.name: service}

    @override
    async def _begin(self) -> None:
        def on_stops(stopped: frozenset[str]) -> None:
            self.streams.set_region_stopped(stopped=self.shard.region in stopped)

        follow_members(self.store, self.shard.path, self.streams)
        await self._insist(StopWatch(self.store, DEFAULT_ROOT, on_stops).start)

    @override
    async def _wait(self) -> None:
        await self.locks.taken

    @override
    async def drain(self) -> None:
        await self._started.wait()
        self.streams.set_accept_new_stream(accepts=False)
        await super().drain()
        await self.streams.close()


class ReadLife(Life):
    """One process of a read proxy."""

    @override
    def _serve_what(self) -> dict[str, object]:
        self.service = ReadService(self.namespace, self.clock, self.shard.settings.read)
        self.shard.reads.append(self.service.metrics)
        return {READ_PROXY.name: self.service}

    @override
    async def drain(self) -> None:
        await super().drain()
        await self.service.close()


class ProxySettings(NamedTuple):
    """Settings of all proxies of a world."""

    owner: OwnerConfig
    write: WriteServiceConfig
    read: ReadConfig


class Shard:
    """One shard of the proxies, whose process is started again when it ends."""

    def __init__(
        self,
        proxies: "ProxyWorld",
        number: int,
        settings: ProxySettings,
        timeout_ms: int,
        *,
        writes: bool,
    ) -> None:
        self.world = proxies.world
        self.wire = proxies.wire
        self.number = number
        self.settings = settings
        self.timeout_ms = timeout_ms
        self.path, self.name = (WRITE_SET, f"w{number}") if writes else (READ_SET, f"r{number}")
        self.region = REGIONS[number % len(REGIONS)]
        self.lives = 0
        self.reads: list[ReadMetrics] = []
        """Of all its processes, if they are read proxies."""
        self.life: Life | None = None
        self.stopped = False
        """It is not to be started again."""
        self._proxies = proxies
        self._net = "10.0.2" if writes else "10.0.4"
        self._kind = WriteLife if writes else ReadLife
        self.first_address = self.address = f"{self._net}.{number + 1}"
        self._moves = 0
        self._rng = Random(f"{self.world.seed}/{self.name}")
        self.supervisor = asyncio.get_running_loop().create_task(self._supervise())

    @property
    def writer(self) -> WriteLife | None:
        """The process, of a write proxy that runs."""
        return self.life if isinstance(self.life, WriteLife) else None

    async def _supervise(self) -> None:
        while True:
            if not self.stopped:
                await self._live()
            await asyncio.sleep(self._rng.choice((0.05, 0.5, 4.0)) * self._rng.random())
            if self._rng.random() < 0.3:  # it comes back elsewhere, as a container does
                self._moves += 1
                self.address = f"{self._net}.{self.number + 1 + 20 * (self._moves % 10)}"

    async def _live(self) -> None:
        world = self.world
        world.network.host_restarted(self.address)
        life = self.life = self._kind(self, self._proxies.number(), self._proxies.log_config)
        world.clients.append(life)
        try:
            await life.process.run(life.serve(), "serve")
            life.kill("its location is taken")
        except ProcessGone:
            pass
        finally:
            self.life = None
            world.clients.remove(life)

    async def drain(self) -> None:
        """Stop the proxy in order; the supervisor starts it again unless `stopped`."""
        life = self.life
        if life is None:
            return
        self.world.trace(life.name, "drains")
        draining = life.process.spawn(life.drain(), "drain")
        draining.add_done_callback(lambda _: life.kill("drained", power=False))
        await asyncio.wait([draining, life.process.died], return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Let the supervisor end; the process stays as it is."""
        self.supervisor.cancel()
        await asyncio.wait([self.supervisor])
