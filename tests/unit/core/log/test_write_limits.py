"""How many records may be unconfirmed, and waiting until there is room."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import LogRecordTooLong, OverCapacity, Unavailable
from tailrace.core.log.transmit import TransmitPolicy
from tailrace.core.log.write_limits import NO_LIMIT, OutstandingWrites, WriteLimits
from tests.unit.core.log.world import Listener, World, put, run_world, settle, write

if TYPE_CHECKING:
    from tailrace.core.log.writer import LogWriter


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), max_size=60),
    st.tuples(*[st.sampled_from([NO_LIMIT, 1, 2, 5])] * 3),
    st.booleans(),
)
def test_limits_are_what_counting_says(
    steps: list[tuple[int, int]], limits: tuple[int, int, int], is_dark: bool
) -> None:
    shared = OutstandingWrites(limits[2])
    exceeded = []
    writers = [
        WriteLimits(limit, shared, is_dark=is_dark, on_exceeded=lambda: exceeded.append(1))
        for limit in limits[:2]
    ]
    counts = [0, 0]
    for who, change in steps:
        if change <= 0:
            release = min(-change, counts[who])
            writers[who].release(release)
            counts[who] -= release
            continue
        is_full = counts[who] >= limits[who] > 0 or sum(counts) >= limits[2] > 0
        assert writers[who].has_room is (is_dark or not is_full)
        before = len(exceeded)
        if is_full and not is_dark:
            with pytest.raises(OverCapacity):
                writers[who].check()
        else:
            writers[who].check()
            writers[who].add(change)
            counts[who] += change
        assert len(exceeded) - before == is_full
    assert [w.outstanding for w in writers] == counts
    assert shared.count == sum(counts)
    writers[0].close()
    assert shared.count == counts[1]


def test_a_writer_takes_no_more_than_its_limit(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(outstanding_writes_max=2, outstanding_writes_dark=False)
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        put(writer, 0)
        writer.append_set(1, [b"a", b"b"])
        with pytest.raises(OverCapacity, match="3 records of this log"):
            put(writer, 2)
        assert namespace.metrics.write_limit_exceeded_total == 1
        await writer.flush()
        put(writer, 2)
        await writer.roll()
        put(writer, 3)
        put(writer, 4)
        with pytest.raises(OverCapacity):
            put(writer, 5)
        writer.set_outstanding_limit(3)
        put(writer, 5)
        with pytest.raises(OverCapacity):
            put(writer, 6)
        writer.set_outstanding_limit(NO_LIMIT)
        put(writer, 6)
        with pytest.raises(ValueError, match="above 0"):
            writer.set_outstanding_limit(0)
        await writer.close()

    run_world(tmp_path, story)


def test_in_dark_mode_what_is_above_the_limit_is_only_counted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(outstanding_writes_max=1)  # dark is the default, as Java's
        await namespace.create_log("s")
        writer = await (await namespace.open_log("s")).open_writer(Listener())
        await write(writer, 0, 1, 2)
        assert namespace.metrics.write_limit_exceeded_total == 2
        await writer.close()

    run_world(tmp_path, story)


def test_logs_of_a_namespace_share_a_limit(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(outstanding_writes_of_all_max=3, outstanding_writes_dark=False)
        writers = []
        for name in ("a", "b"):
            await namespace.create_log(name)
            writers.append(await (await namespace.open_log(name)).open_writer(Listener()))
        first, second = writers
        await write(first, 0)
        await write(second, 0)
        world.bookie.hold()
        put(first, 1)
        put(first, 2)
        put(second, 1)
        for writer in writers:
            with pytest.raises(OverCapacity, match="3 records of all logs"):
                put(writer, 9)
        waiting = asyncio.create_task(second.room())
        await settle()
        assert not waiting.done()
        await first.abort()  # what it used is free again
        await waiting
        put(second, 2)
        world.bookie.release()
        await second.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("limited", ["bytes", "records"])
def test_whoever_waits_for_room_is_never_refused(tmp_path: Path, limited: str) -> None:
    async def story(world: World) -> None:
        log = await world.log(
            waiting_bytes_max=100 if limited == "bytes" else 10_000,
            record_bytes_max=100,
            unacked_entries_max=1,
            outstanding_writes_max=3 if limited == "records" else NO_LIMIT,
            outstanding_writes_dark=False,
        )
        writer = await log.open_writer(Listener())
        for policy in (TransmitPolicy.immediate(), TransmitPolicy.buffered(1_000_000)):
            writer.set_policy(policy)
            waited = 0
            for txid in range(writer.last_txid + 1, writer.last_txid + 50):
                room = asyncio.create_task(writer.room(40))
                await asyncio.sleep(0)
                waited += not room.done()
                await room
                put(writer, max(txid, 0), b"x" * 40)
            assert waited, "there was always room"
        with pytest.raises(LogRecordTooLong):
            await writer.room(101)
        await writer.close()
        with pytest.raises(Unavailable):
            await writer.room()

    run_world(tmp_path, story)


def test_waiting_for_room_ends_with_the_writer(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(waiting_bytes_max=100, record_bytes_max=100, unacked_entries_max=1)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1, b"x" * 100)
        await settle()
        put(writer, 2, b"x" * 100)
        waiting = asyncio.create_task(writer.room(1))
        await settle()
        await writer.abort()
        with pytest.raises(Unavailable):
            await waiting
        world.bookie.release()

    run_world(tmp_path, story)


def test_who_gives_up_waiting_for_room_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(outstanding_writes_max=1, outstanding_writes_dark=False)
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        world.bookie.hold()
        put(writer, 1)
        patient = asyncio.create_task(writer.room())
        for _ in range(20):
            hasty = asyncio.create_task(writer.room())
            await settle(2)
            hasty.cancel()
            await asyncio.wait([hasty])
            assert hasty.cancelled()
        assert not patient.done()
        assert len(log._context.limits.writes._waiting) == 1
        world.bookie.release()
        await patient
        assert len(log._context.limits.writes._waiting) == 0
        await writer.close()

    run_world(tmp_path, story)


def test_room_that_another_log_takes_is_waited_for_again(tmp_path: Path) -> None:
    class Greedy(Listener):
        def on_confirmed(self, txid: int) -> None:
            super().on_confirmed(txid)
            if txid == 1:
                put(writers[0], 2)  # before anybody else looks

    writers: list[LogWriter] = []

    async def story(world: World) -> None:
        namespace = world.namespace(outstanding_writes_of_all_max=1, outstanding_writes_dark=False)
        for name in ("a", "b"):
            await namespace.create_log(name)
            writers.append(await (await namespace.open_log(name)).open_writer(Greedy()))
        first, second = writers
        await write(first, 0)
        world.bookie.hold()
        put(first, 1)
        waiting = asyncio.create_task(second.room())
        await settle()
        world.bookie.release(1)
        await settle()
        assert first.confirmed_txid == 1
        assert not waiting.done()
        (waiter,) = namespace._context.limits.writes._waiting
        assert not waiter.done(), "it would look again and again"
        world.bookie.release()
        await waiting
        for writer in writers:
            await writer.close()

    run_world(tmp_path, story)
