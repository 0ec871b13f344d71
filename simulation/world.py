"""One simulated cluster, built from a seed."""

import asyncio
import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from typing_extensions import override

from tailrace.bookie.app import OpenBookie
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.network_location import parse_location
from tailrace.protocol.ids import BookieId
from tailrace.simulation.checkers import Checker
from tailrace.simulation.loop import SimLoop
from tailrace.simulation.machine import Client, Machine, listened_submit
from tailrace.simulation.metadata import HOST, MetadataServer
from tailrace.simulation.network import SimNetwork
from tailrace.simulation.process import ProcessDied
from tailrace.simulation.remains import end_what_is_left
from tailrace.simulation.trace import Trace

BUGS = ("task_failed", "background_task_failed", "connection failed", "reply_failed")
"""Log lines of fault boundaries: what they caught was foreseen by nobody."""


class World:
    """Everything that one schedule has. Made on its loop, by `simulate`."""

    def __init__(self, seed: int, loop: SimLoop, trace: Trace) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = trace
        self.rng = Random(f"{seed}/world")
        self.network = SimNetwork(loop, Random(f"{seed}/network"), trace)
        self.checker = Checker(seed, loop.time)
        self.metadata = MetadataServer(Random(f"{seed}/metadata"))
        self.metadata.network = self.network
        self.metadata.trace = trace
        self.metadata.observers.append(self.checker.on_node)
        self.machines: list[Machine] = []
        self.clients: list[Client] = []
        self._ticker = loop.create_task(self.metadata.tick())

    async def start(
        self, bookies: int, settings: dict[str, Any] | None = None, places: Sequence[str] = ()
    ) -> None:
        """Make the metadata tree and start bookies; return when all are up.

        `places`: where they stand, as /region/rack, in turn; nobody says so otherwise.
        """
        await initialize_layout(self.metadata.open(), instance_id="simulated")
        for number in range(bookies):
            self.add_machine(settings or {}, places[number % len(places)] if places else "")
        async with asyncio.timeout(60):
            while not all(machine.up for machine in self.machines):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    def add_machine(self, settings: dict[str, Any], place: str = "") -> Machine:
        """Make a machine, whose bookie starts by itself."""
        if place:
            settings = {**settings, "network_location": place}
        machine = Machine(self, len(self.machines) + 1, settings)
        if place:
            region = parse_location(place).region
            self.network.regions[machine.host] = region
            self.checker.regions[BookieId(machine.config.identity)] = region
        self.machines.append(machine)
        return machine

    def new_client(
        self,
        timeout_ms: int = 1_000,
        connect_timeout_ms: int | None = None,
        config: LedgerClientConfig | None = None,
    ) -> Client:
        """`config`: its settings; drawn otherwise. It stands where they say."""
        number = len(self.clients) + 1
        client = Client(self, number, timeout_ms, connect_timeout_ms or timeout_ms, config)
        own = config.placement.own() if config is not None else None
        if own is not None:
            self.network.regions[client.process.host] = own.region
        self.clients.append(client)
        return client

    async def all_well(self) -> None:
        """Return once every bookie is up, but those that found their disk damaged."""
        while not all(each.up or each.given_up for each in self.machines):  # noqa: ASYNC110
            await asyncio.sleep(0.5)

    def hosts(self) -> list[str]:
        """Return every host, the metadata service's last."""
        hosts = [machine.host for machine in self.machines]
        hosts += [client.process.host for client in self.clients if client.process.alive]
        return [*hosts, HOST]

    async def close(self) -> None:
        """End what the simulation itself runs; processes are left where they are."""
        tasks = [self._ticker, *(machine.supervisor for machine in self.machines)]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                self.checker.fail(f"the simulation raised {task.exception()!r}")

    def drop(self) -> None:
        """Let go of all processes, whose tasks were never finished and never will be."""
        for machine in self.machines:
            machine.process = machine.running = None
        self.clients.clear()
        for process in self.loop.processes:
            process.kept.clear()
        self.loop.processes.clear()
        self.metadata.sessions.clear()
        self.network.listeners.clear()
        self.network.transports.clear()


Story = Callable[[World], Coroutine[Any, Any, None]]


def simulate(seed: int, story: Story, *, show: bool = False) -> World:
    """Run a story in a new world; the world tells what happened."""
    loop = SimLoop(Random(f"{seed}/loop"))
    trace = Trace(now_s=loop.time, show=show)
    made: list[World] = []

    async def main() -> None:
        world = World(seed, loop, trace)
        made.append(world)
        try:
            await story(world)
        finally:
            await world.close()

    bugs: list[str] = []
    with _nothing_from_outside(bugs), patch.object(OpenBookie, "submit", listened_submit):
        try:
            _run(loop, main())
        except BaseException as error:
            error.add_note(_tasks(loop))
            raise
        finally:
            found = bugs[:]  # what finalisers of the dead say from now on is nothing
            checker = made[0].checker
            heard, trace.is_over = checker.violations[:], True
            found += end_what_is_left(loop)
            checker.violations[:] = heard
            loop.close()
            for world in made:
                world.drop()
            gc.collect()
    _judge_what_failed(loop, found, checker)
    return made[0]


def _judge_what_failed(loop: SimLoop, bugs: list[str], checker: Checker) -> None:
    for bug in bugs:
        checker.fail(bug)
    for context in loop.failures:
        error = context.get("exception")
        if not isinstance(error, ProcessDied):
            checker.fail(f"a callback raised: {context.get('message')} {error!r}")


def _run(loop: SimLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run to the end of `main` and drop the rest: processes end as if the power went."""
    asyncio.set_event_loop(None)
    loop.run_until_complete(loop.create_task(main))


def _tasks(loop: SimLoop) -> str:
    """Return what every task waits for."""
    lines = []
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        stack = task.get_stack(limit=3)
        where = " <- ".join(f"{f.f_code.co_name}:{f.f_lineno}" for f in reversed(stack))
        lines.append(f"  {task.get_name()} {where}")
    return "\n".join(lines)


class _BugHandler(logging.Handler):
    def __init__(self, bugs: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.bugs = bugs

    @override
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if str(record.msg).startswith(BUGS) and not isinstance(error, ProcessDied):
            self.bugs.append(f"{record.name}: {record.getMessage()}: {error!r}")


@contextlib.contextmanager
def _nothing_from_outside(bugs: list[str]) -> Iterator[None]:
    """Keep out what varies: collections of garbage, and what finalisers of the dead say.

    Log lines go nowhere, except what fault boundaries caught: to `bugs`.
    """
    root, hook = logging.getLogger(), sys.unraisablehook
    handler = _BugHandler(bugs)
    former, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():  # of coroutines that died before their first step
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
            gc.disable()
            bugs.clear()
            yield
    finally:
        handler.bugs = []
        gc.enable()
        sys.unraisablehook = hook
        root.handlers[:] = former
        root.setLevel(level)
