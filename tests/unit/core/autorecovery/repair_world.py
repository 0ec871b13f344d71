"""A cluster in one process, in virtual time: bookies come and go, workers stop anywhere.

Each `Process` has a session of its own, the real marks and the real worker. It can be stopped at
any step; a step is a request that leaves it or an answer that reaches it. Stopped for good it is
killed with -9; let go again it was paused.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.ledger_check import LedgerCheck
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.autorecovery.worker import ReplicationWorker
from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_client import Reply
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.metadata_update import LedgerNodes
from tailrace.core.ledger.read_order import Standing
from tailrace.core.metadata.layout import LEDGERS_ROOT, LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger, encode_ledger
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.underreplication import Mark, decode_mark
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import read_entry
from tailrace.protocol.bookkeeper.messages import Request, Response
from tailrace.protocol.ids import BookieId, EntryId, LedgerId
from tailrace.simulation.metadata import MetadataServer
from tests.unit.broker.virtual import LoopClock
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie, no_fault
from tests.unit.core.ledger.fast_world import InstantLoop
from tests.unit.core.ledger.world import Listener, hear_assertions

if TYPE_CHECKING:
    from tailrace.simulation.sessions import SimStore

STRIPED = LedgerConfig(ensemble_size=3, write_quorum=2, ack_quorum=2, password=b"pw")
WHOLE = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2)
QUICK = AutoRecoveryConfig(entry_batch_size=4)


class Process:
    """One process of auto-recovery."""

    def __init__(self, world: "RepairWorld", name: str, config: AutoRecoveryConfig) -> None:
        self.world = world
        self.steps = 0
        self.stop_at: int | None = None
        self.on_step: Callable[[], None] = lambda: None
        self.is_stopped = False
        self._held: list[Callable[[], None]] = []
        self._gate = asyncio.Event()
        self.session: SimStore = world.server.open()
        self.store: Any = _Store(self)
        self.bookies = _Registry(world, self)
        self.nodes = LedgerNodes(self.store, LedgerPaths())
        self.context = LedgerContext(
            self.nodes, self.bookies, Ensembles(self.bookies, Random(f"{name} ensembles"))
        )
        clock = LoopClock()
        self.marks = UnderreplicatedLedgers(self.store, LEDGERS_ROOT, name, clock, Random(name))
        self.metrics = ReplicationMetrics()
        self.check = LedgerCheck(self.nodes, self.bookies, config, Random(name))
        self.worker = ReplicationWorker(
            self.context, self.marks, config, clock, self.metrics, Random(name)
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "Process":
        self._task = asyncio.get_running_loop().create_task(self.worker.run())
        return self

    async def cancel(self) -> None:
        """End the worker as its owner would."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        assert self._task.cancelled(), self._task.exception()

    def stop(self) -> None:
        """From now on nothing leaves it, and nothing reaches it."""
        self.is_stopped = True

    def let_go(self) -> None:
        self.is_stopped = False
        self.stop_at = None
        self._gate.set()
        held, self._held = self._held, []
        for each in held:
            each()

    def lose_session(self) -> None:
        """The service has not heard of it for too long; it begins a new one when it hears of it."""
        self.session.expire()
        self.session.tick()

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def end(self) -> None:
        """Take it away; what it does meanwhile has no effect."""
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
        await self.session.close()

    # -- steps ---

    def count(self) -> bool:
        """Take a step; tell whether it is not to be."""
        self.steps += 1
        self.on_step()
        self.is_stopped |= self.steps == self.stop_at
        return self.is_stopped

    async def step(self) -> None:
        if self.count():
            await self._gate.wait()

    def step_then(self, do: Callable[[], None]) -> None:
        if self.count():
            self._held.append(do)
        else:
            do()


class _Store:
    """A session whose requests and answers are steps of its process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._process.session, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **more: Any) -> Any:
            await self._process.step()
            answer: Any
            try:
                answer = await found(*args, **more)
            except CoreError as error:
                answer = error
            await self._process.step()
            if isinstance(answer, CoreError):
                raise answer
            return answer

        return call


class _Client:
    reads_batches = False
    losses = 0

    def __init__(self, process: Process, bookie: FakeBookie) -> None:
        self._process = process
        self._bookie = bookie
        self.bookie_id = bookie.bookie_id

    def submit(self, request: Request, reply: Reply) -> None:
        def answer(response: Response) -> None:
            self._process.step_then(lambda: reply(response))

        self._process.step_then(lambda: self._bookie.submit(request, answer))

    async def close(self) -> None:
        pass


class _Registry:
    """The bookies as they are registered at this moment."""

    version = 0

    def __init__(self, world: "RepairWorld", process: Process | None = None) -> None:
        self._world = world
        self._process = process

    async def available(self) -> list[BookieId]:
        return [b for b in await self.registered() if b not in self._world.read_only]

    async def registered(self) -> list[BookieId]:
        return sorted(self._world.bookies.keys() - self._world.gone)

    def client(self, bookie_id: BookieId) -> Any:
        bookie = self._world.bookies[bookie_id]
        return bookie if self._process is None else _Client(self._process, bookie)

    def standing(self, bookie_id: BookieId) -> Standing:
        return Standing.GONE if bookie_id in self._world.gone else Standing.AVAILABLE

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        return self._world.locations.get(bookie_id)

    async def close(self) -> None:
        pass


class RepairWorld:
    def __init__(self, bookies: int) -> None:
        self.server = MetadataServer(Random(3))
        self.store = self.server.open()
        self.bookies: dict[BookieId, FakeBookie] = {}
        self.gone: set[BookieId] = set()
        self.read_only: set[BookieId] = set()
        self.locations: dict[BookieId, NetworkLocation] = {}
        self.processes: list[Process] = []
        self.auditor: UnderreplicatedLedgers
        self.add_bookies(bookies)
        self.client = self.new_client()

    def new_client(self) -> LedgerClient:
        config = LedgerClientConfig(recovery_read_batch=3, read_window=4)
        return LedgerClient(self.server.open(), _Registry(self), config, Random(7))

    def add_bookies(self, count: int) -> None:
        for _ in range(count):
            bookie = FakeBookie(f"b{len(self.bookies)}")
            self.bookies[bookie.bookie_id] = bookie

    async def process(self, name: str = "w1", config: AutoRecoveryConfig = QUICK) -> Process:
        process = Process(self, name, config)
        self.processes.append(process)
        await process.marks.prepare()
        return process

    def lose(self, bookie_id: BookieId) -> None:
        """A bookie dies, and so does its session."""
        self.gone.add(bookie_id)
        self.bookies[bookie_id].fault = DOWN

    def bring_back(self, bookie_id: BookieId, *, empty: bool = False) -> None:
        self.gone.discard(bookie_id)
        self.bookies[bookie_id].fault = no_fault
        if empty:
            self.bookies[bookie_id].ledgers.clear()

    # -- ledgers ---

    async def write(
        self, config: LedgerConfig = STRIPED, count: int = 20, *, close: bool = True
    ) -> LedgerId:
        listener = Listener()
        writer = await self.client.create_ledger(config, listener)
        for number in range(count):
            writer.add((payload(number),))
        if close:
            await writer.close()
        else:
            await self.until(lambda: writer.lac == count - 1)
        return writer.ledger_id

    def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        return _decoded(self.server.tree.get(LedgerPaths().ledger(ledger_id)).data)

    async def overwrite(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> None:
        """Change a ledger as somebody else would."""
        await self.store.set(LedgerPaths().ledger(ledger_id), encode_ledger(metadata))

    def ensemble(self, ledger_id: LedgerId, at: int = -1) -> tuple[BookieId, ...]:
        return self.metadata(ledger_id).fragments[at].ensemble

    def named(self, ledger_id: LedgerId) -> set[BookieId]:
        """All bookies of a ledger; none of one that was deleted."""
        if self.server.tree.find(LedgerPaths().ledger(ledger_id)) is None:
            return set()
        return {b for f in self.metadata(ledger_id).fragments for b in f.ensemble}

    def mark(self, ledger_id: LedgerId) -> Mark | None:
        node = self.server.tree.find(UnderreplicationPaths(LEDGERS_ROOT).mark(ledger_id))
        return None if node is None else decode_mark(node.data)

    def locks(self) -> list[str]:
        return list(self.server.tree.children(UnderreplicationPaths(LEDGERS_ROOT).locks))

    def has(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Whether a bookie has an entry, sound."""
        return self._has(bookie_id, ledger_id, entry_id, self.metadata(ledger_id))

    def _has(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId, metadata: LedgerMetadata
    ) -> bool:
        ledger = self.bookies[bookie_id].ledgers.get(ledger_id)
        if ledger is None or entry_id not in ledger.entries:
            return False
        packed = bytes(ledger.entries[entry_id])
        found = _payload(packed, ledger_id, entry_id, metadata.digest, metadata.password)
        return found == payload(entry_id)

    def holders(self, ledger_id: LedgerId, entry_id: EntryId) -> tuple[BookieId, ...]:
        """Who is to have an entry, by the metadata of now."""
        return _holders(self.metadata(ledger_id), entry_id)

    def check_whole(self, ledger_id: LedgerId, last: EntryId | None = None) -> None:
        """Every entry lies, sound, wherever the metadata says, at bookies that live."""
        metadata = self.metadata(ledger_id)
        for entry_id in range((metadata.last_entry_id if last is None else last) + 1):
            for bookie in _holders(metadata, entry_id):
                assert bookie not in self.gone, (ledger_id, entry_id, bookie)
                has = self._has(bookie, ledger_id, entry_id, metadata)
                assert has, (ledger_id, entry_id, bookie)

    def check_named(self, ledger_id: LedgerId, last: EntryId) -> None:
        """Whoever lives and is named has what it is named for."""
        metadata = self.metadata(ledger_id)
        for entry_id in range(last + 1):
            for bookie in _holders(metadata, entry_id):
                if bookie not in self.gone:
                    has = self._has(bookie, ledger_id, entry_id, metadata)
                    assert has, (ledger_id, entry_id, bookie)

    def remove_over_replicated(self) -> None:
        """What each bookie does now and then with ledgers that do not name it, unless locked."""
        locks = UnderreplicationPaths(LEDGERS_ROOT)
        for bookie in self.bookies.values():
            for ledger_id in list(bookie.ledgers):
                named = self.named(ledger_id)
                is_locked = self.server.tree.find(locks.lock(ledger_id)) is not None
                if bookie.bookie_id not in named and not is_locked:
                    del bookie.ledgers[ledger_id]

    async def until(self, is_true: Callable[[], bool], within_s: float = 1000) -> None:
        """Wait for what nobody tells; costs nothing, as time is virtual."""
        async with asyncio.timeout(within_s):
            while not is_true():  # noqa: ASYNC110 - see above
                await asyncio.sleep(0.05)

    async def until_unmarked(self, ledger_id: LedgerId, within_s: float = 1000) -> None:
        await self.until(lambda: self.mark(ledger_id) is None, within_s)


_decoded = lru_cache(64)(decode_ledger)
"""Tests look at everything at every step, and nearly always at the same bytes."""


@lru_cache(1024)
def _payload(
    packed: bytes, ledger_id: LedgerId, entry_id: EntryId, kind: DigestType, password: bytes
) -> bytes:
    return bytes(read_entry(packed, ledger_id, entry_id, Digest(kind, password)).payload)


def _holders(metadata: LedgerMetadata, entry_id: EntryId) -> tuple[BookieId, ...]:
    ensemble = metadata.fragment_of(entry_id).ensemble
    places = [(entry_id + i) % len(ensemble) for i in range(metadata.write_quorum)]
    return tuple(ensemble[place] for place in places)


def payload(number: int) -> bytes:
    return b"entry %d " % number * (1 + number % 5)


def run_repair(story: Callable[[RepairWorld], Coroutine[Any, Any, None]], bookies: int = 5) -> None:
    async def main() -> None:
        heard = hear_assertions()
        world = RepairWorld(bookies)
        await initialize_layout(world.store, instance_id="test")
        try:
            async with asyncio.timeout(36_000):
                await story(world)
        finally:
            for process in world.processes:
                await process.end()
        assert not heard, heard

    with asyncio.Runner(loop_factory=InstantLoop, debug=False) as runner:
        runner.run(main())
