"""Where a record is, for those who ask: single writes, bulks and record sets."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from tailrace.core.errors import (
    CoreError,
    LogRecordTooLong,
    TransactionIdOutOfOrder,
    Unavailable,
    WriteCancelled,
)
from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX, CompressionType
from tailrace.core.log.receipts import Receipts
from tailrace.core.log.transmit import TransmitPolicy
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.lz4_block import UNPACKED_BYTES_MAX
from tailrace.protocol.distributedlog.record import HEADER_SIZE, RecordParts, record_parts
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    entries_of,
    put,
    read_all,
    run_world,
    settle,
    txids_of,
    write,
)


def record(txid: int) -> RecordParts:
    payload = b"r%d" % txid
    return record_parts(txid, (payload,), len(payload))


def fail_adds(request: object) -> StatusCode | None:
    return StatusCode.EIO if isinstance(request, AddRequest) else None


def test_a_write_tells_the_position_that_readers_find(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        positions = [writer.write(txid, b"r%d" % txid) for txid in range(3)]
        put(writer, 3)  # between them one that nobody asks for
        positions.append(writer.write(4, b"r4"))
        await writer.flush()
        await writer.roll()
        positions.append(writer.write(5, b"r5"))
        told = [await position for position in positions]
        await writer.close()
        found = {r.txid: dlsn for dlsn, r in await read_all(log)}
        assert told == [found[txid] for txid in (0, 1, 2, 4, 5)]
        assert told[0] == DLSN(1, 0, 0)
        assert told[-1].lssn == 2

    run_world(tmp_path, story)


def test_positions_are_told_with_their_own_entry(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        first = writer.write(1, b"r1")
        await settle()
        second = writer.write(2, b"r2")
        await settle()
        world.bookie.release(1)
        await settle()
        assert (first.done(), second.done()) == (True, False)
        world.bookie.release()
        assert (await first, await second) == (DLSN(1, 1, 0), DLSN(1, 2, 0))
        await writer.close()

    run_world(tmp_path, story)


def test_nobody_waits_for_a_record_that_was_not_taken() -> None:
    async def story() -> None:
        receipts = Receipts()
        first, refused = receipts.position_of(1), receipts.position_of(2)
        receipts.withdraw(refused)
        receipts.on_sent(0, 1, DLSN(1, 0, 0))
        receipts.withdraw(first)  # it is on its way
        assert not receipts.is_idle
        receipts.on_confirmed(1, DLSN(1, 0, 0))
        assert receipts.is_idle
        assert await first == DLSN(1, 0, 0)

    asyncio.run(story())


def test_a_write_that_nobody_waits_for_is_written(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.write(0, b"r0").cancel()
        position = writer.write(1, b"r1")
        assert await position == DLSN(1, 0, 1)
        await writer.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


def test_a_refused_write_leaves_the_others_their_places(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(record_bytes_max=100)
        writer = await log.open_writer(Listener())
        first = writer.write(5, b"r5")
        with pytest.raises(TransactionIdOutOfOrder):
            writer.write(4, b"r4")
        with pytest.raises(LogRecordTooLong):
            writer.write(6, b"x" * 101)
        second = writer.write(6, b"r6")
        assert [await first, await second] == [DLSN(1, 0, 0), DLSN(1, 0, 1)]
        await writer.close()
        assert await txids_of(log) == [5, 6]

    run_world(tmp_path, story)


@pytest.mark.parametrize("txid", [-1, -999, 2**63 - 1, 2**63])
def test_txids_that_no_record_may_have(tmp_path: Path, txid: int) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        with pytest.raises(TransactionIdOutOfOrder):
            put(writer, txid, b"x")
        await write(writer, 0, 0, 2**63 - 2)  # several records may share one
        await writer.close()
        assert [r.txid for _, r in await read_all(log)] == [0, 0, 2**63 - 2]

    run_world(tmp_path, story)


def test_who_was_not_sent_hears_that_it_is_not_in_the_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(unacked_entries_max=1)
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        world.bookie.fault = fail_adds
        world.bookie.hold()
        sent = writer.write(1, b"r1")
        await settle()
        waiting = [writer.write(txid, b"r%d" % txid) for txid in (2, 3)]
        world.bookie.release()
        for position in waiting:
            with pytest.raises(WriteCancelled):
                await position
        with pytest.raises(type(listener.errors[0])):
            await sent
        with pytest.raises(type(listener.errors[0])):
            writer.write(4, b"r4")
        world.bookie.fault = lambda _: None
        again = await log.open_writer(Listener())
        assert again.last_txid <= 1
        await again.close()

    run_world(tmp_path, story)


def test_abort_fails_who_waits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        sent = writer.write(1, b"r1")
        await settle()
        committing = asyncio.create_task(writer.commit())
        await settle()
        await writer.abort()
        for waiter in (sent, committing):
            with pytest.raises(Unavailable):
                await waiter
        world.bookie.release()

    run_world(tmp_path, story)


async def append_somehow(writer: LogWriter, how: str) -> None:
    match how:
        case "append":
            put(writer, 1)
        case "write":
            writer.write(1, b"r1")
        case "append_many":
            await writer.append_many([record(1)])[0]
        case "flush":
            put(writer, 1)
            await writer.flush()


def test_a_failure_while_sending_reaches_the_append_and_the_flush(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        for failing in ("append", "flush", "write", "append_many"):
            listener = Listener()
            writer = await log.open_writer(listener)
            await write(writer, 0)
            writer.set_policy(TransmitPolicy.buffered(1 if failing != "flush" else 1000))
            segment = writer._chain.writable
            assert segment is not None
            segment._ledger._closing = True  # the ledger refuses, but only inside the call
            assert writer.error is None
            with pytest.raises(WriteCancelled if failing == "append_many" else Unavailable):
                await append_somehow(writer, failing)
            assert len(listener.errors) == 1
            await writer.abort()

    run_world(tmp_path, story)


# ---------------------------------------------------------------- bulks


def test_a_bulk_is_written_in_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        assert writer.append_many([]) == []
        told = await asyncio.gather(*writer.append_many([record(txid) for txid in range(5)]))
        await writer.close()
        assert told == [DLSN(1, 0, slot) for slot in range(5)]
        assert await txids_of(log) == [0, 1, 2, 3, 4]

    run_world(tmp_path, story)


def test_behind_the_first_that_is_refused_a_bulk_is_cancelled(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        bulk = [record(txid) for txid in (5, 6, 4, 7, 8)]
        results = await asyncio.gather(*writer.append_many(bulk), return_exceptions=True)
        assert results[:2] == [DLSN(1, 0, 0), DLSN(1, 0, 1)]
        assert isinstance(results[2], TransactionIdOutOfOrder)
        assert [type(result) for result in results[3:]] == [WriteCancelled] * 2
        assert await writer.write(7, b"r7") == DLSN(1, 1, 0), "the writer lives"
        await writer.close()
        assert await txids_of(log) == [5, 6, 7]

    run_world(tmp_path, story)


def test_a_bulk_for_a_dead_writer_is_refused_as_a_whole(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.close()
        first, second = writer.append_many([record(1), record(2)])
        assert isinstance(first.exception(), Unavailable)
        assert isinstance(second.exception(), WriteCancelled)

    run_world(tmp_path, story)


def test_a_bulk_is_not_sent_before_its_end(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(transmit_buffer_bytes=30)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        bulk = writer.append_many([record(txid) for txid in range(1, 9)])
        await asyncio.gather(*bulk)
        await writer.close()
        assert [len(entry) for entry in await entries_of(world, log, 1)] == [1, 8]

    run_world(tmp_path, story)


def test_a_bulk_that_is_no_list_of_records_leaves_the_policy_as_it_was(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(transmit_buffer_bytes=30)
        listener = Listener()
        writer = await log.open_writer(listener)
        with pytest.raises(TypeError):
            writer.append_many([record(0), cast("RecordParts", (1,))])
        put(writer, 2, b"x" * 40)
        await listener.reached(2)
        await writer.close()

    run_world(tmp_path, story)


def test_a_bulk_spans_entries(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        bulk = [record_parts(txid, (b"x" * 400_000,), 400_000) for txid in range(5)]
        told = await asyncio.gather(*writer.append_many(bulk))
        await writer.close()
        assert told == [
            DLSN(1, entry, slot) for entry, slot in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
        ]

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("sizes", "entries"),
    [
        ((ENTRY_RECORDS_BYTES_MAX - 2 * HEADER_SIZE - 9, 9, 1), [0, 0, 1]),
        ((ENTRY_RECORDS_BYTES_MAX - 2 * HEADER_SIZE - 8, 9, 1), [0, 1, 1]),
        ((ENTRY_RECORDS_BYTES_MAX + 1, 1, 1), [0, 1, 1]),
    ],
    ids=["two that just fit", "one byte too many", "one that is larger than an entry of many"],
)
def test_an_entry_takes_as_many_records_as_fit(
    tmp_path: Path, sizes: tuple[int, ...], entries: list[int]
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        bulk = [record_parts(txid, (bytes(size),), size) for txid, size in enumerate(sizes)]
        told = await asyncio.gather(*writer.append_many(bulk))
        await writer.close()
        assert [position.entry_id for position in told] == entries
        found = [(r.txid, len(r.payload)) for _, r in await read_all(log)]
        assert found == list(enumerate(sizes))

    run_world(tmp_path, story)


def test_a_bulk_whose_entries_fail_has_no_hole(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(unacked_entries_max=2)
        writer = await log.open_writer(Listener())
        world.bookie.fault = lambda request: (
            fail_adds(request) if getattr(request, "entry_id", 0) == 1 else None
        )
        bulk = [record_parts(txid, (b"x" * 600_000,), 600_000) for txid in range(5)]
        results = await asyncio.gather(*writer.append_many(bulk), return_exceptions=True)
        assert results[0] == DLSN(1, 0, 0)
        failed = results[1:]
        assert all(isinstance(result, CoreError) for result in failed)
        assert isinstance(failed[-1], WriteCancelled)
        world.bookie.fault = lambda _: None
        again = await log.open_writer(Listener())
        found = [r.txid for _, r in await read_all(log)]
        assert found == list(range(len(found)))
        assert 1 <= len(found) < 5
        await again.close()

    run_world(tmp_path, story)


# ---------------------------------------------------------------- record sets, LZ4


@pytest.mark.parametrize("compression", CompressionType)
def test_the_values_of_a_record_set_are_records_for_readers(
    tmp_path: Path, compression: CompressionType
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener, state = Listener(), RecordState()
        writer = await log.open_writer(listener, state)
        before = writer.write(1, b"a")
        position = writer.append_set(2, [b"b" * 50, b"", b"c" * 50], compression)
        behind = writer.write(2, b"d")
        assert [await before, await position, await behind] == [
            DLSN(1, 0, 0),
            DLSN(1, 0, 1),
            DLSN(1, 0, 4),
        ]
        assert listener.last == 2
        await writer.close()
        found = await read_all(log)
        assert [(dlsn.slot, r.txid, bytes(r.payload), r.position) for dlsn, r in found] == [
            (0, 1, b"a", 1),
            (1, 2, b"b" * 50, 2),
            (2, 2, b"", 3),
            (3, 2, b"c" * 50, 4),
            (4, 2, b"d", 5),
        ]
        (segment,) = log.segments
        assert (segment.record_count, segment.last_slot, segment.last_txid) == (5, 4, 2)
        again = RecordState()
        writer = await log.open_writer(Listener(), again)
        await writer.close()
        assert again.txids == state.txids == [1, 2, 2, 2, 2]

    run_world(tmp_path, story)


def test_record_sets_that_cannot_be(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        with pytest.raises(ValueError, match="without a value"):
            writer.append_set(1, [])
        with pytest.raises(LogRecordTooLong):
            writer.append_set(1, [bytes(UNPACKED_BYTES_MAX)], CompressionType.LZ4)
        await writer.close()
        assert not log.segments

    run_world(tmp_path, story)


def test_entries_are_compressed_where_that_helps(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        stored = {}
        for compression in CompressionType:
            log = await world.log(compression.value, compression=compression)
            writer = await log.open_writer(Listener())
            position = writer.write(0, b"x" * 10_000)
            writer.append_set(1, [b"y" * 10_000] * 2)
            assert await position == DLSN(1, 0, 0)
            await writer.close()
            found = [bytes(r.payload) for _, r in await read_all(log)]
            assert found == [b"x" * 10_000, b"y" * 10_000, b"y" * 10_000]
            ledger = world.bookie.ledgers[next(iter(log.segments)).ledger_id]
            stored[compression] = len(ledger.entries[0])
        assert stored[CompressionType.LZ4] < 1000
        assert stored[CompressionType.NONE] > 30_000

    run_world(tmp_path, story)
