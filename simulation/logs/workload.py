"""What the users of logs do in a random schedule: own and write, read and tail, truncate, roll.

Each actor is a task of its client's process and ends with it. What an actor may hear under faults
are `CoreError`s; anything else that it raises is a finding. What it hears goes to the checkers.
"""

import asyncio
from random import Random

from typing_extensions import override

from tailrace.core.errors import CoreError, LogExists, LogTruncated, OverCapacity
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.core.log.reader import LogReader
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.simulation.logs.checker import NOTHING, LogModel, Owner, Reading
from tailrace.simulation.logs.client import LogClient, SearchReads
from tailrace.simulation.workload import Workload
from tailrace.simulation.world import World

BEGINNING = DLSN(0, 0, 0)
OPEN_WITHIN_S = 900.0
"""With nothing wrong any more: connections that broke unheard, and sessions, are over by then."""


class LogWorkload(Workload):
    """The actors of one world of logs."""

    def __init__(self, world: World, names: list[str]) -> None:
        super().__init__(world, [])
        self.models = {name: LogModel(world, name, LogPaths(DEFAULT_ROOT, name)) for name in names}
        self.takeovers = 0

    # Owners

    async def _owner(self, client: LogClient, rng: Random, name: str) -> None:
        """Try to own one log after the other, and write as long as that lasts."""
        while not self.ended:
            model = self.models[rng.choice(list(self.models))]
            try:
                await self._own(client, model, rng, name)
            except CoreError as error:
                self.world.trace(name, "owner failed", f"{type(error).__name__}")
            await asyncio.sleep(rng.choice((0.05, 0.5, 2.0)) * rng.random())

    async def _own(self, client: LogClient, model: LogModel, rng: Random, name: str) -> None:
        log = await self._open_log(client, model)
        owner = model.new_owner(name)
        writer = await log.open_writer(owner, owner.state)
        owner.on_opened(writer.last_txid)
        self.takeovers += 1
        self.world.trace(name, "owns", f"{model.name} from {owner.first}")
        try:
            await self._write(log, writer, owner, rng)
            if rng.random() < 0.6:
                await writer.close()
                self.world.trace(name, "closed", f"{model.name} {writer.last_txid}")
        finally:
            await writer.abort()

    async def _open_log(self, client: LogClient, model: LogModel) -> Log:
        if not await client.namespace.log_exists(model.name):
            try:
                await client.namespace.create_log(model.name)
            except LogExists:
                self.world.trace(client.name, "created by another", model.name)
        return await client.namespace.open_log(model.name)

    async def _write(self, log: Log, writer: LogWriter, owner: Owner, rng: Random) -> None:
        burst = rng.choice((1, 1, 5, 30))
        think_s = rng.choice((0.0, 0.01, 0.1, 0.5))
        roll_share, truncate_share = rng.choice((0.0, 0.05, 0.3)), rng.choice((0.0, 0.05, 0.2))
        for _ in range(rng.choice((1, 5, 20, 60))):
            if self.ended:
                return
            for _ in range(rng.randint(1, burst)):
                self._append(writer, owner, rng.choice((0, 20, 20, 300, 5_000)))
            if rng.random() < 0.3:
                await writer.flush()
            if rng.random() < roll_share:
                await writer.roll()
            if rng.random() < truncate_share:
                await self._truncate(log, owner, rng)
            await asyncio.sleep(think_s * 2 * rng.random())

    def _append(self, writer: LogWriter, owner: Owner, size: int) -> None:
        txid, payload = owner.next_record(size)
        owner.on_appended(txid, payload)
        middle = len(payload) // 2
        try:
            writer.append(txid, (payload[:middle], payload[middle:]), len(payload))
        except CoreError as error:
            owner.appended.pop()
            if not isinstance(error, OverCapacity):
                raise

    async def _truncate(self, log: Log, owner: Owner, rng: Random) -> None:
        """Give up what is before a record, often the last one of a segment; purge sometimes."""
        last = owner.first + owner.confirmed - 1
        if last <= NOTHING:
            return
        ends = [s.last_txid for s in log.segments if 0 <= s.last_txid <= last]
        txid = rng.choice(ends) if ends and rng.random() < 0.4 else rng.randint(0, last)
        dlsn = await log.locate(txid)
        if dlsn is None:
            return
        owner.model.on_truncate(txid)
        self.world.trace(owner.name, "truncates", f"{owner.model.name} {txid} {dlsn}")
        await log.truncate(dlsn)
        if rng.random() < 0.5:
            await log.purge_segments(dlsn.lssn)

    # Readers

    @override
    async def _reader(self, client: LogClient, rng: Random, name: str) -> None:  # type: ignore[override]
        while not self.ended:
            model = self.models[rng.choice(list(self.models))]
            try:
                await self._tail_log(client, model, rng, name)
            except LogTruncated:
                model.expect(model.first_kept_max > 1, f"{name}: truncated, and nobody did it")
            except CoreError as error:
                self.world.trace(name, "reader failed", f"{type(error).__name__}")
            await asyncio.sleep(0.1 + rng.random())

    async def _tail_log(self, client: LogClient, model: LogModel, rng: Random, name: str) -> None:
        log = await client.namespace.open_log(model.name)
        start = await self._choose_start(log, model, rng)
        reading = model.new_reading(f"{name}@{self.world.loop.time():.3f}", start)
        reader = await log.open_reader(start)
        try:
            await self._follow(client, reader, reading, rng)
        finally:
            await reader.close()

    async def _choose_start(self, log: Log, model: LogModel, rng: Random) -> DLSN:
        how = rng.randrange(3)
        if how == 0 or not model.places:
            return BEGINNING
        txid = rng.choice(list(model.places))
        place: DLSN | None = model.places[txid][0]
        if how == 1:
            reads = SearchReads()
            place = await reads.hear(log.locate(txid))
            if place is not None:
                model.on_found(txid, place, reads.is_hidden)
        if place is None:
            return BEGINNING
        model.starts.add(place)
        return place

    async def _follow(
        self, client: LogClient, reader: LogReader, reading: Reading, rng: Random
    ) -> None:
        patience, failures = rng.randint(1, 12), rng.choice((0, 2))
        max_bytes = rng.choice((1, 1_000, 100_000))
        while patience and not self.ended:
            try:
                found = await reader.read(max_bytes)
            except LogTruncated:
                raise
            except CoreError:
                if not failures:
                    raise
                failures -= 1
                await asyncio.sleep(rng.random())
                continue
            reading.on_records(found)
            client.ledgers.look()
            if not found:
                patience -= 1
                await reader.wait_for_more()

    # The end

    async def check_logs(self, client: LogClient) -> None:
        """Take over, read, write and close every log, with nothing wrong any more."""
        for model in self.models.values():
            await self._check_until_open(client, model)

    async def _check_until_open(self, client: LogClient, model: LogModel) -> None:
        deadline_s = self.world.loop.time() + OPEN_WITHIN_S
        pause_s = 1.0
        while True:
            try:
                await self._check_log(client, model)
            except CoreError as error:
                self.world.trace(client.name, "check failed", repr(error)[:150])
                if self.world.loop.time() > deadline_s:
                    model.expect(holds=False, what=f"cannot be opened and read: {error!r}")
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, 60.0)
            else:
                return

    async def _check_log(self, client: LogClient, model: LogModel) -> None:
        log = await self._open_log(client, model)
        owner = model.new_owner("check")
        writer = await log.open_writer(owner, owner.state)
        try:
            owner.on_opened(writer.last_txid)
            found = await self._read_whole(log, model, writer.last_txid)
            model.check_segments(tuple(log.segments), found)
            for _ in range(3):
                self._append(writer, owner, 20)
            await writer.close()
        finally:
            await writer.abort()
        model.expect(owner.confirmed == 3, f"only {owner.confirmed} of 3 records were confirmed")
        found = await self._read_whole(log, model, writer.last_txid)
        await log.refresh()
        model.check_segments(tuple(log.segments), found)
        model.check_owners()

    async def _read_whole(self, log: Log, model: LogModel, last_txid: int) -> Reading:
        reading = model.new_reading("check", BEGINNING)
        reader = await log.open_reader(BEGINNING)
        try:
            while found := await reader.read(100_000):
                reading.on_records(found)
        finally:
            await reader.close()
        last = NOTHING if reading.last is None else reading.last.record.txid
        model.expect(last == max(last_txid, NOTHING), f"ends at {last}, its owner at {last_txid}")
        missing = sorted(
            txid for txid in model.confirmed if txid > last and txid >= model.first_kept_max
        )
        model.expect(not missing, f"confirmed and not there: {missing[:10]}")
        return reading
