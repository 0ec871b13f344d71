"""A machine with a bookie on it, and what may happen to both; clients likewise."""

import asyncio
import functools
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.bookie.app import BookieProcess, OpenBookie, start_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.errors import InvalidCookie
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig, ReadConfig
from tailrace.core.runtime.files import LockHeld
from tailrace.protocol.bookkeeper.digest import Digest, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Request, Response
from tailrace.protocol.ids import BookieId
from tailrace.simulation.checkers import BookieChecker
from tailrace.simulation.disk import SimDisk
from tailrace.simulation.files import SimFiles
from tailrace.simulation.process import ProcessGone, SimProcess, State, current_process
from tailrace.simulation.sessions import START_MS

if TYPE_CHECKING:
    from tailrace.core.metadata.store import MetadataStore
    from tailrace.simulation.world import World

logger = logging.getLogger(__name__)

PORT = 3181


class SimClock:
    """A process' clock: virtual time, off by what the machine's clock is off."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.skew_ms = 0
        self._loop = loop

    def now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000) + self.skew_ms

    def monotonic_s(self) -> float:
        return self._loop.time()


class Machine:
    """A bookie's machine: its disk stays, its processes come and go."""

    def __init__(self, world: "World", number: int, settings: dict[str, Any]) -> None:
        self.name = f"b{number}"
        self.host = f"10.0.0.{number}"
        self.world = world
        self.disk = SimDisk(self.name, Random(f"{world.seed}/{self.name}"), world.trace,
                            world.loop.spend)  # fmt: skip
        self.checker = BookieChecker(self.name, world.checker)
        self.clock = SimClock(world.loop)
        self.process: SimProcess | None = None
        self.running: BookieProcess | None = None
        self.given_up: str | None = None
        """Why the bookie will not start any more."""
        self.stopped = False
        """Whoever runs the simulation wants it down."""
        self.starts = 0
        self._power_lost = False
        more = dict(settings)
        self.config = BookieConfig(
            journal_directories=_directories("journal", more.pop("journals", 1)),
            ledger_directories=_directories("ledgers", more.pop("ledger_directories", 1)),
            bookie_id=f"{self.name}:{PORT}",
            host=self.host,
            port=PORT,
            **more,
        )
        self.checker.bookie_id = BookieId(self.config.identity)
        world.checker.bookies[self.checker.bookie_id] = self.checker
        self.supervisor = asyncio.get_running_loop().create_task(self._supervise())

    @property
    def up(self) -> bool:
        return self.running is not None

    async def _supervise(self) -> None:
        """Start the bookie, and again when it died, as a service manager does."""
        rng = Random(f"{self.world.seed}/{self.name}/supervisor")
        while self.given_up is None:
            if not self.stopped:
                await self._live()
            await asyncio.sleep(0.5 + 3 * rng.random())

    async def _live(self) -> None:
        """One life of the process, from its start to its end."""
        world = self.world
        if self._power_lost:
            self._power_lost = False
            self.disk.lose_power()
        world.network.host_restarted(self.host)
        self.starts += 1
        process = SimProcess(f"{self.name}.{self.starts}", self.host)
        process.listener = self.checker
        self.process = process
        self.disk.on_crash = lambda: self.kill("crashed at a boundary", power=True)
        try:
            self.running = await process.run(self._start(process), "start")
            world.trace(self.name, "up")
            process.call(self._probe, self.running.bookie)
            await process.died
        except ProcessGone:
            pass
        except (CoreError, InvalidCookie, CorruptData, LockHeld, OSError) as error:
            self._judge_refusal(error)
            world.trace(self.name, "refused to start", repr(error)[:150])
            self.kill("refused to start", power=False)
        finally:
            self.running = None

    async def _start(self, process: SimProcess) -> BookieProcess:
        store = self.world.metadata.open()
        files = SimFiles(self.disk, process)
        started = await start_bookie(self.config, store, self.clock, files)
        started.bookie.failed.add_done_callback(lambda _: self.kill("storage failed", power=False))
        started.refused.add_done_callback(lambda _: self.kill("id is in use", power=False))
        return started

    def _probe(self, bookie: OpenBookie) -> None:
        """Ask a bookie that just started for what it said before; its checker hears the answers."""
        known = self.world.checker.ledgers
        rng = Random(f"{self.world.seed}/{self.name}/{self.starts}")
        here = [key for key in self.checker.acked if not known[key[0]].deleted]
        for ledger_id, entry_id in rng.sample(here, min(len(here), 20)):
            bookie.submit(ReadRequest(ledger_id, entry_id), _nobody)
        fenced = [ledger_id for ledger_id in self.checker.fenced if not known[ledger_id].deleted]
        for ledger_id in rng.sample(fenced, min(len(fenced), 10)):
            metadata = known[ledger_id].metadata
            digest = Digest(metadata.digest, metadata.password)
            body = pack_entry(ledger_id, 0, -1, 6, (b"zombie",), digest)
            key = ledger_master_key(metadata.password)
            bookie.submit(AddRequest(ledger_id, 0, key, body), _nobody)

    def _judge_refusal(self, error: Exception) -> None:
        if isinstance(error, CorruptData | InvalidCookie | FileNotFoundError | FileExistsError):
            self.given_up = f"{type(error).__name__}: {error}"
            self.world.checker.expect(
                self.checker.damaged, f"bookie {self.name} refuses to start: {self.given_up}"
            )

    def kill(self, cause: str, *, power: bool) -> None:
        """End the process; with the power goes what was not synced."""
        process = self.process
        if process is None or not process.alive:
            return
        self.world.trace(self.name, "killed", f"{cause} power={power}")
        self.running = None
        process.kill(cause)
        self._power_lost |= power
        if power:
            self.world.network.hosts_down.add(self.host)
        self.world.network.host_died(process, power=power)

    async def stop(self) -> None:
        """End the bookie as an operator does."""
        self.stopped = True
        process, running = self.process, self.running
        if process is not None and running is not None and process.state is State.RUNNING:
            try:
                await process.run(running.close(), "close")
            except (ProcessGone, CoreError, OSError) as error:
                logger.info("stop_failed %s", error)
            finally:
                self.kill("stopped", power=False)


class Client:
    """A process that uses ledgers."""

    def __init__(
        self,
        world: "World",
        number: int,
        timeout_ms: int,
        connect_timeout_ms: int,
        settings: LedgerClientConfig | None = None,
    ) -> None:
        self.name = f"c{number}"
        self.world = world
        self.process = SimProcess(self.name, f"10.0.1.{number}")
        self.clock = SimClock(world.loop)
        self.settings = settings
        self.process.call(self._build, timeout_ms, connect_timeout_ms)

    ledgers: LedgerClient
    store: "MetadataStore"

    def _build(self, timeout_ms: int, connect_timeout_ms: int) -> None:
        world = self.world
        self.store = world.metadata.open()
        config = BookieClientConfig(
            connect_timeout_ms=connect_timeout_ms, request_timeout_ms=timeout_ms
        )
        self.bookies = RegisteredBookies(self.store, config)
        self.ledgers = LedgerClient(
            self.store,
            self.bookies,
            self.settings or draw_client(Random(f"{world.seed}/{self.name}/settings")),
            Random(f"{world.seed}/{self.name}"),
        )

    def kill(self, cause: str) -> None:
        if self.process.alive:
            self.world.trace(self.name, "killed", cause)
            self.process.kill(cause)
            self.world.network.host_died(self.process, power=self.world.rng.random() < 0.5)


def _directories(name: str, count: int) -> tuple[Path, ...]:
    return tuple(Path(f"/data/{name}{number or ''}") for number in range(count))


def draw_client(rng: Random) -> LedgerClientConfig:
    """Return the settings of one client."""
    speculative_ms = rng.choice((0, 50, 500))
    return LedgerClientConfig(
        read_window=rng.choice((1, 32)),
        recovery_read_batch=rng.randint(1, 5),
        read=ReadConfig(
            speculative_timeout_ms=speculative_ms,
            long_poll_speculative_timeout_ms=speculative_ms,
            long_poll_parallel=rng.random() < 0.3,
            reorder=rng.random() < 0.7,
            sticky=rng.random() < 0.3,
        ),
    )


def _nobody(_: Response) -> None:
    """Do nothing: the checker has heard it."""


_submit = OpenBookie.submit


def listened_submit(bookie: OpenBookie, request: Request, reply: Callable[[Any], None]) -> None:
    """Take the place of `Bookie.submit`: the checker of the bookie's machine listens."""
    process = current_process()
    checker = process.listener if process is not None else None
    if checker is None:
        _submit(bookie, request, reply)
    else:
        checker.listen(functools.partial(_submit, bookie), request, reply)
