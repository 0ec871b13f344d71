"""What becomes of marked ledgers: stories of one worker, or two."""

import asyncio
import logging
from dataclasses import replace

import pytest

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.ledger_repair import RepairOutcome
from tailrace.core.autorecovery.underreplicated import TakenLedger
from tailrace.core.autorecovery.worker import BUGS_MAX
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.task_health import task_health
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Request, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.autorecovery.repair_world import (
    QUICK,
    STRIPED,
    WHOLE,
    RepairWorld,
    payload,
    run_repair,
)
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT, no_fault
from tests.unit.core.ledger.world import Listener


@pytest.mark.parametrize("config", [STRIPED, WHOLE], ids=["striped", "whole"])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_a_lost_bookies_entries_are_copied(config: object, count: int) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(config, count)  # type: ignore[arg-type]
        before = world.metadata(ledger_id)
        (lost, *others) = world.ensemble(ledger_id)
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until_unmarked(ledger_id)
        after = world.metadata(ledger_id)
        new = after.fragments[0].ensemble
        assert new[0] not in (lost, *others)
        assert list(new[1:]) == others
        assert replace(after, fragments=before.fragments) == before
        world.check_whole(ledger_id)
        assert world.locks() == []
        assert process.metrics.ledgers_repaired_total == 1
        assert process.metrics.entries_copied_total == sum(
            new[0] in world.holders(ledger_id, e) for e in range(count)
        )

    run_repair(story)


def test_two_lost_bookies_are_replaced_at_once_and_copies_are_the_same_bytes() -> None:
    async def story(world: RepairWorld) -> None:
        config = replace(WHOLE, ensemble_size=4)
        ledger_id = await world.write(config)
        lost = [world.ensemble(ledger_id)[at] for at in (1, 3)]
        for bookie in lost:
            world.lose(bookie)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, lost)
        await world.until_unmarked(ledger_id)
        assert process.metrics.fragments_replaced_total == 1
        world.check_whole(ledger_id)
        for entry_id in range(20):
            bodies = {
                world.bookies[b].ledgers[ledger_id].entries[entry_id]
                for b in world.holders(ledger_id, entry_id)
            }
            assert len(bodies) == 1

    run_repair(story, bookies=6)


def test_copies_pass_the_fence_and_are_not_deferred() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(close=False)
        await world.new_client().open_ledger(ledger_id, recover=True)
        lost, *_ = world.ensemble(ledger_id)
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until_unmarked(ledger_id)
        world.check_whole(ledger_id)
        new = world.bookies[world.ensemble(ledger_id)[0]]
        adds = [r for r in new.requests if isinstance(r, AddRequest)]
        assert adds
        assert all(r.recovery and r.write_flags == 0 for r in adds)

    run_repair(story)


def test_a_bookie_that_came_back_keeps_its_place() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        before = world.metadata(ledger_id)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [world.ensemble(ledger_id)[0]])
        await world.until_unmarked(ledger_id)
        assert world.metadata(ledger_id) == before
        assert process.metrics.entries_copied_total == 0

    run_repair(story)


def test_a_deleted_ledgers_mark_goes() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        lost = world.ensemble(ledger_id)[0]
        world.lose(lost)
        await world.client.delete_ledger(ledger_id)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until_unmarked(ledger_id)
        assert process.metrics.ledgers_deleted_total == 1
        assert world.locks() == []

    run_repair(story)


def test_a_ledger_deleted_under_the_copy_is_no_failure() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        lost = world.ensemble(ledger_id)[0]
        world.lose(lost)

        def delete_first(request: Request) -> StatusCode | None:
            if isinstance(request, ReadRequest) and process.metrics.entries_copied_total:
                path = LedgerPaths().ledger(ledger_id)
                if world.server.tree.find(path) is not None:
                    world.server.apply(lambda tree: tree.delete(path, -1))
                return StatusCode.ENOLEDGER  # bookies drop it some time after that
            return None

        process = await world.process()
        for bookie in world.bookies.values():
            if bookie.bookie_id != lost:
                bookie.fault = delete_first
        await process.marks.mark(ledger_id, [lost])
        process.start()
        await world.until_unmarked(ledger_id)
        assert process.metrics.ledgers_deleted_total == 1
        assert process.metrics.ledgers_failed_total == 0

    run_repair(story)


def test_without_a_spare_bookie_the_mark_stays_until_there_is_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        other = await world.write()
        lost = world.ensemble(ledger_id)[0]
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await process.marks.mark(other, [lost])
        await asyncio.sleep(600)
        assert world.mark(ledger_id) is not None
        assert world.locks() == []
        assert process.metrics.ledgers_failed_total in range(10, 20)  # 9, 19, 37, 75, 150 s, ...
        told = [r for r in caplog.records if "ledger_not_repaired" in r.getMessage()]
        assert len([r for r in told if r.levelno == logging.WARNING]) == 2
        assert all(lost in r.getMessage() or "bookies" in r.getMessage() for r in told)
        world.add_bookies(1)
        await world.until_unmarked(ledger_id, 301)
        await world.until_unmarked(other, 301)
        world.check_whole(ledger_id)
        world.check_whole(other)

    with caplog.at_level(logging.DEBUG):
        run_repair(story, bookies=3)


def test_many_ledgers_that_fail_alike_are_told_of_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: RepairWorld) -> None:
        ids = [await world.write(WHOLE, 2) for _ in range(20)]
        lost = world.ensemble(ids[0])[0]
        world.lose(lost)
        process = (await world.process()).start()
        for ledger_id in ids:
            await process.marks.mark(ledger_id, [lost])
        await asyncio.sleep(100)
        assert process.metrics.ledgers_failed_total >= len(ids)
        told = [r for r in caplog.records if "ledger_not_repaired" in r.getMessage()]
        assert [r.levelno for r in told].count(logging.WARNING) == 2

    with caplog.at_level(logging.DEBUG):
        run_repair(story, bookies=3)


def test_a_failed_ledger_holds_up_no_other() -> None:
    async def story(world: RepairWorld) -> None:
        bad = await world.write(STRIPED)
        for bookie in world.holders(bad, 7):
            del world.bookies[bookie].ledgers[bad].entries[7]
        good = [await world.write(WHOLE) for _ in range(5)]
        lost = world.holders(bad, 7)[0]
        world.lose(lost)
        process = (await world.process()).start()
        for ledger_id in (bad, *good):
            await process.marks.mark(ledger_id, [lost])
        for ledger_id in good:
            await world.until_unmarked(ledger_id, 5)
            world.check_whole(ledger_id)
        assert world.mark(bad) is not None

    run_repair(story)


def test_a_lost_entry_is_named_and_the_other_fragments_and_places_are_repaired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await two_fragments(world, close=True)
        first, second = world.metadata(ledger_id).fragments
        assert second.first_entry_id == 10
        for bookie in world.holders(ledger_id, 4):
            del world.bookies[bookie].ledgers[ledger_id].entries[4]
        gone = set(first.ensemble) & set(second.ensemble)
        lost = sorted(gone & set(world.holders(ledger_id, 4)))[0]
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until(lambda: process.metrics.ledgers_failed_total > 0)
        assert lost not in world.ensemble(ledger_id, 1)
        assert lost in world.ensemble(ledger_id, 0)
        assert world.mark(ledger_id) is not None
        (told,) = [r for r in caplog.records if "ledger_not_repaired" in r.getMessage()]
        assert f"entry 4 of ledger {ledger_id} cannot be copied until" in told.getMessage()
        assert f"{lost}: LOCAL_UNAVAILABLE" in told.getMessage()
        world.bring_back(lost)
        del (
            world.bookies[lost].ledgers[ledger_id].entries[0]
        )  # so that it is seen to lack something
        await world.until(lambda: process.metrics.ledgers_failed_total > 1)
        told = [r for r in caplog.records if "ledger_not_repaired" in r.getMessage()][-1]
        assert (
            f"entry 4 of ledger {ledger_id} cannot be copied, no replica has" in told.getMessage()
        )

    run_repair(story, bookies=6)


def test_a_spoiled_copy_is_made_anew_and_never_copied() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        bad, lost, good = world.ensemble(ledger_id)
        world.bookies[bad].flip_bit(ledger_id, 0)
        world.bookies[bad].flip_bit(ledger_id, 9)
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until_unmarked(ledger_id)
        assert bad not in world.ensemble(ledger_id)
        assert good in world.ensemble(ledger_id)
        world.check_whole(ledger_id)

    run_repair(story)


def test_what_each_of_two_bookies_lost_comes_from_the_other() -> None:
    async def story(world: RepairWorld) -> None:
        config = replace(STRIPED, ensemble_size=2)
        ledger_id = await world.write(config)
        one, other = world.ensemble(ledger_id)
        del world.bookies[one].ledgers[ledger_id].entries[0]
        del world.bookies[other].ledgers[ledger_id].entries[19]
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [one])
        await world.until_unmarked(ledger_id)
        world.check_whole(ledger_id)

    run_repair(story)


def test_in_a_cluster_without_spare_bookies_one_that_lost_entries_gets_them_back() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        before = world.metadata(ledger_id)
        wiped, *_ = world.ensemble(ledger_id)
        world.bring_back(wiped, empty=True)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [wiped])
        await world.until_unmarked(ledger_id)
        assert world.metadata(ledger_id) == before
        world.check_whole(ledger_id)

    run_repair(story, bookies=3)


def test_a_registered_bookie_that_is_silent_is_not_copied_away_and_keeps_its_mark() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        before = world.metadata(ledger_id)
        slow, *_ = world.ensemble(ledger_id)
        world.bookies[slow].fault = SILENT
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [slow])
        await asyncio.sleep(60)
        assert world.metadata(ledger_id) == before
        assert world.mark(ledger_id) is not None
        assert process.metrics.entries_copied_total == 0
        world.bookies[slow].fault = no_fault
        await world.until_unmarked(ledger_id, 301)
        assert world.metadata(ledger_id) == before

    run_repair(story)


async def two_fragments(world: RepairWorld, *, close: bool = False) -> LedgerId:
    """A ledger whose writer replaced a bookie at entry 10, which came back."""
    listener = Listener()
    writer = await world.client.create_ledger(WHOLE, listener)
    for number in range(10):
        writer.add((payload(number),))
    await world.until(lambda: writer.lac == 9)
    away = writer.metadata.fragments[0].ensemble[2]
    world.lose(away)
    for number in range(10, 20):
        writer.add((payload(number),))
    await world.until(lambda: writer.lac == 19 and len(writer.metadata.fragments) == 2)
    world.bring_back(away)
    if close:
        await writer.close()
    return writer.ledger_id


def test_of_an_open_ledger_only_former_fragments_are_copied_if_its_writer_goes_on() -> None:
    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        for number in range(10):
            writer.add((payload(number),))
        await world.until(lambda: writer.lac == 9)
        lost = writer.metadata.fragments[0].ensemble[1]
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(writer.ledger_id, [lost])
        await asyncio.sleep(10)  # less than the grace period
        assert world.metadata(writer.ledger_id).fragments[0].ensemble[1] == lost
        for number in range(10, 20):
            writer.add((payload(number),))
        await world.until_unmarked(writer.ledger_id)
        metadata = world.metadata(writer.ledger_id)
        assert metadata.state is LedgerState.OPEN
        assert len(metadata.fragments) == 2
        world.check_whole(writer.ledger_id, 9)
        assert process.metrics.ledgers_closed_total == 0
        writer.add((payload(20),))
        await writer.close()
        assert listener.errors == []
        world.check_whole(writer.ledger_id)

    run_repair(story)


@pytest.mark.parametrize("count", [0, 1, 12])
def test_an_open_ledger_that_still_misses_a_member_after_the_grace_period_is_closed(
    count: int,
) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, count, close=False)
        lost = world.ensemble(ledger_id)[1]
        world.lose(lost)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await asyncio.sleep(29.5)
        assert world.metadata(ledger_id).state is LedgerState.OPEN
        assert world.locks() == []
        await world.until_unmarked(ledger_id, 5)
        metadata = world.metadata(ledger_id)
        assert (metadata.is_closed, metadata.last_entry_id) == (True, count - 1)
        assert lost not in metadata.fragments[-1].ensemble
        assert process.metrics.ledgers_closed_total == 1
        world.check_whole(ledger_id)

    run_repair(story)


def test_an_open_end_is_not_put_off_by_what_fails_before_it() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await two_fragments(world)
        first, last = world.metadata(ledger_id).fragments
        for bookie in first.ensemble:
            del world.bookies[bookie].ledgers[ledger_id].entries[4]
        lost = sorted(set(first.ensemble) & set(last.ensemble))[0]
        world.lose(lost)
        long = AutoRecoveryConfig(lock_release_of_failed_ms=9_600_000)  # 300 s at first
        process = (await world.process(config=long)).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until(lambda: world.metadata(ledger_id).is_closed, 35)
        assert world.metadata(ledger_id).fragments[0] == first

    run_repair(story, bookies=6)


def test_a_ledger_whose_lock_is_lost_is_not_fenced_without_it() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 4, close=False)
        lost, *rest = world.ensemble(ledger_id)
        world.lose(lost)
        process = await world.process(config=AutoRecoveryConfig(open_ledger_grace_ms=0))
        await process.marks.mark(ledger_id, [lost])

        def lose_session(_: Request) -> None:
            if not process.metrics.locks_lost_total:
                process.lose_session()

        for bookie in rest:
            world.bookies[bookie].fault = lose_session
        process.start()
        await world.until(lambda: process.metrics.locks_lost_total == 1)
        await world.until_unmarked(ledger_id)  # by the next attempt, which has the lock
        world.check_whole(ledger_id)

    run_repair(story)


def test_an_open_ledger_is_not_fenced_while_nobody_could_find_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Most bookies lost their sessions, and live: their writer goes on."""

    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        writer.add((payload(0),))
        lost = writer.metadata.fragments[0].ensemble[:2]
        world.gone.update(lost)
        process = (await world.process()).start()
        await process.marks.mark(writer.ledger_id, lost)
        await asyncio.sleep(100)
        assert world.metadata(writer.ledger_id).state is LedgerState.OPEN
        assert process.metrics.ledgers_failed_total > 1
        told = [r for r in caplog.records if "ledger_not_repaired" in r.getMessage()]
        assert [r.levelno for r in told].count(logging.WARNING) == 1
        assert all(bookie in told[0].getMessage() for bookie in lost)
        writer.add((payload(1),))
        await world.until(lambda: writer.lac == 1)
        world.bring_back(lost[0])
        await world.until_unmarked(writer.ledger_id, 301)
        assert world.metadata(writer.ledger_id).is_closed
        assert world.metadata(writer.ledger_id).last_entry_id == 1
        world.check_whole(writer.ledger_id)

    with caplog.at_level(logging.DEBUG, "tailrace.core.autorecovery"):
        run_repair(story)


def test_the_grace_period_begins_anew_with_a_new_fragment() -> None:
    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        writer.add((payload(0),))
        await world.until(lambda: writer.lac == 0)
        world.lose(first := writer.metadata.fragments[0].ensemble[1])
        process = (await world.process()).start()
        await process.marks.mark(writer.ledger_id, [first])
        await asyncio.sleep(25)
        writer.add((payload(1),))
        await world.until(lambda: len(writer.metadata.fragments) == 2)
        world.lose(second := writer.metadata.fragments[1].ensemble[1])
        await process.marks.mark(writer.ledger_id, [second])
        await asyncio.sleep(25)
        assert world.metadata(writer.ledger_id).state is LedgerState.OPEN
        await world.until_unmarked(writer.ledger_id, 20)
        assert world.metadata(writer.ledger_id).is_closed
        world.check_whole(writer.ledger_id)

    run_repair(story, bookies=6)


def test_a_writer_that_replaces_the_member_just_before_the_fence_is_left_alone() -> None:
    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        writer.add((payload(0),))
        await world.until(lambda: writer.lac == 0)
        world.lose(lost := writer.metadata.fragments[0].ensemble[1])
        process = await world.process()
        decided = asyncio.Event()
        close = process.worker._close

        async def close_late(*args: object) -> None:
            decided.set()
            await asyncio.sleep(1)
            await close(*args)  # type: ignore[arg-type]

        process.worker._close = close_late  # type: ignore[method-assign]
        process.start()
        await process.marks.mark(writer.ledger_id, [lost])
        await decided.wait()
        writer.add((payload(1),))
        await world.until_unmarked(writer.ledger_id, 100)
        assert world.metadata(writer.ledger_id).state is LedgerState.OPEN
        await writer.close()
        assert listener.errors == []
        world.check_whole(writer.ledger_id)

    run_repair(story)


def test_an_open_ledgers_member_that_lacks_entries_fences_nobody() -> None:
    """Its copies are made once the ledger is closed, and the mark waits for that."""

    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        for number in range(10):
            writer.add((payload(number),))
            await world.until(lambda number=number: writer.lac == number)  # type: ignore[misc]
        wiped = writer.metadata.fragments[0].ensemble[1]
        world.bring_back(wiped, empty=True)
        process = (await world.process()).start()
        assert await process.check.missing_replicas(writer.ledger_id) == {wiped}
        await process.marks.mark(writer.ledger_id, [wiped])
        await asyncio.sleep(200)
        assert world.metadata(writer.ledger_id).state is LedgerState.OPEN
        assert world.mark(writer.ledger_id) is not None
        await writer.close()
        assert listener.errors == []
        await world.until_unmarked(writer.ledger_id, 301)
        world.check_whole(writer.ledger_id)

    run_repair(story)


def test_a_target_that_refuses_is_replaced_by_another_with_the_next_attempt() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        lost, *rest = world.ensemble(ledger_id)
        world.lose(lost)
        spares = [b for b in world.bookies if b not in (lost, *rest)]
        process = await world.process()
        refused: list[str] = []

        def refuse_first(request: Request) -> StatusCode | None:
            if isinstance(request, AddRequest) and request.entry_id == 5 and not refused:
                refused.append("once")
                return StatusCode.EREADONLY
            return None

        for spare in spares:
            world.bookies[spare].fault = refuse_first
        await process.marks.mark(ledger_id, [lost])
        process.start()
        await world.until_unmarked(ledger_id, 20)
        assert refused
        assert process.metrics.ledgers_failed_total == 1
        world.check_whole(ledger_id)

    run_repair(story)


def test_a_busy_target_is_sent_the_entry_again() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        lost, *rest = world.ensemble(ledger_id)
        world.lose(lost)
        busy = iter([StatusCode.ETOOMANYREQUESTS] * 5)
        for spare in world.bookies.keys() - {lost, *rest}:
            world.bookies[spare].fault = lambda request: (
                next(busy, None) if isinstance(request, AddRequest) else None
            )
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until_unmarked(ledger_id, 8)
        assert process.metrics.ledgers_failed_total == 0
        world.check_whole(ledger_id)

    run_repair(story)


def test_nothing_is_done_while_auto_recovery_is_disabled() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        world.lose(lost := world.ensemble(ledger_id)[0])
        process = await world.process()
        await process.marks.disable()
        process.start()
        await process.marks.mark(ledger_id, [lost])
        await asyncio.sleep(100)
        assert process.metrics.ledgers_taken_total == 0
        await process.marks.enable()
        await world.until_unmarked(ledger_id, 10)

    run_repair(story)


def test_a_mark_made_anew_meanwhile_stays() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        lost, other, _ = world.ensemble(ledger_id)
        world.lose(lost)
        process = await world.process()
        await process.marks.mark(ledger_id, [lost])
        taken = await process.marks.take()
        assert taken is not None
        await process.marks.mark(ledger_id, [other])
        await process.worker._work_on(taken, Forever("replication.worker"))
        mark = world.mark(ledger_id)
        assert mark is not None
        assert set(mark.missing) == {lost, other}
        process.start()
        await world.until_unmarked(ledger_id, 10)

    run_repair(story)


def test_an_unreachable_store_is_told_once_and_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write()
        world.lose(lost := world.ensemble(ledger_id)[0])
        process = await world.process()
        await process.marks.mark(ledger_id, [lost])
        world.server.faults.down = True
        process.start()
        await asyncio.sleep(100)
        told = [r for r in caplog.records if "replication_waits" in r.getMessage()]
        assert len(told) == 1
        world.server.faults.down = False
        await world.until_unmarked(ledger_id, 30)
        world.check_whole(ledger_id)

    run_repair(story)


def test_ledgers_are_copied_side_by_side_and_each_once() -> None:
    async def story(world: RepairWorld) -> None:
        ledgers = [await world.write(WHOLE) for _ in range(12)]
        world.lose(lost := world.ensemble(ledgers[0])[0])
        config = replace(QUICK, replication_concurrency=4)
        process = (await world.process(config=config)).start()
        other = (await world.process("w2", config)).start()
        for ledger_id in ledgers:
            await process.marks.mark(ledger_id, [lost])
        for ledger_id in ledgers:
            await world.until_unmarked(ledger_id)
            world.check_whole(ledger_id)
        both = [process.metrics, other.metrics]
        assert sum(m.ledgers_repaired_total for m in both) == len(ledgers)
        assert sum(m.fragments_replaced_total for m in both) == sum(
            world.has(lost, ledger_id, 0) for ledger_id in ledgers
        )
        assert world.locks() == []

    run_repair(story)


def test_the_copy_keeps_to_its_rate() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        world.lose(lost := world.ensemble(ledger_id)[0])
        config = AutoRecoveryConfig(entry_batch_size=2, replication_bytes_per_s=100)
        process = (await world.process(config=config)).start()
        await process.marks.mark(ledger_id, [lost])
        began_s = asyncio.get_running_loop().time()
        await world.until_unmarked(ledger_id)
        took_s = asyncio.get_running_loop().time() - began_s
        assert took_s >= process.metrics.bytes_copied_total / 100 > 10  # virtual seconds
        assert process.metrics.ledgers_in_hand == 0

    run_repair(story)


def test_a_cancelled_worker_unlocks_what_it_had() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE)
        lost, *rest = world.ensemble(ledger_id)
        world.lose(lost)
        for bookie in rest:
            world.bookies[bookie].hold()
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [lost])
        await world.until(lambda: process.metrics.ledgers_in_hand == 1)
        assert len(world.locks()) == 1
        await process.cancel()
        assert world.locks() == []
        assert process.metrics.ledgers_in_hand == 0
        assert DOWN is world.bookies[lost].fault

    run_repair(story)


def test_a_bug_over_one_ledger_costs_it_its_turn_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: RepairWorld) -> None:
        bad, good = await world.write(), await world.write()
        process = await world.process()
        repair = process.worker._repair.repair

        async def with_a_bug(taken: TakenLedger) -> RepairOutcome:
            if taken.ledger_id == bad:
                raise ZeroDivisionError("a bug")
            return await repair(taken)

        monkeypatch.setattr(process.worker._repair, "repair", with_a_bug)
        for ledger_id in (bad, good):
            lost = world.ensemble(ledger_id)[0]
            world.lose(lost)
            await process.marks.mark(ledger_id, [lost])
        process.start()
        await world.until_unmarked(good)
        assert process.is_running
        assert world.mark(bad) is not None
        (said,) = task_health().status()["failed_tasks"]
        assert said["error"] == f"ledger {bad}: ZeroDivisionError: a bug"
        await process.cancel()

    run_repair(story, bookies=7)


def test_bugs_that_no_ledger_has_end_the_worker_after_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: RepairWorld) -> None:
        process = await world.process()

        async def take() -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(process.marks, "take", take)
        with pytest.raises(ZeroDivisionError):
            await process.worker.run()
        assert task_health().status()["failed_tasks"][0]["failures"] >= BUGS_MAX

    run_repair(story)
