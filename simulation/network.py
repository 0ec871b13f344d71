"""The network of the simulation: who listens where, how long bytes take, what is cut.

TCP keeps the order inside a connection and loses nothing from its middle; so faults are delays
(a lost packet is one that comes later), directions in which nothing passes for a while, connections
that break with a reset, and connections that break and tell nobody (half-open).
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tailrace.simulation.process import SimProcess, State, current_process
from tailrace.simulation.trace import Trace
from tailrace.simulation.transport import SimTransport, connect_pair


@dataclass(slots=True)
class NetworkFaults:
    """How bad the network is now. Units: seconds."""

    latency_s: float = 0.0002
    jitter_s: float = 0.0003
    lost_share: float = 0.0
    """Packets that come only after a retransmission."""
    retransmit_s: float = 0.3


class SimListener:
    """What `create_server` returns: as much of asyncio.Server as servers here use."""

    def __init__(
        self, network: "SimNetwork", factory: Callable[[], Any], address: tuple[str, int]
    ) -> None:
        self.factory = factory
        self.address = address
        self.process = current_process()
        self.context = contextvars.copy_context()
        self._network = network
        if self.process is not None:
            self.process.on_death.append(self.close)

    @property
    def sockets(self) -> tuple["SimListener", ...]:
        return (self,) if self.is_serving() else ()

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def is_serving(self) -> bool:
        return self._network.listeners.get(self.address) is self

    def close(self) -> None:
        if self.is_serving():
            del self._network.listeners[self.address]

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)


class SimNetwork:
    def __init__(self, loop: Any, rng: Random, trace: Trace) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.faults = NetworkFaults()
        self.spread_s = 0.0
        """By how much the ways of different connections differ."""
        self.regions: dict[str, str] = {}
        """Where hosts stand; others are everywhere near."""
        self.ways_s: dict[tuple[str, str], float] = {}
        """What a packet takes longer from one region to another, or inside one."""
        self.crossed: Counter[tuple[str, str]] = Counter()
        """Packets by the regions that they came from and went to."""
        self.listeners: dict[tuple[str, int], SimListener] = {}
        self.hosts_down: set[str] = set()
        self.transports: dict[int, SimTransport] = {}
        """Both ends of every connection, by number; gone when the end is."""
        self.stuck: dict[int, SimTransport] = {}
        """Ends that have something to send and may not."""
        self.orphans: dict[str, list[SimTransport]] = {}
        """Ends whose other end went with the power of this host."""
        self._blocked: set[tuple[str, str]] = set()
        self._last_port = 40_000
        self._last_number = 0
        loop.network = self

    # What transports ask

    def delay_s(self, source: str, target: str) -> float:
        """Draw how long one packet takes."""
        faults, rng = self.faults, self.rng
        delay = faults.latency_s + rng.random() * faults.jitter_s
        if self.regions:
            way = (self.regions.get(source, ""), self.regions.get(target, ""))
            self.crossed[way] += 1
            delay += self.ways_s.get(way, 0.0)
        if faults.lost_share and rng.random() < faults.lost_share:
            delay += faults.retransmit_s * (1 + rng.random())
        return delay

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self._blocked

    def register(self, transport: SimTransport) -> int:
        self._last_number += 1
        self.transports[self._last_number] = transport
        return self._last_number

    # The loop's calls

    def listen(self, factory: Callable[[], Any], host: str, port: int) -> SimListener:
        if not port:
            self._last_port += 1
            port = self._last_port
        if (host, port) in self.listeners:
            raise OSError(98, f"address {host}:{port} is in use")
        listener = SimListener(self, factory, (host, port))
        self.listeners[host, port] = listener
        return listener

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[SimTransport, Any]:
        """Errors: ConnectionRefusedError. An unreachable host answers never: callers time out."""
        process = current_process()
        source = process.host if process is not None else "harness"
        listener = await self._reach(source, host, port)
        end = connect_pair(self, (source, self._next_port()), listener.address, listener)
        try:
            await asyncio.sleep(self.delay_s(host, source))
        except BaseException:
            end.abort()
            raise
        protocol = factory()
        end.begin(protocol)
        self.trace(source, "connected", f"{host}:{port} #{end.number}")
        return end, protocol

    async def _reach(self, source: str, host: str, port: int) -> SimListener:
        pause_s = 1.0
        while True:
            await asyncio.sleep(self.delay_s(source, host))
            passes = self.passes(source, host) and self.passes(host, source)
            if passes and host not in self.hosts_down:
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 8.0)
        listener = self.listeners.get((host, port))
        if listener is None:
            await asyncio.sleep(self.delay_s(host, source))
            raise ConnectionRefusedError(111, f"nobody listens at {host}:{port}")
        return listener

    def _next_port(self) -> int:
        self._last_port += 1
        return self._last_port

    # Faults

    def block(self, source: str, target: str) -> None:
        """Let nothing pass in one direction until `heal`."""
        self._blocked.add((source, target))

    def unblock(self, source: str, target: str) -> None:
        """Let pass in one direction again, also what waited."""
        self._blocked.discard((source, target))
        self._pump_stuck()

    def set_way(self, one: str, other: str, delay_s: float) -> None:
        """Say how far two regions are from each other, or a region from itself."""
        self.ways_s[one, other] = self.ways_s[other, one] = delay_s

    def hosts_of(self, region: str) -> list[str]:
        return [host for host, at in self.regions.items() if at == region]

    def part(self, region: str, others: list[str]) -> None:
        """Let nothing pass between a region and these hosts until `heal`."""
        for inside in self.hosts_of(region):
            for outside in others:
                self.block(inside, outside)
                self.block(outside, inside)

    def break_some(self, clients: list[str], bookies: list[str], rng: Random) -> None:
        """Block some ways between these, and break some connections."""
        for client in clients:
            for bookie in bookies:
                if rng.random() < 0.3:
                    self.block(client, bookie)
                if rng.random() < 0.2:
                    self.block(bookie, client)
        for transport in self.connections():
            between = transport.host in clients and transport.peer.host in bookies
            if between and rng.random() < 0.2:
                transport.reset()

    def unblock_one(self, rng: Random) -> None:
        """Let pass in one of the directions that are blocked."""
        if self._blocked:
            self.unblock(*rng.choice(sorted(self._blocked)))

    def heal(self) -> None:
        """Let everything pass again."""
        self._blocked.clear()
        self._pump_stuck()

    def _pump_stuck(self) -> None:
        stuck, self.stuck = self.stuck, {}
        for transport in stuck.values():
            transport.pump()

    def connections(self, host: str | None = None) -> list[SimTransport]:
        """Return the ends at a host, oldest first."""
        return [t for t in self.transports.values() if host is None or t.host == host]

    def host_restarted(self, host: str) -> None:
        self.hosts_down.discard(host)
        for transport in self.orphans.pop(host, ()):
            transport.host_restarted()

    def host_died(self, process: SimProcess, *, power: bool) -> None:
        """End what a process had open: its kernel says so, or with the power gone nobody does."""
        assert process.state is State.DEAD, "only then nothing is written any more"
        for transport in self.connections(process.host):
            if power:
                transport.vanish()
            else:
                transport.end_by_kernel()
