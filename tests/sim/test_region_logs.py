"""A global replicated log as schedules: its owner's region is cut off, or lost; others go on."""

import asyncio
from typing import TYPE_CHECKING

from tailrace.core.errors import CoreError
from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.sim.regions import THREE, RegionStage, regional

if TYPE_CHECKING:
    from tailrace.core.log.writer import LogWriter

NAME = "global"
READ_BYTES = 1 << 20


class Confirmations:
    """A log writer's listener: how far it came."""

    def __init__(self) -> None:
        self.txid = 0
        self.error: CoreError | None = None

    def on_confirmed(self, txid: int) -> None:
        assert txid >= self.txid
        assert self.error is None
        self.txid = txid

    def on_failed(self, error: CoreError) -> None:
        self.error = error


class Owner:
    """A process that writes the log, or reads it, from one region."""

    def __init__(self, stage: RegionStage, region: str) -> None:
        stage.world.checker.knows_payloads = False
        size, write, ack = stage.globe.quorums
        self.stage = stage
        self.region = region
        self.client = stage.client(region)
        self.heard = Confirmations()
        self.pushed = 0
        self.writer: LogWriter | None = None
        self._config = LogConfig(
            ensemble_size=size,
            write_quorum=write,
            ack_quorum=ack,
            regions_min=stage.globe.regions_min,
            lock_timeout_s=0,
        )
        self._log: Log | None = None

    async def log(self) -> Log:
        if self._log is None:
            client = self.client
            logs = LogNamespace(client.store, client.ledgers, self._config, client.clock)
            if not await logs.log_exists(NAME):
                await logs.create_log(NAME)
            self._log = await logs.open_log(NAME)
        return self._log

    async def take_over(self) -> None:
        """Open the writer, as often as it takes: the lock of a lost owner lasts his session."""

        async def work() -> None:
            log = await self.log()
            while self.writer is None:
                try:
                    self.writer = await log.open_writer(self.heard)
                except CoreError as error:
                    self.stage.world.trace(self.region, "not taken over", type(error).__name__)
                    await asyncio.sleep(1)

        await self.client.process.run(work(), "take over")

    def append(self, first: int, count: int) -> None:
        """Append records whose txids say who wrote them and when."""
        self.client.process.call(self._append, first, count)

    def _append(self, first: int, count: int) -> None:
        writer = self.writer
        assert writer is not None
        for txid in range(first, first + count):
            payload = f"{self.region}:{txid}".encode()
            writer.append(txid, (payload,), len(payload))
            self.pushed = txid

    async def confirmed(self) -> None:
        await self.stage.until(lambda: self.heard.txid == self.pushed)

    async def close(self) -> None:
        """Complete the log, so that all of it is there for whoever opens it."""
        assert self.writer is not None
        await self.client.process.run(self.writer.close(), "close")

    async def read_all(self) -> list[bytes]:
        """Return every record that is confirmed, in order."""

        async def work() -> list[bytes]:
            reader = await (await self.log()).open_reader(INITIAL)
            found: list[bytes] = []
            while records := await reader.read(READ_BYTES):
                found += [bytes(record.record.payload) for record in records]
            await reader.close()
            return found

        return await self.client.process.run(work(), "read")  # type: ignore[no-any-return]


def records(region: str, first: int, last: int) -> list[bytes]:
    return [f"{region}:{txid}".encode() for txid in range(first, last + 1)]


@regional(THREE)
async def test_owner_in_the_minority_ends_and_another_region_goes_on(stage: RegionStage) -> None:
    """Fencing ends it, not the loss of its session, which it cannot hear of (D9)."""
    old, new = Owner(stage, "eu"), Owner(stage, "us")
    await old.take_over()
    old.append(1, 20)
    await old.confirmed()
    stage.part("eu")
    old.append(21, 5)
    await new.take_over()
    confirmed = old.heard.txid
    new.append(100, 10)
    await new.confirmed()
    if old.heard.error is None:
        old.append(26, 5)
    await asyncio.sleep(3)
    assert old.heard.txid == confirmed, "nothing counts in the minority"
    stage.heal()
    await stage.until(lambda: old.heard.error is not None, 120)
    new.append(110, 5)
    await new.close()
    found = await Owner(stage, "asia").read_all()
    kept = len(found) - 15
    assert 20 <= kept <= 25
    assert found == [*records("eu", 1, kept), *records("us", 100, 114)]


@regional(THREE)
async def test_region_of_the_owner_is_lost(stage: RegionStage) -> None:
    old, new = Owner(stage, "eu"), Owner(stage, "us")
    await old.take_over()
    old.append(1, 20)
    await old.confirmed()
    old.append(21, 5)
    stage.lose("eu")
    old.client.kill("region lost")
    began_s = asyncio.get_running_loop().time()
    await new.take_over()
    new.append(100, 10)
    await new.confirmed()
    took_s = asyncio.get_running_loop().time() - began_s
    await new.close()
    assert took_s < stage.world.metadata.session_timeout_s + 10
    found = await Owner(stage, "asia").read_all()
    kept = len(found) - 10
    assert 20 <= kept <= 25
    assert found == [*records("eu", 1, kept), *records("us", 100, 109)]
    await stage.bring_back("eu")
    assert await Owner(stage, "eu").read_all() == found


@regional(THREE)
async def test_log_is_read_in_the_own_region(stage: RegionStage) -> None:
    owner = Owner(stage, "eu")
    await owner.take_over()
    owner.append(1, 200)
    await owner.close()
    for region in stage.globe.regions:
        reading = Owner(stage, region)
        stage.crossings(region)
        assert await reading.read_all() == records("eu", 1, 200)
        assert stage.crossings(region) == 0
