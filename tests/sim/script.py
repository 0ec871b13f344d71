"""Scripted schedules: a story on a stage where every step is chosen.

`@scripted(bookies=3)` makes a test of a story: it runs in a new world, and every checker listens.
Time is virtual: `until` waits for a moment of the schedule, not for a machine.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.simulation.checkers import LedgerModel
from tailrace.simulation.machine import Client, Machine
from tailrace.simulation.workload import Listener, Workload
from tailrace.simulation.world import World, simulate

SETTINGS = {"preallocate_mb": 0, "page_cache_mb": -1}


class Stage:
    """What a story works with."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.workload = Workload(world, [])

    async def until(self, holds: Callable[[], bool], limit_s: float = 30.0) -> None:
        async with asyncio.timeout(limit_s):
            while not holds():  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.001)

    async def create(
        self, client: Client, ensemble_size: int, write_quorum: int, ack_quorum: int, **more: Any
    ) -> "WrittenLedger":
        """Make a ledger that `client` writes."""
        listener = Listener(self.world.checker)
        config = LedgerConfig(
            ensemble_size=ensemble_size, write_quorum=write_quorum, ack_quorum=ack_quorum, **more
        )
        work = client.ledgers.create_ledger(config, listener)
        writer: LedgerWriter = await client.process.run(work, "create")
        listener.model = self.world.checker.ledgers[writer.ledger_id]
        return WrittenLedger(self, client, writer, listener)

    async def recover(self, client: Client, ledger: "WrittenLedger") -> int:
        """Recover as another client; return the end that was fixed."""
        work = self.workload.recover(client, ledger.model)
        reader = await client.process.run(work, "recover")
        return reader.last_confirmed  # type: ignore[no-any-return]

    async def read_all(self, client: Client, ledger: "WrittenLedger") -> int:
        """Recover, read and check every entry; return how many there are."""
        model = ledger.model

        async def work() -> int:
            reader = await self.workload.recover(client, model)
            position = 0
            while position <= reader.last_confirmed:
                position = await self.workload.read_some(reader, model, position)
            return position

        return await client.process.run(work(), "read")  # type: ignore[no-any-return]

    def cut(self, one: Client | Machine, other: Client | Machine) -> None:
        """Let nothing pass between two, in both directions."""
        self.block(one, other)
        self.block(other, one)

    def block(self, source: Client | Machine, target: Client | Machine) -> None:
        self.world.network.block(_host(source), _host(target))

    def unblock(self, source: Client | Machine, target: Client | Machine) -> None:
        self.world.network.unblock(_host(source), _host(target))

    def reset(self, one: Client | Machine, other: Client | Machine) -> None:
        """Break the connections between two; with a cut in between each learns it by itself."""
        for transport in self.world.network.connections(_host(one)):
            if transport.peer.host == _host(other):
                for end in (transport, transport.peer):
                    end._force_close(ConnectionResetError(104, "Connection reset by peer"))

    def heal(self) -> None:
        self.world.network.heal()


class WrittenLedger:
    """A ledger, its writer, and who hears of it."""

    def __init__(
        self, stage: Stage, client: Client, writer: LedgerWriter, listener: Listener
    ) -> None:
        self.writer = writer
        self.listener = listener
        self.client = client
        self._stage = stage

    @property
    def model(self) -> LedgerModel:
        assert self.listener.model is not None
        return self.listener.model

    @property
    def machines(self) -> list[Machine]:
        """The machines of the present ensemble, in its order."""
        by_id = {machine.config.identity: machine for machine in self._stage.world.machines}
        return [by_id[bookie] for bookie in self.model.metadata.fragments[-1].ensemble]

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self.client.process.call(self._add)

    def _add(self) -> None:
        self._stage.workload._add(self.writer, self.model, self.model.pushed + 1)

    async def add_confirmed(self, count: int) -> None:
        """Add entries and wait until the last one is confirmed."""
        self.add(count)
        await self._stage.until(lambda: self.model.confirmed == self.model.pushed)


def _host(who: Client | Machine) -> str:
    return who.process.host if isinstance(who, Client) else who.host


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def scripted(bookies: int, **settings: Any) -> Callable[[Story], Callable[[], None]]:
    """Make a test of a story: no checker may have found anything in the end."""

    def decorate(story: Story) -> Callable[[], None]:
        @functools.wraps(story)
        def test() -> None:
            async def on_stage(world: World) -> None:
                await world.start(bookies, {**SETTINGS, **settings})
                await story(Stage(world))

            world = simulate(1, on_stage)
            assert not world.checker.violations, "\n".join(map(str, world.checker.violations))

        del test.__wrapped__  # type: ignore[attr-defined] - pytest would ask for its parameters
        return test

    return decorate
