"""What the users of a cluster do in a random schedule: write, tail, recover, delete.

Each actor is a task of its client's process and ends with it. What an actor may hear under faults
are `CoreError`s; anything else that it raises is a finding. What it reads goes to the checker.
"""

import asyncio
from random import Random

from tailrace.core.errors import CoreError, LedgerNotFound, OverCapacity
from tailrace.core.ledger.adv_writer import AdvLedgerWriter
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import EntryId
from tailrace.simulation.checkers import Checker, LedgerModel
from tailrace.simulation.machine import Client
from tailrace.simulation.world import World

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

    def start(self, client: Client, kind: str) -> None:
        """Start an actor of a kind: writer, reader, recoverer, deleter."""
        self._last_actor += 1
        rng = Random(f"{self.world.seed}/{kind}/{self._last_actor}")
        name = f"{kind}{self._last_actor}"
        actor = getattr(self, f"_{kind}")
        client.process.begin(self._guard(name, actor(client, rng, name)), name)

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
        listener = Listener(world.checker)
        config = draw_ledger(rng, rng.choice(self.quorums))
        writer: LedgerWriter | AdvLedgerWriter
        if rng.random() < 0.8:
            writer = await client.ledgers.create_ledger(config, listener)
        else:
            writer = await client.ledgers.create_ledger_adv(config, listener)
        listener.model = model = world.checker.ledgers[writer.ledger_id]
        model.writer = client.name
        world.trace(name, "created", f"{writer.ledger_id} {config.ensemble_size}")
        await self._add_all(writer, model, rng, deferred=config.deferred_sync)
        fate = rng.random()
        if fate < 0.6:
            await writer.close()
            world.trace(name, "closed", f"{writer.ledger_id} {writer.lac}")
        elif fate < 0.8:
            writer.abort()  # else it is just left behind

    async def _add_all(
        self,
        writer: LedgerWriter | AdvLedgerWriter,
        model: LedgerModel,
        rng: Random,
        *,
        deferred: bool,
    ) -> None:
        ids = self._draw_ids(rng.choice((0, 1, 5, 20, 60, 200)), rng, writer)
        burst = rng.choice((1, 1, 4, 20))
        think_s = rng.choice((0.0, 0.01, 0.1, 0.5))
        force_share = rng.choice((0.1, 0.5)) if deferred else rng.choice((0.0, 0.0, 0.1))
        while ids and not self.ended:
            for _ in range(min(rng.randint(1, burst), len(ids))):
                if not self._add(writer, model, ids[0]):
                    await asyncio.sleep(0.05)
                    break
                ids.pop(0)
            if rng.random() < force_share:
                await writer.force()
            if think_s:
                await asyncio.sleep(think_s * 2 * rng.random())

    def _draw_ids(
        self, count: int, rng: Random, writer: LedgerWriter | AdvLedgerWriter
    ) -> list[EntryId]:
        """Return the order of adds; a writer that may choose mixes neighbours."""
        ids = list(range(count))
        if isinstance(writer, AdvLedgerWriter):
            for at in range(0, count - 3, 3):
                some = ids[at : at + 4]
                rng.shuffle(some)
                ids[at : at + 4] = some
        return ids

    def _add(
        self, writer: LedgerWriter | AdvLedgerWriter, model: LedgerModel, entry_id: EntryId
    ) -> bool:
        before = model.pushed
        model.pushed = max(before, entry_id)  # first: its answer may come before `add` returns
        payload = model.payload(entry_id)
        parts = (payload[: len(payload) // 2], payload[len(payload) // 2 :])
        try:
            if isinstance(writer, AdvLedgerWriter):
                writer.add(entry_id, parts)
            else:
                added = writer.add(parts)
                self.world.checker.expect(
                    added == entry_id, f"entry {entry_id} was added as {added}"
                )
        except CoreError as error:
            model.pushed = before
            if isinstance(error, OverCapacity):
                return False
            raise
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
                position = await self.read_some(
                    reader, model, position, parallel=rng.random() < 0.2
                )
                continue
            if reader.is_closed:
                return
            patience -= 1
            await self._wait_for_more(reader, model, position, rng, identity)

    async def _wait_for_more(
        self,
        reader: LedgerReader,
        model: LedgerModel,
        position: EntryId,
        rng: Random,
        identity: str,
    ) -> None:
        """Hear of more, in one of the ways that there are."""
        how = rng.randrange(5)
        if how == 0:
            await reader.try_read_last_confirmed()
        elif how == 1:
            told = await reader.read_explicit_lac()
            self.world.checker.expect(
                told <= reader.last_confirmed, f"explicit LAC {told} beyond the LAC"
            )
        elif how == 2:
            await asyncio.sleep(rng.random())
            await reader.read_last_confirmed()
        else:
            timeout_ms = rng.choice((10, 300, 3_000))
            lac, entry = await reader.read_last_confirmed_and_entry(position, timeout_ms)
            self.world.checker.on_reader_lac(model, identity, lac)
            if entry is not None:
                self.world.checker.on_entry(model, entry.entry_id, entry.length, entry.payload)
                self.world.checker.expect(
                    entry.entry_id == position <= lac, f"waited for {position}: {entry} at {lac}"
                )

    async def read_some(
        self, reader: LedgerReader, model: LedgerModel, position: EntryId, *, parallel: bool = False
    ) -> EntryId:
        """Read and check a few entries; return where to go on."""
        last = min(reader.last_confirmed, position + READ_AT_ONCE - 1)
        entries = await reader.read(position, last, parallel=parallel)
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
        """Stop writers and fix the ends of ledgers at any moment, often two clients at once."""
        mean_s = rng.choice((0.2, 1.5, 6.0))
        while not self.ended:
            await asyncio.sleep(2 * mean_s * rng.random())
            model = self.busy_ledger(rng) if rng.random() < 0.9 else self._any_ledger(rng)
            if model is None:
                continue
            if rng.random() < 0.4:
                other = rng.choice([c for c in self.world.clients if c.process.alive])
                self.spawn_recovery(other, model, name)
            await self._try_recover(client, model, name)

    def spawn_recovery(self, client: Client, model: LedgerModel, name: str) -> None:
        """Let a client recover a ledger, whatever comes of it."""
        work = self._guard(name, self._try_recover(client, model, name))
        client.process.begin(work, name)

    async def _try_recover(self, client: Client, model: LedgerModel, name: str) -> None:
        self.world.trace(name, "recovers", model.ledger_id)
        try:
            await self.recover(client, model)
        except CoreError as error:
            self.world.trace(name, "recovery failed", f"{type(error).__name__}")

    def busy_ledger(self, rng: Random) -> LedgerModel | None:
        """Return an open ledger with entries, if there is one."""
        models = [m for m in self.world.checker.ledgers.values() if not m.deleted]
        busy = [m for m in models if not m.metadata.is_closed and m.pushed >= 0]
        return rng.choice(busy) if busy else None

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

    def _is_damaged_everywhere(self, model: LedgerModel) -> bool:
        """Whether damage beyond the promise hit all of its bookies, so that each may have lost it.

        A group at the end of a log whose bytes were changed looks like one that was cut short.
        """
        damaged = {f"{m.name}:3181" for m in self.world.machines if m.checker.damaged}
        ensembles = (fragment.ensemble for fragment in model.metadata.fragments)
        return not self.world.checker.within_promise and all(
            damaged.issuperset(ensemble) for ensemble in ensembles
        )

    async def _check_one(self, client: Client, model: LedgerModel) -> None:
        checker = self.world.checker
        error: CoreError | None = None
        for _ in range(12 if checker.within_promise else 2):
            try:
                reader = await self.recover(client, model)
                position = 0
                while position <= reader.last_confirmed:
                    position = await self.read_some(reader, model, position)
            except LedgerNotFound:
                is_lost = model.deleted or self._is_damaged_everywhere(model)
                checker.expect(is_lost, f"ledger {model.ledger_id} is gone")
                return
            except CoreError as failure:
                error = failure
                await asyncio.sleep(2)
            else:
                return
        # A damaged bookie may be unable to take an entry of just this ledger: it needs others.
        sound = [m for m in self.world.machines if m.up and not m.checker.damaged]
        enough = len(sound) >= model.metadata.ensemble_size
        if checker.within_promise and (enough or model.metadata.is_closed):
            checker.fail(f"ledger {model.ledger_id} {model.metadata} cannot be read: {error!r}")


def draw_ledger(rng: Random, quorums: tuple[int, int, int]) -> LedgerConfig:
    """Return how a ledger is made and written: mostly plainly, at times with all that there is."""
    ensemble_size, write_quorum, ack_quorum = quorums
    return LedgerConfig(
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        digest=rng.choice((DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC)),
        password=rng.choice((b"", b"", b"secret")),
        unconfirmed_entries_max=rng.choice((1, 10, 10_000)),
        delay_ensemble_change=rng.random() < 0.3,
        ensemble_changes_max=rng.choice((1, 1_000, 1_000)),
        deferred_sync=rng.random() < 0.1,
        explicit_lac_interval_ms=rng.choice((0, 0, 100)),
        add_entry_quorum_timeout_ms=rng.choice((0, 0, 2_000)),
        opportunistic_striping=rng.random() < 0.1,
    )
