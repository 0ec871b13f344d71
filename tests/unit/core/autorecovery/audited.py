"""A cluster for an auditor to watch, in virtual time: bookies are nodes, ledgers are metadata."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tailrace.core.autorecovery.auditor import Auditor
from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.metadata.layout import LEDGERS_ROOT, LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.ids import BookieId, LedgerId
from tailrace.simulation.machine import SimClock
from tailrace.simulation.metadata import MetadataServer
from tests.unit.core.ledger.fast_world import InstantLoop

PATHS = LedgerPaths(LEDGERS_ROOT)
ELECTION = UnderreplicationPaths(LEDGERS_ROOT).election
B = [BookieId(f"b{number}:3181") for number in range(6)]


class FakeCheck:
    """Knows which bookies lack what."""

    def __init__(self) -> None:
        self.missing: dict[int, set[BookieId]] = {}
        self.errors: dict[int, Exception] = {}
        self.asked: list[int] = []
        self.begun = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.at_once = self.at_once_max = 0

    async def missing_replicas(self, ledger_id: LedgerId) -> frozenset[BookieId]:
        self.begun.set()
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(0.001)
        await self.may_answer.wait()
        self.at_once -= 1
        self.asked.append(ledger_id)
        if ledger_id in self.errors:
            raise self.errors[ledger_id]
        return frozenset(self.missing.get(ledger_id, ()))


class AuditedCluster:
    def __init__(self, seed: int = 1) -> None:
        self.service = MetadataServer(Random(seed))
        self.clock = SimClock(asyncio.get_running_loop())
        self.store: MetadataStore = self.service.open()
        self.marks = self.new_marks(self.store)
        self.check = FakeCheck()

    def new_marks(self, store: MetadataStore) -> UnderreplicatedLedgers:
        return UnderreplicatedLedgers(store, LEDGERS_ROOT, "w", self.clock, Random(3))

    async def begin(self, bookies: int = 3) -> None:
        await initialize_layout(self.store, LEDGERS_ROOT)
        await self.marks.prepare()
        for bookie in B[:bookies]:
            await self.store.create(PATHS.cookie(bookie))
            await self.back(bookie)

    async def back(self, bookie: BookieId) -> None:
        await self.store.create(PATHS.bookie(bookie), ephemeral=True)

    async def lose(self, *bookies: BookieId) -> None:
        for bookie in bookies:
            await self.store.delete(PATHS.bookie(bookie))

    async def ledger(self, ledger_id: int, *ensembles: list[BookieId]) -> None:
        fragments = tuple(Fragment(10 * at, tuple(each)) for at, each in enumerate(ensembles))
        size = len(ensembles[0])
        metadata = LedgerMetadata(
            ensemble_size=size, write_quorum=size, ack_quorum=1, fragments=fragments
        )
        path = PATHS.ledger(LedgerId(ledger_id))
        await self.store.create(path, encode_ledger(metadata), parents=True)

    async def marked(self) -> dict[int, set[BookieId]]:
        return {each.ledger_id: set(each.mark.missing) async for each in self.marks.marked()}

    async def until_marked(self, expected: dict[int, set[BookieId]]) -> None:
        await self.until(lambda: self._is_marked(expected))

    async def until(self, holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        for _ in range(2_000):
            if await holds():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"not within 200 s; marked: {await self.marked()}")

    async def until_candidates(self, count: int) -> None:
        """Return when so many have voted."""
        while len(await self.store.children(ELECTION)) < count:
            pass

    async def until_some_are_marked(self) -> None:
        """Return at once when there is a mark, as long as more are to come."""
        while not await self.marked():
            pass

    async def _is_marked(self, expected: dict[int, set[BookieId]]) -> bool:
        return await self.marked() == expected

    def auditor(self, name: str = "a1", **settings: Any) -> "RunningAuditor":
        return RunningAuditor(self, name, settings)


class RunningAuditor:
    def __init__(self, cluster: AuditedCluster, name: str, settings: dict[str, Any]) -> None:
        self.store: Any = cluster.service.open()
        self.auditor = Auditor(
            self.store,
            cluster.new_marks(self.store),
            cluster.check,
            AutoRecoveryConfig(**settings),
            cluster.clock,
            name=name,
        )
        self.metrics = self.auditor.metrics
        self._cluster = cluster
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.auditor.run())

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])
        assert self.task.cancelled(), self.task.exception()

    async def audited(self, count: int = 1) -> None:
        """Wait for the end of so many audits in all."""

        async def is_enough() -> bool:
            return self.metrics.audits_total >= count

        await self._cluster.until(is_enough)

    def kill(self) -> None:
        """Its process dies: the session lives on until it is over."""
        assert self.task is not None
        self.task.cancel()
        self.store.expire()


@asynccontextmanager
async def running(*auditors: RunningAuditor) -> AsyncIterator[None]:
    for auditor in auditors:
        auditor.start()
    try:
        yield
    finally:
        for auditor in auditors:
            if auditor.task is not None and not auditor.task.done():
                await auditor.stop()


def in_virtual_time(story: Callable[[AuditedCluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = AuditedCluster()
        await cluster.begin()
        await story(cluster)

    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        runner.run(main())
