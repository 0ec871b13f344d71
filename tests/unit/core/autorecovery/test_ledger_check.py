"""Which copies count as missing, and which answers say nothing."""

import asyncio
from dataclasses import replace

import pytest

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.ledger_check import CheckedFragment
from tailrace.core.errors import LedgerNotFound
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.bookkeeper.messages import LAST_ENTRY, ReadRequest, Request, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.autorecovery.repair_world import (
    STRIPED,
    WHOLE,
    RepairWorld,
    payload,
    run_repair,
)
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT
from tests.unit.core.ledger.world import Listener


async def checked(
    world: RepairWorld, ledger_id: LedgerId, percentage: int = 0
) -> list[CheckedFragment]:
    config = AutoRecoveryConfig(ledger_verification_percentage=percentage)
    process = await world.process(f"checker {percentage}", config)
    return await process.check.check(await process.nodes.read(ledger_id))


def asked(world: RepairWorld) -> dict[str, list[int]]:
    """What each bookie was asked for, once it is known that nothing else asks."""
    return {
        b: [r.entry_id for r in bookie.requests if isinstance(r, ReadRequest)]
        for b, bookie in world.bookies.items()
    }


def forget_requests(world: RepairWorld) -> None:
    for bookie in world.bookies.values():
        bookie.requests.clear()


def test_of_each_replica_the_first_and_the_last_entry_are_read() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(STRIPED, 11)
        forget_requests(world)
        (found,) = await checked(world, ledger_id)
        assert (found.missing, found.doubtful) == ({}, set())
        ensemble = world.ensemble(ledger_id)
        assert [asked(world)[b] for b in ensemble] == [[0, 9], [0, 10], [1, 10]]

    run_repair(story)


@pytest.mark.parametrize("config", [STRIPED, WHOLE], ids=["striped", "whole"])
def test_all_entries_are_read_at_a_hundred_percent_and_some_at_ten(config: object) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(config, 60)  # type: ignore[arg-type]
        for percentage in (100, 10):
            forget_requests(world)
            (found,) = await checked(world, ledger_id, percentage)
            assert found.missing == {}
            for place, bookie in enumerate(world.ensemble(ledger_id)):
                stored = [*found.span.stored_at(place)]
                read = asked(world)[bookie]
                assert set(read) <= set(stored)
                wanted = len(stored) if percentage == 100 else 2 + (len(stored) - 2) // 10
                assert len(read) == len(set(read)) == wanted
                if percentage == 10:
                    middle = read[2:]
                    assert any(e < 30 for e in middle)
                    assert any(e >= 30 for e in middle)  # spread over the fragment

    run_repair(story)


@pytest.mark.parametrize("spoil", ["lost", "flipped", "ledger"])
def test_lost_and_spoiled_entries_are_missing(spoil: str) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10)
        _, bad, _ = world.ensemble(ledger_id)
        if spoil == "lost":
            del world.bookies[bad].ledgers[ledger_id].entries[9]
        elif spoil == "flipped":
            world.bookies[bad].flip_bit(ledger_id, 0)
        else:
            del world.bookies[bad].ledgers[ledger_id]
        (found,) = await checked(world, ledger_id)
        assert (found.missing, found.gone) == ({1: bad}, set())
        process = await world.process()
        assert await process.check.missing_replicas(ledger_id) == {bad}

    run_repair(story)


@pytest.mark.parametrize(
    ("status", "is_missing"),
    [
        (StatusCode.ENOENTRY, True),
        (StatusCode.ENOLEDGER, True),
        (StatusCode.EIO, True),
        (StatusCode.LOCAL_TIMEOUT, False),
        (StatusCode.LOCAL_UNAVAILABLE, False),
        (StatusCode.ETOOMANYREQUESTS, False),
        (StatusCode.EUNKNOWNLEDGERSTATE, False),
        (StatusCode.EUA, False),
    ],
)
def test_what_a_registered_bookie_says(status: StatusCode, is_missing: bool) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10)
        bad, *_ = world.ensemble(ledger_id)
        world.bookies[bad].fault = lambda _: status
        (found,) = await checked(world, ledger_id)
        assert found.missing == ({0: bad} if is_missing else {})
        assert found.doubtful == (set() if is_missing else {0})

    run_repair(story)


def test_one_answer_that_says_missing_outweighs_silence_before_it() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10)
        bad, *_ = world.ensemble(ledger_id)
        statuses = iter([StatusCode.LOCAL_TIMEOUT, StatusCode.ENOENTRY])
        world.bookies[bad].fault = lambda _: next(statuses)
        (found,) = await checked(world, ledger_id)
        assert (found.missing, found.doubtful) == ({0: bad}, set())

    run_repair(story)


def test_who_is_not_registered_is_not_asked_and_who_is_read_only_is() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 10)
        gone, read_only, _ = world.ensemble(ledger_id)
        world.gone.add(gone)  # and would answer
        world.read_only.add(read_only)
        forget_requests(world)
        (found,) = await checked(world, ledger_id)
        assert (found.gone, found.lacking, found.doubtful) == ({0}, set(), set())
        assert asked(world)[gone] == []
        assert len(asked(world)[read_only]) == 2

    run_repair(story)


@pytest.mark.parametrize("close", [True, False])
def test_a_ledger_without_entries_misses_only_who_is_gone(close: bool) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 0, close=close)
        process = await world.process()
        assert await process.check.missing_replicas(ledger_id) == set()
        world.lose(lost := world.ensemble(ledger_id)[2])
        assert await process.check.missing_replicas(ledger_id) == {lost}

    run_repair(story)


def test_the_open_end_is_what_is_confirmed_or_the_first_entry_if_anybody_has_it() -> None:
    async def story(world: RepairWorld) -> None:
        writer = await world.client.create_ledger(WHOLE, Listener())
        ensemble = writer.metadata.fragments[0].ensemble
        slow = world.bookies[ensemble[2]]
        slow.hold()
        for number in range(4):
            writer.add((payload(number),))
            await world.until(lambda number=number: writer.lac == number)  # type: ignore[misc]
            if number == 0:
                held, slow._held = slow._held, []
                process = await world.process()
                slow._held = None  # it answers reads, and has not seen the add yet
                stored = await process.nodes.read(writer.ledger_id)
                (found,) = await process.check.check(stored)
                assert (found.span.is_open, found.span.last_entry_id) == (True, 0)
                assert found.lacking == {2}
                slow._held = held
        slow.release()
        await asyncio.sleep(1)
        (found,) = await checked(world, writer.ledger_id)
        assert (found.span.last_entry_id, found.lacking) == (2, set())  # what entry 3 tells
        del slow.ledgers[writer.ledger_id].entries[3]  # confirmed, and nobody knows
        (found,) = await checked(world, writer.ledger_id, 100)
        assert found.lacking == set()
        del slow.ledgers[writer.ledger_id].entries[2]
        (found,) = await checked(world, writer.ledger_id)
        assert found.lacking == {2}

    run_repair(story)


def test_an_open_end_of_which_nobody_answers_is_not_called_lost() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 5, close=False)
        for bookie in world.ensemble(ledger_id):
            world.bookies[bookie].fault = SILENT
        (found,) = await checked(world, ledger_id)
        assert found.missing == {}
        assert found.span.entry_count == 0

    run_repair(story)


def test_former_fragments_of_an_open_ledger_are_looked_at_to_their_end() -> None:
    async def story(world: RepairWorld) -> None:
        writer = await world.client.create_ledger(WHOLE, Listener())
        for number in range(6):
            writer.add((payload(number),))
        await world.until(lambda: writer.lac == 5)
        first = writer.metadata.fragments[0].ensemble
        world.bookies[first[0]].fault = DOWN
        writer.add((payload(6),))
        await world.until(lambda: len(writer.metadata.fragments) == 2)
        world.bring_back(first[0])
        del world.bookies[first[1]].ledgers[writer.ledger_id].entries[5]
        former, last = await checked(world, writer.ledger_id)
        assert former.missing == {1: first[1]}
        assert former.span[:2] == (0, 5)
        assert last.span.is_open

    run_repair(story)


def test_a_fragment_behind_the_end_has_no_entries() -> None:
    """Java's writers leave it when they close."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 6)
        metadata = world.metadata(ledger_id)
        (first,) = metadata.fragments
        spare = sorted(set(world.bookies) - set(first.ensemble))[0]
        behind = Fragment(6, (spare, *first.ensemble[1:]))
        await world.overwrite(ledger_id, replace(metadata, fragments=(first, behind)))
        found = await checked(world, ledger_id)
        assert [one.missing for one in found] == [{}, {}]

    run_repair(story)


def test_a_ledger_that_is_deleted_meanwhile_is_not_found_rather_than_missing() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 6)
        process = await world.process()

        def deleted(request: Request) -> StatusCode | None:
            path = LedgerPaths().ledger(ledger_id)
            if world.server.tree.find(path) is not None:
                world.server.apply(lambda tree: tree.delete(path, -1))
            return StatusCode.ENOLEDGER

        for bookie in world.bookies.values():
            bookie.fault = deleted
        with pytest.raises(LedgerNotFound):
            await process.check.missing_replicas(ledger_id)
        with pytest.raises(LedgerNotFound):
            await process.check.missing_replicas(LedgerId(99))

    run_repair(story)


def test_a_check_asks_for_a_bounded_number_of_entries_at_once() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 200)
        for bookie in world.bookies.values():
            bookie.hold()
        waiting = asyncio.get_running_loop().create_task(checked(world, ledger_id, 100))
        seen = []
        while not waiting.done():
            await asyncio.sleep(0.1)
            held = sum(bookie.held_count for bookie in world.bookies.values())
            seen.append(held)
            for bookie in world.bookies.values():
                bookie.release(bookie.held_count)
        assert max(seen) == 16
        assert waiting.result()[0].missing == {}
        assert LAST_ENTRY not in [e for some in asked(world).values() for e in some]

    run_repair(story)
