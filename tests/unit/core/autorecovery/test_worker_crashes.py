"""A worker that is killed or paused at each of its steps: nothing that was acknowledged is lost.

Each story is run once to count its steps, and then once for each of them. Meanwhile bookies remove
what no metadata names and no lock protects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.errors import Unavailable
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import Op
from tailrace.protocol.bookkeeper.messages import AddRequest, Request
from tailrace.protocol.ids import EntryId, LedgerId
from tests.unit.core.autorecovery.repair_world import (
    STRIPED,
    WHOLE,
    Process,
    RepairWorld,
    payload,
    run_repair,
)
from tests.unit.core.ledger.world import Listener

if TYPE_CHECKING:
    from tailrace.core.autorecovery.underreplicated import TakenLedger

Meanwhile = Callable[[], Awaitable[Callable[[], None]]]
"""What happens while a commit waits in line; returns what happens right after it."""

AT_ONCE = AutoRecoveryConfig(entry_batch_size=3, open_ledger_grace_ms=0)
LAST: EntryId = 5


async def closed(world: RepairWorld) -> LedgerId:
    """A striped ledger that lost one bookie."""
    ledger_id = await world.write(STRIPED, LAST + 1)
    world.lose(world.ensemble(ledger_id)[1])
    return ledger_id


async def twice(world: RepairWorld) -> LedgerId:
    """A ledger of two fragments that lost a member of both, and another one of the second."""
    listener = Listener()
    writer = await world.client.create_ledger(WHOLE, listener)
    writer.add((payload(0),))
    writer.add((payload(1),))
    await world.until(lambda: writer.lac == 1)
    world.lose(away := writer.metadata.fragments[0].ensemble[2])
    for number in range(2, LAST + 1):
        writer.add((payload(number),))
    await writer.close()
    first, second = world.metadata(writer.ledger_id).fragments
    world.bring_back(away)
    world.lose(first.ensemble[0])
    world.lose(second.ensemble[2])
    return writer.ledger_id


async def abandoned(world: RepairWorld) -> LedgerId:
    """An open ledger whose writer is gone, and so is a member of its ensemble."""
    listener = Listener()
    writer = await world.client.create_ledger(WHOLE, listener)
    for number in range(LAST + 1):  # one by one, so that the bookies know what is confirmed
        writer.add((payload(number),))
        await world.until(lambda number=number: writer.lac == number)  # type: ignore[misc]
    world.lose(writer.metadata.fragments[0].ensemble[0])
    return writer.ledger_id


Make = Callable[[RepairWorld], Awaitable[LedgerId]]
STORIES = pytest.mark.parametrize("make", [closed, twice, abandoned], ids=lambda m: m.__name__)


async def begun(world: RepairWorld, make: Make) -> tuple[LedgerId, Process]:
    ledger_id = await make(world)
    process = await world.process("w1", AT_ONCE)
    await process.marks.mark(ledger_id, sorted(world.gone))
    process.steps = 0
    process.on_step = lambda: world.check_named(ledger_id, LAST)
    return ledger_id, process


async def finished(world: RepairWorld, ledger_id: LedgerId) -> None:
    await world.until_unmarked(ledger_id)
    assert world.metadata(ledger_id).is_closed
    assert world.metadata(ledger_id).last_entry_id == LAST
    world.check_whole(ledger_id)


def steps_of(make: Make) -> int:
    counted = []

    async def story(world: RepairWorld) -> None:
        ledger_id, process = await begun(world, make)
        process.start()
        await finished(world, ledger_id)
        counted.append(process.steps)

    run_repair(story, bookies=7)
    return counted[0]


@STORIES
def test_killed_at_any_step(make: Make) -> None:
    def killed_at(step: int) -> Callable[[RepairWorld], Awaitable[None]]:
        async def story(world: RepairWorld) -> None:
            ledger_id, first = await begun(world, make)
            first.stop_at = step
            first.start()
            await world.until(lambda: first.is_stopped)
            first.session.expire()
            world.remove_over_replicated()
            world.check_named(ledger_id, LAST)
            second = (await world.process("w2", AT_ONCE)).start()
            await finished(world, ledger_id)
            world.remove_over_replicated()
            world.check_whole(ledger_id)
            assert second.is_running

        return story

    steps = steps_of(make)
    assert steps > 40
    for step in range(1, steps):
        run_repair(killed_at(step), bookies=7)  # type: ignore[arg-type]


@STORIES
@pytest.mark.parametrize("hears_first", [True, False])
def test_paused_at_any_step_while_another_does_the_work(make: Make, hears_first: bool) -> None:
    def paused_at(step: int) -> Callable[[RepairWorld], Awaitable[None]]:
        async def story(world: RepairWorld) -> None:
            ledger_id, first = await begun(world, make)
            first.stop_at = step
            first.start()
            await world.until(lambda: first.is_stopped)
            first.session.expire()
            second = (await world.process("w2", AT_ONCE)).start()
            await finished(world, ledger_id)
            world.remove_over_replicated()
            if hears_first:
                first.session.tick()
                first.let_go()
            else:
                first.let_go()
                first.session.tick()
            await world.until(lambda: first.metrics.ledgers_in_hand == 0)
            await finished(world, ledger_id)
            assert first.is_running
            assert second.is_running

        return story

    for step in range(1, steps_of(make)):
        run_repair(paused_at(step), bookies=7)  # type: ignore[arg-type]


def commit_late(process: Process, ledger_id: LedgerId, meanwhile: Meanwhile) -> list[str]:
    """Have a process' first commit of copies wait in line; return what tells that it does."""
    do_all = process.session.multi
    late: list[str] = []

    async def do_late(ops: Sequence[Op]) -> list[int]:
        path = LedgerPaths().ledger(ledger_id)
        is_commit = process.metrics.entries_copied_total and ops[0].path == path
        if not is_commit or late:
            return await do_all(ops)
        late.append(path)
        process.lose_session()
        after = await meanwhile()
        done = await do_all(ops)
        after()
        return done

    process.session.multi = do_late  # type: ignore[method-assign]
    process.on_step = lambda: None  # what is named lacks entries for a moment: that is the point
    return late


@pytest.mark.parametrize("is_answered", [True, False])
@STORIES
def test_a_commit_that_is_done_in_another_session_has_its_copies_looked_at_again(
    make: Make, is_answered: bool
) -> None:
    """It waited in line while the session ended; in between a bookie removed its copy."""

    async def story(world: RepairWorld) -> None:
        ledger_id, process = await begun(world, make)

        def lose_answer() -> None:
            if not is_answered:
                raise Unavailable("no answer")

        async def remove() -> Callable[[], None]:
            world.remove_over_replicated()
            return lose_answer

        late = commit_late(process, ledger_id, remove)
        process.start()
        await world.until(lambda: bool(late))
        await finished(world, ledger_id)
        if is_answered:
            assert process.metrics.locks_lost_total == 1

    run_repair(story, bookies=7)


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_commit_in_another_session_is_not_done_when_nobody_will_look(is_seen: bool) -> None:
    """The bookie came back, so another worker is done, or has seen that it will be."""

    async def story(world: RepairWorld) -> None:
        ledger_id, process = await begun(world, closed)
        (lost,) = world.gone
        other = await world.process("w2", AT_ONCE)

        async def look() -> Callable[[], None]:
            world.bring_back(lost)
            if is_seen:
                taken = await other.marks.take()
                assert taken is not None
                assert (await other.worker._repair.repair(taken)).problem is None
                world.remove_over_replicated()
                return lambda: seen.append(taken)
            other.start()
            await finished(world, ledger_id)
            world.remove_over_replicated()
            return lambda: None

        seen: list[TakenLedger] = []
        late = commit_late(process, ledger_id, look)
        process.start()
        await world.until(lambda: bool(late))
        if is_seen:  # the commit is done, and with it the mark is another one
            await world.until(lambda: bool(seen))
            assert lost not in world.ensemble(ledger_id)
            assert await other.marks.done(seen[0]) is False
            assert world.mark(ledger_id) is not None
        else:
            await world.until(lambda: process.metrics.locks_lost_total > 0)
            assert lost in world.ensemble(ledger_id)
        await finished(world, ledger_id)

    run_repair(story, bookies=7)


def test_a_lock_that_is_lost_with_the_last_answer_commits_nothing() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id, process = await begun(world, closed)
        spares = world.bookies.keys() - set(world.ensemble(ledger_id))

        def lose_session(request: Request) -> None:
            is_last = isinstance(request, AddRequest) and request.entry_id >= LAST - 1
            if is_last and not process.metrics.locks_lost_total:
                process.lose_session()
                world.remove_over_replicated()

        for spare in spares:
            world.bookies[spare].lost_answer = lose_session
        process.start()
        await world.until(lambda: process.metrics.locks_lost_total > 0)
        await finished(world, ledger_id)
        assert process.metrics.fragments_replaced_total == 1

    run_repair(story, bookies=7)


def test_two_workers_that_copy_one_fragment_to_different_bookies_leave_one_of_them() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(LedgerConfig(ensemble_size=2, write_quorum=2, ack_quorum=2))
        world.lose(world.ensemble(ledger_id)[0])
        both = [await world.process(name, AT_ONCE) for name in ("w1", "w2")]
        await both[0].marks.mark(ledger_id, sorted(world.gone))
        taken = await both[0].marks.take()
        assert taken is not None
        both[1].marks._locks._held[ledger_id] = both[1].session.session_id  # as if it had the lock
        outcomes = await asyncio.gather(*(p.worker._repair.repair(taken) for p in both))
        assert [outcome.problem for outcome in outcomes] == [None, None]
        world.check_whole(ledger_id)
        assert sum(p.metrics.fragments_replaced_total for p in both) == 1
        assert sum(p.metrics.updates_outrun_total for p in both) == 1

    run_repair(story, bookies=12)
