"""A user's program in the simulated cluster: a process with an embedded log in it."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.log.namespace import LogNamespace
from tailrace.dlog.namespace import Namespace
from tailrace.dlog.settings import options_of
from tailrace.simulation.logs.client import ListenedLedgers
from tailrace.simulation.machine import Client
from tailrace.simulation.nemesis import Nemesis

if TYPE_CHECKING:
    from tailrace.simulation.world import World

T = TypeVar("T")

URI = "distributedlog://simulated:2181/messaging/simulated"


class Program(Client):
    """A process of a story's. Whatever runs in it stops for good when it dies."""

    namespace: Namespace
    """Its door to the logs of the world: what `tailrace.dlog.open_namespace` gives elsewhere."""

    def __init__(self, world: "World", settings: Mapping[str, object] | None = None) -> None:
        """Begin a process; `settings`: as `tailrace.dlog.open_namespace`. Errors: ConfigError."""
        self._options = options_of(settings)
        timeouts = self._options.bookies
        super().__init__(
            world,
            len(world.clients) + 1,
            timeouts.request_timeout_ms,
            timeouts.connect_timeout_ms,
            self._options.ledgers,
        )
        world.clients.append(self)

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

    @property
    def is_alive(self) -> bool:
        """Whether it was not killed, by the story or by a fault."""
        return self.process.alive

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the process; return what it gives.

        Errors: the work's; ProcessGone when the process dies first.
        """
        result: T = await self.process.run(work, "work")
        return result

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work in the process, and do not wait for it; what it raises fails the seed."""
        self.process.begin(self._guarded(work), "work")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a user's code: its seed fails
            self.world.checker.fail(f"{self.name} raised {error!r}")

    def pause(self) -> None:
        """Stop it as SIGSTOP does; its sessions may end meanwhile."""
        self.process.pause()

    def resume(self) -> None:
        """Let it go on."""
        self.process.resume()


class Trouble(Nemesis):
    """Faults of a world of programs: of processes, network, disks, clocks and metadata."""

    damaged_files = (".log",)
    damage_restart_share = 0.0
    zero_share = 0.0

    def __init__(
        self,
        world: "World",
        *,
        damaged_bookies: int = 0,
        on_death: Callable[[Program], None] | None = None,
    ) -> None:
        """Draw this seed's mix of faults.

        `damaged_bookies`: of so many, stored bytes are changed: fewer than the ack quorum, or what
        was acknowledged may be lost. `on_death` is called with each program that a fault killed: it
        may begin another.
        """

        def replace(client: Client) -> None:
            if on_death is not None and isinstance(client, Program):
                on_death(client)

        super().__init__(world, replace_client=replace, tolerance=damaged_bookies, beyond=False)
