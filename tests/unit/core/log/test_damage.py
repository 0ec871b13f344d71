"""Entries that no bookie gives any more: only what is in them is missing."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData, EntryNotFound
from tailrace.core.log.log import Log
from tailrace.core.log.reader_settings import ReadRules
from tailrace.core.log.search import DAMAGED
from tailrace.core.log.stored_log import StoredLog
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer
from tests.unit.core.log.world import Listener, RecordState, World, put, run_world, write

TXIDS = range(0, 80, 2)
"""Of one segment, an entry each; the entry's number is half of it, plus one for the snapshot."""
LAST = len(TXIDS) + 1
"""The entry with the segment's index."""


async def one_segment(world: World) -> tuple[Log, int]:
    """Return the log, as another process sees it, and the ledger of its second segment."""
    log = await world.log()
    writer = await log.open_writer(Listener(), RecordState())
    await write(writer, 0)
    await writer.roll()
    for txid in TXIDS:
        await write(writer, txid)
    await writer.close()
    log = await world.log(client_id="reader")
    await log.refresh()
    segment = log.segments.find(2)
    assert segment is not None
    return log, segment.ledger_id


def lose(world: World, ledger_id: int, entries: set[int]) -> None:
    """Have the bookie know nothing of some entries of a ledger."""

    def fault(request: Any) -> StatusCode | None:
        is_lost = isinstance(request, ReadRequest) and request.entry_id in entries
        return StatusCode.ENOENTRY if is_lost and request.ledger_id == ledger_id else None

    world.bookie.fault = fault


def fail_at_first(world: World, ledger_id: int, times: dict[int, int]) -> None:
    """Have the bookie fail to read some entries of a ledger, each so many times."""
    left = dict(times)

    def fault(request: Any) -> StatusCode | None:
        if not isinstance(request, ReadRequest) or request.ledger_id != ledger_id:
            return None
        left[request.entry_id] = left.get(request.entry_id, 0) - 1
        return StatusCode.EIO if left[request.entry_id] >= 0 else None

    world.bookie.fault = fault


def begins_by(txid: int, payload: Buffer) -> bool:
    """A record of txid N stands for N - 1 too, as a batch does for its offsets."""
    return int(bytes(payload[1:])) - 1 <= txid


@given(
    lost=st.sets(st.integers(1, LAST - 1), max_size=8)
    | st.builds(lambda at, n: set(range(at, at + n)), st.integers(1, LAST), st.integers(1, LAST)),
    asked=st.integers(2, 2 * LAST),
)
@settings(max_examples=40, deadline=None)
def test_what_is_found_is_the_record_or_the_damage_that_may_hold_it(
    lost: set[int], asked: int
) -> None:
    lost = {entry for entry in lost if entry < LAST}
    wanted = [txid for txid in TXIDS if txid >= asked]

    async def story(world: World) -> None:
        log, ledger_id = await one_segment(world)
        lose(world, ledger_id, lost)
        found = await log.find(asked)
        if not wanted:
            assert found is None
            return
        assert found is not None
        entry = wanted[0] // 2 + 1
        first = entry
        while first > 1 and (first - 1 in lost):
            first -= 1
        behind = entry - 1 in lost or entry in lost
        assert found.dlsn == DLSN(2, first if behind else entry, 0)
        covers = ReadRules(covers=lambda payload: begins_by(asked, payload))
        reader = await log.open_reader(asked, found, rules=covers)
        if entry in lost:
            with pytest.raises(EntryNotFound, match="segment 2"):
                await reader.read(1)
        else:
            (record,) = await reader.read(1)
            assert record.record.txid == wanted[0]
        await reader.close()
        skipping = await log.open_reader(asked, found, rules=ReadRules(skips_damaged=True))
        got = [each.record.txid for each in await skipping.read(1 << 20)]
        while more := await skipping.read(1 << 20):
            got += [each.record.txid for each in more]
        assert got == [txid for txid in wanted if txid // 2 + 1 not in lost]
        await skipping.close()

    with TemporaryDirectory() as path:
        run_world(Path(path), story)


@given(
    failing=st.dictionaries(st.integers(0, LAST), st.integers(1, 2), max_size=LAST + 1),
    asked=st.integers(0, 2 * LAST),
)
@settings(max_examples=40, deadline=None)
def test_what_is_found_is_the_record_though_its_entries_failed_at_first(
    failing: dict[int, int], asked: int
) -> None:
    wanted = [txid for txid in TXIDS if txid >= asked]

    async def story(world: World) -> None:
        log, ledger_id = await one_segment(world)
        fail_at_first(world, ledger_id, failing)
        found = await log.locate(asked, DLSN(2, 0, 0))
        assert found == (DLSN(2, wanted[0] // 2 + 1, 0) if wanted else None)

    with TemporaryDirectory() as path:
        run_world(Path(path), story)


def test_a_probe_that_was_read_counts_though_it_cannot_be_read_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        for entry in range(40):
            put(writer, 2 * entry)
            await write(writer, 2 * entry + 1)
        given: list[int] = []

        def once(request: Any) -> StatusCode | None:
            if not isinstance(request, ReadRequest) or request.entry_id != 10:
                return None
            given.append(request.entry_id)
            return StatusCode.EIO if len(given) > 1 else None

        world.bookie.fault = once
        assert await log.locate(21) == DLSN(1, 10, 1)
        assert given, "no probe any more: ask for another entry"
        await writer.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_last_lost", [True, False])
def test_an_entry_without_a_record_hides_none(tmp_path: Path, is_last_lost: bool) -> None:
    """Entries: 0 and 2 records, 1 and 3 control records, 4 a record."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        for txid in (0, 10):
            await write(writer, txid)
            await writer.commit()
        await write(writer, 20)
        segment = log.segments.find(1)
        assert segment is not None
        lose(world, segment.ledger_id, {3} if is_last_lost else {2})
        assert await log.locate(15) == DLSN(1, 4, 0)
        lose(world, segment.ledger_id, {1, 3})
        assert await log.locate(10) == DLSN(1, 2, 0)
        lose(world, segment.ledger_id, {2, 3})
        assert await log.locate(15) == DLSN(1, 2, 0), "the entry may hold a record 16"
        reader = await log.open_reader(15, await log.find(15))
        with pytest.raises(EntryNotFound):
            await reader.read(1)
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_reader_that_is_not_told_what_a_record_stands_for_stops_at_the_damage(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        log, ledger_id = await one_segment(world)
        world.bookie.flip_bit(ledger_id, 10)  # of txid 18
        near = await log.find(14)
        reader = await log.open_reader(24, near)
        assert [each.record.txid for each in await reader.read(30)] == [24], "the damage is before"
        await reader.close()
        reader = await log.open_reader(19, near)
        with pytest.raises(CorruptData, match="entry 10"):
            await reader.read(1)
        await reader.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("lost", [{LAST}, {0, LAST}, {0}])
def test_an_owner_opens_a_log_whose_records_of_state_are_damaged(
    tmp_path: Path, lost: set[int]
) -> None:
    async def story(world: World) -> None:
        _, ledger_id = await one_segment(world)
        lose(world, ledger_id, lost)
        state, log = RecordState(), await world.log(client_id="next")
        writer = await log.open_writer(Listener(), state)
        assert state.txids == [0, *TXIDS]
        put(writer, 2 * LAST)
        await writer.flush()
        await writer.close()

    run_world(tmp_path, story)


def test_a_look_at_a_stored_log_does_without_a_damaged_index(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, ledger_id = await one_segment(world)
        lose(world, ledger_id, {LAST})
        stored = StoredLog("s", log._paths, log._context)
        segments = list(await stored.segments())
        found, size = await stored.index_of(segments[1])
        assert found is None
        assert size > 0
        with pytest.raises(DAMAGED):
            await log.read_index(2)
        before, there = await log.read_end_snapshot(1), await log.read_snapshot(2)
        assert before == there is not None

    run_world(tmp_path, story)
