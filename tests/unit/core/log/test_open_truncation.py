"""Truncating into the segment that is still written: recorded in it, kept when it is completed."""

from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, OwnershipLost, Unavailable
from tailrace.core.log.log import Log
from tailrace.core.log.recovery import recover_segments
from tailrace.core.log.segment_nodes import SegmentNodes
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import Truncation, decode_segment
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import Listener, World, put, run_world, settle, txids_of, write

PATHS = LogPaths("/distributedlog/tailrace", "s")
CHANGES_MAX = 12


async def two_segments(
    world: World, store: FaultyStore | None = None, *, count: int = 5
) -> tuple[Log, LogWriter]:
    """Return a log with txids 0 to 4 in a completed segment, and 5 to 9 in one that is written."""
    namespace = world.namespace(store)
    await namespace.create_log("s")
    log = await namespace.open_log("s")
    writer = await log.open_writer(Listener())
    await write(writer, *range(count))
    await writer.roll()
    await write(writer, *range(count, 2 * count))
    return log, writer


async def stored(world: World, name: str) -> tuple[Truncation, int, int]:
    """Return what a segment's node says, as Java reads it."""
    found = decode_segment((await world.store.get(PATHS.segment(name))).data)
    return found.truncation, found.min_active_entry_id, found.min_active_slot


async def position_of(log: Log, txid: int) -> DLSN:
    found = await log.find(txid)
    assert found is not None
    return found.dlsn


async def from_another(world: World) -> list[int]:
    """Return what a process reads that opens the log now; nothing of it is claimed."""
    log = await world.log(client_id="reader")
    reader = await log.open_reader(DLSN(1, 0, 0))
    found = [each.record.txid for each in await reader.read(1 << 20)]
    while more := await reader.read(1 << 20):
        found += [each.record.txid for each in more]
    await reader.close()
    return found


def test_a_position_in_the_open_segment_is_where_readers_begin(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, writer = await two_segments(world)
        at = await position_of(log, 7)
        for _ in range(2):
            await log.truncate(at)
            name = "inprogress_000000000000000002"
            assert await stored(world, name) == (Truncation.PARTIALLY_TRUNCATED, *at[1:])
            await log.truncate(DLSN(2, 0, 0))  # never back
        assert await txids_of(log) == [7, 8, 9]
        await writer.commit()
        assert await from_another(world) == [7, 8, 9]
        await write(writer, 10)
        await writer.roll()
        assert await stored(world, "logrecs_000000000000000002") == (
            Truncation.PARTIALLY_TRUNCATED,
            *at[1:],
        )
        await log.truncate(await position_of(log, 9))
        await write(writer, 11)
        await log.truncate(await position_of(log, 11))
        await writer.close()
        assert await from_another(world) == [11]
        assert [each.truncation for each in log.segments] == [
            Truncation.TRUNCATED,
            Truncation.TRUNCATED,
            Truncation.PARTIALLY_TRUNCATED,
        ]

    run_world(tmp_path, story)


def test_nothing_is_given_up_that_is_not_confirmed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, writer = await two_segments(world)
        world.bookie.hold()
        put(writer, 10)
        await settle()
        for far in (DLSN(2, 99, 0), DLSN(9, 0, 0)):
            await log.truncate(far)
        world.bookie.release()
        await writer.flush()
        assert await txids_of(log) == [10]
        await writer.close()
        assert await from_another(world) == [10]

    run_world(tmp_path, story)


def test_what_was_given_up_to_its_end_is_truncated_whole(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, writer = await two_segments(world)
        await log.truncate(DLSN(9, 0, 0))
        await writer.close()
        assert [each.truncation for each in log.segments] == [Truncation.TRUNCATED] * 2
        again = await (await world.log(client_id="next")).open_writer(Listener())
        await write(again, 10)
        await again.close()
        assert await from_another(world) == [10]

    run_world(tmp_path, story)


def test_only_the_writer_truncates_in_its_segment(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, writer = await two_segments(world)
        at = await position_of(log, 7)
        other = await world.log(client_id="other")
        with pytest.raises(OwnershipLost, match="only its writer"):
            await other.truncate(at)
        await other.truncate(DLSN(2, 0, 0))
        assert [each.truncation.name for each in other.segments] == ["TRUNCATED", "ACTIVE"]
        await writer.close()
        await other.truncate(at)
        assert await from_another(world) == [7, 8, 9]

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_crash_at_every_metadata_change_of_a_truncation(tmp_path: Path, *, applied: bool) -> None:
    """A crash after the answer loses nothing of it; before it, all or nothing; records stay."""
    ends = []
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            store = FaultyStore(world.store)
            log, writer = await two_segments(world, store)
            at = await position_of(log, 7)
            await writer.commit()
            store.die_at(store.changes + change, applied=applied)
            done = True
            try:
                await log.truncate(at)
            except CoreError:
                done = False
            ends.append(done)
            store.died.set()
            await world.restart_store()
            after = await world.log(client_id="after")
            found = await txids_of(after)
            assert found in ([7, 8, 9], [5, 6, 7, 8, 9], list(range(10)))
            assert not done or found == [7, 8, 9]
            next_writer = await after.open_writer(Listener())
            await write(next_writer, 10)
            await after.truncate(at)
            await next_writer.close()
            assert await from_another(world) == [7, 8, 9, 10]

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert ends[-1], "CHANGES_MAX does not reach the end"
    assert not all(ends)


@pytest.mark.parametrize("applied", [False, True])
def test_a_writer_lives_on_whose_truncation_got_no_answer(tmp_path: Path, *, applied: bool) -> None:
    async def story(world: World) -> None:
        store = FaultyStore(world.store)
        log, writer = await two_segments(world, store)
        at = await position_of(log, 7)
        await log.truncate(DLSN(2, 0, 0))
        change = store.changes
        get_all = store.get_all
        is_away = True

        async def away(number: int) -> None:
            if number == change:
                raise Unavailable("the store is away")

        async def deaf(paths: list[str]) -> object:
            if is_away and store.changes > change:
                raise Unavailable("the store is away")
            return await get_all(paths)

        store.after, store.before = (away, None) if applied else (None, away)
        store.get_all = deaf  # type: ignore[method-assign, assignment]
        with pytest.raises(Unavailable):
            await log.truncate(at)
        is_away = False
        await write(writer, 10)
        await writer.roll()
        await write(writer, 11)
        await log.truncate(at)
        await writer.close()
        assert writer.error is None or "closed" in str(writer.error)
        assert await from_another(world) == [7, 8, 9, 10, 11]

    run_world(tmp_path, story)


def test_an_owner_that_read_the_segment_before_it_was_truncated_reads_it_again(
    tmp_path: Path,
) -> None:
    """The former owner, who still lives, was told that it is done."""

    async def story(world: World) -> None:
        log, writer = await two_segments(world)
        at = await position_of(log, 7)
        nodes = SegmentNodes(world.store, PATHS)
        seen = await nodes.load()
        await log.truncate(at)
        with pytest.raises(OwnershipLost):
            await recover_segments(seen.segments, nodes, log._context)
        again = SegmentNodes(world.store, PATHS)
        await recover_segments((await again.load()).segments, again, log._context)
        assert await from_another(world) == [7, 8, 9]
        with pytest.raises(OwnershipLost):
            await writer.truncate(DLSN(2, 99, 0))

    run_world(tmp_path, story)
