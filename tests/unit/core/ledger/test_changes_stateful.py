"""A writer, bookies that fail, hang and come back, a metadata store that stalls: invariants.

After every step: what was confirmed lies at an ack quorum of the bookies that readers will ask by
the metadata of that moment, the LAC never moves back, and no fragment begins behind LAC + 1. In the
end a recoverer finds all of it, with any Qa - 1 bookies of the last fragment gone.
"""

import asyncio
from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CoreError
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.messages import Request, StatusCode
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.memory_store import no_outage
from tests.unit.core.ledger.world import Listener, settle

BOOKIES = 5
QUORUMS = [(3, 3, 2), (3, 2, 2), (1, 1, 1), (4, 2, 1), (3, 3, 3)]
WHAT = ["add", "burst", *["serve"] * 6, "time", "fail", "fail", "flaky", "heal", "stall", "stall",
        "flow", "flow", "away", "lost answer"]  # fmt: skip
STEPS = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.integers(0, BOOKIES - 1),
        st.integers(1, 4),
    ),
    min_size=25,
    max_size=60,
)
"""(what, which bookie, how much). Bookies serve only when a step says so."""


def flaky(rng: Random) -> Callable[[Request], StatusCode | None]:
    statuses = (StatusCode.LOCAL_TIMEOUT, StatusCode.EIO, StatusCode.ETOOMANYREQUESTS, None, None)
    return lambda request: rng.choice(statuses)


class Story:
    def __init__(self, world: FastWorld, writer: LedgerWriter, rng: Random) -> None:
        self.world = world
        self.writer = writer
        self.rng = rng
        self.recoveries: list[asyncio.Task[object]] = []

    async def step(self, what: str, number: int, count: int) -> None:
        ensemble = self.world.ensemble(self.writer)
        others = [bookie for bookie in self.world.bookies if bookie not in ensemble]
        bookie = (ensemble + others)[number]  # the members first: most happens there
        if what in ("add", "burst"):
            self.add(1 if what == "add" else 2 * count)
        elif what == "serve":
            bookie.release(count)
        elif what == "recover":
            self.recover(count)
        elif what == "time":
            await asyncio.sleep(0.05 * 4**count)
        elif what in ("stall", "flow", "away", "lost answer"):
            self.disturb_store(what)
        else:
            self.disturb_bookie(bookie, what)
        await settle(5)
        self.check()

    def add(self, count: int) -> None:
        for _ in range(count):
            try:
                self.writer.add((b"entry %d" % (self.writer.last_add_pushed + 1),))
            except CoreError:
                return

    def recover(self, count: int) -> None:
        """Let another process recover the ledger under the writer; the last one is cut off."""
        if count == 1 and self.recoveries:
            self.recoveries[-1].cancel()
        opening = self.world.new_client(count).open_ledger(self.writer.ledger_id, recover=True)
        self.recoveries.append(asyncio.get_running_loop().create_task(opening))

    def disturb_bookie(self, bookie: FakeBookie, what: str) -> None:
        if what == "fail":
            bookie.fault = DOWN
        elif what == "flaky":
            bookie.fault = bookie.lost_answer = flaky(self.rng)
        elif what == "heal":
            bookie.fault = bookie.lost_answer = no_fault

    def disturb_store(self, what: str) -> None:
        store = self.world.store
        if what == "stall" and store._gate is None:
            store.hold()
        elif what == "flow":
            store.release()
            store.outage = no_outage
        elif what == "away":
            store.outage = lambda: "lost request"
        elif what == "lost answer":
            once = iter(["lost answer"])
            store.outage = lambda: next(once, "")

    def check(self) -> None:
        ledger_id, lac = self.writer.ledger_id, self.writer.lac
        self.world.check_confirmed(ledger_id, lac)
        metadata = self.world.stored(ledger_id)
        if not metadata.is_closed:
            assert metadata.fragments[-1].first_entry_id <= lac + 1
        else:
            assert lac <= metadata.last_entry_id

    def heal_all(self) -> None:
        self.disturb_store("flow")
        for bookie in self.world.bookies:
            self.disturb_bookie(bookie, "heal")
            bookie.release()


@settings(max_examples=150, deadline=None)
@given(
    quorums=st.sampled_from(QUORUMS),
    steps=STEPS,
    seed=st.integers(0, 2**16),
    delay=st.booleans(),
    crash=st.booleans(),
)
def test_what_is_confirmed_lies_where_readers_ask(
    quorums: tuple[int, int, int],
    steps: list[tuple[str, int, int]],
    seed: int,
    delay: bool,
    crash: bool,
) -> None:
    async def story(world: FastWorld) -> None:
        e, w, a = quorums
        config = LedgerConfig(
            ensemble_size=e, write_quorum=w, ack_quorum=a, delay_ensemble_change=delay
        )
        listener = Listener()
        writer = await world.client.create_ledger(config, listener)
        tale = Story(world, writer, Random(seed))
        for bookie in world.bookies:
            bookie.hold()
        for what, number, count in steps:
            await tale.step(what, number, count)
        if not crash and not listener.errors:
            tale.heal_all()
            await asyncio.sleep(60)
            if not listener.errors:
                await writer.close()
                assert writer.lac == writer.last_add_pushed
        elif crash:
            writer.abort()
        tale.check()
        confirmed, pushed = writer.lac, writer.last_add_pushed
        tale.heal_all()
        await settle()
        for bookie in tale.rng.sample(world.ensemble(writer), a - 1):
            bookie.fault = DOWN
        found = await read_all(world, writer.ledger_id)
        assert confirmed + 1 <= len(found) <= pushed + 1
        assert found == [b"entry %d" % i for i in range(len(found))]
        world.check_confirmed(writer.ledger_id, len(found) - 1)

    run_fast(story, bookies=BOOKIES)


@settings(max_examples=100, deadline=None)
@given(
    quorums=st.sampled_from(QUORUMS),
    before=STEPS,
    after=st.lists(
        st.tuples(
            st.sampled_from([*WHAT, "recover"]), st.integers(0, BOOKIES - 1), st.integers(1, 4)
        ),
        min_size=20,
        max_size=60,
    ),
    seed=st.integers(0, 2**16),
)
def test_writer_and_recoverers_never_disagree(
    quorums: tuple[int, int, int],
    before: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    seed: int,
) -> None:
    """Recovery comes while the writer changes its ensemble: what it confirmed is in the ledger."""

    async def story(world: FastWorld) -> None:
        e, w, a = quorums
        config = LedgerConfig(ensemble_size=e, write_quorum=w, ack_quorum=a)
        listener = Listener()
        writer = await world.client.create_ledger(config, listener)
        tale = Story(world, writer, Random(seed))
        for bookie in world.bookies:
            bookie.hold()
        for what, number, count in [*before[:25], ("recover", 0, 2), *after]:
            await tale.step(what, number, count)
        tale.heal_all()
        await asyncio.wait(tale.recoveries)
        for recovery in tale.recoveries:
            if not recovery.cancelled():
                recovery.exception()
        found = await read_all(world, writer.ledger_id)
        tale.add(3)
        await asyncio.sleep(60)
        tale.check()
        assert writer.lac + 1 <= len(found) <= writer.last_add_pushed + 1
        assert found == [b"entry %d" % i for i in range(len(found))]
        world.check_confirmed(writer.ledger_id, len(found) - 1)

    run_fast(story, bookies=BOOKIES)
