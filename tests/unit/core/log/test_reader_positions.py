"""Where reading begins, by DLSN and by txid, in logs of other libraries too; and how it goes on.

Scenarios of Apache's tests are named by Class.method.
"""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.core.errors import ReadCancelled
from tailrace.core.log.bulk_read import read_bulk, read_next
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.protocol.bookkeeper.messages import ReadRequest
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.forged import ForgedSegment, forge
from tests.unit.core.log.world import Listener, World, read_all, run_world, settle, write


async def drain(
    reader: LogReader, max_bytes: int = 1 << 20, into: list[int] | None = None
) -> list[int]:
    found = [] if into is None else into
    while batch := await reader.read_entries(max_bytes):
        found += [txid for entry in batch for txid in entry.columns.txids]
    return found


@st.composite
def forged_segments(draw: st.DrawFn) -> list[ForgedSegment]:
    """Txids that never fall, many of them equal, over entries and segments, some without any."""
    txid = draw(st.integers(0, 3))
    segments: list[ForgedSegment] = []
    for _ in range(draw(st.integers(0, 5))):
        entries: list[list[int]] = []
        for size in draw(st.lists(st.integers(0, 3), max_size=6)):
            entries.append([])
            for gap in draw(st.lists(st.sampled_from([0, 0, 1, 4]), min_size=size, max_size=size)):
                txid += gap
                entries[-1].append(txid)
        segments.append(ForgedSegment(entries))
    if segments:
        segments[-1].in_progress = draw(st.booleans())
    return segments


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(segments=forged_segments(), data=st.data())
def test_positions_in_any_log(segments: list[ForgedSegment], data: st.DataObject) -> None:
    """TestReadUtils, TestDLUtils.testFindLogSegmentNotLessThanTxnId: equal txids, gaps, empties."""
    known = [
        (DLSN(lssn, entry_id, slot), txid)
        for lssn, segment in enumerate(segments, 1)
        for entry_id, entry in enumerate(segment.entries)
        for slot, txid in enumerate(entry)
    ]
    last = known[-1][1] if known else 3
    wanted = data.draw(st.lists(st.integers(-1, last + 2), max_size=6))

    async def story(world: World) -> None:
        log = await forge(world, "j", segments)
        found = await read_all(log)
        assert [(dlsn, record.txid) for dlsn, record in found] == known
        for txid in wanted:
            behind = [pair for pair in known if pair[1] >= txid]
            assert await log.locate(txid) == (behind[0][0] if behind else None)
            reader = await log.open_reader(txid)
            assert await drain(reader) == [pair[1] for pair in behind]
            await reader.close()
        starts = [
            DLSN(lssn, entry, slot) for lssn in (0, 1, 3) for entry in (-1, 2) for slot in (0, 1)
        ]
        for start in starts:
            at = [txid for dlsn, txid in known if dlsn >= start]
            assert [record.txid for _, record in await read_all(log, start)] == at

    with tempfile.TemporaryDirectory() as path:
        run_world(Path(path), story)


def test_a_position_by_dlsn_costs_no_search(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await forge(world, "j", [ForgedSegment([[txid] for txid in range(200)])] * 2)
        await log.refresh()
        await log.view(2)
        world.bookie.requests.clear()
        reader = await log.open_reader(DLSN(2, 150, 0))
        entries = await reader.read_entries(1)
        assert (entries[0].lssn, entries[0].entry_id) == (2, 150)
        asked = [r.entry_id for r in world.bookie.requests if isinstance(r, ReadRequest)]
        assert min(asked) == 150
        await reader.close()
        world.bookie.requests.clear()
        await log.locate(150)
        asked = [r.entry_id for r in world.bookie.requests if isinstance(r, ReadRequest)]
        assert len(asked) <= 3 * 4 + 4, "three probes leave a quarter of 200 entries each time"

    run_world(tmp_path, story)


@pytest.mark.parametrize("owner", [True, False])
def test_a_txid_above_all_is_waited_for(tmp_path: Path, *, owner: bool) -> None:
    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=1)
        writer = await log.open_writer(Listener())
        other = log if owner else await world.log(client_id="other", lac_poll_ms=1)
        readers = [await other.open_reader(50)]
        await write(writer, 10, 20)
        await settle(50)
        readers.append(await other.open_reader(50))
        assert [await drain(reader) for reader in readers] == [[], []]
        await write(writer, 30, 49, 49)
        await writer.roll()
        await write(writer, 50, 50, 51)
        await writer.roll()
        await write(writer, 51, 60)
        await writer.close()
        for reader in readers:
            found = await drain(reader)
            while len(found) < 5:
                await reader.wait_for_more()
                found += await drain(reader)
            assert found == [50, 50, 51, 51, 60]
            await reader.close()

    run_world(tmp_path, story)


# -- reading a number of records ---


def test_bulk_reads_wait_for_the_first_and_then_as_long_as_told(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testBulkRead{WaitingMoreRecords,NotWaitingMoreRecords}."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        reader = await log.open_reader(INITIAL)

        async def bulk(count: int, wait_ms: int = 0) -> list[int]:
            return [record.txid for _, record in await read_bulk(reader, count, wait_ms)]

        loop = asyncio.get_running_loop()
        first = loop.create_task(bulk(3))
        await settle()
        assert not first.done()
        await write(writer, 0)
        assert await first == [0], "nothing more was there"
        await write(writer, *range(1, 12))
        assert await bulk(3) == [1, 2, 3]
        assert (await read_next(reader)).record.txid == 4
        assert await bulk(100) == [5, 6, 7, 8, 9, 10, 11]
        waiting = loop.create_task(bulk(3, 3_600_000))
        await write(writer, 12)
        await settle()
        await write(writer, 13)
        await settle()
        assert not waiting.done()
        await write(writer, 14)
        assert await waiting == [12, 13, 14]
        await write(writer, 15)
        assert await bulk(2, 1) == [15], "the time is over"
        assert await bulk(0) == []
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_cancelled_bulk_read_loses_nothing(tmp_path: Path) -> None:
    """TestCancelledRead: Java's reader dies, ours goes on."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        reader = await log.open_reader(INITIAL)
        await write(writer, 0, 1)
        task = asyncio.get_running_loop().create_task(read_bulk(reader, 5, 3_600_000))
        await settle()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await write(writer, 2)
        assert [record.txid for _, record in await read_bulk(reader, 5)] == [0, 1, 2]
        task = asyncio.get_running_loop().create_task(read_bulk(reader, 5))
        await settle()
        await reader.close()
        with pytest.raises(ReadCancelled):
            await task
        await writer.close()

    run_world(tmp_path, story)


# -- from segment to segment ---


def reads(world: World, log: Log, lssn: int) -> list[int]:
    segment = log.segments.find(lssn)
    assert segment is not None
    asked = [r for r in world.bookie.requests if isinstance(r, ReadRequest)]
    return [r.entry_id for r in asked if r.ledger_id == segment.ledger_id]


def test_the_next_segment_is_asked_for_before_this_one_ends(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await forge(world, "j", [ForgedSegment([[txid] for txid in range(10)])] * 3)
        reader = await log.open_reader(INITIAL)
        world.bookie.requests.clear()
        assert len(await reader.read_entries(1)) == 1
        await settle(200)
        for _ in range(50):
            await asyncio.sleep(0.001)  # the metadata store answers from a thread
            if reads(world, log, 2):
                break
        assert reads(world, log, 2), "nothing was asked for"
        assert reads(world, log, 3) == []
        assert await drain(reader) == list(range(1, 10)) + [*range(10)] * 2
        assert sorted(reads(world, log, 2)) == list(range(10)), "Apache issue 1973"
        await reader.close()

    run_world(tmp_path, story)


def test_no_segment_is_skipped_or_read_twice_by_a_late_answer(tmp_path: Path) -> None:
    """Apache issues 2898 and 3064: a stale callback moved the reader on a second time.

    The segment after next is opened while the answer for the next one is held back, again and
    again, and answers come in any order.
    """

    async def story(world: World) -> None:
        await forge(world, "j", [ForgedSegment([[9 * lssn, 9 * lssn + 1]]) for lssn in range(8)])
        log = await world.namespace(client_id="other").open_log("j")
        reader = await log.open_reader(INITIAL)
        found: list[int] = []
        for turns in range(40):
            world.bookie.hold()
            reading = asyncio.get_running_loop().create_task(drain(reader, 1, found))
            await settle(turns)
            world.bookie.release(turns % 3)
            await settle(turns)
            if turns % 4 and not reading.done():
                reading.cancel()
            world.bookie.release()
            with suppress(asyncio.CancelledError):
                await reading
        await drain(reader, into=found)
        assert found == [9 * lssn + slot for lssn in range(8) for slot in (0, 1)]
        await reader.close()

    run_world(tmp_path, story)


def test_a_following_segment_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    """TestReadAheadEntryReader.testReadEntriesOnStateChange; Java compares LSSNs only."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0, 1)
        await writer.roll()  # segment 2 has a control record and nothing else
        other = await world.log(client_id="other", lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        assert await drain(reader) == [0, 1]
        view = reader._cursor
        assert view is not None
        assert view.view.metadata.lssn == 2
        await writer.abort()
        writer = await log.open_writer(Listener())
        await write(writer, 2, 3)
        await writer.close()
        segments = [segment.lssn for segment in log.segments]
        assert segments in ([1, 2], [1, 2, 3])
        found: list[int] = []
        while len(found) < 2:
            found += await drain(reader)
            await reader.wait_for_more()
        assert found == [2, 3]
        await reader.close()

    run_world(tmp_path, story)
