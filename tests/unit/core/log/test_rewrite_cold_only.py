"""Rewriting what is in cold storage only: it stays there, and no object or ledger is forgotten."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import BadVersion, ColdStorageDisabled, CoreError, MetadataConflict
from tailrace.core.log.cold.nodes import ColdSegment, read_cold
from tailrace.core.log.log import Log
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import Truncation, decode_segment
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_cold_log import objects, on_bookies, release_all, run_cold
from tests.unit.core.log.test_merge import left, merged
from tests.unit.core.log.test_rewrite import PATHS, fill, kept, nothing, rewritten, with_state
from tests.unit.core.log.test_rewrite_crashes import until_dead
from tests.unit.core.log.test_rewrite_readers import read_rest, read_some
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import World, txids_of

CHANGES_MAX = 20
DAY_MS = 24 * 3_600_000
"""After which what a rewrite began is deleted by anybody."""


async def released(world: World, count: int = 4) -> Log:
    """Return a log of which the bookies have the last segment only."""
    log = await with_segments(world, count)
    await release_all(world, log)
    assert await on_bookies(world) == [count]
    return log


async def check_all_known(
    path: Path, world: World, log: Log, after_ms: int = DELAY_MS, paths: LogPaths = PATHS
) -> None:
    """Every ledger is a segment's and every object is named, once the delay is over."""
    world.clock.advance_ms(after_ms)
    await log.upkeep.trimmer.collect()
    assert await world.store.children(paths.purged) == []
    names = await world.store.children(paths.segments)
    nodes = [await world.store.get(paths.segment(name)) for name in names]
    named = {decode_segment(node.data).ledger_id for node in nodes}
    allocated = (await world.store.get(paths.allocation)).data.decode()
    assert {*map(str, await world.ledger_ids())} - {allocated} == {*map(str, named)}
    cold = await read_cold(world.store, paths)
    assert objects(path) == sorted(each.name.rpartition("/")[2] for each in cold.values())
    assert world.cold is not None
    for each in cold.values():
        await world.cold.verify(each)


def test_it_stays_in_cold_storage(tmp_path: Path) -> None:
    """So Java's readers, who see the bookies only, never see a hole."""

    async def story(world: World) -> None:
        log = await with_state(world, 5)
        await release_all(world, log)
        old, snapshot, before = list(log.segments), await log.read_snapshot(3), objects(tmp_path)
        await rewritten(log, [2, 3])
        assert len(objects(tmp_path)) == 7, "readers inside have the old ones"
        assert await on_bookies(world) == [5]
        await check_all_known(tmp_path, world, log)
        assert len(set(objects(tmp_path)) & set(before)) == 3
        for each in (log, await world.log()):
            assert await txids_of(each) == kept(50, [2, 3])
            assert await each.read_snapshot(3) == snapshot
            assert await each.read_index(3) == b"index of 3"
            await each.refresh(is_forced=True)
            numbers = [(segment.lssn, segment.last_txid) for segment in each.segments]
            assert numbers == [(segment.lssn, segment.last_txid) for segment in old]
        assert await log.upkeep.copy_to_cold() == []
        await rewritten(log, [2], nothing)
        left = [txid for txid in kept(50, [3]) if not 10 <= txid < 20]
        assert await txids_of(await world.log()) == left
        await log.upkeep.restore(1)
        assert await on_bookies(world) == [1, 2, 3, 4, 5]
        assert await txids_of(await world.log()) == left
        await check_all_known(tmp_path, world, log)

    run_cold(tmp_path, story)


@pytest.mark.parametrize("through", [3, 4])
def test_merged_ones_are_where_the_last_of_them_is(tmp_path: Path, through: int) -> None:
    async def story(world: World) -> None:
        log = await released(world, 5)
        if through == 4:  # back on the bookies, and in cold storage too
            await log.upkeep.restore(4)
        lssns = list(range(1, through + 1))
        await merged(log, lssns)
        assert await on_bookies(world) == ([5] if through == 3 else [4, 5])
        for each in (log, await world.log()):
            await each.refresh(is_forced=True)
            assert [segment.lssn for segment in each.segments] == list(range(through, 6))
            assert await txids_of(each) == left(50, lssns)
        await check_all_known(tmp_path, world, log)
        await release_all(world, log)
        assert await on_bookies(world) == [5]
        assert await txids_of(await world.log()) == left(50, lssns)

    run_cold(tmp_path, story)


def test_what_is_given_up_of_it_stays_given_up(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await released(world)
        await log.truncate_before(15)
        await rewritten(log, [1, 2])
        for each in (log, await world.log()):
            await each.refresh(is_forced=True)
            states = [segment.truncation for segment in each.segments]
            assert states[:2] == [Truncation.TRUNCATED, Truncation.PARTIALLY_TRUNCATED]
            assert await txids_of(each) == [16, 18, *range(20, 40)]
        await check_all_known(tmp_path, world, log)

    run_cold(tmp_path, story)


@pytest.mark.parametrize("at", [1, 9, 10, 15, 29, 30])
@pytest.mark.parametrize("is_merged", [False, True])
def test_a_reader_inside(tmp_path: Path, at: int, *, is_merged: bool) -> None:
    async def story(world: World) -> None:
        log = await released(world)
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, at)
        await (merged if is_merged else rewritten)(await world.log(), [1, 2, 3])
        world.clock.advance_ms(DELAY_MS)
        await log.upkeep.trimmer.collect()
        seen += await read_rest(reader)
        assert seen == sorted(set(seen)), "in order, none twice"
        assert set(seen) >= set(left(40, [1, 2, 3]))

    run_cold(tmp_path, story)


@pytest.mark.parametrize("change", ["restored", "truncated", "purged", "rewritten"])
def test_a_change_that_came_first_wins(tmp_path: Path, change: str) -> None:
    async def story(world: World) -> None:
        log, other = await released(world), await world.log()
        rewrite = await log.rewrite([2])
        await fill(rewrite, log, 2)
        expected = list(range(40))
        if change == "restored":
            await other.upkeep.restore(2)
        elif change == "truncated":
            await other.truncate_before(15)
            expected = list(range(15, 40))
        elif change == "purged":
            await other.purge_segments(3)
            expected = list(range(20, 40))
        else:
            await rewritten(other, [2])
            expected = kept(40, [2])
        with pytest.raises(BadVersion):
            await rewrite.commit()
        await rewrite.abort()
        assert await txids_of(await world.log()) == expected
        await check_all_known(tmp_path, world, await world.log())

    run_cold(tmp_path, story)


def test_a_leftover_that_is_deleted_while_it_is_copied(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, other = await released(world), await world.log()
        assert world.cold is not None
        copy, taken = world.cold.copy, [1]

        async def copy_slowly(*args: Any) -> ColdSegment:
            made = await copy(*args)
            while taken:
                await (await other.rewrite([taken.pop()])).abort()
            return made

        rewrite = await log.rewrite([2])
        world.cold.copy = copy_slowly  # type: ignore[method-assign]
        with pytest.raises(MetadataConflict, match="leftover"):
            await fill(rewrite, log, 2)
        await rewrite.abort()
        await check_all_known(tmp_path, world, log)
        await rewritten(log, [2])
        assert await txids_of(log) == kept(40, [2])

    run_cold(tmp_path, story)


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_process_without_cold_storage_gets_an_error(tmp_path: Path, *, is_gone: bool) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        await log.upkeep.copy_to_cold()
        await log.upkeep.trimmer.release(2)
        if is_gone:
            world.clock.advance_ms(DELAY_MS)
            await log.upkeep.trimmer.collect()
        store, world.cold = world.cold, None
        with pytest.raises(ColdStorageDisabled, match=r"cold\.storage\.url"):
            await (await world.log()).rewrite([1])
        rewrite = await log.rewrite([1])
        await fill(rewrite, log, 1)
        other = await world.log()
        await (await other.rewrite([3])).abort()  # leaves what it cannot delete to others
        world.clock.advance_ms(DAY_MS)
        await other.upkeep.trimmer.collect()
        assert len(await rewrite.commit()) == 1
        world.cold = store
        assert await txids_of(await world.log()) == kept(30, [1])
        await check_all_known(tmp_path, world, log)

    run_cold(tmp_path, story)


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_every_change(tmp_path: Path, *, applied: bool, is_merged: bool) -> None:
    """Then either another rewrite or time deletes what it left."""
    work = merged if is_merged else rewritten
    outcomes: list[bool] = []
    finished: list[int] = []
    for change in range(CHANGES_MAX):
        path = tmp_path / str(change)
        path.mkdir()

        async def story(world: World, change: int = change, path: Path = path) -> None:
            await released(world)
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            await until_dead(work(await world.namespace(store).open_log("s"), [1, 2]), store)
            await world.restart_store()
            log = await world.log()
            found = await txids_of(log)
            assert found in (list(range(40)), left(40, [1, 2])), "some of each"
            if store.died.is_set():
                outcomes.append(len(found) < 40)
            else:
                finished.append(change)  # to the end, or a change that failed by itself
                assert len(found) < 40
            assert await on_bookies(world) == [4]
            if change % 2:
                await check_all_known(path, world, log, DAY_MS)
            elif len(found) == 40:
                await work(log, [1, 2])
                assert await txids_of(log) == left(40, [1, 2])
            await (await log.rewrite([3])).abort()  # deletes what a rewrite left
            await check_all_known(path, world, log)

        run_cold(path, story)
    assert finished, "CHANGES_MAX does not reach the end"
    assert outcomes == sorted(outcomes), "once swapped in, it stays"
    assert outcomes[-1]
    assert not outcomes[0]


@pytest.mark.parametrize("change", range(CHANGES_MAX))
def test_an_answer_that_was_lost(tmp_path: Path, change: int) -> None:
    async def story(world: World) -> None:
        await released(world)
        store = FaultyStore(world.store)
        store.lose_answer_of(change)
        log = await world.namespace(store).open_log("s")
        with suppress(CoreError):
            rewrite = await log.rewrite([1, 2])
            try:
                for lssn in (1, 2):
                    await fill(rewrite, log, lssn)
            except CoreError:
                await rewrite.abort()
            else:
                await rewrite.commit()
                assert await txids_of(log) == kept(40, [1, 2])
        await world.restart_store()
        log = await world.log()
        assert await txids_of(log) in (list(range(40)), kept(40, [1, 2]))
        await rewritten(log, [1, 2])
        assert await txids_of(log) == kept(40, [1, 2])
        await check_all_known(tmp_path, world, log)

    run_cold(tmp_path, story)
