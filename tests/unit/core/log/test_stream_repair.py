"""Mending recorded ends and numbers: what it changes, what it leaves alone, and crashes in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.core.errors import (
    DLIllegalState,
    MetadataConflict,
    OwnershipAcquireFailed,
    Unavailable,
)
from tailrace.core.log.cold.nodes import ColdSegment, encode_cold, read_cold
from tailrace.core.log.log import Log
from tailrace.core.log.stream_inspection import StoredSegment, find_problems, read_stream
from tailrace.core.log.stream_repair import (
    EndCheck,
    check_ends,
    holding_lock,
    plan_renumbering,
    renumber,
    repair_ends,
)
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    Truncation,
    completed_name,
    encode_segment,
    in_progress_name,
    segment_name,
)
from tailrace.core.metadata.store import Create, Delete, MetadataStore
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_recovery import control_record, foreign_segment, user
from tests.unit.core.log.test_stream_inspection import completed, writing
from tests.unit.core.log.world import Listener, World, run_world, txids_of, write

PATHS = LogPaths("/distributedlog/tailrace", "s")


async def segments(world: World, store: MetadataStore | None = None) -> list[StoredSegment]:
    return (await read_stream(store or world.store, world.ledgers(), PATHS)).segments


async def checked(world: World) -> list[EndCheck]:
    return [each async for each in check_ends(world.ledgers(), await segments(world))]


async def written(world: World) -> Log:
    """Two completed segments: records 1..3 and 4, 5."""
    log = await world.log()
    writer = await log.open_writer(Listener())
    await write(writer, 1, 2, 3)
    await writer.roll()
    await write(writer, 4, 5)
    await writer.close()
    await log.refresh()
    return log


async def rewrite(store: MetadataStore, paths: LogPaths, segment: SegmentMetadata) -> None:
    """Give a segment other data under its old name, as everybody does it."""
    path = paths.segment(segment_name(segment))
    await store.multi([Delete(path), Create(path, encode_segment(segment))])


async def shrink(world: World, log: Log) -> SegmentMetadata:
    """Record the end of the second segment one record too early, as a bad writer would."""
    last = log.segments.segments[-1]
    small = replace(last, last_txid=4, record_count=1, last_entry_id=last.last_entry_id - 1)
    await rewrite(world.store, PATHS, small)
    await world.store.set(PATHS.max_txid, b"4")
    return last


def test_a_right_end_is_left_alone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await written(world)
        checks = await checked(world)
        assert [each.is_too_small for each in checks] == [False, False]
        assert [each.found and each.found.txid for each in checks] == [3, 5]

    run_world(tmp_path, story)


def test_an_end_behind_the_records_is_left_alone(tmp_path: Path) -> None:
    """A recovered segment may end with a control record (reference 4.5)."""

    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)], [control_record(1, 1)]])
        await (await log.open_writer(Listener())).close()
        (check,) = await checked(world)
        assert check.said.last_entry_id == 1
        assert check.found is not None
        assert check.found.dlsn == DLSN(1, 0, 0)
        assert not check.is_too_small

    run_world(tmp_path, story)


def test_an_end_that_is_too_small_is_mended(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        right = await shrink(world, await written(world))
        first, second = await checked(world)
        assert (first.is_too_small, second.is_too_small) == (False, True)
        async with holding_lock(world.store, PATHS, "tool"):
            assert await repair_ends(world.store, world.ledgers(), PATHS) == [first, second]
        assert (await segments(world))[-1].segment == right
        assert (await world.store.get(PATHS.max_txid)).data == b"5"
        assert not any(each.is_too_small for each in await checked(world))
        assert await txids_of(await world.log()) == [1, 2, 3, 4, 5]

    run_world(tmp_path, story)


def test_the_copy_in_cold_storage_says_the_same(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        right = await shrink(world, await written(world))
        (_, small) = await segments(world)
        assert small.segment is not None
        cold = ColdSegment(
            segment=encode_segment(small.segment).decode(),
            name="object-1",
            size_bytes=1,
            index_at=0,
            crc32c=0,
            payload_bytes=1,
        )
        await world.store.create(PATHS.cold_segment(2), encode_cold(cold), parents=True)
        await repair_ends(world.store, world.ledgers(), PATHS)
        assert (await read_cold(world.store, PATHS))[2].metadata == right

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_leaves_an_end_as_it_was_or_mended(tmp_path: Path, *, applied: bool) -> None:
    async def story(world: World) -> None:
        right = await shrink(world, await written(world))
        wrong = (await segments(world))[-1].segment
        store = FaultyStore(world.store)
        store.die_at(0, applied=applied)
        with pytest.raises(Unavailable):
            await repair_ends(store, world.ledgers(), PATHS)
        now = (await segments(world))[-1].segment
        assert now == (right if applied else wrong)
        counter = (await world.store.get(PATHS.max_txid)).data
        assert counter == (b"5" if applied else b"4")

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_truncation_in_between_is_not_undone(tmp_path: Path, *, is_first: bool) -> None:
    async def story(world: World) -> None:
        log = await written(world)
        if not is_first:
            await log.truncate(DLSN(1, 0, 1))
        await shrink(world, log)
        store = FaultyStore(world.store)
        other = await world.log()

        async def before(_number: int) -> None:
            await other.truncate(DLSN(2, 0, 0))

        store.before = before
        with pytest.raises(MetadataConflict):
            await repair_ends(store, world.ledgers(), PATHS)
        first, second = (each.segment for each in await segments(world))
        assert first is not None
        assert second is not None
        assert first.truncation is Truncation.TRUNCATED
        assert second.last_txid == 4
        await repair_ends(world.store, world.ledgers(), PATHS)
        assert [each.said.last_txid for each in await checked(world)] == [3, 5]

    run_world(tmp_path, story)


def test_a_log_that_is_written_is_refused(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(client_id="broker-1")
        writer = await log.open_writer(Listener())
        with pytest.raises(OwnershipAcquireFailed, match="broker-1"):
            async with holding_lock(world.store, PATHS, "tool"):
                pass
        await writer.close()
        async with holding_lock(world.store, PATHS, "tool") as lock:
            lock.check_ownership()
        assert await world.store.children(PATHS.lock) == []

    run_world(tmp_path, story)


async def hide(world: World) -> Log:
    """Leave a segment in progress with the number of a completed one."""
    log = await written(world)
    writer = await log.open_writer(Listener())
    await write(writer, 6, 7)
    await writer.abort()
    stored = (await segments(world))[-1]
    assert stored.segment is not None
    assert stored.segment.in_progress
    low = replace(stored.segment, lssn=2)
    await world.store.delete(PATHS.segment(stored.node_name))
    await world.store.create(PATHS.segment(in_progress_name(2)), encode_segment(low))
    await world.store.set(PATHS.segments, b"2")
    return log


def test_a_hidden_segment_gets_its_number(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await hide(world)
        assert await txids_of(await world.log()) == [1, 2, 3, 4, 5]
        plan = plan_renumbering(await segments(world))
        assert plan is not None
        async with holding_lock(world.store, PATHS, "tool"):
            await renumber(world.store, PATHS, *plan)
        assert (await world.store.get(PATHS.segments)).data == b"3"
        stream = await read_stream(world.store, world.ledgers(), PATHS)
        assert find_problems(stream) == []
        assert plan_renumbering(stream.segments) is None
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 8)
        await writer.close()
        assert await txids_of(log) == [1, 2, 3, 4, 5, 6, 7, 8]

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_leaves_one_number_or_the_other(tmp_path: Path, *, applied: bool) -> None:
    async def story(world: World) -> None:
        await hide(world)
        store = FaultyStore(world.store)
        store.die_at(0, applied=applied)
        plan = plan_renumbering(await segments(world))
        assert plan is not None
        with pytest.raises(Unavailable):
            await renumber(store, PATHS, *plan)
        again = plan_renumbering(await segments(world))
        assert again == (None if applied else plan)

    run_world(tmp_path, story)


def test_what_is_in_order_is_not_renumbered() -> None:
    assert plan_renumbering([]) is None
    assert plan_renumbering([completed(1), completed(2)]) is None
    assert plan_renumbering([completed(1), completed(2), writing(3)]) is None
    assert plan_renumbering([writing(1)]) is None


def test_what_nobody_can_tell_is_refused() -> None:
    two = [completed(3), writing(2), writing(3)]
    with pytest.raises(DLIllegalState, match="several"):
        plan_renumbering(two)
    same = [completed(3), writing(3)]
    with pytest.raises(DLIllegalState, match="completed segment"):
        plan_renumbering(same)
    assert completed_name(3) == completed(3).node_name
