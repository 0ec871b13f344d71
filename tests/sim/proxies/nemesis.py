"""What goes wrong with proxies and their clients, beside all that goes wrong with ledgers."""

import asyncio
from random import Random
from typing import Any

from typing_extensions import override

from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.core.metadata.store import ANY_VERSION
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.operations import Answer
from tailrace.proxy.owner.refusals import Refusals
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.routing.stopped_regions import encode_stopped, stopped_path
from tailrace.simulation.metadata import HOST as METADATA
from tailrace.simulation.nemesis import Fault, Nemesis
from tests.sim.proxies.checker import StreamModel
from tests.sim.proxies.client import ThinProcess
from tests.sim.proxies.server import PORT, REGIONS, Shard, WriteLife
from tests.sim.proxies.world import ProxyWorld

PROXY_FAULTS = (
    "kill_proxy",
    "pause_proxy",
    "crash_proxy",
    "expire_proxies",
    "flap_session",
    "break_lock",
    "take_over_stream",
    "take_over_stream",
    "take_over_unheard",
    "misroute",
    "drain_proxy",
    "rolling_restart",
    "stop_accepting",
    "stop_region",
    "part_proxy",
    "break_calls",
    "reset_calls",
    "stale_location",
)

CLAIM_S = 4.0
"""For how long an owner is held up at most while another claims its stream."""


class ProxyNemesis(Nemesis):
    """Draws faults of one world of proxies."""

    # A bookie that will not start any more leaves too few for a new segment: ledgers judge that.
    damaged_files = (".log",)
    damage_restart_share = 0.0
    zero_share = 0.0
    proxies: ProxyWorld

    def add_proxy_faults(self, proxies: ProxyWorld) -> None:
        """Let half of the faults be those of proxies and their calls."""
        self.proxies = proxies
        rng = Random(f"{self.world.seed}/proxy faults")
        more: list[Fault] = [getattr(self, name) for name in PROXY_FAULTS]
        weights = [rng.choice((0, 1, 1, 4)) for _ in more]
        share = sum(self._weights) / max(1, sum(weights))
        self._kinds += more
        self._weights += [share * weight for weight in weights]

    @override
    def heal(self) -> None:
        super().heal()
        self.proxies.wire.broken_share = 0.0
        self._set_stopped(set())
        for shard in self.proxies.shards:
            shard.stopped = False
            if shard.life is not None:
                shard.life.dying.changes_left = None
            if shard.writer is not None:
                shard.writer.streams.set_accept_new_stream(accepts=True)

    def _shard(self) -> Shard:
        return self.rng.choice(self.proxies.shards)

    async def kill_proxy(self) -> None:
        life = self._shard().life
        if life is not None:
            life.kill("nemesis")

    async def pause_proxy(self) -> None:
        """Pause it, often for longer than its session lasts: then two believe that they own."""
        life = self._shard().life
        if life is not None:
            life.process.pause()
            await asyncio.sleep(self.rng.choice((0.1, 1.0, 3.0, 15.0)) * (0.5 + self.rng.random()))
            life.process.resume()

    async def crash_proxy(self) -> None:
        """Let it die at one of its next changes of the metadata."""
        life = self._shard().life
        if life is not None:
            life.dying.dies_before = self.rng.random() < 0.5
            life.dying.changes_left = self.rng.choice((0, 1, 2, 3, 5, 8))
            await asyncio.wait([life.process.died], timeout=self.rng.choice((1.0, 5.0)))
            life.dying.changes_left = None

    async def expire_proxies(self) -> None:
        """End every session at once: all locks are free."""
        sessions = self.world.metadata.sessions
        for number in sorted(sessions):
            sessions[number].expire()

    async def flap_session(self) -> None:
        """End the sessions of one proxy again and again."""
        shard = self._shard()
        for _ in range(self.rng.randint(2, 6)):
            if shard.life is not None:
                shard.life.dying.expire()
            await asyncio.sleep(self.rng.choice((0.3, 1.0)) * 2 * self.rng.random())

    async def break_lock(self) -> None:
        """Delete the members of a lock: another proxy may own the stream beside its owner."""
        self._break_lock(self.rng.choice(self.proxies.models))

    async def take_over_stream(self) -> None:
        """Take an owner's lock, and have another proxy asked for its stream, which it claims."""
        model = self.rng.choice(self.proxies.models)
        pair = self._owner_and_other(model)
        if pair is None:
            return
        owner, other = pair
        pauses = self.rng.random() < 0.7
        if pauses:
            owner.process.pause()
            owner.dying.expire()
        else:
            self._break_lock(model)
        self._have_claimed(model, other)
        if pauses:
            await asyncio.sleep(self.rng.choice((0.3, 1.0, 4.0)) * (0.5 + self.rng.random()))
            for client in self._thin_clients():  # some have known the former owner all the time
                client.client.owners.put(model.name, owner.door.host)
            await asyncio.sleep(self.rng.choice((0.01, 0.2)) * self.rng.random())
            owner.process.resume()

    async def take_over_unheard(self) -> None:
        """Take a stream whose owner hears no bookie: its last records are in the log, perhaps.

        It learns of its successor before it hears what became of them.
        """
        rng, network = self.rng, self.world.network
        model = rng.choice([each for each in self.proxies.models if each.writes] or [None])
        pair = None if model is None else self._owner_and_other(model)
        if model is None or pair is None:
            return
        owner, other = pair
        ways = [(machine.host, owner.process.host) for machine in self.world.machines]
        for way in ways:
            network.block(*way)
        await asyncio.sleep(rng.choice((0.05, 0.2)) * rng.random())
        owner.process.pause()
        self._break_lock(model)
        self._have_claimed(model, other)
        until_s = self.world.loop.time() + CLAIM_S
        while model.name not in other.streams.owned and self.world.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        owner.process.resume()
        await asyncio.sleep(rng.choice((0.1, 0.5)) * (0.5 + rng.random()))
        for way in ways:
            network.unblock(*way)

    def _owner_and_other(self, model: StreamModel) -> tuple[WriteLife, WriteLife] | None:
        """Return a stream's owner and a proxy that does not own it; None: one is missing."""
        owners = [each for each in self._lives() if model.name in each.streams.owned]
        others = [each for each in self._lives() if model.name not in each.streams.owned]
        return (owners[0], self.rng.choice(others)) if owners and others else None

    def _have_claimed(self, model: StreamModel, other: WriteLife) -> None:
        other.streams._admission.refusals = Refusals()  # else its claim may wait
        other.process.call(other.streams.heartbeat, model.name)

    async def misroute(self) -> None:
        """Have clients hold a proxy for unreachable: their requests go to others."""
        host = Host(self._shard().address, PORT)
        for client in self._thin_clients():
            if self.rng.random() < 0.5:
                client.client.writing.routes.failed(host, round(self.world.loop.time() * 1000))
                client.client.owners.drop_host(host)

    def _thin_clients(self) -> list[ThinProcess]:
        return [client for client in self.world.clients if isinstance(client, ThinProcess)]

    def _lives(self) -> list[WriteLife]:
        lives = [shard.writer for shard in self.proxies.writing]
        return [life for life in lives if life is not None]

    def _break_lock(self, model: StreamModel) -> None:
        metadata, lock = self.world.metadata, model.paths.lock
        if metadata.tree.find(lock) is not None:
            for name in metadata.tree.children(lock):
                path = f"{lock}/{name}"
                metadata.apply(lambda tree, path=path: tree.delete(path, ANY_VERSION))  # type: ignore[misc]

    async def drain_proxy(self) -> None:
        shard = self._shard()
        shard.stopped = True
        await shard.drain()
        await self._for_a_while()
        shard.stopped = False

    async def rolling_restart(self) -> None:
        for shard in self.proxies.shards:
            await shard.drain()
            await asyncio.sleep(self.rng.choice((0.1, 2.0)) * self.rng.random())

    async def stop_accepting(self) -> None:
        """Have a proxy take no new stream, and let go what it has, as an operator does."""
        life = self._shard().writer
        if life is not None:
            life.streams.set_accept_new_stream(accepts=False)
            for name in life.streams.owned:
                life.process.begin(life.streams.release(name), "release")
            await self._for_a_while()
            life.streams.set_accept_new_stream(accepts=True)

    async def stop_region(self) -> None:
        """Have the proxies of a region take no new stream, and let go what they have."""
        region = self.rng.choice(REGIONS)
        self._set_stopped({region})
        for life in self._lives():
            if life.shard.region == region:
                for name in life.streams.owned:
                    life.process.begin(life.streams.release(name), "release")
        await self._for_a_while()
        self._set_stopped(set())

    def _set_stopped(self, regions: set[str]) -> None:
        data, path = encode_stopped(frozenset(regions)), stopped_path(DEFAULT_ROOT)

        def change(tree: Any) -> None:
            if tree.find(path) is None:
                tree.create(path, data, 0, owner=0, sequential=False)
            else:
                tree.set(path, data, ANY_VERSION, 0)

        self.world.metadata.apply(change)

    async def part_proxy(self) -> None:
        """Cut a proxy off from its clients, the bookies or the metadata, one way or both."""
        rng, world, here = self.rng, self.world, self._shard().address
        clients = [client.process.host for client in world.clients if client.process.host != here]
        bookies = [machine.host for machine in world.machines]
        there, back = rng.choice(((0.8, 0.8), (1.0, 0.0), (0.0, 1.0)))
        if not (there and back):
            world.trace("nemesis", "fault.part_one_way")
        for other in rng.choice((clients, bookies, [METADATA], [METADATA, *clients])):
            if rng.random() < there:
                world.network.block(here, other)
            if rng.random() < back:
                world.network.block(other, here)
        await self._for_a_while()
        world.network.heal()

    async def break_calls(self) -> None:
        """Let some of the calls' connections break on the way, for a while."""
        wire = self.proxies.wire
        wire.broken_share = self.rng.choice((0.02, 0.2, 0.7))
        await self._for_a_while()
        wire.broken_share = 0.0

    async def reset_calls(self) -> None:
        self.proxies.wire.reset(self.rng.choice((0.3, 1.0)))

    async def stale_location(self) -> None:
        """Have proxies keep an owner of a stream that is none: redirects go in circles."""
        rng = self.rng
        model = rng.choice(self.proxies.models)
        for shard in self.proxies.writing:
            life = shard.writer
            if life is None or model.name in life.streams.owned or rng.random() < 0.3:
                continue
            other = rng.choice([each for each in self.proxies.writing if each is not shard])
            at = ProxyLocation(other.number, other.address, PORT)
            answer = Answer(StatusCode.FOUND, location=at.text)
            now_s, kept_s = self.world.loop.time(), rng.choice((0.5, 3.0))
            life.streams._admission.refusals.add(model.name, answer, now_s, kept_s)
