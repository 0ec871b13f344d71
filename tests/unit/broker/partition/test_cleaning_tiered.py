"""Compacted topics in two tiers, over real logs: the latest of each key, wherever it is."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.retained import RetainedPartition
from tailrace.compaction.retention import Limits
from tailrace.core.metadata.layout import LogPaths
from tests.unit.broker.fakes import make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.test_cleaning import Table, cleaning, held, put
from tests.unit.broker.partition.test_cleaning_real_log import (
    CONFIGS,
    Process,
    Reader,
    _cleaned,
    _step,
)
from tests.unit.core.log.test_cold_log import objects, run_cold
from tests.unit.core.log.test_rewrite_cold_only import DAY_MS, check_all_known
from tests.unit.core.log.test_trimmer import DELAY_MS
from tests.unit.core.log.world import World as LogWorld

PATHS = LogPaths("/distributedlog/tailrace", "t-0")
TIERED = {**CONFIGS, "remote.storage.enable": "true"}
COMPACTED = {**TIERED, "cleanup.policy": "compact"}
WEIGHTS = {
    "write": 8, "end": 3, "roll": 4, "clean": 5, "kill": 1, "reopen": 1, "delete": 1, "wait": 4,
    "tier": 1, "release": 5, "restore": 1,
}  # fmt: skip
STEPS = st.lists(
    st.sampled_from([what for what, weight in WEIGHTS.items() for _ in range(weight)]),
    min_size=20,
    max_size=50,
)
CHANGES = st.tuples(st.sampled_from([b"a", b"b"]), st.booleans())
"""Of a key: whether it is deleted."""


def tiers(log: PartitionLog) -> RetainedPartition:
    return RetainedPartition(log, PartitionConfig())


async def opened(logs: LogWorld, configs: dict[str, str]) -> tuple[Any, PartitionLog]:
    await logs.namespace().create_log("t-0")
    world: Any = Process(logs, configs)
    return world, await world.open("t")


async def released(log: PartitionLog, logs: LogWorld) -> list[int]:
    """Leave all that may go to cold storage; return what is there only."""
    await tiers(log).copy_to_cold()
    await tiers(log).release_segments_before(log.high_watermark)
    logs.clock.advance_ms(DELAY_MS)
    await tiers(log).delete_purged()
    return [
        each.metadata.lssn for each in await log.log.upkeep.trimmer.tiers() if not each.on_bookies
    ]


async def cleaned(world: Any) -> None:
    async with cleaning(world) as pool:
        assert await pool.clean_filthiest()
        assert pool.status()["uncleanable"] == []


def test_what_is_not_clean_stays_on_the_bookies(tmp_path: Path) -> None:
    async def story(logs: LogWorld) -> None:
        world, log = await opened(logs, COMPACTED)
        table = Table()
        for number in range(3):
            await put(log, table, (b"a", b"%d" % number), (b"key-%d" % number, b"1"))
        assert await released(log, logs) == []
        await cleaned(world)
        await put(log, table, (b"b", b"1"))
        await put(log, table, (b"c", b"1"))
        clean = (await CleanablePartition(log).checkpoint()).first_dirty_offset
        there = await released(log, logs)
        assert there
        ends = {each.lssn: each.last_txid for each in log.log.segments}
        assert ends[there[-1]] < clean <= ends[there[-1] + 1]
        assert there[-1] + 2 in ends
        assert await held(log) == table
        await world.broker.partitions.close()

    run_cold(tmp_path, story)


@in_loop
async def test_local_retention_acts_where_nothing_is_deleted() -> None:
    world = make_world()
    world.topics.add("t", configs={**COMPACTED, "local.retention.ms": "5"})
    partition = tiers(await world.open("t"))
    assert partition.limits == Limits(-1, -1, deletes=False)
    assert partition.local_limits == Limits(5, -1, deletes=True)


def test_values_and_delete_markers_in_cold_storage_are_cleaned(tmp_path: Path) -> None:
    """A value must not come back when the delete marker behind it goes."""

    async def story(logs: LogWorld) -> None:
        world, log = await opened(logs, COMPACTED)
        table = Table()
        await put(log, table, (b"a", b"1"), (b"b", b"1"), (b"keep", b"1"))
        await put(log, table, (b"c", b"1"), (b"d", b"1"))
        await cleaned(world)
        await put(log, table, (b"a", None), (b"c", b"2"))  # the last segment is never released
        assert await released(log, logs), "in cold storage only"
        first = objects(tmp_path)
        await put(log, table, (b"e", b"1"))
        await cleaned(world)
        assert await held(log) == table
        await put(log, table, (b"f", b"1"))
        assert await released(log, logs)
        assert not set(first) & set(objects(tmp_path))
        logs.clock.advance_ms(50_001)
        await put(log, table, (b"g", b"1"))
        await cleaned(world)
        del table[b"a"]
        assert await held(log) == table, "neither the value nor the marker"
        await released(log, logs)
        log = await Process(logs, COMPACTED).open("t")
        assert await held(log) == table
        await log.log.upkeep.restore(1)
        assert await held(log) == table
        await check_all_known(tmp_path, logs, log.log, DAY_MS, PATHS)

    run_cold(tmp_path, story)


@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(
        st.one_of(CHANGES, st.sampled_from(["clean", "release"])), min_size=10, max_size=25
    )
)
@example(steps=[(b"a", False), "clean", "release", (b"a", True), "clean", "clean"])
def test_no_value_comes_back(steps: list[tuple[bytes, bool] | str]) -> None:
    """Each pass comes after the time of the delete markers that the one before saw."""
    with TemporaryDirectory() as directory:

        async def story(logs: LogWorld) -> None:
            world, log = await opened(logs, COMPACTED)
            table = Table()
            for number, step in enumerate(steps):
                if step == "clean":
                    logs.clock.advance_ms(60_000)
                    await put(log, table, (b"last", b"%d" % number))
                    await cleaned(world)
                elif step == "release":
                    await put(log, table, (b"last", b"%d" % number))
                    await released(log, logs)
                else:
                    key, is_deleted = step
                    await put(log, table, (key, None if is_deleted else b"%d" % number))
                found = await held(log)
                assert _values(found) == _values(table)
            await world.broker.partitions.close()

        run_cold(Path(directory), story)


def _values(table: Table) -> Table:
    return {key: value for key, value in table.items() if value is not None}


async def _tiered_step(reader: Reader, what: str) -> None:
    log = reader.log
    if what == "tier":
        await tiers(log).copy_to_cold()
    elif what == "release":
        await tiers(log).copy_to_cold()
        await tiers(log).release_segments_before(log.high_watermark)
    elif what == "clean":
        await log.roll()
        await _cleaned(reader)
    elif what == "wait":  # longer than delete.retention.ms
        reader.world.clock.advance_ms(60_000)
        await log.log.upkeep.trimmer.collect()
    elif what == "restore":
        await log.log.upkeep.restore(reader.random.randint(1, 5))
    else:
        await _step(reader, what)


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_a_full_read_gives_the_latest_of_each_key(steps: list[str], seed: int) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory)

        async def story(logs: LogWorld) -> None:
            world, log = await opened(logs, TIERED)
            reader = Reader(Random(seed), world, log)
            for what in steps:
                await _tiered_step(reader, what)
                await reader.check()
            await reader.end_all()
            await reader.log.roll()
            await _cleaned(reader)
            await released(reader.log, logs)
            await reader.check()
            await reader.restart()
            await reader.check()
            await reader.check_repeats()
            rewrite = await reader.log.log.rewrite([reader.log.log.segments.segments[0].lssn])
            await rewrite.abort()  # deletes what a killed one left
            await check_all_known(path, logs, reader.log.log, DELAY_MS, PATHS)
            await reader.world.broker.partitions.close()

        run_cold(path, story)
