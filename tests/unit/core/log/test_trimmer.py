"""Truncating and purging: nothing comes back, nothing is left over, whatever happens in between."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import LogTruncated, Unavailable
from tailrace.core.log import trimmer
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import Listener, World, read_all, run_world, txids_of, write

PATHS = LogPaths("/distributedlog/tailrace", "s")
HOUR_MS = 3_600_000
DELAY_MS = 60_000
CHANGES_MAX = 12


async def with_segments(world: World, count: int = 5, **changes: Any) -> Log:
    """Return a log of `count` completed segments with ten records each, and no writer."""
    log = await world.log(**changes)
    writer = await log.open_writer(Listener())
    for number in range(count):
        await write(writer, *range(number * 10, number * 10 + 10))
        if number < count - 1:
            await writer.roll()
            world.clock.advance_ms(HOUR_MS)
    await writer.close()
    return log


def statuses(log: Log) -> list[tuple[int, str]]:
    return [(segment.lssn, segment.truncation.name) for segment in log.segments]


async def check_no_leak(world: World, log: Log) -> None:
    """Every ledger has its segment, every segment its ledger, once the delay is over."""
    world.clock.advance_ms(DELAY_MS)
    await log.upkeep.trimmer.collect()
    await log.refresh()
    assert await world.ledger_ids() == {segment.ledger_id for segment in log.segments}
    if await world.store.exists(PATHS.purged) is not None:
        assert await world.store.children(PATHS.purged) == []


def test_truncation_is_kept_and_seen_by_others(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        other = await world.log()
        assert len(await txids_of(other)) == 50
        for _ in range(2):
            await log.truncate(DLSN(3, 1, 4))
            assert [s for _, s in statuses(log)[:3]] == [
                "TRUNCATED", "TRUNCATED", "PARTIALLY_TRUNCATED",
            ]  # fmt: skip
        await log.truncate(DLSN(2, 0, 0))  # never back
        assert await txids_of(log) == list(range(24, 50))
        assert await txids_of(await world.log()) == list(range(24, 50))
        assert await txids_of(other) == list(range(24, 50)), "a watch tells of it"
        await check_no_leak(world, log)
        assert len(log.segments) == 5

    run_world(tmp_path, story)


def test_purging_goes_on_in_the_background_of_readers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        reader = await log.open_reader(INITIAL)
        assert len(await reader.read(60)) < 10
        purged = await log.purge_segments(99)
        assert [segment.lssn for segment in purged] == [1, 2, 3, 4]
        assert await txids_of(log) == list(range(40, 50))
        assert len(await world.ledger_ids()) == 5
        rest = []
        while len(rest) < 6:
            rest += await reader.read(60)  # inside a segment that was purged
        await check_no_leak(world, log)
        with pytest.raises(LogTruncated):
            await read_on(reader)
        await reader.close()
        assert await log.purge_segments(99) == []

    run_world(tmp_path, story)


async def read_on(reader: LogReader) -> None:
    while True:
        assert await reader.read(1 << 20), "the tail"


def test_the_delay_counts_from_the_purge(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await log.purge_segments(3)
        world.clock.advance_ms(DELAY_MS - 1)
        assert await log.upkeep.trimmer.collect() == 0
        assert len(await world.ledger_ids()) == 5
        world.clock.advance_ms(1)
        assert await log.upkeep.trimmer.collect() == 2
        assert len(await world.ledger_ids()) == 3

    run_world(tmp_path, story)


def test_segments_expire_by_their_completion(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world)
        log = await world.log(retention_hours=3)  # completed 4, 3, 2, 1, 0 hours ago
        assert [s.lssn for s in await log.upkeep.trimmer.purge_expired()] == [1]
        world.clock.advance_ms(1)
        assert [s.lssn for s in await log.upkeep.trimmer.purge_expired()] == [2]
        world.clock.advance_ms(100 * HOUR_MS)
        assert [s.lssn for s in await log.upkeep.trimmer.purge_expired()] == [3, 4]
        assert [lssn for lssn, _ in statuses(log)] == [5], "the last completed one stays"
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_only_what_was_truncated_expires_if_so_told(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world)
        log = await world.log(retention_hours=1, only_truncated_expires=True)
        world.clock.advance_ms(100 * HOUR_MS)
        assert await log.upkeep.trimmer.purge_expired() == []
        await log.truncate(DLSN(3, 1, 4))
        assert [s.lssn for s in await log.upkeep.trimmer.purge_expired()] == [1, 2]
        assert statuses(log)[0] == (3, "PARTIALLY_TRUNCATED")

    run_world(tmp_path, story)


def test_without_a_retention_nothing_expires(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        world.clock.advance_ms(10**6 * HOUR_MS)
        assert await log.upkeep.trimmer.purge_expired() == []

    run_world(tmp_path, story)


@pytest.mark.parametrize(("txid", "left"), [(9, 5), (10, 4), (20, 3), (10**9, 1)])
def test_logs_older_than_a_txid_are_purged(tmp_path: Path, txid: int, left: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        assert len(await log.upkeep.trimmer.purge_older_than(txid)) == 5 - left
        assert len(log.segments) == left

    run_world(tmp_path, story)


def test_an_expired_segment_goes_when_the_next_one_is_completed(tmp_path: Path) -> None:
    """The writer sees to it, as DistributedLog's does."""

    async def story(world: World) -> None:
        log = await world.log(retention_hours=1)
        writer = await log.open_writer(Listener())
        for number in range(4):
            await write(writer, number)
            await writer.roll()
            world.clock.advance_ms(2 * HOUR_MS)
        await log.upkeep.idle()
        await writer.close()
        await log.close()
        assert [lssn for lssn, _ in statuses(log)][-2:] == [4, 5]
        assert log.segments.segments[0].lssn > 1

    run_world(tmp_path, story)


def test_many_segments_take_several_multis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimmer, "_SEGMENTS_MAX", 2)

    async def story(world: World) -> None:
        log = await with_segments(world, 6)
        await log.truncate(DLSN(6, 1, 3))
        assert [s for _, s in statuses(log)] == ["TRUNCATED"] * 5 + ["PARTIALLY_TRUNCATED"]
        assert [s.lssn for s in await log.purge_segments(99)] == [1, 2, 3, 4, 5]
        await check_no_leak(world, log)

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_crash_at_every_change(tmp_path: Path, *, applied: bool) -> None:
    """The next process does it again: the same result, and no ledger is left over."""
    finished = []
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world)
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            dying = await world.namespace(store).open_log("s")
            try:
                await trim(dying, world)
            except Unavailable:
                finished.append(False)
            else:
                finished.append(True)
            await world.restart_store()
            log = await world.log()
            found = await txids_of(log)
            assert found == list(range(found[0], 50)), "a hole"
            await trim(log, world)
            assert await txids_of(log) == list(range(24, 50))
            await check_no_leak(world, log)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert finished[-1], "CHANGES_MAX does not reach the end"
    assert not all(finished)


async def trim(log: Log, world: World) -> None:
    await log.truncate(DLSN(3, 1, 4))
    await log.purge_segments(3)
    world.clock.advance_ms(DELAY_MS)
    await log.upkeep.trimmer.collect()


class Overtaker:
    """Another process that trims further, before or after a change of the first."""

    def __init__(self, log: Log, change: int, *, purges: bool, loses_answer: bool) -> None:
        self.log = log
        self.done = False
        self._change = change
        self._purges = purges
        self._loses_answer = loses_answer

    async def __call__(self, number: int) -> None:
        if number == self._change:
            await self.trim()
            if self._loses_answer:
                raise Unavailable("the answer was lost")

    async def trim(self) -> None:
        self.done = True
        await self.log.truncate(DLSN(4, 1, 2))
        if self._purges:
            await self.log.purge_segments(2)


@pytest.mark.parametrize("purges", [False, True])
@pytest.mark.parametrize("answer_lost", [False, True])
def test_overtaken_at_every_change(tmp_path: Path, *, answer_lost: bool, purges: bool) -> None:
    """What another process does in between is never undone."""
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world)
            second = await world.log()
            await second.truncate(DLSN(1, 0, 2))
            store = FaultyStore(world.store)
            overtake = Overtaker(second, change, purges=purges, loses_answer=answer_lost)
            setattr(store, "after" if answer_lost else "before", overtake)
            first = await world.namespace(store).open_log("s")
            for _ in range(2 if answer_lost else 1):
                with suppress(*[Unavailable] * answer_lost):
                    await trim(first, world)
            if not overtake.done:
                await overtake.trim()
            await check_trimmed(world, first, second)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)


async def check_trimmed(world: World, first: Log, second: Log) -> None:
    for log in (first, second, await world.log()):
        await log.refresh()
        assert await txids_of(log) == list(range(32, 50))
        assert statuses(log)[0] == (3, "TRUNCATED")
    await check_no_leak(world, first)


def test_truncating_while_the_owner_rolls_fails_neither(tmp_path: Path) -> None:
    """At each change of one, the other runs whole."""
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world, 3)
            owner = await world.log()
            listener = Listener()
            writer = await owner.open_writer(listener)
            await write(writer, 30)
            store = FaultyStore(world.store)

            async def roll(number: int) -> None:
                if number == change:
                    await writer.roll()
                    await write(writer, 31)

            store.before = roll
            await trim_to(await world.namespace(store).open_log("s"), DLSN(3, 1, 4))
            await write(writer, 32)
            await writer.close()
            assert not listener.errors
            last = [31] if store.changes > change else []
            assert await txids_of(owner) == [*range(24, 31), *last, 32]

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)


async def trim_to(log: Log, dlsn: DLSN) -> None:
    await log.truncate(dlsn)
    await log.purge_segments(dlsn.lssn)


def test_a_deleted_log_leaves_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world)
        await log.purge_segments(3)
        await log.close()
        await world.namespace().delete_log("s")
        assert await world.ledger_ids() == set()
        assert await world.store.exists(PATHS.log) is None

    run_world(tmp_path, story)


def test_a_partly_truncated_segment_begins_in_its_middle_for_java_too(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 2)
        await log.truncate(DLSN(1, 0, 7))
        node = await world.store.get(PATHS.segment("logrecs_000000000000000001"))
        assert node.data.decode().split(";")[-3:-1] == ["0", "7"]
        (first, *_) = await read_all(log)
        assert first.dlsn == DLSN(1, 0, 7)
        assert log.segments.segments[0].truncation is Truncation.PARTIALLY_TRUNCATED

    run_world(tmp_path, story)
