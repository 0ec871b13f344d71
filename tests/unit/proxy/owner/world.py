"""Write proxies over a real namespace, in virtual time: no waiting, and a hang is a Deadlock."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from typing_extensions import override

from tailrace.core.log.log import Log
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.config import OwnerConfig, proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import Answer
from tailrace.proxy.owner.streams import Streams
from tailrace.simulation.loop import SimLoop
from tailrace.simulation.metadata import MetadataServer
from tests.unit.core.ledger.world import hear_assertions
from tests.unit.core.log.world import QUIET, World, read_all

SESSION_TIMEOUT_MS = 9_000


class LoopClock:
    """The loop's own time."""

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class Events:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def on_acquired(self, stream: str) -> None:
        self.seen.append(("acquired", stream))

    def on_released(self, stream: str) -> None:
        self.seen.append(("released", stream))

    def on_inconsistent(self, stream: str) -> None:
        self.seen.append(("inconsistent", stream))


class ProxyWorld(World):
    """A simulated metadata service with a session for each proxy, and bookies in memory."""

    def __init__(self, path: Path, bookies: int) -> None:
        self.server = MetadataServer(Random(3))
        super().__init__(path, bookies, QUIET)
        self.clock = LoopClock()  # type: ignore[assignment]

    @override
    def _open_store(self) -> Any:
        return self.server.open()


class Proxy:
    """A process of its own, with a session of its own."""

    def __init__(
        self,
        world: ProxyWorld,
        shard: int,
        log: dict[str, Any] | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        **config: Any,
    ) -> None:
        self.location = ProxyLocation(shard, "host", 4000 + shard)
        self.store = world.server.open()
        log_config = proxy_log_config(replace(world.config, **log or {}), self.location)
        self.namespace = namespace = world.namespace(self.store, config=log_config)
        self.log_metrics = namespace.metrics
        self.events = Events()
        self.streams = Streams(
            namespace,
            self.location,
            world.clock,
            OwnerConfig(**config),
            session_timeout_ms=session_timeout_ms,
            events=self.events,
        )

    @property
    def metrics(self) -> OwnerMetrics:
        return self.streams.metrics


async def new_stream(world: World, name: str = "s") -> Log:
    """Make a stream; return it as a reader's process has it."""
    return await world.log(name)


async def payloads_of(world: World, name: str = "s") -> list[bytes]:
    """Return what a new process reads."""
    return [bytes(record.payload) for _, record in await read_all(await world.log(name))]


def codes(answers: list[Answer]) -> list[StatusCode]:
    return [answer.code for answer in answers]


def run(
    path: Path, story: Callable[[ProxyWorld], Coroutine[Any, Any, None]], bookies: int = 1
) -> None:
    async def main() -> None:
        world = ProxyWorld(path, bookies)
        heard = hear_assertions()
        await initialize_layout(world.store, instance_id="test")
        await story(world)
        assert not heard, heard

    with asyncio.Runner(loop_factory=lambda: SimLoop(Random(1))) as runner:
        runner.run(main())
