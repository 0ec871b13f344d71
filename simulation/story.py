"""What a user's story works with: a simulated cluster, programs with an embedded log, trouble.

The faces here are small and stay as they are; behind them are the world, the machines and the
nemesis that Tailrace's own schedules use.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.open_namespace import NamespaceOptions
from tailrace.dlog.namespace import Namespace
from tailrace.dlog.settings import options_of
from tailrace.simulation.logs.client import ListenedLedgers
from tailrace.simulation.machine import Client, Machine
from tailrace.simulation.nemesis import Nemesis
from tailrace.simulation.process import ProcessGone
from tailrace.simulation.schedule import draw_settings
from tailrace.simulation.world import World as Cluster

T = TypeVar("T")

URI = "distributedlog://simulated:2181/messaging/simulated"


class ProgramDied(Exception):
    """A program was killed while a story waited for its work; the message gives the cause."""


class Bookie:
    """A bookie on a machine of its own. One that dies starts again by itself after a while."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def name(self) -> str:
        """How events name it."""
        return self._machine.name

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._machine.up

    def kill(self, *, power: bool = False) -> None:
        """End its process. With the power goes what was written and not synced."""
        self._machine.kill("the story", power=power)

    def pause(self) -> None:
        """Stop its process as SIGSTOP does."""
        if self._machine.process is not None:
            self._machine.process.pause()

    def resume(self) -> None:
        """Let its process go on."""
        if self._machine.process is not None:
            self._machine.process.resume()


class Program:
    """A process of the story's; `World.new_program` begins it. What runs in it dies with it."""

    def __init__(self, cluster: Cluster, options: NamespaceOptions) -> None:
        self._client = _ProgramClient(cluster, options)

    @property
    def name(self) -> str:
        """How events name it."""
        return self._client.name

    @property
    def namespace(self) -> Namespace:
        """Its door to the logs: what `tailrace.dlog.open_namespace` opens elsewhere."""
        return self._client.namespace

    @property
    def is_alive(self) -> bool:
        """Whether neither the story nor a fault has killed it."""
        return self._client.process.alive

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the process; return what it gives.

        Errors: the work's; ProgramDied, when the process dies first.
        """
        try:
            result: T = await self._client.process.run(work, "work")
        except ProcessGone as error:
            raise ProgramDied(str(error)) from None
        return result

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work in the process without waiting for it; what it raises fails the seed."""
        self._client.process.begin(self._guarded(work), "work")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - of whatever code a story has
            self._client.world.checker.fail(f"{self.name} raised {error!r}")

    def kill(self) -> None:
        """End it as SIGKILL does. Its sessions with the metadata service end later."""
        self._client.kill("the story")

    def pause(self) -> None:
        """Stop it as SIGSTOP does. Its sessions may end then, and other programs own its logs."""
        self._client.process.pause()

    def resume(self) -> None:
        """Let it go on, as if nothing had been."""
        self._client.process.resume()


OnDeath: TypeAlias = Callable[[Program], None]


class World:
    """The cluster of one seed; a story is called with it."""

    def __init__(self, cluster: Cluster) -> None:
        self.rng = Random(f"{cluster.seed}/story")
        """The story's own randomness, the same for a seed."""
        self.bookies: list[Bookie] = []
        self.programs: list[Program] = []
        """All that were begun, those that died too."""
        self._cluster = cluster

    @property
    def seed(self) -> int:
        """The seed."""
        return self._cluster.seed

    @property
    def now_s(self) -> float:
        """Virtual time since the world began. Unit: seconds."""
        return self._cluster.loop.time()

    async def start(self, bookies: int = 3) -> None:
        """Start bookies, with settings that the seed draws; return when all are up."""
        await self._cluster.start(bookies, draw_settings(self.rng))
        self.bookies += map(Bookie, self._cluster.machines)

    def new_program(self, settings: Mapping[str, object] | None = None) -> Program:
        """Begin a process. `settings`: as `tailrace.dlog.open_namespace`. Errors: ConfigError."""
        program = Program(self._cluster, options_of(settings))
        self.programs.append(program)
        return program

    async def rage(
        self,
        seconds: float,
        pause_s: float = 0.5,
        *,
        damaged_bookies: int = 0,
        on_death: OnDeath | None = None,
    ) -> None:
        """Make trouble of kinds that the seed draws, then make everything good again.

        `pause_s`: virtual time between two faults, on average. `damaged_bookies`: so many have
        stored bytes changed; fewer than the ack quorum, or what was acknowledged may be lost.
        `on_death` is called with each program that a fault has killed; it may begin another.
        """

        def hear(client: Client) -> None:
            (died,) = [each for each in self.programs if each._client is client]
            if on_death is not None:
                on_death(died)

        nemesis = _Nemesis(
            self._cluster, replace_client=hear, tolerance=damaged_bookies, beyond=False
        )
        await nemesis.rage(seconds, pause_s)

    def part(self, one: Bookie | Program, other: Bookie | Program) -> None:
        """Let nothing through between two machines, until `join`."""
        here, there = _host(one), _host(other)
        self._cluster.network.block(here, there)
        self._cluster.network.block(there, here)

    def join(self) -> None:
        """Let everything through again."""
        self._cluster.network.heal()

    async def all_well(self) -> None:
        """Return once every bookie is up, but those that found their disk damaged."""
        await self._cluster.all_well()

    def expect(self, holds: bool, what: str) -> None:
        """Fail the seed with `what` unless it holds; the story goes on."""
        self._cluster.checker.expect(holds, what)


class _ProgramClient(Client):
    """A program's process, as the cluster knows it."""

    namespace: Namespace

    def __init__(self, cluster: Cluster, options: NamespaceOptions) -> None:
        self._options = options
        timeouts = options.bookies
        super().__init__(
            cluster,
            len(cluster.clients) + 1,
            timeouts.request_timeout_ms,
            timeouts.connect_timeout_ms,
            options.ledgers,
        )
        cluster.clients.append(self)

    @override
    def _build(self, timeout_ms: int, connect_timeout_ms: int) -> None:
        self.store = self.world.metadata.open()
        self.bookies = RegisteredBookies(self.store, self._options.bookies)
        rng = Random(f"{self.world.seed}/{self.name}")
        ledgers = ListenedLedgers(self.store, self.bookies, self._options.ledgers, rng)
        ledgers.listen(self.world.checker, self.name)
        self.ledgers = ledgers
        core = LogNamespace(self.store, ledgers, self._options.log, self.clock)
        self.namespace = Namespace(URI, core, AsyncExitStack())


class _Nemesis(Nemesis):
    """Faults of a story. A bookie whose index is damaged may not start: too few for a segment."""

    damaged_files = (".log",)
    damage_restart_share = 0.0
    zero_share = 0.0


def _host(of: Bookie | Program) -> str:
    return of._machine.host if isinstance(of, Bookie) else of._client.process.host
