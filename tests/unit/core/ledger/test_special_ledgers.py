"""Ledgers with entry ids of the caller's choice, deferred sync, explicit LAC, add time-outs."""

import asyncio
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import (
    AddEntryQuorumTimeout,
    BookieUnavailable,
    DuplicateEntryId,
    LogRecordTooLong,
    OverCapacity,
    Unavailable,
)
from tailrace.core.ledger.adv_writer import AdvLedgerWriter
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES, read_entry, read_lac
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ForceLedgerRequest,
    StatusCode,
    WriteLacRequest,
)
from tests.unit.core.ledger.fake_bookie import DOWN, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.world import REPLICATED, SINGLE, Listener, settle

DEFERRED = replace(REPLICATED, deferred_sync=True)


async def adv(
    world: FastWorld, config: LedgerConfig = REPLICATED
) -> tuple[AdvLedgerWriter, Listener]:
    listener = Listener()
    return await world.client.create_ledger_adv(config, listener), listener


@settings(max_examples=60, deadline=None)
@given(order=st.permutations(range(12)), seed=st.integers(0, 1000))
def test_entries_in_any_order_are_confirmed_in_the_order_of_their_ids(
    order: list[int], seed: int
) -> None:
    """The oracle: after each add the entries 0 .. n of which none is missing."""

    async def story(world: FastWorld) -> None:
        rng = Random(seed)
        writer, listener = await adv(world)
        given_ids: set[int] = set()
        for entry_id in order:
            writer.add(entry_id, (b"x" * entry_id,))
            given_ids.add(entry_id)
            await settle(rng.randrange(4))
            dense = next(i for i in range(13) if i not in given_ids) - 1
            assert writer.last_add_pushed == dense
            assert writer.waiting_entries == len(given_ids) - dense - 1
        await writer.close()
        assert listener.confirmed[-1] == 11
        assert await read_all(world, writer.ledger_id) == [b"x" * i for i in range(12)]

    run_fast(story)


def test_each_entry_of_a_crashed_adv_writer_tells_the_length_up_to_it() -> None:
    """Whatever order the adds came in, recovery closes with the right length."""

    async def story(world: FastWorld) -> None:
        writer, _ = await adv(world)
        for entry_id in (2, 0, 1, 5):
            writer.add(entry_id, (b"x" * (entry_id + 1),))
        await settle()
        writer.abort()
        assert await read_all(world, writer.ledger_id) == [b"x", b"xx", b"xxx"]

    run_fast(story)


@pytest.mark.parametrize("digest", list(DigestType), ids=lambda digest: digest.name)
def test_adv_ledger_outlives_its_bookies(digest: DigestType) -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await adv(world, replace(REPLICATED, digest=digest))
        for first in range(0, 40, 4):
            if first % 12 == 8:
                world.ensemble(writer)[first % 3].fault = DOWN
            for entry_id in (first + 2, first, first + 3, first + 1):
                writer.add(entry_id, (b"%d" % entry_id,))
                await settle(2)
        await settle()
        assert listener.confirmed[-1] == 39
        writer.abort()
        for bookie in world.bookies:
            bookie.fault = no_fault
        assert await read_all(world, writer.ledger_id) == [b"%d" % i for i in range(40)]
        assert len(world.stored(writer.ledger_id).fragments) == 4

    run_fast(story, bookies=7)


def test_no_id_is_used_twice() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await adv(world)
        for entry_id in (0, 2):
            writer.add(entry_id, (b"a",))
        for entry_id in (0, 2):
            with pytest.raises(DuplicateEntryId):
                writer.add(entry_id, (b"b",))
        with pytest.raises(ValueError, match="-1"):
            writer.add(-1, (b"b",))
        writer.add(1, (b"a",))
        await writer.close()
        assert await read_all(world, writer.ledger_id) == [b"a", b"a", b"a"]
        with pytest.raises(Unavailable):
            writer.add(3, (b"late",))

    run_fast(story)


def test_entries_behind_a_gap_are_dropped_at_close() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await adv(world)
        for entry_id in (0, 1, 3, 4):
            writer.add(entry_id, (b"%d" % entry_id,))
        await writer.close()
        assert listener.confirmed[-1] == 1
        assert await read_all(world, writer.ledger_id) == [b"0", b"1"]

    run_fast(story)


def test_waiting_entries_count_for_the_limits() -> None:
    async def story(world: FastWorld) -> None:
        tiny = LedgerConfig(unconfirmed_entries_max=3, unconfirmed_bytes_max=100)
        writer, _ = await adv(world, tiny)
        for entry_id in (1, 2, 3):
            writer.add(entry_id, (b"x",))
        with pytest.raises(OverCapacity):
            writer.add(0, (b"x",))
        other, _ = await adv(world, replace(tiny, unconfirmed_bytes_max=10))
        other.add(1, (b"x" * 10,))
        with pytest.raises(OverCapacity):
            other.add(0, (b"x",))
        with pytest.raises(LogRecordTooLong):
            (await adv(world))[0].add(5, (bytes(MAX_ENTRY_BYTES),))

    run_fast(story)


def test_deferred_sync_confirms_at_force_only() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(DEFERRED, listener)
        await writer.force()  # nothing was written, nobody is asked
        for i in range(3):
            writer.add((b"%d" % i,))
        await settle()
        assert (writer.lac, listener.confirmed) == (-1, [])
        await writer.force()
        assert (writer.lac, listener.confirmed) == (2, [2])
        writer.add((b"3",))
        await settle()
        bookie = world.ensemble(writer)[0]
        entries = bookie.ledgers[writer.ledger_id].entries
        digest = Digest(writer.metadata.digest, writer.metadata.password)
        lacs = [read_entry(entries[i], writer.ledger_id, i, digest).lac for i in range(4)]
        assert lacs == [-1, -1, -1, 2]
        assert all(r.write_flags == 1 for r in bookie.requests if isinstance(r, AddRequest))
        await writer.close()
        assert listener.confirmed == [2, 3]
        assert await read_all(world, writer.ledger_id) == [b"0", b"1", b"2", b"3"]

    run_fast(story)


def test_what_was_forced_survives_a_crash_of_all_bookies() -> None:
    async def story(world: FastWorld) -> None:
        writer = await world.client.create_ledger(DEFERRED, Listener())
        for i in range(3):
            writer.add((b"%d" % i,))
        await writer.force()
        writer.add((b"lost",))
        await settle()
        writer.abort()
        for bookie in world.bookies:
            bookie.crash()
        assert await read_all(world, writer.ledger_id) == [b"0", b"1", b"2"]

    run_fast(story)


def test_force_that_one_bookie_did_not_do_confirms_nothing_and_can_be_repeated() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(DEFERRED, listener)
        writer.add((b"0",))
        await settle()
        victim = world.ensemble(writer)[2]
        victim.fault = lambda r: (
            StatusCode.LOCAL_TIMEOUT if isinstance(r, ForceLedgerRequest) else None
        )
        with pytest.raises(BookieUnavailable):
            await writer.force()
        assert listener.confirmed == []
        victim.fault = no_fault
        await writer.force()
        assert listener.confirmed == [0]

    run_fast(story)


def test_deferred_ledger_never_changes_its_ensemble() -> None:
    """What the failed bookie answered before may never have come to its disk."""

    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(DEFERRED, listener)
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"0",))
        await settle()
        assert [type(e) for e in listener.errors] == [BookieUnavailable]
        assert world.stored(writer.ledger_id).fragments == writer.metadata.fragments
        with pytest.raises(BookieUnavailable):
            await writer.force()
        with pytest.raises(BookieUnavailable):
            await writer.close()

    run_fast(story)


def test_force_of_an_ordinary_ledger_asks_all_its_bookies() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        writer.add((b"0",))
        await writer.force()
        assert listener.confirmed == [0]
        for bookie in world.ensemble(writer):
            assert ForceLedgerRequest(writer.ledger_id) in bookie.requests
        await writer.close()

    run_fast(story)


def lacs_told(world: FastWorld, writer: object) -> list[int]:
    requests = [r for b in world.bookies for r in b.requests if isinstance(r, WriteLacRequest)]
    return sorted(request.lac for request in requests)


def test_quiet_ledger_tells_its_lac_by_itself() -> None:
    async def story(world: FastWorld) -> None:
        config = replace(REPLICATED, explicit_lac_interval_ms=100)
        writer = await world.client.create_ledger(config, Listener())
        await asyncio.sleep(1)
        assert lacs_told(world, writer) == []
        for _ in range(2):
            writer.add((b"x",))
            await asyncio.sleep(0.5)
        assert lacs_told(world, writer) == [0, 0, 0, 1, 1, 1]
        ledger = world.ensemble(writer)[0].ledgers[writer.ledger_id]
        assert ledger.explicit_lac is not None
        digest = Digest(writer.metadata.digest, writer.metadata.password)
        assert read_lac(ledger.explicit_lac, writer.ledger_id, digest) == 1
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 1
        await writer.close()
        await asyncio.sleep(1)
        assert len(lacs_told(world, writer)) == 6

    run_fast(story)


def test_busy_ledger_leaves_its_lac_to_its_entries() -> None:
    async def story(world: FastWorld) -> None:
        config = replace(REPLICATED, explicit_lac_interval_ms=100)
        writer = await world.client.create_ledger(config, Listener())
        for _ in range(30):
            writer.add((b"x",))
            await asyncio.sleep(0.05)
        assert lacs_told(world, writer) == []
        world.ensemble(writer)[0].fault = DOWN  # nobody waits for the answers
        await asyncio.sleep(1)
        assert lacs_told(world, writer) == [29, 29, 29]
        writer.abort()
        await asyncio.sleep(1)
        assert world.client.metrics.explicit_lacs_total == 1

    run_fast(story)


def test_add_without_an_ack_quorum_in_time_ends_the_ledger() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        config = replace(REPLICATED, add_entry_quorum_timeout_ms=1000)
        writer = await world.client.create_ledger(config, listener)
        for bookie in world.ensemble(writer)[:2]:
            bookie.hold()
        began = asyncio.get_running_loop().time()
        writer.add((b"x",))
        with pytest.raises(AddEntryQuorumTimeout):
            await writer.close()
        waited = asyncio.get_running_loop().time() - began
        assert 1.0 <= waited <= 1.5
        assert [type(e) for e in listener.errors] == [AddEntryQuorumTimeout]
        assert world.stored(writer.ledger_id).state is LedgerState.OPEN

    run_fast(story)


def test_add_that_is_answered_in_time_is_left_alone() -> None:
    async def story(world: FastWorld) -> None:
        config = replace(SINGLE, add_entry_quorum_timeout_ms=1000)
        writer = await world.client.create_ledger(config, Listener())
        (bookie,) = world.ensemble(writer)
        for _ in range(20):
            bookie.hold()
            writer.add((b"x",))
            await asyncio.sleep(0.9)
            bookie.release()
        await writer.close()

    run_fast(story)


def test_failed_ledger_leaves_no_timer_behind() -> None:
    async def story(world: FastWorld) -> None:
        config = replace(DEFERRED, explicit_lac_interval_ms=100, add_entry_quorum_timeout_ms=1000)
        writer = await world.client.create_ledger(config, Listener())
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"x",))
        await asyncio.sleep(2)
        assert all(ticker._timer.when() <= 2 for ticker in writer._tickers)

    run_fast(story)
