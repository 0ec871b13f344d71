"""What goes wrong in a random schedule, and when it is made good again.

Within what BookKeeper promises: everything that only delays or restarts, and damage at rest to no
more bookies than Qa - 1. Beyond it (`beyond=True`): damage anywhere. Each fault is a coroutine that
does harm, waits, and heals; several overlap.
"""

import asyncio
from collections.abc import Callable, Coroutine
from math import inf
from random import Random
from typing import Any

from tailrace.bookie.errors import BookieError
from tailrace.core.errors import CoreError
from tailrace.simulation.disk import DiskFaults
from tailrace.simulation.machine import Client, Machine
from tailrace.simulation.metadata import HOST, MetadataFaults
from tailrace.simulation.network import NetworkFaults
from tailrace.simulation.workload import Workload
from tailrace.simulation.world import World

Fault = Callable[[], Coroutine[Any, Any, None]]
BOUNDARIES = (None, "sync", "names", "write", "replace", "remove", "create", "truncate")


class Nemesis:
    """Draws faults of one world."""

    damaged_files: tuple[str, ...] = (".log", ".log", ".idx", ".idx", ".sums", ".txn", "Mark")
    """Ends of the names of what is damaged, each as often as it stands here."""
    damage_restart_share = 0.5
    zero_share = 0.5

    def __init__(
        self,
        world: World,
        *,
        replace_client: Callable[[Client], None],
        tolerance: int,
        beyond: bool,
        workload: Workload | None = None,
    ) -> None:
        """`tolerance`: how many bookies may be damaged for good, if not `beyond`.

        `workload`: whose ledgers are taken over while they are written; without one none is.
        """
        self.world = world
        self.rng = Random(f"{world.seed}/nemesis")
        self._replace_client = replace_client
        self._workload = workload
        self._beyond = beyond
        self._damageable = (
            list(world.machines) if beyond else self.rng.sample(world.machines, tolerance)
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._end_s = inf
        """When everything is to be good again."""
        kinds = self._faults()
        # Each seed has its own mix: most of its faults are of a few kinds.
        self._kinds = [fault for _, fault in kinds]
        self._weights: list[float] = [
            weight * self.rng.choice((0, 0, 1, 1, 4)) for weight, _ in kinds
        ]
        if not any(self._weights):
            self._weights = [1] * len(kinds)

    def _faults(self) -> list[tuple[int, Fault]]:
        """Return what may go wrong in this world, with how often beside the others."""
        kinds: list[tuple[int, Fault]] = [
            (10, self.kill_bookie),
            (10, self.power_off),
            (14, self.crash_at_boundary),
            (4, self.power_off_all),
            (6, self.pause_bookie),
            (4, self.pause_client),
            (8, self.partition),
            (6, self.isolate),
            (8, self.reset_connections),
            (8, self.half_open),
            (6, self.bad_network),
            (6, self.slow_disk),
            (4, self.write_errors),
            (4, self.sync_errors),
            (5, self.read_errors),
            (4, self.disk_full),
            (5, self.metadata_down),
            (6, self.metadata_unsure),
            (5, self.expire_session),
            (5, self.kill_client),
            (3, self.clock_jump),
            (4, self.collect_garbage),
            (4, self.restart_cleanly),
        ]
        if self._workload is not None:
            kinds.append((30, self.take_over))
        if self._damageable:
            kinds.append((10, self.damage_disk))
        return kinds

    async def rage(self, duration_s: float, pause_s: float) -> None:
        """Do harm until the time is up, then make everything good again."""
        loop = self.world.loop
        self._end_s = loop.time() + duration_s
        while loop.time() < self._end_s:
            await asyncio.sleep(pause_s * 2 * self.rng.random())
            (fault,) = self.rng.choices(self._kinds, self._weights)
            self.world.trace("nemesis", f"fault.{fault.__name__}")
            task = loop.create_task(fault())
            self._tasks.add(task)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled() and task.exception() is not None:
                self.world.checker.fail(f"the nemesis raised {task.exception()!r}")
        self.heal()

    def heal(self) -> None:
        """Make everything good again that can be."""
        world = self.world
        world.network.heal()
        world.network.faults = NetworkFaults()
        world.metadata.faults = MetadataFaults()
        for machine in world.machines:
            machine.disk.faults = DiskFaults()
            machine.stopped = False
            if machine.process is not None:
                machine.process.resume()
        for client in world.clients:
            client.process.resume()

    # Drawing

    def _machine(self) -> Machine:
        return self.rng.choice(self.world.machines)

    def _client(self) -> Client | None:
        alive = [client for client in self.world.clients if client.process.alive]
        return self.rng.choice(alive) if alive else None

    def _draw_duration(self) -> float:
        return self.rng.choice((0.02, 0.3, 2.0, 8.0, 20.0)) * self.rng.random()

    async def _for_a_while(self) -> None:
        await asyncio.sleep(self._draw_duration())

    # Processes

    async def kill_bookie(self) -> None:
        self._machine().kill("nemesis", power=False)

    async def power_off(self) -> None:
        self._machine().kill("nemesis", power=True)

    async def power_off_all(self) -> None:
        for machine in self.world.machines:
            machine.kill("power of all", power=True)

    async def crash_at_boundary(self) -> None:
        machine = self._machine()
        machine.disk.faults.crash_kind = self.rng.choice(BOUNDARIES)
        machine.disk.faults.crash_in = self.rng.choice((0, 1, 3, 10, 40))

    async def restart_cleanly(self) -> None:
        machine = self._machine()
        await machine.stop()
        await self._for_a_while()
        machine.stopped = False

    async def pause_bookie(self) -> None:
        process = self._machine().process
        if process is not None:
            process.pause()
            await self._for_a_while()
            process.resume()

    async def pause_client(self) -> None:
        client = self._client()
        if client is not None:
            client.process.pause()
            await self._for_a_while()
            client.process.resume()

    async def kill_client(self) -> None:
        client = self._client()
        if client is not None:
            client.kill("nemesis")
            self._replace_client(client)

    async def clock_jump(self) -> None:
        rng = self.rng
        machine, client = self._machine(), self._client()
        clock = rng.choice([machine.clock, client.clock if client is not None else machine.clock])
        clock.skew_ms += rng.choice((-3_600_000, -1_000, 1_000, 3_600_000))

    # The network

    async def partition(self) -> None:
        source, target = self.rng.sample(self.world.hosts(), 2)
        self.world.network.block(source, target)
        if self.rng.random() < 0.5:
            self.world.network.block(target, source)
        await self._for_a_while()
        self.world.network.heal()

    async def isolate(self) -> None:
        hosts = self.world.hosts()
        alone = self.rng.choice(hosts)
        with_metadata = self.rng.random() < 0.5
        for other in hosts:
            if other != alone and (with_metadata or other != HOST):
                self.world.network.block(alone, other)
                self.world.network.block(other, alone)
        await self._for_a_while()
        self.world.network.heal()

    async def reset_connections(self) -> None:
        for transport in self.world.network.connections():
            if self.rng.random() < 0.4:
                transport.reset()

    async def half_open(self) -> None:
        for transport in self.world.network.connections():
            if self.rng.random() < 0.2:
                transport.go_half_open()
                if self.rng.random() < 0.5:
                    transport.peer.go_half_open()

    async def bad_network(self) -> None:
        rng = self.rng
        self.world.network.faults = NetworkFaults(
            latency_s=rng.choice((0.0002, 0.005, 0.05)),
            jitter_s=rng.choice((0.0, 0.001, 0.05, 0.5)),
            lost_share=rng.choice((0.0, 0.01, 0.2)),
        )
        await self._for_a_while()
        self.world.network.faults = NetworkFaults()

    async def take_over(self) -> None:
        """Recover a ledger that is being written, with holes in everybody's ways to its bookies."""
        rng, network = self.rng, self.world.network
        assert self._workload is not None, "it is no fault of this world"
        model = self._workload.busy_ledger(rng)
        if model is None:
            return
        ensemble = model.metadata.fragments[-1].ensemble
        bookies = [m.host for m in self.world.machines if m.config.identity in ensemble]
        writers = [c.process.host for c in self.world.clients if c.name == model.writer]
        clients = rng.sample([c for c in self.world.clients if c.process.alive], rng.randint(1, 2))
        for client in clients:
            network.break_some(writers, bookies, rng)
            network.break_some([client.process.host], bookies, rng)
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.3)) * rng.random())
            self._workload.spawn_recovery(client, model, "take over")
        for _ in range(rng.randint(0, 6)):
            await asyncio.sleep(rng.choice((0.01, 0.1, 0.6)) * rng.random())
            network.unblock_one(rng)
        network.heal()

    # Disks

    async def slow_disk(self) -> None:
        faults = self._machine().disk.faults
        faults.slow_share = self.rng.choice((0.05, 0.5, 1.0))
        faults.slow_s = self.rng.choice((0.05, 0.5, 5.0))
        duration_s = self._draw_duration()
        faults.slow_until_s = min(self.world.loop.time() + duration_s, self._end_s)
        await asyncio.sleep(duration_s)
        faults.slow_share = 0.0

    async def write_errors(self) -> None:
        faults = self._machine().disk.faults
        faults.write_error_share = self.rng.choice((0.02, 0.2, 1.0))
        await self._for_a_while()
        faults.write_error_share = 0.0

    async def sync_errors(self) -> None:
        faults = self._machine().disk.faults
        faults.sync_error_share = self.rng.choice((0.02, 0.2, 1.0))
        await self._for_a_while()
        faults.sync_error_share = 0.0

    async def read_errors(self) -> None:
        faults = self._machine().disk.faults
        faults.read_error_share = self.rng.choice((0.05, 0.5, 1.0))
        await self._for_a_while()
        faults.read_error_share = 0.0

    async def disk_full(self) -> None:
        faults = self._machine().disk.faults
        faults.free_bytes = self.rng.choice((0, 100, 5_000, 100_000))
        await self._for_a_while()
        faults.free_bytes = None

    async def damage_disk(self) -> None:
        machine = self.rng.choice(self._damageable)
        machine.checker.damaged = True
        if self._beyond:
            self.world.checker.within_promise = False
            machine.checker.may_be_torn = True
        machine.disk.damage(
            self.rng.choice(self.damaged_files),
            old_only=not self._beyond,
            zero_share=self.zero_share,
        )
        if self.rng.random() < self.damage_restart_share:  # much of it is met at a start only
            machine.kill("damaged", power=self.rng.random() < 0.5)

    # Metadata

    async def metadata_down(self) -> None:
        self.world.metadata.faults.down = True
        await self._for_a_while()
        self.world.metadata.faults.down = False

    async def metadata_unsure(self) -> None:
        rng = self.rng
        faults = self.world.metadata.faults
        faults.lost_request_share = rng.choice((0.0, 0.1, 0.5))
        faults.lost_answer_share = rng.choice((0.0, 0.1, 0.5))
        faults.late_share = rng.choice((0.0, 0.1))
        faults.slow_share = rng.choice((0.0, 0.3))
        await self._for_a_while()
        self.world.metadata.faults = MetadataFaults(down=faults.down)

    async def expire_session(self) -> None:
        sessions = self.world.metadata.sessions
        if sessions:
            sessions[self.rng.choice(sorted(sessions))].expire()

    async def collect_garbage(self) -> None:
        machine = self._machine()
        if machine.process is not None and machine.running is not None:
            force = self.rng.random() < 0.5
            machine.process.begin(_collect(machine, force=force), "gc")


async def _collect(machine: Machine, *, force: bool) -> None:
    if machine.running is not None:
        machine.checker.gives_up |= force
        try:
            removed = await machine.running.bookie.collect_garbage(force=force)
            for ledger_id in removed.ledgers:
                machine.checker.on_removed(ledger_id)
        except (OSError, CoreError, BookieError) as error:
            machine.world.trace(machine.name, "gc failed", type(error).__name__)
