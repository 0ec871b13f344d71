"""One world of proxies: the simulated cluster, shards of write proxies, thin clients, readers."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from tailrace.core.errors import CoreError, LogTruncated
from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.runtime.tasks import together
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import ProxyError
from tailrace.simulation.logs.client import LogClient
from tailrace.simulation.world import World
from tests.sim.proxies.checker import ProxyChecker, StreamModel
from tests.sim.proxies.client import (
    Reading,
    ThinProcess,
    Writer,
    change_things,
    draw_readings,
    read,
)
from tests.sim.proxies.server import ProxySettings, Shard
from tests.sim.proxies.wire import Wire

BEGINNING = DLSN(0, 0, 0)
READ_BYTES = 100_000


class ProxyWorld:
    """What is there beside the bookies and the metadata service."""

    def __init__(self, world: World, log_config: LogConfig) -> None:
        self.world = world
        self.rng = Random(f"{world.seed}/proxies")
        self.log_config = log_config
        self.checker = ProxyChecker(world)
        self.wire = Wire(world, self.checker)
        self.writing: list[Shard] = []
        self.reading: list[Shard] = []
        """Shards of write proxies, and of read proxies."""
        self.models: list[StreamModel] = []
        self.is_over = False
        """Whether writers and readers come to their end."""
        self.actors: list[tuple[ThinProcess | LogClient, asyncio.Task[None]]] = []
        self._made = 0

    @property
    def shards(self) -> list[Shard]:
        """All shards."""
        return self.writing + self.reading

    # What is made

    async def create_streams(self, count: int) -> None:
        client = self.new_log_client()
        for number in range(count):
            name = f"s{number}"
            await client.process.run(client.namespace.create_log(name), "create")
            self.models.append(self.checker.add(name, LogPaths(DEFAULT_ROOT, name)))

    def add_shard(self, settings: ProxySettings, *, writes: bool) -> None:
        """Start a proxy, which is started again when it ends."""
        shards = self.writing if writes else self.reading
        timeout_ms = self.rng.choice((300, 1_000, 5_000))
        shards.append(Shard(self, len(shards), settings, timeout_ms, writes=writes))

    def number(self) -> int:
        """Return a number that no process has."""
        self._made += 1
        return self._made

    def new_log_client(self) -> LogClient:
        """Start a process that reads streams directly."""
        client = LogClient(self.world, self.number(), self.log_config, 1_000)
        self.world.clients.append(client)
        return client

    def new_thin_client(
        self, *, finds_all: bool = False, config: ClientConfig | None = None
    ) -> ThinProcess:
        client = ThinProcess(self, self.number(), finds_all=finds_all, config=config)
        self.world.clients.append(client)  # type: ignore[arg-type]
        return client

    # What is done

    def populate(self, _: object = None) -> None:
        """Start a process with a few writers and readers, or one of direct readers."""
        rng = self.rng
        if rng.random() < 0.25:
            reading = self.new_log_client()
            for _number in range(rng.randint(1, 2)):
                self._act(reading, f"reader{self.number()}", self._read_directly)
            return
        client = self.new_thin_client()
        for act, name, most in (
            (self._write, "writer", 2),
            (self._read, "reader", 2),
            (self._change, "changer", 1),
        ):
            for _number in range(rng.randint(0, most)):
                self._act(client, f"{name}{self.number()}", act)

    def start_writer(self, client: ThinProcess) -> None:
        self._act(client, f"writer{self.number()}", self._write)

    def _act(
        self,
        client: ThinProcess | LogClient,
        name: str,
        act: Callable[..., Awaitable[None]],
    ) -> None:
        rng = Random(f"{self.world.seed}/{name}")
        work = self._guard(name, act(client, name, rng))
        self.actors.append((client, client.process.spawn(work, name)))

    async def _guard(self, name: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the actor's owner
            self.world.checker.fail(f"{name} raised {error!r}")

    async def _write(self, client: ThinProcess, name: str, rng: Random) -> None:
        writer = Writer(client, rng.choice(self.models), name, rng)
        await writer.run(lambda: self.is_over)

    async def _change(self, client: ThinProcess, name: str, rng: Random) -> None:
        del name
        await change_things(client, self.models, rng, lambda: self.is_over)

    # Readers

    async def _read(self, client: ThinProcess, name: str, rng: Random) -> None:
        while not self.is_over:
            model = rng.choice(self.models)
            await together(
                [
                    self._read_once(client, model, f"{name}.{number}", rng, how)
                    for number, how in enumerate(draw_readings(rng))
                ]
            )
            await asyncio.sleep(0.1 + rng.random())

    async def _read_once(
        self, client: ThinProcess, model: StreamModel, name: str, rng: Random, how: Reading
    ) -> None:
        try:
            await read(client, model, name, rng, how, lambda: self.is_over)
        except LogTruncated:
            model.expect(model.truncated > BEGINNING, f"{name}: truncated, by nothing")
        except ProxyError as error:
            self.world.trace(name, "reader failed", type(error).__name__)

    async def _read_directly(self, client: LogClient, name: str, rng: Random) -> None:
        while not self.is_over:
            model = rng.choice(self.models)
            try:
                await self._follow(client, model, name, rng)
            except LogTruncated:
                model.expect(model.truncated > BEGINNING, f"{name}: truncated, by nothing")
            except CoreError as error:
                self.world.trace(name, "reader failed", type(error).__name__)
            await asyncio.sleep(0.1 + rng.random())

    async def _follow(self, client: LogClient, model: StreamModel, name: str, rng: Random) -> None:
        log = await client.namespace.open_log(model.name)
        start = rng.choice(sorted(model.seen)) if model.seen and rng.random() < 0.7 else BEGINNING
        run = model.new_run(f"{name}@{self.world.loop.time():.3f}")
        reader = await log.open_reader(start)
        patience = rng.randint(1, 12)
        try:
            while patience and not self.is_over:
                found = await reader.read(rng.choice((1, 1_000, READ_BYTES)))
                for dlsn, record in found:
                    model.on_record(name, run, dlsn, bytes(record.payload))
                if not found:
                    patience -= 1
                    await reader.wait_for_more()
        finally:
            await reader.close()

    # The end

    async def check(self, client: LogClient) -> None:
        """Take each stream over, complete it, read it whole, and hold it against all else."""
        for model in self.models:
            log = await self._complete(client, model)
            run = model.new_run("check")
            reader = await log.open_reader(BEGINNING)
            try:
                while found := await reader.read(READ_BYTES):
                    for dlsn, record in found:
                        model.on_record("check", run, dlsn, bytes(record.payload))
            finally:
                await reader.close()
            await log.refresh()
            model.check(tuple(log.segments), run)

    async def _complete(self, client: LogClient, model: StreamModel) -> Log:
        while True:
            try:
                log = await client.namespace.open_log(model.name)
                writer = await log.open_writer(_Unheard())
                await writer.close()
            except CoreError as error:
                self.world.trace(client.name, "check failed", repr(error)[:150])
                await asyncio.sleep(1.0)
            else:
                return log


class _Unheard:
    """A log's listener."""

    def on_confirmed(self, txid: int) -> None:
        pass

    def on_failed(self, error: CoreError) -> None:
        pass
