"""The cleaner's pool over real partitions: what is cleaned, what is left alone, what fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from typing_extensions import override

from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.cleanable_logs import CleanablePartitions
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.courtesy import PATIENT_BYTES
from tailrace.compaction.cleaner.means import BLOCK_BYTES, SMALL_BLOCK_BYTES
from tailrace.compaction.cleaner.patience import LONG_S, Patience
from tailrace.compaction.cleaner.pool import RETRY_MS_FIRST, RETRY_MS_MAX, CleanerPool, retry_ms
from tailrace.compaction.cleaner.walks import Walks
from tailrace.core.errors import BadVersion, ColdStorageDisabled, CoreError, Unavailable
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.record import Record, build_batch
from tests.unit.broker.fakes import FakeLog, World, make_world
from tests.unit.broker.loops import in_loop, until
from tests.unit.broker.partition.key_oracle import read_held
from tests.unit.compaction.cleaner.computing import InlineComputer

CONFIG = CleanerConfig(dedupe_buffer_bytes=24 * 101)
Table = dict[bytes, bytes | None]


@asynccontextmanager
async def cleaning(world: World) -> AsyncIterator[CleanerPool]:
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    pool = CleanerPool(logs.round, world.clock, CONFIG, InlineComputer)
    try:
        yield pool
    finally:
        await pool.close()


async def compacted(world: World, topic: str = "t", **configs: str) -> PartitionLog:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    world.topics.add(topic, configs={"cleanup.policy": "compact"} | given)
    return await world.open(topic)


async def put(log: PartitionLog, table: Table, *changes: tuple[bytes, bytes | None]) -> None:
    """Append one batch and end its segment."""
    records = [Record(offset=n, key=k, value=v, timestamp=1) for n, (k, v) in enumerate(changes)]
    data = memoryview(bytearray(build_batch(records)))
    await log.append(data, log.check(data))
    await log.roll()
    table.update(changes)


async def held(log: PartitionLog) -> Table:
    """Return what a reader from the start has at the end, from the log itself."""
    return (await read_held(log)).table


class FailingSteps:
    """Has the n-th step that changes a `FakeLog` fail, or something happen before it."""

    def __init__(
        self,
        log: FakeLog,
        *,
        at: int,
        error: CoreError | None,
        act: Callable[[], None] = lambda: None,
    ) -> None:
        self._left, self._error, self._act = at, error, act
        self._log, self._rewrite, self._set_data = log, log.rewrite, log.set_data
        log.rewrite = self._begin  # type: ignore[method-assign]
        log.set_data = self._failing(log.set_data)  # type: ignore[method-assign]

    def restore(self) -> None:
        """Let everything go well from now on."""
        self._log.rewrite = self._rewrite  # type: ignore[method-assign]
        self._log.set_data = self._set_data  # type: ignore[method-assign]

    async def _begin(self, lssns: Sequence[int], *, merges: bool = False) -> Any:
        rewrite: Any = await self._rewrite(lssns, merges=merges)
        for name in ("append", "finish", "commit"):
            setattr(rewrite, name, self._failing(getattr(rewrite, name)))
        return rewrite

    def _failing(self, step: Callable[..., Awaitable[Any]]) -> Any:
        async def failing(*args: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self._act()
                if self._error is not None:
                    raise self._error
            return await step(*args)

        return failing


async def three(world: World, topic: str = "t", **configs: str) -> tuple[PartitionLog, Table]:
    """Return a log of three segments in which keys are replaced and deleted."""
    log, table = await compacted(world, topic, **configs), Table()
    await put(log, table, (b"a", b"1"), (b"b", b"1"))
    await put(log, table, (b"a", b"2"), (b"c", b"2"))
    await put(log, table, (b"b", None), (b"a", b"3"))
    return log, table


@in_loop
async def test_the_latest_of_each_key_is_left_and_the_rest_is_noted_as_clean() -> None:
    world = make_world()
    log, table = await three(world)
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        assert await held(log) == table
        counts = await read_held(log)
        assert counts[:3] == (3, 1, 0)
        assert counts.live_keys == 2
        (look,) = await pool.plan()
        assert (look.first_dirty, look.cleanable_bytes, look.is_due) == (6, 0, False)
        assert not await pool.clean_filthiest()
        assert pool.metrics.passes_total == 1
    done = await CleanablePartition(log).checkpoint()
    assert done.bytes_before > done.bytes_after > 0
    totals = [each async for _, each in log.segments.all_totals()]
    assert [(each.records, each.tombstones, each.keys) for each in totals[1:3]] == [
        (1, 0, 1), (2, 1, 2),
    ]  # fmt: skip


@in_loop
async def test_a_pass_leaves_time_to_clients_that_write_and_none_to_those_that_do_not() -> None:
    world = make_world()
    for topic, writes in (("quiet", 0), ("busy", 1)):
        await three(world, topic)
        written = count(5, writes)
        logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
        config = replace(CONFIG, io_courtesy_bytes_per_second=10_000.0)
        counted = partial(next, written)
        pool = CleanerPool(logs.round, world.clock, config, InlineComputer, counted)
        assert await pool.clean_filthiest()
        pool.refresh_metrics()
        assert (pool.metrics.yielded_seconds_total > 0) == bool(writes)
        await pool.close()


@in_loop
@pytest.mark.parametrize(
    ("writes", "floor", "gives_way", "blocks_seen"),
    [
        (0, 10_000.0, False, {BLOCK_BYTES}),
        # It takes two looks to see that somebody writes.
        (1, 10_000.0, True, {BLOCK_BYTES, SMALL_BLOCK_BYTES}),
        (1, PATIENT_BYTES, True, {BLOCK_BYTES, SMALL_BLOCK_BYTES}),
        (1, PATIENT_BYTES + 1, False, {BLOCK_BYTES, SMALL_BLOCK_BYTES}),
    ],
)
async def test_a_pass_waits_for_a_free_core_where_clients_write_little(
    writes: int,
    floor: float,
    gives_way: bool,
    blocks_seen: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`writes`: bytes that clients wrote since the last look; `floor`: what is left to the pass."""
    steps: list[object] = []
    blocks: set[int] = set()
    read = CleanablePartition.read

    class Watched(InlineComputer):
        @override
        def __call__(self, step: Any, /, *arguments: Any) -> Any:
            steps.append(step)
            return super().__call__(step, *arguments)

    def watched(log: CleanablePartition, lssn: int, block_bytes: Callable[[], int]) -> Any:
        blocks.add(block_bytes())
        return read(log, lssn, block_bytes)

    monkeypatch.setattr(CleanablePartition, "read", watched)
    world = make_world()
    await three(world, "t")
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    config = replace(CONFIG, io_courtesy_bytes_per_second=floor)
    counted = partial(next, count(5, writes))
    pool = CleanerPool(logs.round, world.clock, config, Watched, counted)
    assert await pool.clean_filthiest()
    assert pool.metrics.passes_total == 1
    await pool.close()
    assert blocks == blocks_seen
    assert (Walks.when_idle in steps) == gives_way
    assert (Walks.add in steps, Walks.filter in steps) == (not gives_way, not gives_way)


@in_loop
async def test_a_pass_that_found_no_free_core_takes_its_share_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[object] = []

    class Watched(InlineComputer):
        @override
        def __call__(self, step: Any, /, *arguments: Any) -> Any:
            steps.append(step)
            return super().__call__(step, *arguments)

    class Short(Patience):
        @override
        def took(self, seconds: float, now_s: float) -> None:
            super().took(LONG_S + 1 + seconds, now_s)

    monkeypatch.setattr("tailrace.compaction.cleaner.pool.Patience", Short)
    world = make_world()
    await three(world, "t")
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    config = replace(CONFIG, io_courtesy_bytes_per_second=10_000.0)
    counted = partial(next, count(5))
    pool = CleanerPool(logs.round, world.clock, config, Watched, counted)
    assert await pool.clean_filthiest()
    await pool.close()
    blocks = [each for each in steps if each in (Walks.when_idle, Walks.add, Walks.filter)]
    assert blocks[0] is Walks.when_idle
    assert blocks[-1] is Walks.filter


@in_loop
async def test_what_clients_wrote_before_a_pass_does_not_slow_it_down() -> None:
    world = make_world()
    written = 0
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    config = replace(CONFIG, io_courtesy_bytes_per_second=10_000.0)
    pool = CleanerPool(logs.round, world.clock, config, InlineComputer, lambda: written)
    for topic in ("first", "second"):
        await three(world, topic)
        assert await pool.clean_filthiest()
        written += 10**6
    assert pool.metrics.passes_total == 2
    assert pool.status()["yielded_seconds"] == 0
    await pool.close()


@in_loop
async def test_a_pass_that_begins_beside_another_goes_at_the_rate_that_this_one_learned() -> None:
    world = make_world()
    await three(world, "first")
    await three(world, "second")
    written = count()
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    config = replace(CONFIG, io_courtesy_bytes_per_second=1.0)
    pool = CleanerPool(
        logs.round, world.clock, config, InlineComputer, lambda: min(next(written), 1)
    )

    def yielded() -> float:
        return float(pool.status()["yielded_seconds"])

    tasks = [asyncio.create_task(pool.clean_filthiest())]
    await until(lambda: yielded() > 0)
    before = yielded()
    tasks.append(asyncio.create_task(pool.clean_filthiest()))
    await until(lambda: yielded() > before and len(pool.status()["cleaning"]) == 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await pool.close()


@in_loop
async def test_delete_markers_go_once_readers_had_their_time() -> None:
    world = make_world()
    log, table = await three(world, delete_retention_ms="1000", min_cleanable_dirty_ratio="0")
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        assert (await held(log))[b"b"] is None
        world.clock.advance_ms(1001)
        await put(log, table, (b"d", b"4"))
        assert await pool.clean_filthiest()
        assert b"b" not in await held(log)
        assert await held(log) == {k: v for k, v in table.items() if v is not None}


@in_loop
async def test_the_filthiest_log_goes_first() -> None:
    world = make_world()
    async with cleaning(world) as pool:
        first, table = await three(world, "first")
        assert await pool.clean_filthiest()
        for _ in range(6):
            await put(first, table, (b"a", b"4"))
        await three(world, "second")
        plan = await pool.plan()
        assert [look.name for look in plan] == ["second-0", "first-0"]
        assert plan[1].is_due
        assert await pool.clean_filthiest()
        assert [look.name for look in await pool.plan() if look.is_due] == ["first-0"]


@in_loop
async def test_who_is_paused_is_left_alone() -> None:
    world = make_world()
    await three(world)
    async with cleaning(world) as pool:
        for names in ([], ["t-0"]):
            pool.pause(names)
            assert not await pool.clean_filthiest()
            pool.resume(names)
        assert await pool.clean_filthiest()


@in_loop
async def test_what_is_asked_for_is_cleaned_whatever_its_ratio() -> None:
    world = make_world()
    log, table = await three(world, min_cleanable_dirty_ratio="1")
    async with cleaning(world) as pool:
        assert not await pool.clean_filthiest()
        pool.run(["t-0"])
        assert await pool.clean_filthiest()
        assert await held(log) == table
        pool.run(["t-0"])
        assert not await pool.clean_filthiest(), "nothing is left"
        assert pool.status()["wanted"] == []


@in_loop
async def test_all_that_is_asked_for_is_cleaned_one_after_the_other() -> None:
    world = make_world()
    async with cleaning(world) as pool:
        for name in ("first", "second"):
            await three(world, name, min_cleanable_dirty_ratio="1")
        pool.pause(["second-0"])
        pool.run(["first-0", "second-0"])
        assert await pool.clean_filthiest()
        assert not await pool.clean_filthiest()
        pool.resume(["second-0"])
        assert await pool.clean_filthiest()
        assert not await pool.clean_filthiest()
        assert [look.cleanable_bytes for look in await pool.plan()] == [0, 0]
        assert pool.status()["wanted"] == []


@in_loop
async def test_a_worker_that_ends_after_a_pass_leaves_no_process_behind() -> None:
    computers: list[InlineComputer] = []

    def start(size_bytes: int, load_factor: float) -> InlineComputer:
        computers.append(InlineComputer(size_bytes, load_factor))
        return computers[-1]

    world = make_world()
    await three(world)
    logs = CleanablePartitions(world.broker.partitions, world.broker.topics)
    pool = CleanerPool(logs.round, world.clock, CONFIG, start)
    off = replace(CONFIG, enable=False)
    FailingSteps(world.log("t"), at=0, error=None, act=lambda: pool.use(off))
    pool.start()
    await until(lambda: len(pool._tasks) == 0)
    assert pool.metrics.passes_total == 1
    assert [each.is_closed for each in computers] == [True]
    await pool.close()


@in_loop
async def test_a_segment_that_cannot_be_rewritten_is_named_and_nothing_is_lost() -> None:
    """The rest is not cleaned either: a delete marker there may hide a value that is cold."""
    world = make_world()
    log, table = await three(world)
    stream = world.log("t")
    rewrite, reason = (
        stream.rewrite,
        "segment 1 of t-0 is in cold storage: set cold.storage.url to rewrite it",
    )

    async def refuse(lssns: Sequence[int]) -> Any:
        if 1 in lssns:
            raise ColdStorageDisabled(reason)
        return await rewrite(lssns)

    stream.rewrite = refuse  # type: ignore[method-assign]
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        assert [each["reason"] for each in pool.status()["uncleanable"]] == [reason]
        assert not await pool.clean_filthiest()
        assert (await held(log), log.notes.cleaned) == (table, None)
        stream.rewrite = rewrite  # type: ignore[method-assign]
        pool.run(["t-0"])
        assert await pool.clean_filthiest()
        assert (await held(log), pool.status()["uncleanable"]) == (table, [])
        assert log.notes.cleaned is not None


@in_loop
async def test_a_bad_batch_costs_its_own_log_only_until_it_is_mended() -> None:
    world = make_world()
    log, table = await three(world, "bad")
    log.tail.clear()  # it is read from where it is damaged
    good, good_table = await three(world, "good")
    records = world.log("bad").segments[1].records
    whole = records[0]
    broken = bytearray(whole.record.payload)
    broken[-3] ^= 1
    records[0] = whole._replace(record=LogRecord(whole.record.txid, bytes(broken)))
    async with cleaning(world) as pool:
        while await pool.clean_filthiest():
            pass
        assert await held(good) == good_table
        (bad,) = pool.status()["uncleanable"]
        assert bad["log"] == "bad-0"
        for words in ("offset 2", "segment 2", "ledger 2", "entry 0"):
            assert words in bad["reason"]
        pool.refresh_metrics()
        assert pool.manager_metrics.uncleanable_partitions_count == 1
        assert pool.manager_metrics.uncleanable_bytes > 0
        records[0] = whole
        assert not await pool.clean_filthiest()
        pool.run(["bad-0"])
        assert await pool.clean_filthiest()
        assert pool.status()["uncleanable"] == []
    assert await held(log) == table


@pytest.mark.parametrize("place", ["filtering.SegmentFilter.filter", "one_pass.one_pass"])
@in_loop
async def test_a_bug_costs_one_log_and_no_worker(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    world = make_world()
    await three(world)

    def bug(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async with cleaning(world) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(
                "tailrace.compaction.cleaner." + place.replace("one_pass.", "passes."), bug
            )
            assert await pool.clean_filthiest()
        (bad,) = pool.status()["uncleanable"]
        assert "a bug" in bad["reason"]
        pool.run(["t-0"])
        assert await pool.clean_filthiest()
        assert (pool.metrics.passes_total, pool.metrics.failures_total) == (1, 1)


@in_loop
async def test_a_lost_race_is_run_again_each_time_later() -> None:
    world = make_world()
    log, table = await three(world)
    async with cleaning(world) as pool:
        for failures in range(1, 4):
            failing = FailingSteps(world.log("t"), at=0, error=BadVersion("retention was faster"))
            assert await pool.clean_filthiest()
            assert (pool.metrics.failures_total, pool.status()["uncleanable"]) == (failures, [])
            failing.restore()
            world.clock.advance_ms(retry_ms(failures) - 1)
            assert not await pool.clean_filthiest()
            world.clock.advance_ms(1)
        assert await pool.clean_filthiest()
        assert pool.metrics.passes_total == 1
    assert await held(log) == table


def test_pauses_double_up_to_a_bound() -> None:
    assert [retry_ms(failures) for failures in (1, 2, 3)] == [1_000, 2_000, 4_000]
    assert retry_ms(1) == RETRY_MS_FIRST
    assert retry_ms(7) == retry_ms(10**6) == RETRY_MS_MAX


@in_loop
async def test_a_topic_that_is_not_compacted_any_more_is_given_up() -> None:
    world = make_world()
    log, table = await three(world)

    def change() -> None:
        log.use_settings(log.settings._replace(cleanup_policy=("delete",)))

    FailingSteps(world.log("t"), at=0, error=None, act=change)
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        assert (pool.metrics.given_up_total, pool.metrics.failures_total) == (1, 0)
        assert pool.status()["uncleanable"] == []
    assert log.notes.cleaned is None
    assert await held(log) == table


@pytest.mark.parametrize("step", range(9))
@in_loop
async def test_a_crash_at_any_step_leaves_the_old_or_the_new(step: int) -> None:
    world = make_world()
    log, table = await three(world)
    failing = FailingSteps(world.log("t"), at=step, error=Unavailable("killed"))
    async with cleaning(world) as pool:
        await pool.clean_filthiest()
    failing.restore()
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    log = await world.open("t")
    assert await held(log) == table
    assert log.log_end_offset == 6
    async with cleaning(world) as pool:
        await pool.clean_filthiest()
        assert not await pool.clean_filthiest()
    assert await held(log) == table
    assert (await read_held(log)).records == 3


@in_loop
async def test_a_partition_that_nobody_uses_is_opened_when_it_has_something_new() -> None:
    world = make_world()
    _, table = await three(world)
    partition = TopicPartition("t", 0)
    async with cleaning(world) as pool:
        await world.broker.partitions.close_partition(partition)
        assert await pool.clean_filthiest()
        log = world.broker.partitions.get(partition)
        assert log is not None
        assert await held(log) == table
        await world.broker.partitions.close_partition(partition)
        for _ in range(3):
            assert not await pool.clean_filthiest()
        assert world.broker.partitions.get(partition) is None, "all of it is clean"


@in_loop
async def test_a_topic_without_compaction_is_none_of_the_cleaners() -> None:
    world = make_world()
    await three(world, cleanup_policy="delete")
    async with cleaning(world) as pool:
        assert not await pool.clean_filthiest()
        assert await pool.plan() == []
