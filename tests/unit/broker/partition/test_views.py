"""What a partition holds by key: exact, in bounded reads, and read once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from tailrace.broker.partition import view_reads
from tailrace.broker.partition.latest import LatestRecord
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.trimming import raise_log_start
from tailrace.broker.partition.view_reads import Allowance
from tailrace.broker.partition.views import PartitionViews
from tailrace.compaction.views.latest_offsets import SMALLEST_BYTES
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.job_pool import JobPool
from tailrace.protocol.ids import LedgerId, TopicPartition
from tailrace.protocol.records.record import Record, build_batch
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.key_oracle import inline, read_held
from tests.unit.broker.partition.test_cleaning import cleaning, compacted
from tests.unit.broker.partition.transaction_support import end, write

T = TypeVar("T")
Change = tuple[bytes | None, bytes | None]


async def opened() -> PartitionLog:
    world = make_world()
    world.topics.add("t")
    return await world.open("t")


async def put(log: PartitionLog, *changes: Change) -> None:
    records = [Record(offset=n, key=k, value=v, timestamp=5) for n, (k, v) in enumerate(changes)]
    data = memoryview(bytearray(build_batch(records)))
    await log.append(data, log.check(data))


def views_of(bytes_max: int = 1 << 20) -> PartitionViews:
    return PartitionViews(inline, bytes_max, ManualClock())


@in_loop
async def test_records_delete_markers_and_live_keys_are_counted() -> None:
    log, views = await opened(), views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"), (None, b"x"))
    await put(log, (b"a", None), (b"c", b""))
    assert await views.count(log, Allowance()) == (5, 5, 1, 1, 2, 0, None)
    found = await views.latest(log, 10, None, Allowance())
    assert found == (
        [LatestRecord(b"b", b"1", 1, 5), LatestRecord(b"a", None, 3, 5),
         LatestRecord(b"c", b"", 4, 5)],
        True, 0, None,
    )  # fmt: skip
    one = await views.latest(log, 10, b"c", Allowance())
    assert (one.records, one.is_whole) == ([LatestRecord(b"c", b"", 4, 5)], True)
    nobody = await views.latest(log, 10, b"nobody", Allowance())
    assert (nobody.records, nobody.is_whole) == ([], True)


@in_loop
async def test_what_was_aborted_or_is_undecided_does_not_count() -> None:
    log, views = await opened(), views_of()
    await put(log, (b"k", b"first"))
    await write(log, 7, 0, count=2)
    await end(log, 7, commit=False)
    await write(log, 8, 0, count=1)
    await end(log, 8)
    await write(log, 9, 0, count=3)
    await put(log, (b"later", b"x"))
    assert await views.count(log, Allowance()) == (6, 2, 0, 0, 1, 0, None)
    (found,) = (await views.latest(log, 10, None, Allowance())).records
    assert (found.value, found.offset) == (b"v0", 4)
    await end(log, 9)
    counted = await views.count(log, Allowance())
    assert (counted.end_offset, counted.records, counted.live_keys) == (11, 6, 2)


@in_loop
async def test_what_lies_before_the_log_start_does_not_count() -> None:
    log, views = await opened(), views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    assert (await views.count(log, Allowance())).records == 3
    await raise_log_start(log, 1)
    assert await views.count(log, Allowance()) == (3, 2, 0, 0, 2, 0, None)
    assert (await views.latest(log, 10, b"a", Allowance())).records == []
    await put(log, (b"d", b"1"))
    await raise_log_start(log, 4)
    assert await views.count(log, Allowance()) == (4, 0, 0, 0, 0, 0, None)


@in_loop
async def test_a_question_waits_for_what_a_cancelled_one_left_running() -> None:
    pool, gate, running = JobPool("views", 1), threading.Event(), threading.Event()
    seen: list[bool] = []

    class Clock(ManualClock):
        """Is asked at the beginning of each question, before any view is touched."""

        @override
        def now_ms(self) -> int:
            seen.append(running.is_set())
            return super().now_ms()

    def in_thread(work: Callable[[], T]) -> Awaitable[T]:
        def held_up() -> T:
            if isinstance(work, partial):  # it has a view in its hands
                running.set()
                gate.wait()
            result = work()
            running.clear()
            return result

        return pool.call(held_up, 20)

    log = await opened()
    await put(log, (b"a", b"1"))
    views = PartitionViews(in_thread, 1 << 20, Clock())
    first = asyncio.create_task(views.count(log, Allowance()))
    await asyncio.to_thread(running.wait)
    seen.clear()
    second = asyncio.create_task(views.count(log, Allowance()))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    asyncio.get_running_loop().call_later(0.01, gate.set)
    assert (await second).live_keys == 1
    assert seen
    assert not any(seen)
    await pool.close(1)


@in_loop
async def test_only_what_is_new_is_read() -> None:
    log, views = await opened(), views_of()
    await put(log, *((b"%d" % n, b"x" * 500) for n in range(100)))
    await log.roll()
    first, again = Allowance(), Allowance()
    await views.count(log, first)
    await put(log, (b"new", b"y"))
    assert (await views.count(log, again)).live_keys == 101
    assert 0 < again.read_bytes < 200 < 50_000 < first.read_bytes
    nothing = Allowance()
    await views.count(log, nothing)
    assert (await views.latest(log, 10, b"new", nothing)).records[0].offset == 100
    assert nothing.read_bytes == 0


@in_loop
async def test_what_the_cleaner_counted_is_not_read_again() -> None:
    world = make_world()
    log, views = await compacted(world, min_cleanable_dirty_ratio="0"), views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await log.roll()
    await put(log, (b"a", None), (b"c", b"x" * 1000))
    await log.roll()
    await put(log, (b"a", None), (b"b", b"2"))
    await log.roll()
    await views.count(log, Allowance())
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
    again = Allowance()
    counted = await views.count(log, again)
    held = await read_held(log)
    assert counted == (6, *held[:3], 2, 0, None)
    assert counted.records == 3
    assert again.read_bytes < 200  # of the last segment, which stayed as it was


@in_loop
async def test_a_log_that_begins_within_a_cleaned_segment_is_counted_from_there() -> None:
    world = make_world()
    log, views = await compacted(world, min_cleanable_dirty_ratio="0"), views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"))
    await log.roll()
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
    assert (await views.count(log, Allowance())).records == 3
    await raise_log_start(log, 2)
    assert await views.count(log, Allowance()) == (4, 2, 0, 0, 2, 0, None)


@in_loop
async def test_a_segment_that_was_cleaned_in_part_is_counted_anew() -> None:
    """The pass ends in the middle of it, as its key summary holds 90 keys."""
    world = make_world()
    log, views = await compacted(world, min_cleanable_dirty_ratio="0"), views_of()
    await put(log, *((b"%d" % n, b"1") for n in range(80)))
    await log.roll()
    await put(log, (b"x", b"1"), (b"x", None), (b"x", b"3"))
    for number in range(20):
        await put(log, (b"new-%d" % number, b"1"))
    await log.roll()
    assert (await views.count(log, Allowance())).records == 103
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
    asked = Allowance()
    assert len((await views.latest(log, 1000, None, asked)).records) == 101
    assert asked.read_bytes == 0  # cleaning moved no latest offset
    held = await read_held(log)
    assert held.records == 101
    assert await views.count(log, Allowance()) == (103, *held[:3], 101, 0, None)


@in_loop
async def test_a_segment_that_is_swapped_meanwhile_is_counted_by_the_next_question() -> None:
    world = make_world()
    world.topics.add("t")
    log, swaps = await world.open("t"), [1]

    async def swapping(work: Callable[[], Any]) -> Any:
        if swaps:
            stored = world.log("t")
            stored.segments[0].ledger_id = LedgerId(1000 + swaps.pop())
            stored.rewrites += 1
        return work()

    await put(log, (b"a", b"1"))
    await log.roll()
    await put(log, (b"b", b"1"))
    views = PartitionViews(swapping, 1 << 20, world.clock)
    first = await views.count(log, Allowance())
    assert (first.records, first.unread_offsets) == (0, 2)
    assert await views.count(log, Allowance()) == (2, 2, 0, 0, 2, 0, None)


@in_loop
async def test_a_deleted_key_is_gone_with_its_marker() -> None:
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0", delete_retention_ms="0")
    views = views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await put(log, (b"a", None))
    await log.roll()
    assert len((await views.latest(log, 10, None, Allowance())).records) == 2
    async with cleaning(world) as pool:
        await pool.clean_filthiest()
        world.clock.advance_ms(1000)
        await put(log, (b"c", b"1"))
        await log.roll()
        await pool.clean_filthiest()
    held = await read_held(log)
    assert [each.key for each in held.latest] == [b"b", b"c"]
    assert (await views.latest(log, 10, None, Allowance())).records == held.latest
    assert (await views.latest(log, 10, b"a", Allowance())).records == []
    assert (await views.count(log, Allowance())).tombstones == 0


@in_loop
async def test_a_key_whose_marker_went_before_anybody_asked_again_is_not_live() -> None:
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0", delete_retention_ms="1000")
    views = PartitionViews(inline, 1 << 20, world.clock)
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await log.roll()
    assert (await views.count(log, Allowance())).live_keys == 2
    await delete_for_good(world, log)
    held = await read_held(log)
    assert [each.key for each in held.latest] == [b"b", b"c"]
    counted = await views.count(log, Allowance())
    assert (counted.records, counted.live_keys, counted.bound) == (2, 2, None)
    assert (await views.latest(log, 10, None, Allowance())).records == held.latest
    world.clock.advance_ms(10_000)
    nothing = Allowance()
    assert (await views.count(log, nothing)).live_keys == 2
    assert nothing.read_bytes == 0, "nobody cleaned it meanwhile"


@in_loop
async def test_a_key_whose_marker_goes_while_the_log_is_read_is_not_live() -> None:
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0", delete_retention_ms="1000")
    steps = [1]

    async def cleaned_meanwhile(work: Callable[[], Any]) -> Any:
        done = work()
        if steps:
            steps.clear()
            await delete_for_good(world, log)
        return done

    views = PartitionViews(cleaned_meanwhile, 1 << 20, world.clock)
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await log.roll()
    first = await views.count(log, Allowance())
    assert (first.live_keys, first.bound) == (0, "2 offsets are not read yet, ask again")
    assert (await views.count(log, Allowance())).live_keys == 2
    assert len((await views.latest(log, 10, None, Allowance())).records) == 2


@in_loop
async def test_a_view_is_as_old_as_the_last_question_that_read_all_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_reads, "READ_BYTES", 1)
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0", delete_retention_ms="1000")
    views = PartitionViews(inline, 1 << 20, world.clock)
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await log.roll()
    assert (await views.count(log, Allowance())).live_keys == 2
    async with cleaning(world) as pool:
        for number in range(3):  # asked often enough, it is never read twice
            await put(log, (b"new", b"%d" % number))
            await log.roll()
            assert await pool.clean_filthiest()
            world.clock.advance_ms(600)
            asked = Allowance()
            assert len((await views.latest(log, 10, None, asked)).records) == 3
            assert 0 < asked.read_bytes < 100
        await put(log, (b"a", None))
        await log.roll()
        assert await pool.clean_filthiest()
        world.clock.advance_ms(600)
        assert (await views.count(log, Allowance(0))).unread_offsets > 0
        world.clock.advance_ms(600)
        await put(log, (b"c", b"1"))
        await log.roll()
        assert await pool.clean_filthiest()
    assert (await views.count(log, Allowance())).live_keys == 3, "a is not among them"


async def delete_for_good(world: World, log: PartitionLog) -> None:
    """Have a key's delete marker written, cleaned, and cleaned away."""
    await put(log, (b"a", None))
    await log.roll()
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        world.clock.advance_ms(1001)
        await put(log, (b"c", b"1"))
        await log.roll()
        assert await pool.clean_filthiest()


@in_loop
async def test_what_takes_as_long_as_there_are_keys_is_done_in_the_thread() -> None:
    log, done = await opened(), 0

    async def in_thread(work: Callable[[], Any]) -> Any:
        nonlocal done
        done += 1
        return work()

    views = PartitionViews(in_thread, 1 << 20, ManualClock())
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await views.count(log, Allowance())
    done = 0
    assert (await views.count(log, Allowance())).live_keys == 2
    assert done == 1, "counting"
    assert len((await views.latest(log, 10, None, Allowance())).records) == 2
    assert done == 3, "offsets, and the records at them"


@in_loop
async def test_the_records_of_an_answer_are_not_looked_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, asked = await opened(), views_of()
    for number in range(4):
        await put(log, (b"%d" % number, b"x"))
    await asked.count(log, Allowance())
    monkeypatch.setattr(view_reads, "READ_BYTES", 1)
    monkeypatch.setattr("tailrace.broker.partition.views.Allowance", lambda: Allowance(1))
    found = await asked.latest(log, 10, None, Allowance())
    assert [each.key for each in found.records] == [b"0"]
    assert (found.is_whole, found.bound) == (False, "there are more than 1 keys")


@in_loop
async def test_a_question_reads_so_much_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_reads, "READ_BYTES", 1)
    log, views = await opened(), views_of()
    for number in range(9):
        await put(log, (b"%d" % (number % 4), b"x"))
        if number % 2:
            await log.roll()
    told = []
    for _ in range(9):
        counted = await views.count(log, Allowance(1))
        told.append((counted.records, counted.unread_offsets, counted.bound))
        listed = await views.latest(log, 10, None, Allowance(0))
        assert listed.is_whole == (counted.bound is None)
    assert told[0] == (1, 8, "8 offsets are not read yet, ask again")
    assert [each[0] for each in told] == list(range(1, 10))
    assert told[-1][1:] == (0, None)
    assert counted.live_keys == 4


@in_loop
async def test_more_keys_than_there_is_room_for_are_told() -> None:
    log, views = await opened(), views_of(2 * SMALLEST_BYTES)
    for part in range(3):
        await put(log, *((b"%d-%d" % (part, n), b"x") for n in range(1000)))
    assert (await views.count(log, Allowance())).live_keys == 3000
    await put(log, *((b"more-%d" % n, b"x") for n in range(1000)))
    counted = await views.count(log, Allowance())
    assert (counted.records, counted.live_keys, counted.unread_offsets) == (4000, None, 0)
    assert counted.bound is not None
    assert "live keys: there are more than the 3" in counted.bound
    listed = await views.latest(log, 10, b"more-999", Allowance())
    assert (listed.records, listed.is_whole) == ((), False)
    assert "admin.http.views.bytes" in (listed.bound or "")
    await raise_log_start(log, 3500)
    assert (await views.count(log, Allowance())).live_keys == 500  # there is room again


@in_loop
async def test_views_make_room_for_each_other() -> None:
    world = make_world()
    views = views_of(4 * SMALLEST_BYTES)
    logs = []
    for name in "abc":
        world.topics.add(name)
        logs.append(await world.open(name))
        await put(logs[-1], (b"k", b"1"))
    for log in logs:
        await views.count(log, Allowance())
    await put(logs[2], *((b"%d" % n, b"x") for n in range(5000)))
    assert (await views.count(logs[2], Allowance())).live_keys == 5001
    first = Allowance()
    await views.count(logs[0], first)
    assert first.read_bytes > 0  # it was let go, and made anew


@in_loop
async def test_a_partition_that_is_opened_again_is_read_again() -> None:
    world = make_world()
    world.topics.add("t")
    views = views_of()
    log = await world.open("t")
    await put(log, (b"k", b"1"))
    await views.count(log, Allowance())
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    again, other = await world.open("t"), await opened()
    assert again is not log
    await views.count(other, Allowance())
    anew = Allowance()
    assert (await views.count(again, anew)).live_keys == 1
    assert anew.read_bytes > 0


@in_loop
async def test_keys_are_shown_up_to_a_number() -> None:
    log, views = await opened(), views_of()
    await put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    found = await views.latest(log, 1, None, Allowance())
    assert [each.value for each in found.records] == [b"1"]
    assert (found.is_whole, found.bound) == (False, "there are more than 1 keys")


@in_loop
async def test_a_batch_that_cannot_be_read_is_named() -> None:
    world = make_world()
    world.topics.add("t")
    log, views = await world.open("t"), views_of()
    await put(log, (b"a", b"1"))
    await put(log, (b"b", b"1"))
    damage(world, 1)
    log.tail.clear()
    with pytest.raises(CorruptData, match="t-0: batch at offset 1"):
        await views.count(log, Allowance())


def damage(world: World, offset: int) -> None:
    log = world.log("t")
    for segment in log.segments:
        for at, stored in enumerate(segment.records):
            if stored.record.txid == offset:
                data = bytearray(stored.record.payload)
                data[-2] ^= 1
                record = stored.record._replace(payload=memoryview(data))
                segment.records[at] = stored._replace(record=record)


@pytest.mark.parametrize("seed", range(5))
@in_loop
async def test_it_holds_what_a_reader_finds(seed: int) -> None:
    """Rolls, truncations and questions of every size, in any order."""
    random = Random(seed)
    log, views = await opened(), views_of(64 * SMALLEST_BYTES)
    for _ in range(40):
        what = random.choice(["put", "put", "put", "roll", "trim", "ask"])
        if what == "put":
            await put(log, *(change(random) for _ in range(random.randint(1, 5))))
        elif what == "roll":
            await log.roll()
        elif what == "trim":
            await raise_log_start(log, random.randint(log.log_start_offset, log.high_watermark))
        else:
            await views.count(log, Allowance(random.choice([0, 100, 10_000])))
        counted = await views.count(log, Allowance())
        held = await read_held(log)
        assert counted == (log.high_watermark, *held[:3], held.live_keys, 0, None)
        assert list((await views.latest(log, 99, None, Allowance())).records) == held.latest


def change(random: Random) -> Change:
    return random.choice([None, b"", b"a", b"b", b"c"]), random.choice([None, b"", b"x"])
