"""What the users of a cluster do in a random schedule: write, tail, recover, delete.

Each actor is a task of its client's process and ends with it. What an actor may hear under faults
are `CoreError`s; anything else that it raises is a finding. What it reads goes to the checker.
"""

import asyncio
from random import Random

from core.errors import CoreError, LedgerNotFound, OverCapacity
from core.ledger.config import LedgerConfig
from core.ledger.reader import LedgerReader
from core.ledger.writer import LedgerWriter
from protocol.ids import EntryId, LedgerId
from tests.sim.checkers import Checker, LedgerModel
from tests.sim.machine import Client
from tests.sim.world import World

READ_AT_ONCE = 40


class Listener:
    """A ledger's listener: tells the checker."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.model: LedgerModel | None = None
        self.error: CoreError | None = None

    def on_confirmed(self, lac: EntryId) -> None:
        assert self.model is not None, "nothing was added yet"
        self._checker.on_confirmed(self.model, lac)

    def on_failed(self, error: CoreError) -> None:
        self._checker.expect(self.error is None, f"on_failed twice: {self.error!r}, {error!r}")
        self.error = error


class Workload:
    """The actors of one world."""

    def __init__(self, world: World, quorums: list[tuple[int, int, int]]) -> None:
        self.world = world
        self.quorums = quorums
        self.ended = False
        """Writers and readers come to their end."""
        self._last_actor = 0

    def start(self, client: Client, kind: str) -> "asyncio.Task[None]":
        """Start an actor of a kind: writer, reader, recoverer, deleter."""
        self._last_actor += 1
        rng = Random(f"{self.world.seed}/{kind}/{self._last_actor}")
        name = f"{kind}{self._last_actor}"
        actor = getattr(self, f"_{kind}")
        return client.process.spawn(self._guard(name, actor(client, rng, name)), name)

    async def _guard(self, name: str, work: object) -> None:
        try:
            await work  # type: ignore[misc]
        except CoreError as error:
            self.world.trace(name, "ended", f"{type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - the actor's owner
            self.world.checker.fail(f"{name} raised {error!r}")

    # Writing

    async def _writer(self, client: Client, rng: Random, name: str) -> None:
        """Write ledger after ledger."""
        while not self.ended:
            try:
                await self._write_one(client, rng, name)
            except CoreError as error:
                self.world.trace(name, "writer failed", f"{type(error).__name__}")
            await asyncio.sleep(rng.random())

    async def _write_one(self, client: Client, rng: Random, name: str) -> None:
        world = self.world
        ensemble_size, write_quorum, ack_quorum = rng.choice(self.quorums)
        listener = Listener(world.checker)
        config = LedgerConfig(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            unconfirmed_entries_max=rng.choice((1, 10, 10_000)),
        )
        writer = await client.ledgers.create_ledger(config, listener)
        listener.model = model = world.checker.ledgers[writer.ledger_id]
        world.trace(name, "created", f"{writer.ledger_id} {config.ensemble_size}")
        await self._add_all(writer, model, rng)
        fate = rng.random()
        if fate < 0.6:
            await writer.close()
            world.trace(name, "closed", f"{writer.ledger_id} {writer.lac}")
        elif fate < 0.8:
            writer.abort()  # else it is just left behind

    async def _add_all(self, writer: LedgerWriter, model: LedgerModel, rng: Random) -> None:
        count = rng.choice((0, 1, 5, 20, 60, 150))
        burst = rng.choice((1, 1, 4, 20))
        think_s = rng.choice((0.0, 0.01, 0.1, 0.5))
        while model.pushed < count - 1 and not self.ended:
            for _ in range(rng.randint(1, burst)):
                if not self._add(writer, model):
                    await asyncio.sleep(0.05)
                    break
            if think_s:
                await asyncio.sleep(think_s * 2 * rng.random())

    def _add(self, writer: LedgerWriter, model: LedgerModel) -> bool:
        entry_id = model.pushed + 1
        model.pushed = entry_id  # first: its answer may come before `add` returns it
        payload = model.payload(entry_id)
        half = len(payload) // 2
        try:
            added = writer.add((payload[:half], payload[half:]))
        except CoreError as error:
            model.pushed = entry_id - 1
            if isinstance(error, OverCapacity):
                return False
            raise
        self.world.checker.expect(added == entry_id, f"entry {entry_id} was added as {added}")
        return True

    # Reading

    async def _reader(self, client: Client, rng: Random, name: str) -> None:
        """Tail one ledger after the other, without stopping their writers."""
        while not self.ended:
            model = self._any_ledger(rng)
            if model is not None:
                try:
                    await self._tail(client, model, rng, name)
                except CoreError as error:
                    self.world.trace(name, "reader failed", f"{type(error).__name__}")
            await asyncio.sleep(0.1 + rng.random())

    async def _tail(self, client: Client, model: LedgerModel, rng: Random, name: str) -> None:
        reader = await client.ledgers.open_ledger(model.ledger_id, recover=False)
        identity = f"{name}.{self.world.loop.time():.3f}"
        position = 0
        patience = rng.randint(1, 12)
        while patience and not self.ended:
            self.world.checker.on_reader_lac(model, identity, reader.last_confirmed)
            if position <= reader.last_confirmed:
                position = await self.read_some(reader, model, position)
                continue
            if reader.is_closed:
                return
            patience -= 1
            await asyncio.sleep(rng.random())
            await reader.read_last_confirmed()

    async def read_some(
        self, reader: LedgerReader, model: LedgerModel, position: EntryId
    ) -> EntryId:
        """Read and check a few entries; return where to go on."""
        last = min(reader.last_confirmed, position + READ_AT_ONCE - 1)
        entries = await reader.read(position, last)
        got = [entry.entry_id for entry in entries]
        self.world.checker.expect(
            got == list(range(position, last + 1)),
            f"ledger {model.ledger_id}: asked for {position}..{last}, got {got}",
        )
        for entry in entries:
            self.world.checker.on_entry(model, entry.entry_id, entry.length, entry.payload)
        return last + 1

    def _any_ledger(self, rng: Random) -> LedgerModel | None:
        models = [model for model in self.world.checker.ledgers.values() if not model.deleted]
        if not models:
            return None
        return rng.choice(models[-4:] if rng.random() < 0.7 else models)

    # Recovering and deleting

    async def _recoverer(self, client: Client, rng: Random, name: str) -> None:
        """Stop writers and fix the ends of ledgers, at any moment."""
        while not self.ended:
            await asyncio.sleep(rng.choice((0.05, 0.5, 2.0)) * rng.random())
            model = self._any_ledger(rng)
            if model is None:
                continue
            self.world.trace(name, "recovers", model.ledger_id)
            try:
                await self.recover(client, model)
            except CoreError as error:
                self.world.trace(name, "recovery failed", f"{type(error).__name__}")

    async def recover(self, client: Client, model: LedgerModel) -> LedgerReader:
        """Recover a ledger; what comes out is what the metadata says from then on."""
        reader = await client.ledgers.open_ledger(model.ledger_id, recover=True)
        metadata = model.metadata
        if not model.deleted:
            self.world.checker.expect(
                metadata.is_closed and reader.last_confirmed == metadata.last_entry_id,
                f"ledger {model.ledger_id} recovered to {reader.last_confirmed}, "
                f"stored is {metadata.last_entry_id}",
            )
        return reader

    async def _deleter(self, client: Client, rng: Random, name: str) -> None:
        """Delete ledgers, and have the bookies collect what nobody needs."""
        while not self.ended:
            await asyncio.sleep(1 + 6 * rng.random())
            model = self._any_ledger(rng)
            if model is not None and rng.random() < 0.5:
                self.world.trace(name, "deletes", model.ledger_id)
                try:
                    await client.ledgers.delete_ledger(model.ledger_id)
                except CoreError as error:
                    self.world.trace(name, "delete failed", f"{type(error).__name__}")

    # The end

    async def check_all(self, client: Client) -> None:
        """Recover and read every ledger that is there, with nothing wrong any more."""
        for model in list(self.world.checker.ledgers.values()):
            if not model.deleted:
                await self._check_one(client, model)

    async def _check_one(self, client: Client, model: LedgerModel) -> None:
        checker = self.world.checker
        error: CoreError | None = None
        for _ in range(12):
            try:
                reader = await self.recover(client, model)
                position = 0
                while position <= reader.last_confirmed:
                    position = await self.read_some(reader, model, position)
            except LedgerNotFound:
                checker.expect(model.deleted, f"ledger {model.ledger_id} is gone")
                return
            except CoreError as failure:
                error = failure
                await asyncio.sleep(2)
            else:
                return
        if checker.within_promise:
            checker.fail(f"ledger {model.ledger_id} {model.metadata} cannot be read: {error!r}")


def ledger_ids(world: World) -> list[LedgerId]:
    return sorted(world.checker.ledgers)
