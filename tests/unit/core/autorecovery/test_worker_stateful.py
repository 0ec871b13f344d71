"""Writers, losses and returns of bookies, workers that die, pause and lose sessions, by chance.

At every moment what was confirmed can be read from an ack quorum's worth of places or is held by
bookies that are away; in the end, with bookies enough, each ledger has Qw sound copies of every
entry at the places that its metadata names, and no mark and no lock is left.
"""

import asyncio
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.errors import CoreError
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.messages import Request, StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.autorecovery.repair_world import Process, RepairWorld, payload, run_repair
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.ledger.world import Listener

BOOKIES = 8
QUORUMS = [(3, 3, 2), (3, 2, 2), (4, 3, 2), (2, 2, 1)]
WHAT = ["create", "add", "add", "add", "close", "lose", "return", "wipe", "flaky", "time", "time",
        "kill", "pause", "go on", "session", "delete", "remove"]  # fmt: skip
STEPS = st.lists(
    st.tuples(st.sampled_from(WHAT), st.integers(0, 7), st.integers(1, 5)),
    min_size=20,
    max_size=50,
)
# 100 %: a writer that has Qa of Qw answers leaves holes in the middle of a replica, which a look at
# its first and last entry does not find.
CONFIG = AutoRecoveryConfig(
    entry_batch_size=3, replication_concurrency=2, replicate_backoff_ms=500,
    lock_release_of_failed_ms=20_000, open_ledger_grace_ms=5_000,
    ledger_verification_percentage=100,
)  # fmt: skip


class Story:
    def __init__(self, world: RepairWorld, quorums: tuple[int, int, int], seed: int) -> None:
        self.world = world
        self.rng = Random(seed)
        self.config = LedgerConfig(
            ensemble_size=quorums[0], write_quorum=quorums[1], ack_quorum=quorums[2]
        )
        self.writers: list[LedgerWriter] = []
        self.confirmed: dict[LedgerId, int] = {}
        self.wiped: set[BookieId] = set()
        self.workers: list[Process] = []

    async def step(self, what: str, number: int, count: int) -> None:
        bookie = sorted(self.world.bookies)[number]
        if what == "create" and len(self.writers) < 6:
            await self.create()
        elif what == "time":
            await asyncio.sleep(0.02 * 8**count / 8)
        elif what in ("add", "close", "delete") and self.writers:
            await self.change_ledger(what, self.writers[number % len(self.writers)], count)
        elif what in ("kill", "pause", "go on", "session"):
            await self.disturb_worker(what, self.workers[number % len(self.workers)])
        elif what == "remove":
            self.world.remove_over_replicated()
        else:
            self.disturb_bookie(what, bookie)
        await asyncio.sleep(0.01)

    async def create(self) -> None:
        try:
            self.writers.append(await self.world.client.create_ledger(self.config, Listener()))
        except CoreError:
            return

    async def change_ledger(self, what: str, writer: LedgerWriter, count: int) -> None:
        try:
            if what == "add":
                for _ in range(2 * count):
                    writer.add((payload(writer.last_add_pushed + 1),))
            elif what == "close":
                async with asyncio.timeout(2):
                    await writer.close()
            elif count == 1:
                writer.abort()
                self.writers.remove(writer)
                await self.world.client.delete_ledger(writer.ledger_id)
        except (CoreError, TimeoutError):
            return

    def disturb_bookie(self, what: str, bookie: BookieId) -> None:
        """Keep so many that every entry has a copy left somewhere, and an ensemble can be had."""
        world = self.world
        hurt = world.gone | self.wiped
        if what == "return" and bookie in world.gone:
            world.bring_back(bookie)
            self.mark_all({bookie})
        elif what == "wipe" and not hurt and self.config.ack_quorum > 1 and self.is_quiet():
            self.wiped.add(bookie)
            world.bookies[bookie].ledgers.clear()
            self.mark_all({bookie})
        elif what == "lose" and not hurt - world.gone and len(world.gone) < 3:
            world.lose(bookie)
            self.mark_all({bookie})
        elif what == "flaky" and bookie not in hurt:
            world.bookies[bookie].fault = self.flaky

    def is_quiet(self) -> bool:
        """Whether every ledger is closed: an open one's recovery trusts what bookies lack."""
        return all(self.world.metadata(w.ledger_id).is_closed for w in self.writers)

    def flaky(self, _: Request) -> StatusCode | None:
        return self.rng.choice(
            (StatusCode.LOCAL_TIMEOUT, StatusCode.EIO, StatusCode.ETOOMANYREQUESTS, None, None)
        )

    def mark_all(self, missing: set[BookieId]) -> None:
        """What the auditor would do, at some time."""
        asyncio.get_running_loop().create_task(self._mark_all(missing))

    async def _mark_all(self, missing: set[BookieId]) -> None:
        for writer in [*self.writers]:
            if named := self.world.named(writer.ledger_id) & missing:
                await self.world.auditor.mark(writer.ledger_id, sorted(named))

    async def disturb_worker(self, what: str, worker: Process) -> None:
        if what == "kill":
            worker.stop()
            worker.session.expire()
            self.workers[self.workers.index(worker)] = await self.hire()
        elif what == "pause":
            worker.stop()
        elif what == "go on":
            worker.let_go()
        elif what == "session":
            worker.lose_session()

    async def hire(self) -> Process:
        return (await self.world.process(f"w{len(self.world.processes)}", CONFIG)).start()

    def bring_back_but_one(self) -> None:
        """One stays lost for good, if every acknowledged entry must have a copy elsewhere."""
        world = self.world
        lost = sorted(world.gone)
        if lost and self.config.ack_quorum > 1 and not self.wiped:
            lost.remove(self.rng.choice(lost))
        for bookie in lost:
            world.bring_back(bookie)
        for bookie in world.bookies.keys() - world.gone:
            world.bookies[bookie].fault = no_fault

    def check(self) -> None:
        """Nothing that was confirmed is without a sound copy where readers may find it."""
        for writer in self.writers:
            ledger_id = writer.ledger_id
            for entry_id in range(writer.lac + 1):
                holders = self.world.holders(ledger_id, entry_id)
                assert any(self.world.has(b, ledger_id, entry_id) for b in holders), (
                    ledger_id, entry_id, holders,
                )  # fmt: skip

    async def end(self) -> None:
        world = self.world
        self.bring_back_but_one()
        for worker in self.workers:
            worker.let_go()
        world.add_bookies(4)
        await asyncio.sleep(30)
        confirmed = {}
        for writer in self.writers:
            confirmed[writer.ledger_id] = writer.lac
            writer.abort()  # who still writes is gone, and somebody closes for him
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
            await world.auditor.mark(writer.ledger_id, [BookieId("any")])
        for ledger_id, lac in confirmed.items():
            await world.until_unmarked(ledger_id, 300)
            assert world.metadata(ledger_id).is_closed
            assert world.metadata(ledger_id).last_entry_id >= lac
        self.check()
        for ledger_id in confirmed:
            world.check_whole(ledger_id)
        await world.until(lambda: world.locks() == [], 30)
        world.remove_over_replicated()
        for ledger_id in confirmed:
            world.check_whole(ledger_id)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, quorums=st.sampled_from(QUORUMS), seed=st.integers(0, 2**16))
def test_in_the_end_every_entry_has_its_copies_where_the_metadata_says(
    steps: list[tuple[str, int, int]], quorums: tuple[int, int, int], seed: int
) -> None:
    async def story(world: RepairWorld) -> None:
        world.auditor = (await world.process("auditor")).marks
        tale = Story(world, quorums, seed)
        tale.workers = [await tale.hire() for _ in range(2)]
        await tale.create()
        for what, number, count in steps:
            await tale.step(what, number, count)
            tale.check()
        await tale.end()

    run_repair(story, bookies=BOOKIES)
