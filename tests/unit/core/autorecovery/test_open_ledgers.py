"""Ledgers that are not closed: when a worker closes one, and when it leaves it to its writer."""

import asyncio

import pytest

from tailrace.core.autorecovery import underreplicated
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.ledger_metadata import LedgerState
from tests.unit.core.autorecovery.repair_world import (
    STRIPED,
    WHOLE,
    RepairWorld,
    payload,
    run_repair,
)
from tests.unit.core.ledger.world import Listener


def test_who_lost_entries_does_not_tell_where_a_ledger_ends() -> None:
    """Its "no such entry" would be taken for "never acknowledged", and the end be cut off."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(STRIPED, 19, close=False)
        robbed, away, _ = world.ensemble(ledger_id)
        world.bookies[robbed].ledgers.clear()
        process = await world.process()
        world.lose(away)
        process.start()
        await process.marks.mark(ledger_id, [away])
        await asyncio.sleep(60)
        assert world.metadata(ledger_id).state is LedgerState.OPEN
        world.bring_back(away)
        await asyncio.sleep(600)
        assert world.metadata(ledger_id).state is LedgerState.OPEN
        assert world.mark(ledger_id) is not None

    run_repair(story, bookies=6)


def test_each_loss_has_its_own_time_though_another_worker_saw_that_all_was_well() -> None:
    async def story(world: RepairWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(WHOLE, listener)
        for number in range(5):
            writer.add((payload(number),))
        await world.until(lambda: writer.lac == 4)
        ledger_id = writer.ledger_id
        lost = world.ensemble(ledger_id)[0]
        world.lose(lost)
        one = (await world.process("w1")).start()
        await one.marks.mark(ledger_id, [lost])
        await world.until(lambda: one.metrics.ledgers_taken_total == 1 and not world.locks())
        await asyncio.sleep(10)
        world.bring_back(lost)
        two = (await world.process("w2")).start()
        await world.until_unmarked(ledger_id)
        await two.cancel()
        await asyncio.sleep(60)
        world.lose(lost)
        await one.marks.mark(ledger_id, [lost])
        await asyncio.sleep(29)
        assert world.metadata(ledger_id).state is LedgerState.OPEN
        await world.until_unmarked(ledger_id)
        assert world.metadata(ledger_id).is_closed

    run_repair(story)


def test_each_loss_has_its_own_time_in_a_rolling_restart() -> None:
    async def story(world: RepairWorld) -> None:
        writer = await world.client.create_ledger(WHOLE, Listener())
        for number in range(5):
            writer.add((payload(number),))
        await world.until(lambda: writer.lac == 4)
        ledger_id = writer.ledger_id
        first, second, *_ = world.ensemble(ledger_id)
        world.lose(first)
        process = (await world.process("w1")).start()
        await process.marks.mark(ledger_id, [first])
        await asyncio.sleep(29)
        world.bring_back(first)
        world.lose(second)
        await process.marks.mark(ledger_id, [second])
        await asyncio.sleep(20)
        world.bring_back(second)
        await world.until_unmarked(ledger_id)
        assert world.metadata(ledger_id).state is LedgerState.OPEN

    run_repair(story)


def test_what_somebody_began_to_recover_is_closed_and_copied() -> None:
    """It has no writer any more who could be spared, and nobody else may come to finish it."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10, close=False)
        await world.overwrite(ledger_id, world.metadata(ledger_id).in_recovery())
        wiped = world.ensemble(ledger_id)[0]
        world.bookies[wiped].ledgers.clear()
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [wiped])
        await world.until_unmarked(ledger_id, 400)
        assert world.metadata(ledger_id).is_closed
        world.check_whole(ledger_id, 9)

    run_repair(story, bookies=6)


def test_no_such_entry_of_who_lost_entries_is_no_proof_for_recovery() -> None:
    """One never had the entry, and one lost it: the third has it, and it was acknowledged."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10, close=False)
        await world.overwrite(ledger_id, world.metadata(ledger_id).in_recovery())
        robbed, never, _ = world.ensemble(ledger_id)
        world.bookies[robbed].ledgers.clear()
        del world.bookies[never].ledgers[ledger_id].entries[9]
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [robbed])
        await world.until_unmarked(ledger_id, 400)
        assert world.metadata(ledger_id).last_entry_id == 9
        world.check_whole(ledger_id, 9)

    run_repair(story, bookies=6)


def test_a_hole_that_a_writer_left_does_not_shorten_the_next_loss_period() -> None:
    async def story(world: RepairWorld) -> None:
        wide = LedgerConfig(ensemble_size=6, write_quorum=3, ack_quorum=2)
        writer = await world.client.create_ledger(wide, Listener())
        for number in range(30):
            writer.add((payload(number),))
        await world.until(lambda: writer.lac == 29)
        ledger_id = writer.ledger_id
        hole, _, first, second, *_ = world.ensemble(ledger_id)
        del world.bookies[hole].ledgers[ledger_id].entries[0]
        world.lose(first)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [first])
        await asyncio.sleep(25)
        world.bring_back(first)
        await asyncio.sleep(1)
        world.lose(second)
        await process.marks.mark(ledger_id, [second])
        await asyncio.sleep(20)
        assert world.metadata(ledger_id).state is LedgerState.OPEN

    run_repair(story, bookies=9)


def test_who_comes_back_for_a_while_has_his_time_again() -> None:
    async def story(world: RepairWorld) -> None:
        writer = await world.client.create_ledger(WHOLE, Listener())
        writer.add((payload(0),))
        await world.until(lambda: writer.lac == 0)
        ledger_id = writer.ledger_id
        restless = world.ensemble(ledger_id)[0]
        other = world.ensemble(ledger_id)[1]
        world.bring_back(other, empty=True)  # keeps the mark while all are there
        world.lose(restless)
        process = (await world.process()).start()
        await process.marks.mark(ledger_id, [restless])
        await asyncio.sleep(5)
        world.bring_back(restless)
        await asyncio.sleep(20)
        world.lose(restless)
        await asyncio.sleep(20)
        assert world.metadata(ledger_id).state is LedgerState.OPEN

    run_repair(story)


def test_a_mark_that_is_written_during_a_copy_costs_no_copy() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(STRIPED, 40)
        lost, other, *_ = world.ensemble(ledger_id)
        world.lose(lost)
        process = await world.process()
        await process.marks.mark(ledger_id, [lost])
        auditor = await world.process("auditor")
        process.start()
        await world.until(lambda: process.metrics.entries_copied_total > 0)
        await auditor.marks.mark(ledger_id, [lost])  # the next audit
        await world.until(lambda: process.metrics.fragments_replaced_total > 0)
        await world.until_unmarked(ledger_id)
        assert process.metrics.ledgers_failed_total == 0
        stored = sum(lost in world.holders(ledger_id, n) for n in range(40)) or 27
        assert process.metrics.entries_copied_total <= stored
        assert other in world.ensemble(ledger_id)
        world.check_whole(ledger_id)

    run_repair(story)


def test_too_many_ledgers_that_fail_are_all_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(underreplicated, "_ASIDE_MAX", 10)

    async def story(world: RepairWorld) -> None:
        ids = [await world.write(WHOLE, 2) for _ in range(12)]
        (lost, *_) = world.bookies
        world.lose(lost)  # three bookies: there is nobody to copy to
        process = await world.process("w1")
        for ledger_id in ids:
            await process.marks.mark(ledger_id, [lost])
        process.start()
        await asyncio.sleep(8)  # less than the shortest pause
        assert process.metrics.ledgers_taken_total <= len(ids)
        world.bring_back(lost)
        for ledger_id in ids:
            await world.until_unmarked(ledger_id)

    run_repair(story, bookies=3)
