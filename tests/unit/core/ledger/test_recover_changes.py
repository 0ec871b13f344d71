"""Recovery while bookies fail and others edit the metadata; bugs of others by number."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import BookieUnavailable, CoreError, LedgerFenced, Unavailable
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.recover import recover_ledger
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Request, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.cancels import cancelled_at_every_turn
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie, FakeLedger, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.memory_store import no_outage
from tests.unit.core.ledger.world import REPLICATED, SINGLE, STRIPED, Listener, settle

if TYPE_CHECKING:
    from tailrace.core.ledger.reader import LedgerReader


def no_adds(request: Request) -> StatusCode | None:
    return StatusCode.LOCAL_TIMEOUT if isinstance(request, AddRequest) else None


async def crashed(
    world: FastWorld, config: LedgerConfig = REPLICATED, confirmed: int = 4
) -> tuple[LedgerWriter, Listener]:
    """A writer that got `confirmed` entries through, one by one, and is then forgotten."""
    listener = Listener()
    writer = await world.client.create_ledger(config, listener)
    for i in range(confirmed):
        writer.add((b"%d" % i,))
        await writer._adder.drained()
    await settle()
    return writer, listener


def expected(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


async def replace_member(
    world: FastWorld, ledger_id: LedgerId, fragment: int, newcomer: FakeBookie
) -> LedgerMetadata:
    """What re-replication does: copy a member's entries to another bookie, then swap the two."""
    nodes = world.client._nodes
    stored = await nodes.read(ledger_id)
    leaver = world.bookie(stored.metadata.fragments[fragment].ensemble[0])

    def swap(current: LedgerMetadata) -> LedgerMetadata:
        fragments = list(current.fragments)
        first, ensemble = fragments[fragment]
        fragments[fragment] = Fragment(first, (newcomer.bookie_id, *ensemble[1:]))
        return replace(current, fragments=tuple(fragments))

    theirs = leaver.ledgers[ledger_id]
    copy = newcomer.ledgers.setdefault(ledger_id, FakeLedger(theirs.master_key))
    copy.entries.update(theirs.entries)
    return (await nodes.update(stored, swap)).metadata


def start(world: FastWorld, ledger_id: LedgerId) -> "asyncio.Task[LedgerReader]":
    opening = world.new_client().open_ledger(ledger_id, recover=True)
    return asyncio.get_running_loop().create_task(opening)


@pytest.mark.parametrize("config", [REPLICATED, STRIPED, SINGLE], ids=["3/3/2", "3/2/2", "1/1/1"])
def test_bookie_that_fails_while_entries_are_added_again_is_replaced(config: LedgerConfig) -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world, config)
        victim, *_ = world.ensemble(writer)
        victim.fault = no_adds
        await start(world, writer.ledger_id)
        first, second = world.stored(writer.ledger_id).fragments
        assert first == writer.metadata.fragments[0]
        assert second.first_entry_id == 3  # the last entry is behind the LAC, and added again
        assert victim.bookie_id not in second.ensemble
        victim.fault = no_fault
        await settle()
        world.check_confirmed(writer.ledger_id, 3)
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story)


def test_new_fragments_come_with_the_end_or_never() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        victim, *_ = world.ensemble(writer)
        victim.fault = no_adds
        opening, gate = await until_closing(world, writer)
        assert world.stored(writer.ledger_id).fragments == writer.metadata.fragments
        opening.cancel()
        await asyncio.wait([opening])
        world.store.release()
        await settle()
        assert gate.is_set()
        metadata = world.stored(writer.ledger_id)
        assert metadata == writer.metadata.in_recovery()
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story)


def test_fragment_of_recovery_never_begins_before_the_last_one() -> None:
    """BookKeeper #2615: the last fragment's bookies know no LAC, and one of them fails."""

    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        old = world.ensemble(writer)
        nodes = writer._nodes
        new = [bookie for bookie in world.bookies if bookie not in old]
        fragments = (
            Fragment(0, tuple(b.bookie_id for b in old)),
            Fragment(4, tuple(b.bookie_id for b in new[:3])),
        )
        stored = await nodes.read(writer.ledger_id)
        await nodes.update(stored, lambda m: replace(m, fragments=fragments))
        adder = writer._adder
        adder.install(fragments[1].ensemble)  # the writer was on its way there, with entry 4
        new[1].fault = no_adds
        writer.add((b"4",))
        writer.abort()
        await settle()
        new[0].fault = no_adds
        new[1].fault = no_fault
        await start(world, writer.ledger_id)
        closed = world.stored(writer.ledger_id)
        assert [f.first_entry_id for f in closed.fragments] == [0, 4]
        assert closed.last_entry_id == 4
        for bookie in world.bookies:
            bookie.fault = no_fault
        assert await read_all(world, writer.ledger_id) == expected(5)

    run_fast(story, bookies=8)


def test_recovery_without_a_spare_bookie_closes_while_a_quorum_answers() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        victim, *_ = world.ensemble(writer)
        victim.fault = DOWN
        await start(world, writer.ledger_id)
        assert world.stored(writer.ledger_id).fragments == writer.metadata.fragments
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story, bookies=3)


def test_two_that_fail_leave_it_in_recovery_without_a_spare_bookie() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        for bookie in world.ensemble(writer)[:2]:
            bookie.fault = no_adds
        with pytest.raises(BookieUnavailable):
            await start(world, writer.ledger_id)
        assert world.stored(writer.ledger_id).state is LedgerState.IN_RECOVERY
        for bookie in world.bookies:
            bookie.fault = no_fault
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story, bookies=3)


async def two_fragments(world: FastWorld) -> LedgerWriter:
    """A crashed writer whose first bookie died after two entries."""
    writer, _ = await crashed(world, REPLICATED, 2)
    victim, *_ = world.ensemble(writer)
    victim.fault = DOWN
    for i in (2, 3):
        writer.add((b"%d" % i,))
        await writer._adder.drained()
    await settle()
    victim.fault = no_fault
    assert [f.first_entry_id for f in writer.metadata.fragments] == [0, 2]
    return writer


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def until_closing(
    world: FastWorld, writer: LedgerWriter
) -> tuple["asyncio.Task[LedgerReader]", asyncio.Event]:
    """A recovery that has done everything, and whose CLOSED waits at the store for the event."""
    opening = start(world, writer.ledger_id)
    await until(lambda: world.stored(writer.ledger_id).state is not LedgerState.OPEN)
    gate = world.store.hold()
    await until(lambda: world.store.waiting > 0)
    return opening, gate


def test_former_fragment_that_was_replicated_meanwhile_stays_so() -> None:
    async def story(world: FastWorld) -> None:
        writer = await two_fragments(world)
        last = world.ensemble(writer)[0]
        last.fault = no_adds  # so that recovery brings a fragment of its own
        opening, gate = await until_closing(world, writer)
        world.store.let_others_pass()
        newcomer = world.others(writer)[0]
        edited = await replace_member(world, writer.ledger_id, 0, newcomer)
        assert edited.state is LedgerState.IN_RECOVERY
        gate.set()
        await opening
        closed = world.stored(writer.ledger_id)
        assert closed.state is LedgerState.CLOSED
        assert closed.fragments[0] == edited.fragments[0]
        assert newcomer.bookie_id in closed.fragments[0].ensemble
        assert last.bookie_id not in closed.fragments[-1].ensemble
        last.fault = no_fault
        await settle()
        world.check_confirmed(writer.ledger_id, 3)
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story, bookies=8)


def test_last_fragment_that_was_replicated_meanwhile_is_recovered_anew() -> None:
    """What was added again lies on a bookie that readers will not ask any more."""

    async def story(world: FastWorld) -> None:
        writer = await two_fragments(world)
        newcomer = world.others(writer)[0]
        opening, gate = await until_closing(world, writer)
        world.store.let_others_pass()
        await replace_member(world, writer.ledger_id, 1, newcomer)
        gate.set()
        await opening
        await settle()
        closed = world.stored(writer.ledger_id)
        assert newcomer.bookie_id in closed.fragments[-1].ensemble
        world.check_confirmed(writer.ledger_id, 3)
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story, bookies=8)


def test_add_that_comes_late_finds_the_fence_of_a_recovery_read() -> None:
    """BookKeeper #2614: a bookie that the first round missed completed the quorum behind it."""

    async def story(world: FastWorld) -> None:
        writer, listener = await crashed(world, REPLICATED, 0)
        first, second, third = world.ensemble(writer)
        late: list[Any] = []
        for bookie in (first, second):
            bookie.submit = lambda *call, to=bookie: late.append((to, *call))  # type: ignore[method-assign]
        writer.add((b"0",))
        writer.add((b"1",))  # the last one comes with the answer to the fence
        await settle()
        del first.submit, second.submit
        first.fault = lambda r: (
            StatusCode.LOCAL_TIMEOUT if isinstance(r, ReadRequest) and r.entry_id == -1 else None
        )
        third.hold()  # it has entry 0, and answers after the proof that nobody can have it
        opening = start(world, writer.ledger_id)
        await settle(200)
        third.release(1)
        await settle(200)
        reader = await opening
        assert reader.last_confirmed == -1
        for to, request, reply in late:
            to._arrive(request, reply)
        third.release()
        await settle()
        assert listener.confirmed == []
        assert isinstance(listener.errors[0], LedgerFenced)

    run_fast(story)


def is_fenced(world: FastWorld, writer: LedgerWriter) -> list[bool]:
    return [bookie.ledgers[writer.ledger_id].fenced for bookie in world.ensemble(writer)]


def test_fence_and_metadata_do_not_wait_for_each_other() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await crashed(world)
        world.store.hold()
        opening = start(world, writer.ledger_id)
        await settle(200)
        assert all(is_fenced(world, writer))
        assert world.stored(writer.ledger_id).state is LedgerState.OPEN
        writer.add((b"late",))
        await settle(200)
        assert isinstance(listener.errors[0], LedgerFenced)
        opening.cancel()  # as if it had died here
        await asyncio.wait([opening])
        world.store.release()
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story)


def test_ensemble_that_changes_under_the_fence_is_fenced_anew() -> None:
    async def story(world: FastWorld) -> None:
        writer, listener = await crashed(world)
        before = await world.client._nodes.read(writer.ledger_id)
        victim, *_ = world.ensemble(writer)
        victim.fault = no_adds
        writer.add((b"4",))
        await settle(200)
        assert len(world.stored(writer.ledger_id).fragments) == 2, "the writer took another bookie"
        victim.fault = DOWN  # what was to be fenced first cannot be
        recovered = await recover_ledger(before, world.new_client()._context, 3)
        assert recovered.stored.metadata.last_entry_id == 4
        assert all(is_fenced(world, writer))
        writer.add((b"5",))
        await settle(200)
        assert isinstance(listener.errors[0], LedgerFenced)
        assert await read_all(world, writer.ledger_id) == expected(5)

    run_fast(story)


def test_end_that_its_writer_fixed_meanwhile_counts() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        before = await world.client._nodes.read(writer.ledger_id)
        await writer.close()
        recovered = await recover_ledger(before, world.new_client()._context, 3)
        assert recovered == (await world.client._nodes.read(writer.ledger_id), None)
        assert await read_all(world, writer.ledger_id) == expected(4)

    run_fast(story)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_last_entry_comes_with_the_end(count: int) -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world, confirmed=count)
        reader, last = await world.new_client().recover_ledger(writer.ledger_id)
        assert reader.last_confirmed == count - 1
        assert (last is None) is (count == 0)
        assert last is None or [last] == await reader.read(count - 1, count - 1)
        again = await world.new_client().recover_ledger(writer.ledger_id)
        assert (again[0].last_confirmed, again[1]) == (count - 1, None)

    run_fast(story)


def test_bookie_that_hangs_holds_up_no_fence() -> None:
    """BookKeeper #1067."""

    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        world.ensemble(writer)[0].hold()
        reader = await start(world, writer.ledger_id)
        assert reader.last_confirmed == 3
        assert asyncio.get_running_loop().time() == 0

    run_fast(story)


def test_entry_that_one_bookie_cannot_read_is_no_missing_entry() -> None:
    """BookKeeper #2908: a damaged entry log was taken for the end of the ledger."""

    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        first, second, third = world.ensemble(writer)
        for number in (4, 5):  # the last one comes with the answer to the fence
            writer.add((b"%d" % number,))
        await settle()
        for damaged in (first, second):
            damaged.fault = lambda r: (
                StatusCode.EIO if isinstance(r, ReadRequest) and r.entry_id == 4 else None
            )
        del third.ledgers[writer.ledger_id].entries[4]
        with pytest.raises(CoreError):
            await start(world, writer.ledger_id)
        first.fault = second.fault = no_fault
        assert await read_all(world, writer.ledger_id) == expected(6)

    run_fast(story, bookies=3)


@pytest.mark.parametrize("config", [REPLICATED, STRIPED, SINGLE], ids=["3/3/2", "3/2/2", "1/1/1"])
def test_recovery_that_stops_at_any_turn_is_finished_by_the_next(config: LedgerConfig) -> None:
    """Also while it replaces a bookie, and while another one is at work beside it."""

    async def story(world: FastWorld) -> None:
        for turns in range(90):
            for beside in (False, True):
                writer, _ = await crashed(world, config)
                victim, *_ = world.ensemble(writer)
                victim.fault = no_adds
                first = start(world, writer.ledger_id)
                others = [start(world, writer.ledger_id)] if beside else []
                await settle(turns)
                first.cancel()
                await asyncio.wait([first, *others])
                victim.fault = no_fault
                assert await read_all(world, writer.ledger_id) == expected(4)
                await settle()
                world.check_confirmed(writer.ledger_id, 3)

    run_fast(story)


@settings(max_examples=100, deadline=None)
@given(
    config=st.sampled_from([REPLICATED, STRIPED, SINGLE]),
    seed=st.integers(0, 2**20),
    interruptions=st.lists(st.integers(0, 80), max_size=6),
    burst=st.integers(0, 6),
)
def test_recoveries_that_fail_stop_and_compete_agree(
    config: LedgerConfig, seed: int, interruptions: list[int], burst: int
) -> None:
    """Bookies fail before or after their work, the store loses answers, recoverers are cut off."""

    async def story(world: FastWorld) -> None:
        rng = Random(seed)
        writer, _ = await crashed(world, config, rng.randrange(5))
        for _ in range(burst):
            writer.add((b"%d" % (writer.last_add_pushed + 1),))
        await settle(rng.randrange(8))
        lac, pushed = writer.lac, writer.last_add_pushed
        writer.abort()
        disturb(world, rng, 0.15)
        for turns in interruptions:
            attempts = [start(world, writer.ledger_id) for _ in range(2)]
            await settle(turns)
            attempts[0].cancel()
            await asyncio.wait(attempts)
            for attempt in attempts:
                if not attempt.cancelled():
                    attempt.exception()
        ended = world.stored(writer.ledger_id)
        disturb(world, rng, 0)
        found = await read_all(world, writer.ledger_id)
        assert lac + 1 <= len(found) <= pushed + 1
        assert found == expected(len(found))
        await settle()
        world.check_confirmed(writer.ledger_id, len(found) - 1)
        if ended.is_closed:
            assert world.stored(writer.ledger_id) == ended

    run_fast(story, bookies=6)


def disturb(world: FastWorld, rng: Random, probability: float) -> None:
    statuses = (StatusCode.LOCAL_TIMEOUT, StatusCode.LOCAL_UNAVAILABLE, StatusCode.EIO)

    def fault(request: Request) -> StatusCode | None:
        return rng.choice(statuses) if rng.random() < probability else None

    for bookie in world.bookies:
        bookie.fault = bookie.lost_answer = fault
    outages = ("lost request", "lost answer")
    world.store.outage = (
        (lambda: rng.choice(outages) if rng.random() < probability else "")
        if probability
        else no_outage
    )


def test_a_cancel_is_kept_when_the_metadata_fails_beside_the_fencing() -> None:
    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        world.store.outage = lambda: "lost request"
        client = world.new_client()
        for bookie in world.bookies:
            bookie.hold()
        error = await cancelled_at_every_turn(lambda: client.recover_ledger(writer.ledger_id))
        assert isinstance(error, Unavailable)
        world.store.outage = no_outage
        for bookie in world.bookies:
            bookie.release()
            bookie._held = None

    run_fast(story)
