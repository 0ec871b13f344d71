"""How appended records become entries, and what happens when they cannot."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    LogRecordTooLong,
    NotEnoughBookies,
    OverCapacity,
    Unavailable,
)
from tailrace.core.log.config import ENTRY_RECORDS_BYTES_MAX, RECORD_BYTES_MAX
from tailrace.core.log.rolling import RollingPolicy
from tailrace.protocol.bookkeeper.messages import AddRequest, Request, StatusCode
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tailrace.protocol.distributedlog.record import HEADER_SIZE
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


def test_waiting_records_are_packed_while_the_window_is_full(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(unacked_entries_max=4)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        for txid in range(1, 101):
            put(writer, txid)
            await settle(2)
        assert world.bookie.held_count == 4
        world.bookie.release()
        await writer.flush()
        await writer.close()
        sizes = [len(entry) for entry in await entries_of(world, log, 1)]
        assert sizes == [1, 1, 1, 1, 1, 96]
        assert await txids_of(log) == list(range(101))

    run_world(tmp_path, story)


def test_bytes_in_flight_are_bounded(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(unacked_bytes_max=1000)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        for txid in range(1, 6):
            put(writer, txid, b"x" * 600)
            await settle(2)
        assert world.bookie.held_count == 2  # the second crosses the limit, a third does not start
        assert writer.waiting_bytes == 1800
        world.bookie.release()
        await writer.close()

    run_world(tmp_path, story)


def test_an_entry_stays_below_distributedlogs_limit(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        size = 100_000
        for txid in range(25):
            put(writer, txid, b"x" * size)
        await writer.close()
        entries = await entries_of(world, log, 1)
        fitting = ENTRY_RECORDS_BYTES_MAX // (size + HEADER_SIZE)
        assert [len(entry) for entry in entries] == [fitting, fitting, 25 - 2 * fitting]
        assert [r.position for entry in entries for r in entry] == list(range(1, 26))

    run_world(tmp_path, story)


def test_a_record_above_distributedlogs_limit_has_an_entry_of_its_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        payloads = [b"a", b"b" * RECORD_BYTES_MAX, b"c", b"d" * 1_048_588, b"e"]
        for txid, payload in enumerate(payloads):
            put(writer, txid, payload)
        with pytest.raises(LogRecordTooLong):
            put(writer, 9, b"x" * (RECORD_BYTES_MAX + 1))
        await writer.close()
        assert [len(entry) for entry in await entries_of(world, log, 1)] == [1] * 5
        assert [bytes(r.payload) for _, r in await read_all(log)] == payloads

    run_world(tmp_path, story)


def test_append_is_refused_when_too_much_waits(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(waiting_bytes_max=1000, record_bytes_max=1000)
        writer = await log.open_writer(Listener())
        put(writer, 0, b"x" * 600)
        with pytest.raises(OverCapacity):
            put(writer, 1, b"x" * 500)
        put(writer, 1, b"x" * 400)
        await writer.flush()
        put(writer, 2, b"x" * 1000)
        await writer.close()
        assert [record.txid for _, record in await read_all(log)] == [0, 1, 2]

    run_world(tmp_path, story)


def test_a_control_record_shows_the_last_records_to_others(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(control_flush_ms=5, lac_poll_ms=1)
        writer = await log.open_writer(Listener())
        await write(writer, 0, 1)
        reader = await (await world.log(client_id="other", lac_poll_ms=1)).open_reader(INITIAL)
        found: list[int] = []
        while len(found) < 2:
            await reader.wait_for_more()
            found += [record.txid for _, record in await reader.read(1000)]
        assert found == [0, 1]
        await reader.close()
        await writer.close()
        records = [entry[-1] for entry in await entries_of(world, log, 1)]
        assert [(r.is_control, r.txid, r.position) for r in records] == [
            (False, 1, 2),
            (True, 1, 2),
        ]

    run_world(tmp_path, story)


def test_a_full_segment_is_followed_by_another_while_records_flow(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener, RecordState())
        writer.rolling = RollingPolicy(segment_bytes=2000, segment_ms=0)
        txid = 0
        while len(log.segments) < 5:
            last = listener.confirmed[-1] if listener.confirmed else -1
            if txid - last < 500:  # else more come than go, and rolls wait behind them
                put(writer, txid)
                txid += 1
            await asyncio.sleep(0)
        await writer.flush()
        assert listener.confirmed == sorted(set(listener.confirmed))
        await writer.close()
        assert await txids_of(log) == list(range(txid))
        segments = log.segments.segments
        for before, after in pairwise(segments):
            assert after.first_txid == before.last_txid
            assert after.start_sequence_id == before.start_sequence_id + before.record_count

    run_world(tmp_path, story)


def test_an_old_segment_is_followed_by_another(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.rolling = RollingPolicy(0, 1000)
        await write(writer, 0)
        world.clock.advance_ms(999)
        await write(writer, 1)
        assert len(log.segments) == 1
        world.clock.advance_ms(1)
        await write(writer, 2)
        await writer._chain.settled()
        assert [s.in_progress for s in log.segments] == [False, True]
        await writer.close()
        assert await txids_of(log) == [0, 1, 2]
        assert [s.record_count for s in log.segments] == [3, 0]
        assert [s.last_txid for s in log.segments] == [2, 2]

    run_world(tmp_path, story)


def test_an_owner_that_writes_nothing_leaves_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        before = await world.dump()
        for end in ("close", "abort"):
            writer = await log.open_writer(Listener())
            await writer.roll()
            await getattr(writer, end)()
        assert await world.dump() == before

    run_world(tmp_path, story)


def test_the_first_failure_stops_everything(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(unacked_entries_max=2)
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)

        def fail_second(request: Request) -> StatusCode | None:
            is_second = isinstance(request, AddRequest) and request.entry_id >= 2
            return StatusCode.EIO if is_second else None

        world.bookie.fault = fail_second
        for txid in range(1, 10):
            put(writer, txid)
            if txid < 3:
                await asyncio.sleep(0)
        with pytest.raises(CoreError):
            await writer.flush()
        assert len(listener.errors) == 1
        with pytest.raises(type(listener.errors[0])):
            put(writer, 10)
        with pytest.raises(CoreError):
            await writer.flush()
        await writer.close()  # nothing to complete: the log is given up
        world.bookie.fault = lambda _: None
        again = await log.open_writer(Listener())
        found = await txids_of(log)
        assert found == list(range(len(found)))
        assert len(found) > listener.last
        assert again.last_txid == found[-1]
        await again.close()

    run_world(tmp_path, story)


def test_a_failed_writer_makes_room_for_the_next_by_itself(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.fault = lambda r: StatusCode.EIO if isinstance(r, AddRequest) else None
        put(writer, 1)
        with pytest.raises(CoreError):
            await writer.flush()
        world.bookie.fault = lambda _: None
        again = await log.open_writer(Listener())
        await write(again, 1)
        await again.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


def test_without_a_ledger_for_the_next_segment_the_old_one_goes_on(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        ledgers = log._ledgers
        create = ledgers.create_ledger

        async def no_bookies(*_args: object) -> None:
            raise NotEnoughBookies("none")

        ledgers.create_ledger = no_bookies  # type: ignore[assignment, method-assign]
        await writer.roll()
        await write(writer, 1)
        assert (len(log.segments), listener.errors) == (1, [])
        ledgers.create_ledger = create  # type: ignore[method-assign]
        world.clock.advance_ms(60_000)
        await writer.roll()
        await write(writer, 2)
        assert len(log.segments) == 2
        await writer.close()
        assert await txids_of(log) == [0, 1, 2]

    run_world(tmp_path, story)


def test_without_any_ledger_the_writer_fails(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(ensemble_size=2, write_quorum=2, ack_quorum=2)
        listener = Listener()
        writer = await log.open_writer(listener)
        put(writer, 0)
        with pytest.raises(NotEnoughBookies):
            await writer.flush()
        assert len(listener.errors) == 1
        with pytest.raises(NotEnoughBookies):
            put(writer, 1)
        await writer.abort()

    run_world(tmp_path, story)


def test_abort_tells_who_waits_but_not_the_listener(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1)
        flushing = asyncio.get_running_loop().create_task(writer.flush())
        await settle()
        await writer.abort()
        with pytest.raises(Unavailable):
            await flushing
        world.bookie.release()
        await settle()
        assert (listener.last, listener.errors) == (0, [])

    run_world(tmp_path, story)


def test_close_waits_for_a_roll_under_way(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        await write(writer, 0)
        rolling = asyncio.get_running_loop().create_task(writer.roll())
        await asyncio.sleep(0)
        put(writer, 1)
        await writer.close()
        await rolling
        assert all(not s.in_progress for s in log.segments)
        assert await txids_of(log) == [0, 1]
        state = RecordState()
        again = await log.open_writer(Listener(), state)
        assert (state.txids, state.replayed) == ([0, 1], 0)
        await again.close()

    run_world(tmp_path, story)


def test_bookies_that_do_not_answer_at_open_leave_the_log_free(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await writer.abort()
        world.bookie.fault = lambda _: StatusCode.LOCAL_UNAVAILABLE
        with pytest.raises(BookieUnavailable):
            await log.open_writer(Listener())
        world.bookie.fault = lambda _: None
        writer = await log.open_writer(Listener())
        assert writer.last_txid == 0
        await writer.close()

    run_world(tmp_path, story)


def test_numbers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(waiting_bytes_max=100, record_bytes_max=100)
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener(), RecordState())
        metrics = namespace.metrics
        await write(writer, 0, 1, 2)
        put(writer, 3, b"x" * 40)
        put(writer, 4, b"x" * 40)
        with pytest.raises(OverCapacity):
            put(writer, 5, b"x" * 40)
        await writer.roll()
        await writer.close()
        assert (metrics.records_total, metrics.entries_total) == (5, 2)
        assert metrics.record_bytes_total == 3 * 22 + 2 * 60
        assert (metrics.segments_started_total, metrics.segments_completed_total) == (2, 2)
        assert metrics.control_records_total == 3  # no snapshot of nothing, two indexes
        assert (metrics.refused_appends_total, metrics.writers) == (1, 0)
        writer = await log.open_writer(Listener(), RecordState())
        put(writer, 9)
        await writer.flush()
        assert metrics.writers == 1
        world.bookie.fault = lambda _: StatusCode.EIO
        put(writer, 10)
        with pytest.raises(CoreError):
            await writer.flush()
        world.bookie.fault = lambda _: None
        await (await log.open_writer(Listener(), RecordState())).close()
        assert (metrics.failed_writers_total, metrics.segments_recovered_total) == (1, 1)
        assert (metrics.replayed_records_total, metrics.writers) == (1, 0)

    run_world(tmp_path, story)


def test_rolls_that_are_asked_for_at_once_come_one_after_the_other(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        await write(writer, 0)
        async with asyncio.TaskGroup() as group:
            rolling = group.create_task(writer.roll())
            while not log.segments.at_or_after(2):  # noqa: ASYNC110 - the log has no event for it
                await asyncio.sleep(0)
            put(writer, 1)
            for _ in range(2):
                group.create_task(writer.roll())
            await rolling
        await writer.close()
        assert await txids_of(log) == [0, 1]

    run_world(tmp_path, story)


def test_a_record_is_confirmed_with_its_own_entry_not_with_an_earlier_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 0)
        world.bookie.hold()
        for txid in (1, 2, 3):
            put(writer, txid)
            await settle()
        assert (world.bookie.held_count, listener.last) == (3, 0)
        for txid in (1, 2, 3):
            world.bookie.release(1)
            await settle()
            assert (listener.last, writer.confirmed_txid) == (txid, txid)
        world.bookie.release()
        await writer.close()

    run_world(tmp_path, story)
