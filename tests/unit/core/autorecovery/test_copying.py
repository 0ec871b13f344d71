"""Copying alone: what goes where, how much at once, and what fails what."""

import asyncio
from dataclasses import replace

import pytest

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.copying import BATCH_BYTES, Copied, FragmentCopier, LockLost
from tailrace.core.autorecovery.fragments import Replacement
from tailrace.core.autorecovery.ledger_check import CheckedFragment
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.errors import BookieUnavailable, CorruptData, EntryNotFound, NotEnoughBookies
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.durability import PROMISE_KEY
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.metadata.network_location import parse_location
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.autorecovery.repair_world import (
    STRIPED,
    WHOLE,
    Process,
    RepairWorld,
    payload,
    run_repair,
)
from tests.unit.core.ledger.fake_bookie import SILENT, no_fault
from tests.unit.core.ledger.world import Listener


async def looked_at(
    world: RepairWorld, ledger_id: LedgerId
) -> tuple[Process, StoredLedger, CheckedFragment]:
    process = await world.process(f"w{len(world.processes)}")
    stored = await process.nodes.read(ledger_id)
    return process, stored, (await process.check.check(stored))[-1]


async def copied(
    world: RepairWorld, ledger_id: LedgerId, config: AutoRecoveryConfig | None = None
) -> Copied:
    process, stored, checked = await looked_at(world, ledger_id)
    copier = FragmentCopier(process.context, config or AutoRecoveryConfig(), process.metrics)
    return await copier.copy(stored, checked, lambda: True)


@pytest.mark.parametrize("digest", [*DigestType])
def test_a_copy_is_the_same_bytes_whatever_the_digest(digest: DigestType) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(STRIPED, digest=digest), 9)
        lost, *_ = world.ensemble(ledger_id)
        world.lose(lost)
        found = await copied(world, ledger_id)
        new = found.replacements[0].after
        assert found == Copied({0: Replacement(lost, new)}, (), None)
        old_entries = world.bookies[lost].ledgers[ledger_id].entries
        new_entries = world.bookies[new].ledgers[ledger_id].entries
        assert new_entries == old_entries
        assert len(new_entries) == 6

    run_repair(story)


def test_an_entry_is_read_once_for_all_who_need_it_and_only_from_who_is_well() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(WHOLE, ensemble_size=4), 12)
        *lost, _, _ = world.ensemble(ledger_id)
        for bookie in lost:
            world.lose(bookie)
        process, stored, checked = await looked_at(world, ledger_id)
        for one in world.bookies.values():
            one.requests.clear()
        copier = FragmentCopier(process.context, AutoRecoveryConfig(), process.metrics)
        found = await copier.copy(stored, checked, lambda: True)
        assert sorted(found.replacements) == [0, 1]
        reads = [r for b in world.bookies.values() for r in b.requests if type(r) is ReadRequest]
        assert sorted(r.entry_id for r in reads) == list(range(12))
        assert not any(r.fence for r in reads)
        assert [r for b in lost for r in world.bookies[b].requests] == []

    run_repair(story, bookies=8)


def test_a_silent_replica_is_asked_last_from_then_on() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 60)
        lost, silent, _ = world.ensemble(ledger_id)
        world.lose(lost)
        process, stored, checked = await looked_at(world, ledger_id)
        world.bookies[silent].fault = SILENT
        copier = FragmentCopier(process.context, AutoRecoveryConfig(), process.metrics)
        found = await copier.copy(stored, checked, lambda: True)
        assert found.error is None
        assert process.metrics.replicas_failed_total < 10  # those of one batch, not all

    run_repair(story)


@pytest.mark.parametrize(
    ("size", "most"), [(10, 7), (BATCH_BYTES // 3 - 100, 3), (BATCH_BYTES - 100, 1)]
)
def test_memory_is_bounded_by_entries_and_by_bytes(size: int, most: int) -> None:
    async def story(world: RepairWorld) -> None:
        writer = await world.client.create_ledger(WHOLE, Listener())
        for _ in range(20):
            writer.add((bytes(size),))
        await writer.close()
        lost, *rest = world.ensemble(writer.ledger_id)
        world.lose(lost)
        spares = [world.bookies[b] for b in world.bookies.keys() - {lost, *rest}]
        for spare in spares:
            spare.hold()
        config = AutoRecoveryConfig(entry_batch_size=7)
        copying = asyncio.create_task(copied(world, writer.ledger_id, config))
        at_once = []
        while not copying.done():
            await asyncio.sleep(0.1)
            for spare in spares:
                at_once.append(spare.held_count)
                spare.release(spare.held_count)
        assert copying.result().error is None
        assert next(count for count in at_once if count) == 1  # to know how large they are
        assert max(at_once) == most

    run_repair(story)


def test_an_entry_that_nobody_has_fails_only_who_needs_it() -> None:
    async def story(world: RepairWorld) -> None:
        config = LedgerConfig(ensemble_size=4, write_quorum=2, ack_quorum=2)
        ledger_id = await world.write(config, 16)
        ensemble = world.ensemble(ledger_id)
        for place in (0, 1):  # entry 4 lies there
            del world.bookies[ensemble[place]].ledgers[ledger_id].entries[4]
        for place in (0, 2):
            del world.bookies[ensemble[place]].ledgers[ledger_id].entries[(0, 0, 1)[place]]
        found = await copied(world, ledger_id)
        assert sorted(found.replacements) == [2]
        assert isinstance(found.error, EntryNotFound)
        assert f"entry 4 of ledger {ledger_id}" in str(found.error)
        new = world.bookies[found.replacements[2].after].ledgers[ledger_id].entries
        assert sorted(new) == [1, 2, 5, 6, 9, 10, 13, 14]

    run_repair(story, bookies=8)


@pytest.mark.parametrize(("spoil", "error"), [("flip", CorruptData), ("silent", BookieUnavailable)])
def test_an_entry_that_cannot_be_read_now_is_not_called_lost(spoil: str, error: type) -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(STRIPED, ensemble_size=2), 6)
        lost, other = world.ensemble(ledger_id)
        process, stored, _ = await looked_at(world, ledger_id)
        world.lose(lost)
        (checked,) = await process.check.check(stored)
        if spoil == "flip":
            world.bookies[other].flip_bit(ledger_id, 3)
        else:
            world.bookies[other].fault = SILENT
        copier = FragmentCopier(process.context, AutoRecoveryConfig(), process.metrics)
        found = await copier.copy(stored, checked, lambda: True)
        assert found.replacements == {}
        assert isinstance(found.error, error)
        assert other in str(found.error)
        assert "is lost" not in str(found.error)

    run_repair(story)


def test_a_target_that_fails_fails_its_place_and_is_avoided_next_time() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(WHOLE, ensemble_size=4), 12)
        *lost, _, _ = world.ensemble(ledger_id)
        for bookie in lost:
            world.lose(bookie)
        process, stored, checked = await looked_at(world, ledger_id)
        refusing: list[str] = []

        for one in world.bookies.values():

            def fault(request: object, name: str = one.bookie_id) -> StatusCode | None:
                if type(request) is AddRequest and (not refusing or name in refusing):
                    refusing.append(name)
                    return StatusCode.EIO
                return None

            if one.fault is no_fault:
                one.fault = fault
        copier = FragmentCopier(process.context, AutoRecoveryConfig(), process.metrics)
        found = await copier.copy(stored, checked, lambda: True)
        (bad,) = set(refusing)
        assert isinstance(found.error, NotEnoughBookies)
        assert bad in str(found.error)
        (good,) = found.replacements.values()
        assert good.after != bad
        for _ in range(10):  # each choice is one by chance
            again = await copier.copy(stored, checked, lambda: True)
            assert bad not in [r.after for r in again.replacements.values()]
            assert len(again.replacements) == 2

    run_repair(story, bookies=9)


def test_as_many_places_as_there_are_bookies_for_and_the_rest_is_told() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(WHOLE, ensemble_size=4), 12)
        *lost, _, _ = world.ensemble(ledger_id)
        for bookie in lost:
            world.lose(bookie)
        found = await copied(world, ledger_id)
        assert len(found.replacements) == 1
        assert isinstance(found.error, NotEnoughBookies)
        (left,) = set(lost) - {r.before for r in found.replacements.values()}
        assert left in str(found.error)

    run_repair(story, bookies=5)


def test_nothing_goes_to_a_read_only_bookie() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 3)
        lost, *rest = world.ensemble(ledger_id)
        world.lose(lost)
        world.read_only |= world.bookies.keys() - {lost, *rest}
        with pytest.raises(NotEnoughBookies):
            await copied(world, ledger_id)

    run_repair(story)


def test_a_lost_lock_ends_the_copy_before_its_next_batch() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 30)
        world.lose(world.ensemble(ledger_id)[0])
        process, stored, checked = await looked_at(world, ledger_id)
        metrics = ReplicationMetrics()
        copier = FragmentCopier(process.context, AutoRecoveryConfig(entry_batch_size=3), metrics)
        with pytest.raises(LockLost):
            await copier.copy(stored, checked, lambda: metrics.entries_copied_total < 5)
        assert metrics.entries_copied_total in (5, 6, 7)

    run_repair(story)


def test_an_open_fragment_is_refused() -> None:
    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(WHOLE, 3, close=False)
        world.lose(world.ensemble(ledger_id)[0])
        with pytest.raises(ValueError, match="open fragment"):
            await copied(world, ledger_id)

    run_repair(story)


def test_the_promise_of_regions_is_kept() -> None:
    """A bookie of the wrong region is no place for the copy, though it is the only one."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(replace(STRIPED, ensemble_size=2), 4)
        promise = {PROMISE_KEY: b"2"}
        metadata = world.metadata(ledger_id)
        lost, stays = world.ensemble(ledger_id)
        world.lose(lost)
        for bookie in world.bookies:
            world.locations[bookie] = parse_location("/east/rack")
        assert (await copied(world, ledger_id)).error is None
        await world.overwrite(ledger_id, replace(metadata, custom=promise))
        with pytest.raises(NotEnoughBookies, match="promised: 2 regions"):
            await copied(world, ledger_id)
        far = sorted(world.bookies.keys() - {lost, stays})[0]
        world.locations[far] = parse_location("/west/rack")
        assert (await copied(world, ledger_id)).replacements == {0: Replacement(lost, far)}

    run_repair(story)


def test_payloads_are_what_was_written() -> None:
    """The oracle of these tests itself."""

    async def story(world: RepairWorld) -> None:
        ledger_id = await world.write(STRIPED, 4)
        first = world.holders(ledger_id, 3)[0]
        assert world.has(first, ledger_id, 3)
        assert payload(3) in world.bookies[first].ledgers[ledger_id].entries[3]
        del world.bookies[first].ledgers[ledger_id].entries[3]
        assert not world.has(first, ledger_id, 3)
        with pytest.raises(AssertionError):
            world.check_whole(ledger_id)

    run_repair(story)
