"""Merging the oldest segments into the last one of them: fewer numbers, the same records."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tailrace.core.errors import BadVersion, CannotRewrite
from tailrace.core.log.log import Log
from tailrace.core.log.stream_inspection import find_problems, read_stream
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_rewrite import PATHS, even, nothing, with_state
from tests.unit.core.log.test_rewrite_crashes import CHANGES_MAX, until_dead
from tests.unit.core.log.test_rewrite_readers import delete_old_ledgers, read_rest, read_some
from tests.unit.core.log.test_trimmer import check_no_leak, with_segments
from tests.unit.core.log.world import Listener, World, read_all, run_world, txids_of, write


async def merged(log: Log, lssns: Sequence[int], keeps: Callable[[int], bool] = even) -> None:
    """Merge segments, keeping some of their records."""
    rewrite = await log.rewrite(lssns, merges=True)
    for dlsn, record in await read_all(log, DLSN(lssns[0], 0, 0)):
        if dlsn.lssn in lssns and keeps(record.txid):
            payload = record.payload
            await rewrite.append(lssns[-1], record.txid, [payload], len(payload))
    await rewrite.finish(lssns[-1], None, b"index")
    await rewrite.commit()


def left(count: int, lssns: Sequence[int]) -> list[int]:
    return [txid for txid in range(count) if txid // 10 + 1 not in lssns or even(txid)]


def test_the_last_one_holds_what_all_of_them_kept(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_state(world, 5)
        old = list(log.segments)
        snapshot, after = await log.read_snapshot(1), old[3].start_sequence_id
        await merged(log, [1, 2, 3])
        for each in (log, await world.log()):
            await each.refresh(is_forced=True)
            assert await txids_of(each) == left(50, [1, 2, 3])
            first, *others = each.segments
            assert [segment.lssn for segment in each.segments] == [3, 4, 5]
            assert (first.first_txid, first.last_txid) == (old[0].first_txid, old[2].last_txid)
            assert first.completion_time_ms == old[2].completion_time_ms
            assert first.record_count == 15
            assert first.start_sequence_id + first.record_count == after, "later numbers stay"
            assert others == old[3:]
            assert await each.read_snapshot(3) == snapshot
            assert await each.read_index(3) == b"index"
            for txid in (0, 1, 9, 10, 28, 29, 30):
                found = await each.find(txid)
                assert found is not None
                (_, record), *_ = await read_all(each, found.dlsn)
                assert record.txid == min(t for t in left(50, [1, 2, 3]) if t >= txid)
        assert find_problems(await read_stream(world.store, world.ledgers(), PATHS)) == []
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_empty_ones_are_merged_and_the_log_is_written_on(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_state(world, 3)
        await merged(log, [1, 2], nothing)
        assert [segment.lssn for segment in log.segments] == [2, 3]
        again = await world.log(client_id="next")
        writer = await again.open_writer(Listener())
        await write(writer, 30, 31)
        await writer.close()
        assert await txids_of(again) == [*range(20, 30), 30, 31]
        await merged(again, [2, 3, 4], lambda _txid: True)
        assert [segment.lssn for segment in again.segments] == [4]
        assert await txids_of(again) == [*range(20, 30), 30, 31]
        await check_no_leak(world, again)

    run_world(tmp_path, story)


def test_what_would_leave_a_hole_or_lose_a_position_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 4)
        with pytest.raises(CannotRewrite, match="not the oldest"):
            await log.rewrite([2, 3], merges=True)
        with pytest.raises(ValueError, match="hole"):
            await log.rewrite([1, 3], merges=True)
        await log.truncate_before(5)
        with pytest.raises(CannotRewrite, match="truncated"):
            await log.rewrite([1, 2], merges=True)
        assert await txids_of(log) == list(range(5, 40))

    run_world(tmp_path, story)


@pytest.mark.parametrize("change", ["purged", "rewritten"])
def test_who_was_faster_wins(tmp_path: Path, change: str) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 4)
        rewrite = await log.rewrite([1, 2, 3], merges=True)
        await rewrite.finish(3, None, b"")
        other = await world.log()
        if change == "purged":
            await other.purge_segments(2)
        else:
            await other.truncate_before(15)
        with pytest.raises(BadVersion):
            await rewrite.commit()
        await rewrite.abort()
        await check_no_leak(world, log)

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("at", [1, 9, 10, 14, 20, 25, 29, 30, 35])
def test_a_reader_inside_goes_on_behind_what_it_gave_out(
    tmp_path: Path, at: int, *, is_deleted: bool, is_own: bool
) -> None:
    """Wherever it stands, in old ledgers or new ones: none twice, and all that was kept."""

    async def story(world: World) -> None:
        log = await with_segments(world, 4, read_ahead_entries=1)
        cleaner = log if is_own else await world.log()
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, at)
        await merged(cleaner, [1, 2, 3])
        if is_deleted:
            await delete_old_ledgers(world, cleaner)
        seen += await read_rest(reader)
        assert seen == sorted(set(seen)), "in order, none twice"
        assert set(seen) >= {txid for txid in range(40) if even(txid) or txid >= 30}

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_every_change(tmp_path: Path, *, applied: bool) -> None:
    outcomes: list[bool] = []
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world, 3)
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            await until_dead(merged(await world.namespace(store).open_log("s"), [1, 2]), store)
            await world.restart_store()
            log = await world.log()
            found = await txids_of(log)
            assert found in (list(range(30)), left(30, [1, 2])), "some of each"
            assert [segment.lssn for segment in log.segments] in ([1, 2, 3], [2, 3])
            is_merged = len(found) < 30
            if store.died.is_set():
                outcomes.append(is_merged)
            else:
                assert is_merged  # to the end, or a change that failed by itself
            if not is_merged:
                await merged(log, [1, 2])
            assert await txids_of(log) == left(30, [1, 2])
            await log.upkeep.trimmer.collect()
            rewrite = await log.rewrite([3])  # deletes what a rewrite left
            await rewrite.abort()
            await check_no_leak(world, log)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert outcomes == sorted(outcomes), "once merged, it stays"
    assert outcomes[-1]
    assert not outcomes[0]
