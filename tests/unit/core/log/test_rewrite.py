"""Rewriting segments: the old ones or the new ones, nothing forgotten, nobody read wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import (
    BadVersion,
    CannotRewrite,
    MetadataConflict,
    TransactionIdOutOfOrder,
)
from tailrace.core.log.last_record import count_all
from tailrace.core.log.log import Log
from tailrace.core.log.rewrite import SegmentRewrite
from tailrace.core.log.segment_copy import ENTRY_BYTES
from tailrace.core.log.sequence_ids import sequence_id
from tailrace.core.log.stream_inspection import find_problems, read_stream
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.test_trimmer import check_no_leak, with_segments
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    entries_of,
    read_all,
    run_world,
    txids_of,
    write,
)

PATHS = LogPaths("/distributedlog/tailrace", "s")


def even(txid: int) -> bool:
    return txid % 2 == 0


def nothing(_txid: int) -> bool:
    return False


async def fill(
    rewrite: SegmentRewrite, log: Log, lssn: int, keeps: Callable[[int], bool] = even
) -> list[int]:
    """Copy the records of a segment that are to be kept, and finish it; return their entries."""
    entries = []
    for dlsn, record in await read_all(log, DLSN(lssn, 0, 0)):
        if dlsn.lssn == lssn and keeps(record.txid):
            payload = record.payload
            entries.append(await rewrite.append(lssn, record.txid, [payload], len(payload)))
    await rewrite.finish(lssn, None, b"index of %d" % lssn)
    return entries


async def rewritten(
    log: Log, lssns: Sequence[int], keeps: Callable[[int], bool] = even
) -> list[SegmentMetadata]:
    rewrite = await log.rewrite(lssns)
    for lssn in lssns:
        await fill(rewrite, log, lssn, keeps)
    return await rewrite.commit()


async def with_state(world: World, count: int = 3, **changes: Any) -> Log:
    """Return a log of completed segments with ten records each, whose owner keeps a state."""
    log = await world.log(**changes)
    writer = await log.open_writer(Listener(), RecordState())
    for number in range(count):
        await write(writer, *range(number * 10, number * 10 + 10))
        if number < count - 1:
            await writer.roll()
    await writer.close()
    return log


def kept(count: int, lssns: Sequence[int]) -> list[int]:
    return [txid for txid in range(count) if txid // 10 + 1 not in lssns or even(txid)]


def test_a_group_of_segments_gets_new_ledgers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        before = {segment.lssn: segment for segment in log.segments}
        changed = await rewritten(log, [2, 3])
        assert [segment.lssn for segment in changed] == [2, 3]
        for each in (log, await world.log()):
            assert await txids_of(each) == kept(50, [2, 3])
            for segment in each.segments:
                old = before[segment.lssn]
                assert (segment.first_txid, segment.last_txid, segment.completion_time_ms) == (
                    old.first_txid, old.last_txid, old.completion_time_ms,
                )  # fmt: skip
                assert segment.record_count == (5 if segment.lssn in (2, 3) else 10)
                assert (segment.ledger_id != old.ledger_id) == (segment.lssn in (2, 3))
        assert len(await world.ledger_ids()) == 7, "for readers inside"
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_what_a_rewritten_segment_looks_like(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_state(world)
        old = log.segments.segments[1]
        snapshot, end = await log.read_snapshot(2), old.start_sequence_id + old.record_count
        await rewritten(log, [2])
        new = log.segments.segments[1]
        first, records, last = await entries_of(world, log, 2)
        assert [record.is_control for record in (*first, *last)] == [True, True]
        assert (first[0].txid, first[0].position) == (old.first_txid, 0)
        assert (last[0].txid, last[0].position) == (old.last_txid, 5)
        assert [(r.txid, r.position) for r in records] == [
            (txid, at + 1) for at, txid in enumerate(range(10, 20, 2))
        ]
        assert (new.last_entry_id, new.last_slot, new.record_count) == (1, 4, 5)
        assert new.start_sequence_id + new.record_count == end, "later numbers stay"
        assert await log.read_snapshot(2) == snapshot
        assert await log.read_index(2) == b"index of 2"

    run_world(tmp_path, story)


def test_tools_find_nothing_wrong_with_a_rewritten_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_state(world, 4)
        await log.truncate_before(15)
        await rewritten(log, [1, 2])
        await rewritten(log, [3], nothing)
        stream = await read_stream(world.store, world.ledgers(), PATHS)
        assert find_problems(stream) == []
        assert await count_all(log) == 0 + 2 + 0 + 10, "the truncated part was not copied"
        writer = await log.open_writer(Listener())
        await write(writer, 40)
        records = await read_all(log)
        numbers = [sequence_id(log.segments, record) for record in records]
        assert numbers == [18, 19, *range(30, 41)], "each is given once, and they rise"
        await writer.close()
        assert [sequence_id(log.segments, record) for record in records] == numbers

    run_world(tmp_path, story)


def test_an_empty_segment_has_a_control_record(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        rewrite = await log.rewrite([2])
        await rewrite.finish(2, None, b"")
        (segment,) = await rewrite.commit()
        assert (segment.record_count, segment.last_entry_id, segment.last_slot) == (0, -1, -1)
        [[record]] = await entries_of(world, log, 2)
        assert record.is_control
        assert (record.txid, record.position) == (19, 0)
        assert await txids_of(log) == [*range(10), *range(20, 50)]
        for txid in (9, 10, 15, 19, 20):
            found = await log.locate(txid)
            assert found == (DLSN(1, 0, 9) if txid == 9 else DLSN(3, 1, 0))

    run_world(tmp_path, story)


def test_the_next_owner_finds_state_and_end_where_they_were(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_state(world)
        await rewritten(log, [1, 2, 3], nothing)
        await log.close()
        other = await world.log()
        state = RecordState()
        writer = await other.open_writer(Listener(), state)
        assert (state.txids, state.replayed) == (list(range(30)), 0)
        assert writer.last_txid == 29
        await write(writer, 30)
        await writer.close()
        assert await txids_of(await world.log()) == [30]

    run_world(tmp_path, story)


def test_records_are_packed_and_their_entries_told(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 2)
        rewrite = await log.rewrite([1])
        large = bytes(ENTRY_BYTES // 3)
        told = [await rewrite.append(1, txid, [large], len(large)) for txid in range(9)]
        await rewrite.append(1, 9, [bytes(2 * ENTRY_BYTES)], 2 * ENTRY_BYTES)
        await rewrite.finish(1, None, b"")
        await rewrite.commit()
        assert told == [0, 0, 1, 1, 2, 2, 3, 3, 4]
        found = await read_all(log)
        assert [dlsn.entry_id for dlsn, _ in found[:10]] == [*told, 5]

    run_world(tmp_path, story)


@pytest.mark.parametrize("txids", [(3, 3), (3, 2), (10,), (-1,)])
def test_txids_rise_and_stay_in_their_segment(tmp_path: Path, txids: tuple[int, ...]) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        rewrite = await log.rewrite([1])
        for txid in txids[:-1]:
            await rewrite.append(1, txid, [b"x"], 1)
        with pytest.raises(TransactionIdOutOfOrder):
            await rewrite.append(1, txids[-1], [b"x"], 1)
        await rewrite.abort()
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_an_aborted_rewrite_leaves_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        rewrite = await log.rewrite([1, 2])
        await fill(rewrite, log, 1)
        await rewrite.append(2, 12, [b"r12"], 3)
        assert len(await world.ledger_ids()) == 7
        for _ in range(2):
            await rewrite.abort()
        assert len(await world.ledger_ids()) == 5
        assert await txids_of(log) == list(range(50))
        assert len(await rewritten(log, [1, 2])) == 2, "the log is free for the next one"

    run_world(tmp_path, story)


def test_what_cannot_be_rewritten(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 2)
        writer = await log.open_writer(Listener())
        await write(writer, 20)
        for lssn in (3, 4):
            with pytest.raises(MetadataConflict):
                await log.rewrite([lssn])
        await writer.mark_end_of_stream()
        await writer.close()
        with pytest.raises(CannotRewrite):
            await log.rewrite([3])
        with pytest.raises(ValueError, match="segments"):
            await log.rewrite([])
        rewrite = await log.rewrite([1])  # a refusal holds no lock
        await rewrite.finish(1, None, b"")
        assert len(await rewrite.commit()) == 1

    run_world(tmp_path, story)


@pytest.mark.parametrize("purge", [True, False])
def test_who_changes_the_segments_meanwhile_wins(tmp_path: Path, *, purge: bool) -> None:
    async def story(world: World) -> None:
        log, other = await with_segments(world), await world.log()
        rewrite = await log.rewrite([1, 2])
        for lssn in (1, 2):
            await fill(rewrite, log, lssn)
        if purge:
            await other.purge_segments(2)
        else:
            await other.truncate(DLSN(2, 1, 4))
        with pytest.raises(BadVersion):
            await rewrite.commit()
        await rewrite.abort()
        left = list(range(10, 50)) if purge else list(range(14, 50))
        assert await txids_of(await world.log()) == left
        await check_no_leak(world, await world.log())

    run_world(tmp_path, story)


def test_changes_of_other_segments_do_not_matter(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, other = await with_segments(world), await world.log()
        rewrite = await log.rewrite([3])
        await fill(rewrite, log, 3)
        await other.purge_segments(2)
        assert len(await rewrite.commit()) == 1
        assert await txids_of(await world.log()) == kept(50, [1, 3])[5:]

    run_world(tmp_path, story)
