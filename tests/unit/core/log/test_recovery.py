"""Taking over logs in every state that a crash, or another library, can leave."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import CorruptData, EndOfStream, Unavailable
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.log import Log
from tailrace.core.log.segment_nodes import SegmentNodes
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.messages import AddRequest
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.envelope import EnvelopeCodec, pack_bare, pack_envelope
from tailrace.protocol.distributedlog.record import (
    LogRecord,
    control_record,
    end_of_stream_record,
)
from tailrace.protocol.distributedlog.record_set import record_set
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    read_all,
    run_world,
    settle,
    txids_of,
    write,
)

PATHS = LogPaths("/distributedlog/tailrace", "s")


class Ignore:
    def on_confirmed(self, lac: int) -> None: ...

    def on_failed(self, error: Exception) -> None: ...


def user(txid: int, position: int) -> LogRecord:
    return LogRecord(txid, b"r%d" % txid, 0, position)


async def foreign_segment(
    world: World, entries: list[list[LogRecord]], *, lssn: int = 1, version: int = 5, codec: int = 0
) -> Log:
    """Leave a segment in progress as another library would, with a ledger that is still open."""
    log = await world.log()
    nodes = SegmentNodes(world.store, PATHS)
    await nodes.load()
    ledger = await world.ledgers().create_ledger(LedgerConfig(), Ignore())
    await nodes.allocation.record(ledger.ledger_id)
    await nodes.start(
        SegmentMetadata(lssn=lssn, ledger_id=ledger.ledger_id, first_txid=1, version=version),
        nodes.allocation.handover(),
    )
    nodes.allocation.handed_over()
    for records in entries:
        ledger.add(pack_envelope(records, codec) if version >= 4 else pack_bare(records))
    await settle()
    return log


@pytest.mark.parametrize(
    ("version", "codec"), [(5, EnvelopeCodec.NONE), (5, EnvelopeCodec.LZ4), (3, 0), (2, 0)]
)
def test_a_segment_of_another_library(tmp_path: Path, version: int, codec: int) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(
            world,
            [[user(1, 1)], [control_record(1, 1)], [user(2, 2), user(4, 3)]],
            version=version,
            codec=codec,
        )
        state = RecordState()
        writer = await log.open_writer(Listener(), state)
        assert (state.txids, state.replayed, state.restored) == ([1, 2, 4], 3, [None])
        segment = log.segments.segments[0]
        assert (segment.last_txid, segment.record_count) == (4, 3)
        assert (segment.last_entry_id, segment.last_slot, segment.version) == (2, 1, version)
        await write(writer, 5)
        await writer.close()
        assert await txids_of(log) == [1, 2, 4, 5]
        assert [s.start_sequence_id for s in log.segments] == [
            0 if version == 5 else -1,
            3 * (version == 5),
        ]
        for txid, at in ((0, (1, 0, 0)), (2, (1, 2, 0)), (3, (1, 2, 1)), (5, (2, 1, 0))):
            assert await log.locate(txid) == DLSN(*at)

    run_world(tmp_path, story)


def test_record_sets_are_taken_apart(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(
            world, [[user(1, 1), record_set(7, [b"a", b"bb"], 2)], [control_record(7, 3)]]
        )
        state = RecordState()
        writer = await log.open_writer(Listener(), state)
        assert state.txids == [1, 7, 7]
        await writer.close()
        found = await read_all(log)
        assert [(d, r.position) for d, r in found] == [
            (DLSN(1, 0, 0), 1), (DLSN(1, 0, 1), 2), (DLSN(1, 0, 2), 3),
        ]  # fmt: skip
        assert [bytes(r.payload) for _, r in found] == [b"r1", b"a", b"bb"]
        assert log.segments.segments[0].record_count == 3

    run_world(tmp_path, story)


def test_the_last_record_is_a_set(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)], [record_set(7, [b"a", b"b", b"c"], 2)]])
        await (await log.open_writer(Listener())).close()
        segment = log.segments.segments[0]
        assert (segment.record_count, segment.last_slot, segment.last_entry_id) == (4, 2, 1)

    run_world(tmp_path, story)


@pytest.mark.parametrize("entries", [[], [[control_record(15, 0)]], [[control_record(15, 0)]] * 3])
def test_a_segment_without_records_goes(tmp_path: Path, entries: list[list[LogRecord]]) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, entries)
        ledger_id = log.segments.segments[0].ledger_id if log.segments else 0
        writer = await log.open_writer(Listener(), RecordState())
        assert (len(log.segments), writer.last_txid, writer.lssn) == (0, -999, 1)
        await write(writer, 3)  # below the txid of the record that was lost
        await writer.close()
        assert [(s.lssn, s.ledger_id != ledger_id) for s in log.segments] == [(1, True)]

    run_world(tmp_path, story)


def test_uncounted_records_are_records(tmp_path: Path) -> None:
    """Java with enableRecordCounts=false: positions are 0."""

    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(3, 0)], [control_record(3, 0)]])
        writer = await log.open_writer(Listener())
        assert writer.last_txid == 3
        await writer.close()
        assert await txids_of(log) == [3]

    run_world(tmp_path, story)


def test_a_sealed_log_stays_sealed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(
            world, [[user(1, 1)], [end_of_stream_record(1)], [control_record(2**63 - 1, 1)]]
        )
        for _ in range(2):  # the second time `maxtxid` says so
            with pytest.raises(EndOfStream):
                await log.open_writer(Listener(), RecordState())
        assert (await world.store.get(PATHS.max_txid)).data == b"9223372036854775807"
        assert await log.locate(0) == DLSN(1, 0, 0)
        assert await log.locate(2) is None
        reader = await log.open_reader(INITIAL)
        assert [r.txid for _, r in await reader.read(1000)] == [1]
        for _ in range(2):
            with pytest.raises(EndOfStream):
                await reader.read(1000)
        await reader.close()

    run_world(tmp_path, story)


def test_a_ledger_that_is_gone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)]])
        await foreign_segment(world, [[user(2, 1)]], lssn=2)
        await log.refresh()
        first = log.segments.segments[0]
        await world.ledgers().delete_ledger(first.ledger_id)
        with pytest.raises(CorruptData, match="gone"):
            await log.open_writer(Listener())

    run_world(tmp_path, story)


@pytest.mark.parametrize("written", [True, False])
def test_a_deletion_that_stopped_half_way_is_finished(tmp_path: Path, *, written: bool) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)]] if written else [])
        if written:
            await (await log.open_writer(Listener())).close()
            await foreign_segment(world, [], lssn=2)
        await log.refresh()
        last = log.segments.last
        assert last is not None
        await world.ledgers().delete_ledger(last.ledger_id)
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        assert await txids_of(log) == ([1, 2] if written else [2])

    run_world(tmp_path, story)


def test_rubbish_is_not_taken_for_the_end(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)], [LogRecord(-999, b"")]])
        with pytest.raises(CorruptData):
            await log.open_writer(Listener())
        world.bookie.flip_bit(log.segments.segments[0].ledger_id if log.segments else 0, 1)
        with pytest.raises(CorruptData):
            await log.open_writer(Listener())
        assert await world.store.children(PATHS.lock) == []

    run_world(tmp_path, story)


def test_nothing_of_a_new_segment_is_written_before_the_old_one_is_confirmed(
    tmp_path: Path,
) -> None:
    """Else its snapshot could know of records that a crash takes away."""

    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener, RecordState())
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1)
        async with asyncio.TaskGroup() as group:
            rolling = group.create_task(writer.roll())
            while len(log.segments) < 2:
                await log.tail_moved(log.tail_version)
            put(writer, 2)
            await settle()
            first = log.segments.segments[0].ledger_id
            assert {r.ledger_id for r in world.bookie.requests if isinstance(r, AddRequest)} == {
                first
            }
            assert (listener.last, writer.waiting_bytes) == (0, 2)
            assert not rolling.done()
            world.bookie.release()
        await writer.close()
        assert await txids_of(log) == [0, 1, 2]

    run_world(tmp_path, story)


def test_two_segments_in_progress_whose_records_are_lost(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        world.bookie.hold()
        put(writer, 7)
        while not log.segments:
            await log.tail_moved(log.tail_version)
        await settle()
        rolling = asyncio.get_running_loop().create_task(writer.roll())
        while len(log.segments) < 2:
            await log.tail_moved(log.tail_version)
        world.bookie.release(0)  # nothing arrives
        await writer.abort()
        with pytest.raises(Unavailable):
            await rolling
        world.bookie._held = None
        again = await log.open_writer(Listener(), RecordState())
        assert (len(log.segments), again.lssn, again.last_txid) == (0, 1, -999)
        await write(again, 0, 1)
        await again.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


@pytest.mark.parametrize("controls", [1, 3])
def test_a_segment_without_records_stays_if_it_claims_none(tmp_path: Path, controls: int) -> None:
    """Behind a log's records it is completed as Java does: its readers may stand in it."""

    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)]])
        await (await log.open_writer(Listener())).close()
        await foreign_segment(world, [[control_record(1, 0)]] * controls, lssn=2)
        again = await world.log()
        writer = await again.open_writer(Listener(), RecordState())
        assert (writer.last_txid, writer.lssn) == (1, 3)
        last = again.segments.last
        assert last is not None
        assert (last.last_txid, last.record_count, last.in_progress) == (1, 0, False)
        await write(writer, 1, 2)
        await writer.close()
        assert await txids_of(again) == [1, 1, 2]
        assert (await world.store.get(PATHS.max_txid)).data == b"2"

    run_world(tmp_path, story)


def test_an_owner_reads_the_recent_segments_only(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        for txid in range(6):
            await write(writer, txid)
            await writer.roll()
        await write(writer, 6)
        await writer.abort()
        again = await world.log()
        state = RecordState()
        writer = await again.open_writer(Listener(), state)
        assert [s.lssn for s in again.segments] == [6, 7]
        assert (state.txids, state.replayed) == (list(range(7)), 1)
        await write(writer, 7)
        assert await txids_of(again) == list(range(8))
        assert [s.lssn for s in again.segments] == list(range(1, 9))
        await writer.close()
        reader = await again.open_reader(INITIAL)
        assert [r.txid for _, r in await reader.read(1)] == [0]
        writer = await again.open_writer(Listener(), RecordState())
        rest = []
        while found := await reader.read(1000):
            rest += [r.txid for _, r in found]
        assert rest == list(range(1, 8))
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_state_is_looked_for_in_all_segments_at_last(tmp_path: Path) -> None:
    """Those of another library tell nothing of ours."""

    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)]])
        await (await log.open_writer(Listener())).close()
        for lssn in (2, 3):
            await foreign_segment(world, [[user(lssn, 1)]], lssn=lssn)
            await (await (await world.log()).open_writer(Listener())).close()
        state = RecordState()
        again = await world.log()
        await (await again.open_writer(Listener(), state)).close()
        assert (state.txids, state.restored) == ([1, 2, 3], [None])

    run_world(tmp_path, story)
