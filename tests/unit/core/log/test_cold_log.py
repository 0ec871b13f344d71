"""A log over both tiers: nobody notices where a segment is, and nothing is ever in neither."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import (
    ColdObjectCorrupt,
    ColdObjectNotFound,
    ColdStorageDisabled,
    ColdStorageUnavailable,
    CoreError,
    CorruptData,
    LogTruncated,
    Unavailable,
)
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.log import Log
from tailrace.core.log.segment_nodes import SegmentNodes
from tailrace.core.log.segments import SegmentEnd
from tailrace.core.metadata.layout import LogPaths
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.cold.ledgers import cold_store
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_trimmer import DELAY_MS, HOUR_MS, read_on, statuses, with_segments
from tests.unit.core.log.world import Listener, RecordState, World, run_world, txids_of, write

PATHS = LogPaths("/distributedlog/tailrace", "s")
STEPS_MAX = 300


def run_cold(path: Path, story: Callable[[World], Awaitable[None]]) -> None:
    """Run a story whose processes have cold storage in a directory."""

    async def with_store(world: World) -> None:
        async with cold_store(path / "cold", attempts=1) as store:
            world.cold = store
            await story(world)

    run_world(path, with_store)


def objects(path: Path) -> list[str]:
    return sorted(each.name for each in (path / "cold").rglob("*") if each.is_file())


async def on_bookies(world: World) -> list[int]:
    """Return the LSSNs that Java's readers see."""
    return [int(name[-18:]) for name in await world.store.children(PATHS.segments)]


async def release_all(world: World, log: Log) -> None:
    """Leave the last completed segment on the bookies, and the others in cold storage only."""
    await log.upkeep.copy_to_cold()
    await log.upkeep.trimmer.release(99)
    world.clock.advance_ms(DELAY_MS)
    await log.upkeep.trimmer.collect()


def test_it_is_known_where_each_segment_is(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)

        async def tiers() -> list[tuple[int, bool, bool]]:
            found = await log.upkeep.trimmer.tiers()
            return [(each.metadata.lssn, each.on_bookies, each.in_cold) for each in found]

        assert await tiers() == [(lssn, True, False) for lssn in range(1, 6)]
        await log.upkeep.copy_to_cold()
        assert await tiers() == [(lssn, True, True) for lssn in range(1, 6)]
        await release_all(world, log)
        writer = await log.open_writer(Listener())
        await write(writer, *range(50, 60))
        there = [(lssn, False, True) for lssn in range(1, 5)]
        assert await tiers() == [*there, (5, True, True), (6, True, False)]
        await writer.close()

    run_cold(tmp_path, story)


def test_a_log_reads_the_same_from_both_tiers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        assert await log.upkeep.copy_to_cold() == [1, 2, 3, 4, 5]
        assert await log.upkeep.copy_to_cold() == []
        assert [s.lssn for s in await log.upkeep.trimmer.release(99)] == [1, 2, 3, 4]
        assert len(await world.ledger_ids()) == 5, "for readers inside"
        await release_all(world, log)
        assert len(await world.ledger_ids()) == 1
        assert await on_bookies(world) == [5], "no hole, and nothing without a ledger"
        for each in (log, await world.log()):
            assert await txids_of(each) == list(range(50))
            assert await txids_of(each, DLSN(2, 1, 3)) == list(range(13, 50))
            assert await each.locate(17) == DLSN(2, 1, 7)
            assert await each.read_index(2) is None or await each.read_index(2)
        assert world.cold is not None
        assert world.cold.metrics.reads_total > 0

    run_cold(tmp_path, story)


def test_a_reader_inside_goes_on_when_the_ledger_goes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, read_ahead_entries=1)
        reader = await log.open_reader(INITIAL)
        found = [record.txid for _, record in await reader.read(60)]
        await release_all(world, log)
        while more := await reader.read(60):
            found += [record.txid for _, record in more]
        assert found == list(range(50))
        await reader.close()

    run_cold(tmp_path, story)


def test_an_owner_takes_a_log_over_whose_past_is_cold(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        for number in range(3):
            await write(writer, number)
            await writer.roll()
        await writer.close()
        await release_all(world, log)
        await log.close()
        second = await world.log()
        state = RecordState()
        writer = await second.open_writer(Listener(), state)
        assert state.txids == [0, 1, 2]
        await write(writer, 3)
        await writer.close()
        assert await txids_of(second) == [0, 1, 2, 3]
        await second.upkeep.copy_to_cold()
        sequence = 0
        for segment in second.segments:
            assert segment.start_sequence_id == sequence
            sequence += segment.record_count
        assert sequence == 4

    run_cold(tmp_path, story)


def test_purging_reaches_into_cold_storage(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        assert len(objects(tmp_path)) == 5
        await log.truncate(DLSN(3, 1, 4))
        assert statuses(await fresh(world))[:3] == [
            (1, "TRUNCATED"), (2, "TRUNCATED"), (3, "PARTIALLY_TRUNCATED"),
        ]  # fmt: skip
        assert await txids_of(await world.log()) == list(range(24, 50))
        assert [s.lssn for s in await log.purge_segments(3)] == [1, 2]
        assert len(objects(tmp_path)) == 5, "for readers inside"
        world.clock.advance_ms(DELAY_MS)
        assert await log.upkeep.trimmer.collect() == 2
        assert [name[:18] for name in objects(tmp_path)] == [f"{n:018d}" for n in (3, 4, 5)]
        assert await txids_of(await world.log()) == list(range(24, 50))

    run_cold(tmp_path, story)


async def fresh(world: World) -> Log:
    log = await world.log()
    await log.refresh()
    return log


def test_a_reader_of_a_purged_cold_segment_is_told(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        other = await world.log(read_ahead_entries=1)
        reader = await other.open_reader(INITIAL)
        assert await reader.read(1)
        await log.purge_segments(5)
        world.clock.advance_ms(DELAY_MS)
        await log.upkeep.trimmer.collect()
        with pytest.raises(LogTruncated):
            await read_on(reader)
        await reader.close()

    run_cold(tmp_path, story)


def test_an_object_that_is_lost_is_no_purged_segment(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        for path in (tmp_path / "cold").rglob("000000000000000002-*"):
            path.unlink()
        reader = await (await world.log()).open_reader(DLSN(2, 0, 0))
        with pytest.raises(ColdObjectNotFound, match="000000000000000002"):
            await reader.read(1 << 20)
        await reader.close()

    run_cold(tmp_path, story)


def test_a_flipped_byte_is_named_to_the_reader(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        (path,) = (tmp_path / "cold").rglob("000000000000000002-*")
        data = path.read_bytes()
        at = data.index(b"r13")
        path.write_bytes(data[:at] + b"R" + data[at + 1 :])
        reader = await (await world.log()).open_reader(DLSN(2, 0, 0))
        with pytest.raises(ColdObjectCorrupt, match=r"000000000000000002.*block at"):
            await reader.read(1 << 20)
        await reader.close()

    run_cold(tmp_path, story)


def test_without_cold_storage_it_says_what_is_missing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        world.cold = None
        blind = await world.log()
        assert await txids_of(blind, DLSN(5, 0, 0)) == list(range(40, 50))
        for call in (
            txids_of(blind), blind.purge_segments(3), blind.upkeep.copy_to_cold(),
            blind.upkeep.restore(1), world.namespace().delete_log("s"),
        ):  # fmt: skip
            with pytest.raises(ColdStorageDisabled, match=r"cold\.storage\.url"):
                await call
        with pytest.raises(ColdStorageDisabled, match=r"cold\.storage\.url"):
            await (await world.log(cold_storage=True)).open_writer(Listener())
        assert len(objects(tmp_path)) == 5

    run_cold(tmp_path, story)


def test_a_segment_comes_back_to_the_bookies(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        assert await log.upkeep.restore(3) == [4, 3]
        assert await on_bookies(world) == [3, 4, 5]
        assert await log.upkeep.restore(3) == []
        world.cold = None
        assert await txids_of(await world.log(), DLSN(3, 0, 0)) == list(range(20, 50))
        assert await txids_of(log) == list(range(50))

    run_cold(tmp_path, story)


@pytest.mark.parametrize("by_another_process", [False, True])
def test_a_restored_segment_can_go_again(tmp_path: Path, *, by_another_process: bool) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        await (await world.log() if by_another_process else log).upkeep.restore(1)
        assert len(await world.ledger_ids()) == 5
        await release_all(world, log)
        assert len(await world.ledger_ids()) == 1
        assert await txids_of(log) == list(range(50))
        assert len(objects(tmp_path)) == 5

    run_cold(tmp_path, story)


def test_what_does_not_verify_is_not_restored(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        (path,) = (tmp_path / "cold").rglob("000000000000000004-*")
        data = path.read_bytes()
        at = data.index(b"r33")
        path.write_bytes(data[:at] + b"R" + data[at + 1 :])
        with pytest.raises(ColdObjectCorrupt):
            await log.upkeep.restore(1)
        assert await on_bookies(world) == [5]
        world.clock.advance_ms(25 * HOUR_MS)
        await log.upkeep.trimmer.collect()
        assert len(await world.ledger_ids()) == 1, "the ledger that was begun is gone"

    run_cold(tmp_path, story)


def test_settings_move_segments_by_age(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world)
        log = await world.log(cold_storage=True, retention_hours=3, cold_retention_hours=10)
        world.clock.advance_ms(1)
        await log.upkeep.round()
        assert await on_bookies(world) == [3, 4, 5]
        assert await txids_of(await world.log()) == list(range(50))
        world.clock.advance_ms(6 * HOUR_MS)
        assert [s.lssn for s in await log.upkeep.trimmer.purge_expired()] == [3, 4]
        assert statuses(log)[0][0] == 2, "ten hours after the first was completed"
        assert await log.upkeep.trimmer.purge_expired() == []

    run_cold(tmp_path, story)


def test_nothing_leaves_the_bookies_that_is_not_copied(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world)
        log = await world.log(cold_storage=True, retention_hours=1)
        world.clock.advance_ms(100 * HOUR_MS)
        assert await log.upkeep.trimmer.purge_expired() == []
        assert await on_bookies(world) == [1, 2, 3, 4, 5]

    run_cold(tmp_path, story)


def test_a_completed_segment_whose_ledger_is_open_is_not_copied(tmp_path: Path) -> None:
    """A broken tool leaves such a thing: its end can still move."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2)
        await writer.abort()
        nodes = SegmentNodes(world.store, PATHS)
        segments = (await nodes.load()).segments
        (segment,) = segments
        await nodes.complete(segments.completed(segment, SegmentEnd(2, 2, 1, 0), 5))
        with pytest.raises(CorruptData, match=r"of segment 1 of .* is open"):
            await log.upkeep.copy_to_cold()
        assert objects(tmp_path) == []

    run_cold(tmp_path, story)


def test_the_writer_copies_what_it_completes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(cold_storage=True)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await writer.roll()
        await write(writer, 1)
        await writer.close()
        await log.upkeep.idle()
        await log.close()
        assert [name[:18] for name in objects(tmp_path)] == [f"{n:018d}" for n in (1, 2)]

    run_cold(tmp_path, story)


def test_a_deleted_log_leaves_nothing_in_either_tier(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await release_all(world, log)
        await log.purge_segments(2)
        await log.close()
        await world.namespace().delete_log("s")
        assert await world.ledger_ids() == set()
        assert objects(tmp_path) == []

    run_cold(tmp_path, story)


def test_two_processes_copy_at_once(tmp_path: Path) -> None:
    """One object is named, the other's maker deletes it, whichever is faster at whatever step."""
    for change in range(12):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world, 2)
            second = await world.log()
            store = FaultyStore(world.store)

            async def overtake(number: int) -> None:
                if number == change:
                    await second.upkeep.copy_to_cold()

            store.before = overtake
            first = await world.namespace(store).open_log("s")
            await first.upkeep.copy_to_cold()
            await second.upkeep.copy_to_cold()
            path = tmp_path / str(change)
            assert [name[:18] for name in objects(path)] == [f"{n:018d}" for n in (1, 2)]
            await release_all(world, first)
            assert await txids_of(await world.log()) == list(range(20))

        path = tmp_path / str(change)
        path.mkdir()
        run_cold(path, story)


class Mortal:
    """A process whose metadata and cold storage end at a step, and then for good."""

    def __init__(self, world: World, step: int) -> None:
        assert world.cold is not None
        self.steps = 0
        self.is_dead = False
        self._step = step
        self.store = FaultyStore(world.store)
        self.store.before, self.store.after = self._before, self._after
        self._wrap(world.cold)

    def _wrap(self, cold: ColdStore) -> None:
        objects = cold.objects
        for name in ("read", "size", "names", "delete", "create", "write_step"):
            setattr(objects, name, self._mortal(getattr(objects, name)))

    def _mortal(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def mortal(*args: Any) -> Any:
            await self._before(0)
            result = await call(*args)
            await self._after(0)
            return result

        return mortal

    async def _before(self, _: int) -> None:
        self.steps += 1
        self._check()

    async def _after(self, _: int) -> None:
        if self.steps == self._step:
            self.is_dead = self.store.dead = True
        self._check()

    def _check(self) -> None:
        if self.is_dead:
            raise ColdStorageUnavailable("the process died")


async def live(world: World, log: Log) -> None:
    """Copy, release, restore and purge."""
    await log.upkeep.copy_to_cold()
    await log.upkeep.trimmer.release(3)
    world.clock.advance_ms(DELAY_MS)
    await log.upkeep.trimmer.collect()
    await log.upkeep.restore(2)
    await log.purge_segments(2)
    world.clock.advance_ms(DELAY_MS)
    await log.upkeep.trimmer.collect()


@pytest.mark.parametrize("part", range(3))
def test_crash_at_every_step(tmp_path: Path, part: int) -> None:
    """Of the metadata and of cold storage: nothing is lost, nothing is left over.

    The process ends after a step, without its answer; that is as good as before the next one.
    """
    finished = []
    for step in range(part + 1, STEPS_MAX, 3):

        async def story(world: World, step: int = step) -> None:
            await with_segments(world, 3)
            here = tmp_path / str(step)
            async with cold_store(here / "cold", seed=2, attempts=1) as dying:
                living, world.cold = world.cold, dying
                mortal = Mortal(world, step)
                log = await world.namespace(mortal.store).open_log("s")
                try:
                    await live(world, log)
                except (Unavailable, CoreError):
                    assert mortal.is_dead
                finished.append(not mortal.is_dead)
            world.cold = living
            await world.restart_store()
            found = await txids_of(await world.log())
            assert found in (list(range(30)), list(range(10, 30)))
            log = await world.log()
            await live(world, log)
            assert await txids_of(log) == list(range(10, 30))
            world.clock.advance_ms(25 * HOUR_MS)
            await log.upkeep.trimmer.collect()
            names = [name[:18] for name in objects(here)]
            assert names == [f"{n:018d}" for n in (2, 3)], "an object is left over, or missing"
            assert len(await world.ledger_ids()) == 2

        path = tmp_path / str(step)
        path.mkdir()
        run_cold(path, story)
        if finished[-1]:
            break
    assert finished[-1], "STEPS_MAX does not reach the end"
    assert len(finished) > 10
