"""Readers over what is broken, missing, idle, or done to the log under them.

Scenarios of Apache's tests are named by Class.method.
"""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import (
    AlreadyTruncatedTransaction,
    CorruptData,
    DLIllegalState,
    IdleReader,
    InvalidEnvelopedEntry,
    LedgerNotFound,
    LogTruncated,
    ReadCancelled,
)
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation, encode_segment
from tailrace.core.metadata.watches import WatchTable
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.envelope import pack_envelope
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.distributedlog.record_set import record_set
from tailrace.protocol.ids import Buffer
from tests.unit.core.log.world import Listener, World, put, run_world, settle, write


async def txids(reader: LogReader, max_bytes: int = 1 << 20) -> list[int]:
    return [txid for entry in await reader.read_entries(max_bytes) for txid in entry.columns.txids]


async def drain(
    reader: LogReader, max_bytes: int = 1 << 20, into: list[int] | None = None
) -> list[int]:
    found = [] if into is None else into
    while batch := await txids(reader, max_bytes):
        found += batch
    return found


async def written(world: World, *sizes: int) -> Log:
    """A completed log of segments with so many entries of one record."""
    log = await world.log()
    writer = await log.open_writer(Listener())
    txid = 0
    for number, size in enumerate(sizes):
        if number:
            await writer.roll()
        for _ in range(size):
            await write(writer, txid)
            txid += 1
    await writer.close()
    return log


async def replace_entry(
    world: World, log: Log, segment: SegmentMetadata, entry_id: int, payload: list[Buffer]
) -> None:
    """Let every bookie have another entry there, with the right digest."""
    metadata = await log._ledgers.ledger_metadata(segment.ledger_id)
    digest = Digest(metadata.digest, metadata.password)
    body = pack_entry(segment.ledger_id, entry_id, entry_id - 1, 9 * entry_id, payload, digest)
    world.bookie.ledgers[segment.ledger_id].entries[entry_id] = b"".join(body)


# -- broken entries ---


@pytest.mark.parametrize("read_ahead", [1, 4, 100])
def test_a_broken_entry_is_named_and_those_before_it_are_given_out(
    tmp_path: Path, read_ahead: int
) -> None:
    """TestAsyncReaderWriter.testReadBrokenEntries."""

    async def story(world: World) -> None:
        log = await written(world, 20, 20)
        ledger_id = log.segments.segments[0].ledger_id
        world.bookie.flip_bit(ledger_id, 7)
        log = await world.log(client_id="other", read_ahead_entries=read_ahead)
        reader = await log.open_reader(INITIAL)
        found: list[int] = []
        for _ in range(3):
            where = f"log s segment 1 ledger {ledger_id} entry 7"
            with pytest.raises(CorruptData, match=where):
                await drain(reader, into=found)
        assert found == list(range(7))
        world.bookie.flip_bit(ledger_id, 7)  # as auditors do
        assert await drain(reader) == list(range(7, 40))
        await reader.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("read_ahead", [1, 4, 100])
def test_broken_entries_are_skipped_and_counted_when_told_so(
    tmp_path: Path, read_ahead: int
) -> None:
    """TestAsyncReaderWriter.testReadBrokenEntriesAndLargeBatchSizeCrossSegment."""

    async def story(world: World) -> None:
        log = await written(world, 20, 20)
        first, second = (segment.ledger_id for segment in list(log.segments)[:2])
        for ledger_id, entry_id in ((first, 0), (first, 7), (first, 8), (first, 19), (second, 3)):
            world.bookie.flip_bit(ledger_id, entry_id)
        await replace_entry(world, log, log.segments.segments[0], 12, [b"no record"])
        log = await world.log(
            client_id="other", skips_broken_entries=True, read_ahead_entries=read_ahead
        )
        reader = await log.open_reader(INITIAL)
        found = await drain(reader)
        lost = {0, 7, 8, 12, 19}
        assert [txid for txid in found if txid < 20] == [t for t in range(20) if t not in lost]
        assert found[-1] == 39
        metrics = log._context.metrics
        assert metrics.broken_entries_skipped_total == 6
        assert metrics.position_gaps_total >= 3
        await reader.close()

    run_world(tmp_path, story)


def test_skipping_is_noticed_by_the_positions(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testReadBrokenEntriesWithGapDetection."""

    async def story(world: World) -> None:
        log = await written(world, 10)
        world.bookie.flip_bit(log.segments.segments[0].ledger_id, 4)
        log = await world.log(
            client_id="other", skips_broken_entries=True, detects_position_gaps=True
        )
        reader = await log.open_reader(INITIAL)
        assert await txids(reader) == [0, 1, 2, 3]
        for _ in range(2):
            with pytest.raises(DLIllegalState, match=r"entry 5: position 6 where 5 comes next"):
                await txids(reader)
        await reader.close()
        behind = await log.open_reader(DLSN(1, 5, 0))
        assert await drain(behind) == [5, 6, 7, 8, 9], "the stream stays usable"
        await behind.close()

    run_world(tmp_path, story)


def test_an_entry_without_records_is_named(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await written(world, 6)
        await replace_entry(world, log, log.segments.segments[0], 3, [b"no record"])
        reader = await log.open_reader(INITIAL)
        assert await txids(reader) == [0, 1, 2]
        with pytest.raises(InvalidEnvelopedEntry, match="log s segment 1 ledger 0 entry 3") as it:
            await txids(reader)
        assert it.value.code == 520
        await reader.close()

    run_world(tmp_path, story)


def test_what_no_bookie_has_any_more_is_no_truncation(tmp_path: Path) -> None:
    """The metadata knows the ledger: its loss is not answered as "purged"."""

    async def story(world: World) -> None:
        log = await written(world, 4)
        del world.bookie.ledgers[log.segments.segments[0].ledger_id]
        reader = await (await world.log(client_id="other")).open_reader(INITIAL)
        with pytest.raises(LedgerNotFound):
            await txids(reader)
        await reader.close()

    run_world(tmp_path, story)


# -- record sets ---


@pytest.mark.parametrize("codec", [0, 1])
def test_record_sets_come_apart_or_whole(tmp_path: Path, codec: int) -> None:
    """TestAsyncReaderWriter.testWriteRecordSet, with deserializeRecordSetOnReads on and off."""

    async def story(world: World) -> None:
        log = await written(world, 3)
        records = [
            LogRecord(1, b"a", 0, 2),
            record_set(1, [b"b", b"c", b"d"], 3, codec),
            LogRecord(1, b"e", 0, 6),
        ]
        await replace_entry(world, log, log.segments.segments[0], 1, pack_envelope(records))
        last = pack_envelope([LogRecord(2, b"f", 0, 7)])
        await replace_entry(world, log, log.segments.segments[0], 2, last)
        other = await world.log(client_id="other", detects_position_gaps=True)
        reader = await other.open_reader(DLSN(1, 1, 0))
        apart = await reader.read(1 << 20)
        assert [(d.slot, bytes(r.payload)) for d, r in apart] == [
            (0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"), (4, b"e"), (0, b"f"),
        ]  # fmt: skip
        assert [r.position for _, r in apart] == [2, 3, 4, 5, 6, 7]
        await reader.close()
        other = await world.log(
            client_id="other", detects_position_gaps=True, expands_record_sets=False
        )
        reader = await other.open_reader(DLSN(1, 1, 0))
        whole = await reader.read(1 << 20)
        assert [(d.slot, r.is_record_set) for d, r in whole] == [
            (0, False), (1, True), (4, False), (0, False),
        ]  # fmt: skip
        await reader.close()
        inside = await (await world.log(client_id="other")).open_reader(DLSN(1, 1, 2))
        assert [bytes(r.payload) for _, r in await inside.read(1 << 20)] == [
            b"c", b"d", b"e", b"f",
        ]  # fmt: skip
        await inside.close()

    run_world(tmp_path, story)


# -- truncation ---


def test_truncated_positions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """TestReadAheadEntryReader.testPositioningIgnoreTruncationStatus; TestInterleavedReaders."""

    async def story(world: World) -> None:
        log = await written(world, 5, 5, 5)
        before = await log.open_reader(INITIAL)
        assert await txids(before, 1) == [0]
        at = await log.locate(7)
        assert at is not None
        await log.truncate(at)
        assert await drain(before) == list(range(1, 15)), "who reads already is left alone"
        await before.close()
        for start, first in ((INITIAL, 7), (DLSN(2, 0, 0), 7), (at, 7), (DLSN(2, 9, 0), 10)):
            reader = await log.open_reader(start)
            assert (await drain(reader))[0] == first
            await reader.close()
        assert caplog.text.count("position_truncated") == 1  # that of DLSN(2, 0, 0)
        quiet = await world.log(client_id="c", alerts_on_truncated=False)
        reader = await quiet.open_reader(DLSN(2, 0, 0))
        assert (await drain(reader))[0] == 7
        await reader.close()
        assert caplog.text.count("position_truncated") == 1
        other = await world.log(client_id="other", ignores_truncation=True)
        reader = await other.open_reader(INITIAL)
        assert await drain(reader) == list(range(15))
        await reader.close()
        assert await other.locate(3) == DLSN(1, 3, 0)

    run_world(tmp_path, story)


def test_a_truncated_segment_behind_a_kept_one(tmp_path: Path) -> None:
    """TestReadAheadEntryReader.testPositioningAtInvalidLogSegment."""

    async def story(world: World) -> None:
        log = await written(world, 5, 5, 5)
        second = log.segments.segments[1]
        cut = SegmentMetadata(
            **{
                name: getattr(second, name)
                for name in SegmentMetadata.__slots__
                if name != "truncation"
            },
            truncation=Truncation.TRUNCATED,
        )
        path = f"/distributedlog/tailrace/s/<default>/ledgers/logrecs_{2:018d}"
        await world.store.set(path, encode_segment(cut))
        other = await world.log(client_id="other")
        reader = await other.open_reader(INITIAL)
        for _ in range(2):
            with pytest.raises(AlreadyTruncatedTransaction):
                await txids(reader)
        await reader.close()
        reader = await other.open_reader(DLSN(2, 0, 0))
        assert await drain(reader) == list(range(10, 15))
        await reader.close()

    run_world(tmp_path, story)


# -- silence ---


def test_an_idle_reader_fails_when_told_so(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testIdleReaderExceptionWhenThereIsNoActivity."""

    async def story(world: World) -> None:
        log = await written(world, 2)
        other = await world.log(client_id="other", reader_idle_error_ms=5000, lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        assert await drain(reader) == [0, 1]
        world.clock.advance_ms(4999)
        assert await txids(reader) == []
        world.clock.advance_ms(1)
        with pytest.raises(IdleReader, match="no entry of s for 5000 ms"):
            await txids(reader)
        assert other._context.metrics.idle_readers_total == 1
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        found: list[int] = []
        while not found:  # the watch tells
            try:
                found = await txids(reader)
            except IdleReader:
                await settle()
        assert found == [2]
        assert await txids(reader) == [], "it begins anew"
        await reader.close()

    run_world(tmp_path, story)


def test_control_records_keep_a_reader_from_failing(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testAsyncReadIdleControlRecord."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        reader = await log.open_reader(INITIAL)
        config = log._context.config
        assert config.reader_idle_error_ms == 2**31 - 1
        reader._idleness._error_ms = 5000
        assert await txids(reader) == [0]
        for _ in range(4):
            world.clock.advance_ms(4000)
            segment = writer._chain.current
            assert segment is not None
            segment.add_control()
            await settle()
            assert await txids(reader) == []
        world.clock.advance_ms(5000)
        with pytest.raises(IdleReader):
            await txids(reader)
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_lost_notification_is_healed_by_an_idle_reader(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testAsyncReadMissingLogSegmentsNotification."""

    async def story(world: World) -> None:
        log = await written(world, 2)
        other = await world.log(client_id="other", reader_idle_warn_ms=3000, lac_poll_ms=1)
        reader = await other.open_reader(INITIAL)
        assert await drain(reader) == [0, 1]
        world.store._watches = WatchTable()  # the server forgets who watches
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        await reader.wait_for_more()
        assert await txids(reader) == [], "nobody told"
        world.clock.advance_ms(3000)
        found = await txids(reader) or await txids(reader)
        assert found == [2]
        assert other._context.metrics.idle_readers_total == 1
        await reader.close()

    run_world(tmp_path, story)


# -- closing ---


def test_closing_ends_a_wait(tmp_path: Path) -> None:
    """TestAsyncReaderWriter.testCancelReadRequestOnReaderClosed: 1002."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        reader = await log.open_reader(INITIAL)
        assert await txids(reader) == []
        waiting = asyncio.get_running_loop().create_task(reader.wait_for_more())
        await settle()
        assert not waiting.done()
        await reader.close()
        with pytest.raises(ReadCancelled) as caught:
            await waiting
        assert caught.value.code == 1002
        with pytest.raises(ReadCancelled):
            await reader.wait_for_more()
        await writer.close()

    run_world(tmp_path, story)


def test_purged_under_the_reader(tmp_path: Path) -> None:
    """TestInterleavedReaders: purge during read."""

    async def story(world: World) -> None:
        log = await written(world, 3, 3, 3, 3)
        reader = await log.open_reader(INITIAL)
        assert await txids(reader, 1) == [0]
        log.segments_gone(2)
        with pytest.raises(LogTruncated, match="segment 2 of s was purged"):
            await drain(reader)
        await reader.close()

    run_world(tmp_path, story)


def test_a_gap_between_segments_of_the_list_never_counts_as_read(tmp_path: Path) -> None:
    """TestReadAheadEntryReader.testLogSegmentSequenceNumberGap."""

    async def story(world: World) -> None:
        log = await written(world, 3, 3, 3)
        path = f"/distributedlog/tailrace/s/<default>/ledgers/logrecs_{2:018d}"
        await world.store.delete(path)
        other = await world.log(client_id="other")
        with pytest.raises(CorruptData, match="hole"):
            await other.open_reader(INITIAL)
        assert len(log.segments) == 3

    run_world(tmp_path, story)


def test_bytes_are_bounded_by_what_is_asked(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for txid in range(30):
            put(writer, txid, b"x" * 1000)
            await writer.flush()
        reader = await log.open_reader(INITIAL)
        entries = await reader.read_entries(5000)
        assert [entry.columns.txids for entry in entries] == [[0], [1], [2], [3], [4]]
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)
