"""Compaction as a whole: what lives stays readable, what is dead goes, whatever stops it."""

import asyncio
import functools
import random
import shutil
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie import entry_log_format
from tailrace.bookie import gc as gc_module
from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.compaction_rules import GcConfig, LogUsage, logs_to_compact
from tailrace.bookie.entry_log_format import read_ledgers_map
from tailrace.bookie.errors import BookieError
from tailrace.bookie.gc import GarbageCollector
from tailrace.core.errors import CoreError
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import Space, SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.test_no_room import FullDisk
from tests.unit.bookie.world import add, ask, entry_body, fence, read, run, small_config

EOK = StatusCode.EOK
FAST = GcConfig(rate_by_entries=10**9)
both_ways = pytest.mark.parametrize("journal_write_data", [False, True])


class World:
    """A bookie over rolling logs with its collector, and the ledgers that the metadata has."""

    def __init__(self, directory: Path, *, gc: GcConfig = FAST, **changes: Any) -> None:
        self.directory = directory
        self.changes: dict[str, Any] = {
            "log_size_limit": 6000,
            "preallocate_mb": 0,
            "ledger_directories": (directory / "ledgers", directory / "more"),
            "journal_directories": (directory / "journal", directory / "second"),
        } | changes
        self.gc = gc
        self.living: set[LedgerId] = set()
        self.bodies: dict[tuple[LedgerId, int], bytes] = {}
        self.clock = ManualClock()
        self.bookie: OpenBookie
        self.collector: GarbageCollector

    async def open(self, files: SystemFiles | None = None) -> None:
        files = files or SystemFiles()
        config = small_config(self.directory, **self.changes)
        self.bookie = await open_bookie(config, None, self.clock, files)
        self.collector = GarbageCollector(
            self.bookie._storage, files, self._list, self.clock, self.gc, self.bookie.has_no_room
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["World"]:
        await self.open()
        yield self
        await self.bookie.close()

    async def _list(self) -> set[LedgerId]:
        return set(self.living)

    async def write(self, ledgers: range, entries: range, size: int = 700) -> None:
        """Add entries of several ledgers, mixed, so that every log holds some of each."""
        for entry_id in entries:
            answers = []
            for number in ledgers:
                ledger_id = LedgerId(number)
                self.living.add(ledger_id)
                payload = random.Random(f"{number} {entry_id}").randbytes(size)
                self.bodies[ledger_id, entry_id] = entry_body(ledger_id, entry_id, payload)
                answers.append(ask(self.bookie, add(ledger_id, entry_id, payload)))
            for answer in answers:
                assert (await answer).status is EOK
            if self.changes.get("journal_write_data"):
                await self.bookie.checkpoint()
        await self.bookie.checkpoint()

    def delete(self, *numbers: int) -> None:
        for number in numbers:
            self.living.discard(LedgerId(number))
        self.bodies = {key: body for key, body in self.bodies.items() if key[0] in self.living}

    async def check(self) -> None:
        for (ledger_id, entry_id), body in self.bodies.items():
            response = await ask(self.bookie, read(ledger_id, entry_id))
            assert response.status is EOK, (ledger_id, entry_id, response.status)
            assert response.body == body

    def logs(self) -> list[int]:
        return sorted(int(path.stem, 16) for path in self.directory.glob("*/current/*.log"))


@both_ways
def test_what_lives_moves_and_the_log_goes(tmp_path: Path, journal_write_data: bool) -> None:
    async def story() -> None:
        world = World(tmp_path, journal_write_data=journal_write_data)
        async with world.opened():
            await world.write(range(5), range(8))
            await world.write(range(5, 6), range(12))
            before = world.logs()
            world.delete(0, 1, 2)
            removed = await world.collector.collect()
            assert removed == ([0, 1, 2], [])  # no compaction is due
            await world.check()
            removed = await world.collector.collect(force=True)
            assert len(removed.entry_logs) >= 4
            assert set(world.logs()) >= set(before) - set(removed.entry_logs)
            assert not set(world.logs()) & set(removed.entry_logs)
            await world.check()
            assert world.bookie.metrics.compacted_logs_total == len(removed.entry_logs)
            again = await world.collector.collect(force=True)
            assert again.ledgers == []
            await world.check()
        async with world.opened():
            await world.check()
            assert (await ask(world.bookie, read(LedgerId(0), 0))).status is StatusCode.ENOLEDGER

    run(story)


@both_ways
def test_by_itself_it_takes_the_emptiest_first_and_by_its_threshold(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        gc = GcConfig(
            wait_ms=1000, minor_interval_s=10, major_interval_s=1000, rate_by_entries=10**9
        )
        world = World(tmp_path, gc=gc, journal_write_data=journal_write_data)
        async with world.opened():
            await world.write(range(6), range(6))  # logs that will be used by a sixth
            first = world.logs()[:-2]
            await world.write(range(5, 7), range(6, 24))  # and by half
            world.delete(0, 1, 2, 3, 4, 6)
            await world.collector.collect()
            world.clock.advance_ms(11_000)
            minor = (await world.collector.collect()).entry_logs
            assert set(first[1:-1]) <= set(minor)
            await world.check()
            world.clock.advance_ms(11_000)
            assert (await world.collector.collect()).entry_logs == []
            world.clock.advance_ms(1_000_000)
            major = (await world.collector.collect()).entry_logs
            assert len(major) > 2
            await world.check()

    run(story)


@both_ways
def test_reads_beside_compaction_never_fail(tmp_path: Path, journal_write_data: bool) -> None:
    async def story() -> None:
        world = World(
            tmp_path,
            journal_write_data=journal_write_data,
            open_file_limit=1,
            cached_index_pages_max=2,
        )
        async with world.opened():
            await world.write(range(6), range(20), size=300)
            world.delete(0, 1, 2, 3)
            collecting = asyncio.ensure_future(world.collector.collect(force=True))
            reads = 0
            rng = random.Random(1)
            while not collecting.done():
                keys = rng.sample(sorted(world.bodies), 8)
                answers = [ask(world.bookie, read(*key)) for key in keys]
                for key, answer in zip(keys, answers, strict=True):
                    assert (await answer).body == world.bodies[key]
                    reads += 1
            assert reads > 50
            assert len(collecting.result().entry_logs) > 5
            await world.check()

    run(story)


@both_ways
def test_what_is_added_again_beside_compaction_stays(
    tmp_path: Path, journal_write_data: bool
) -> None:
    async def story() -> None:
        world = World(tmp_path, journal_write_data=journal_write_data)
        async with world.opened():
            await world.write(range(6), range(10), size=300)
            world.delete(0, 1, 2, 3)
            collecting = asyncio.ensure_future(world.collector.collect(force=True))
            entry_id = 10
            while not collecting.done():
                payload = b"n" * 400
                ledger_id = LedgerId(4 + entry_id % 2)
                response = await ask(world.bookie, add(ledger_id, entry_id, payload))
                assert response.status is EOK
                world.bodies[ledger_id, entry_id] = entry_body(ledger_id, entry_id, payload)
                entry_id += 1
            await world.check()
        async with world.opened():
            await world.check()

    run(story)


def test_a_ledger_fenced_beside_compaction_stays_fenced(tmp_path: Path) -> None:
    """Its state leaves the memory meanwhile: another object must not write an older header."""

    async def story() -> None:
        world = World(tmp_path, cached_ledgers_max=0)
        async with world.opened():
            await world.write(range(6), range(10), size=300)
            world.delete(0, 1, 2, 3)
            collecting = asyncio.ensure_future(world.collector.collect(force=True))
            await ask(world.bookie, fence(LedgerId(4)))
            while not collecting.done():
                await world.bookie.checkpoint()
                await ask(world.bookie, read(LedgerId(5), 0))
            await world.check()
        async with world.opened():
            assert (await ask(world.bookie, add(LedgerId(4), 99))).status is StatusCode.EFENCED
            assert (await ask(world.bookie, add(LedgerId(5), 99))).status is EOK

    run(story)


def damage(world: World, log_id: int) -> None:
    path = next(world.directory.glob(f"*/current/{log_id:x}.log"))
    image = bytearray(path.read_bytes())
    image[1024:1028] = b"\x7f\xff\xff\xff"
    path.write_bytes(image)


def unseal(world: World, log_id: int, *, hole: bool) -> None:
    """Take a log's map away, as if it had never been sealed, and maybe leave a hole in it."""
    path = next(world.directory.glob(f"*/current/{log_id:x}.log"))
    image = bytearray(path.read_bytes())
    end = int.from_bytes(image[8:16], "big")
    image[8:20] = bytes(12)
    if hole:
        image[2048:3000] = bytes(952)
    path.write_bytes(image[:end])


def test_a_damaged_log_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        async with world.opened():
            await world.write(range(5), range(8))
            damage(world, 1)
            world.delete(0, 1, 2)
            removed = await world.collector.collect(force=True)
            assert removed.entry_logs
            assert 1 not in removed.entry_logs
            assert 1 in world.logs()
            assert not world.bookie.failed.done()

    run(story)


@pytest.mark.parametrize("hole", [False, True])
def test_a_log_without_a_map_is_read_whole_or_kept(tmp_path: Path, hole: bool) -> None:
    async def story() -> None:
        world = World(tmp_path)
        async with world.opened():
            await world.write(range(5), range(8))
            unseal(world, 1, hole=hole)
            world.delete(0, 1, 2)
            removed = await world.collector.collect(force=True)
            assert (1 in removed.entry_logs) is not hole
            if not hole:
                await world.check()
            world.delete(3, 4)
            removed = await world.collector.collect()
            assert (1 in world.logs()) is hole

    run(story)


class Room(SystemFiles):
    """Says how much room there is."""

    free_bytes = 10**9
    free_elsewhere: int | None = None
    """In the second ledger directory, if that is on a disk of its own."""

    @override
    def space(self, path: Path) -> Space:
        if self.free_elsewhere is not None and path.name == "more":
            return Space(10**9, self.free_elsewhere, device=1)
        return Space(10**9, self.free_bytes)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_without_room_what_is_compacted_is_what_fits_unless_all_is_allowed(
    tmp_path: Path, is_allowed: bool
) -> None:
    async def story() -> None:
        world = World(tmp_path, gc=replace(FAST, allowed_without_room=is_allowed))
        files = Room()
        await world.open(files)
        await world.write(range(5), range(8))
        world.delete(0, 1, 2)
        assert await world.collector.collect() == ([0, 1, 2], [])
        live_bytes = [usage.live_bytes for usage in await usages(world)]
        files.free_bytes = 2 * min(live_bytes) - 1
        await world.bookie.look_at_disks()
        assert (await ask(world.bookie, add(LedgerId(4), 8))).status is StatusCode.EREADONLY
        removed = await world.collector.collect()
        assert bool(removed.entry_logs) is is_allowed, "whether or not it is time"
        files.free_bytes = 2 * max(live_bytes)
        if not is_allowed:
            assert (await world.collector.collect()).entry_logs
        await world.check()
        await world.bookie.close()

    run(story)


def test_one_full_disk_of_two_frees_room_like_two(tmp_path: Path) -> None:
    """By default one full directory makes the bookie read-only; copies go to the other."""

    async def story() -> None:
        world = World(tmp_path, gc=replace(FAST, minor_interval_s=0, minor_threshold=0))
        files = Room()
        files.free_elsewhere = 10**9
        await world.open(files)
        await world.write(range(5), range(8))
        world.delete(0, 1, 2)
        files.free_bytes = 0
        await world.bookie.look_at_disks()
        assert (await ask(world.bookie, add(LedgerId(4), 8))).status is StatusCode.EREADONLY
        assert (await world.collector.collect()).entry_logs
        await world.check()
        await world.bookie.close()

    run(story)


def test_without_room_what_was_switched_off_stays_so(tmp_path: Path) -> None:
    async def story() -> None:
        never = replace(FAST, minor_interval_s=0, major_interval_s=0)
        world = World(tmp_path, gc=never)
        files = Room()
        await world.open(files)
        await world.write(range(5), range(8))
        world.delete(0, 1, 2)
        files.free_bytes = 10**7
        await world.bookie.look_at_disks()
        assert (await world.collector.collect()).entry_logs == []
        assert (await world.collector.collect(force=True)).entry_logs, "by an operator's order"
        await world.bookie.close()

    run(story)


async def usages(world: World) -> list[LogUsage]:
    """Return what is used of the logs that a collection would compact."""
    collector, storage = world.collector, world.bookie._storage
    before = storage.upkeep.marked_log
    found = await storage.upkeep.thread.call(
        lambda: collector._survey([], set(world.living), before)
    )
    return logs_to_compact(found, 0.8)


def test_without_room_garbage_is_looked_for_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_module, "WAIT_WITHOUT_ROOM_S", 0.01)

    async def story() -> None:
        world = World(tmp_path)
        async with world.opened():
            await world.write(range(1), range(30))
            before = world.logs()
            world.delete(0)
            collecting = asyncio.create_task(world.collector.run())
            for directory in world.bookie._storage.dirs.directories:
                world.bookie.health.on_no_room(directory)
            async with asyncio.timeout(20):
                while len(world.logs()) > 1:  # noqa: ASYNC110 - files have no event
                    await asyncio.sleep(0.01)
            assert world.logs() == before[-1:]
            collecting.cancel()
            await asyncio.wait([collecting])

    run(story)


def test_a_removed_fence_is_remembered_for_seven_days(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path, cached_ledgers_max=0)
        async with world.opened():
            await world.write(range(4), range(2))
            await ask(world.bookie, fence(LedgerId(1)))
            await ask(world.bookie, fence(LedgerId(2)))
            await world.bookie.checkpoint()
            await ask(world.bookie, read(LedgerId(2), 0))  # in memory; 1 only on disk
            world.delete(1, 2)
            await world.collector.collect()
            for number in (1, 2):
                status = (await ask(world.bookie, add(LedgerId(number), 5))).status
                assert status is StatusCode.EFENCED
                status = (await ask(world.bookie, read(LedgerId(number), 0))).status
                assert status is StatusCode.ENOLEDGER
        async with world.opened():  # so it is after a restart
            for number in (1, 2):
                status = (await ask(world.bookie, add(LedgerId(number), 5))).status
                assert status is StatusCode.EFENCED
            world.clock.advance_ms(7 * 86_400_000 - 1)
            assert (await ask(world.bookie, add(LedgerId(1), 5))).status is StatusCode.EFENCED
            world.clock.advance_ms(1)
            assert (await ask(world.bookie, add(LedgerId(1), 5))).status is EOK

    run(story)


def wasted_logs(world: World) -> list[str]:
    """Return the sealed logs with less than 0.8 of their bytes in ledgers that live."""
    wasted = []
    for path in world.directory.glob("*/current/*.log"):
        image = path.read_bytes()
        header = entry_log_format.read_header(image)
        if header.map_offset:
            sizes = read_ledgers_map(image[header.map_offset :], header.ledgers)
            alive = sum(size for ledger_id, size in sizes.items() if ledger_id in world.living)
            if alive < 0.8 * sum(sizes.values()):
                wasted.append(path.name)
    return wasted


async def _or_crash(files: CrashFiles, work: Awaitable[Any]) -> bool:
    """Await something; return whether the files crashed in it."""
    try:
        await work
    except (OSError, BookieError, CoreError):
        assert files.is_crashed
        return True
    return files.is_crashed


@both_ways
def test_a_crash_at_every_step(tmp_path: Path, journal_write_data: bool) -> None:
    """Every live entry is readable, and the next runs leave nothing of what the first began."""
    ways: dict[str, Any] = {"journal_write_data": journal_write_data, "log_size_limit": 3000}
    base = World(tmp_path / "base", **ways)

    async def fill() -> None:
        async with base.opened():
            await base.write(range(3), range(3))
        base.delete(0, 1)

    async def story(step: int | None) -> list[str]:
        world = World(copied(base.directory, tmp_path / f"{step}"), **ways)
        world.living, world.bodies = base.living, base.bodies
        files = CrashFiles()
        await world.open(files)
        opened = len(files.steps)
        files.stop_at = None if step is None else opened + step
        await _or_crash(files, world.collector.collect(force=True))
        await _or_crash(files, world.bookie.close())
        if step is not None and step % 2 == journal_write_data:
            files.lose_power(random.Random(step))  # else it is killed and the machine stays on
        async with world.opened():
            await world.check()
            await world.collector.collect(force=True)
            await world.collector.collect(force=True)  # the log that was written in the first run
            await world.check()
            assert world.bookie._storage.indexes.ledger_ids() == {2}
            assert wasted_logs(world) == []
        return files.steps[opened:]

    run(fill)
    steps = run(functools.partial(story, None))
    assert any("remove" in step for step in steps)
    for step in range(len(steps)):
        run(functools.partial(story, step))


def copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


@both_ways
def test_copies_that_find_no_room_leave_the_log(tmp_path: Path, journal_write_data: bool) -> None:
    async def story() -> None:
        gc = GcConfig(rate_by_entries=10**9, allowed_without_room=True)
        world = World(tmp_path, gc=gc, journal_write_data=journal_write_data, preallocate_mb=1)
        async with world.opened():
            await world.write(range(5), range(8))
        files = FullDisk()
        await world.open(files)
        world.delete(0, 1, 2)
        before = world.logs()
        files.suffixes = (".log",)
        assert (await world.collector.collect(force=True)).entry_logs == []
        assert world.logs() == before
        assert not world.bookie.failed.done()
        await world.check()
        files.suffixes = ()
        await world.bookie.look_at_disks()
        assert (await world.collector.collect(force=True)).entry_logs
        await world.check()
        await world.bookie.close()
        async with world.opened():
            await world.check()

    run(story)


@both_ways
def test_what_is_added_again_while_compaction_waits_for_its_rate_stays(
    tmp_path: Path, journal_write_data: bool
) -> None:
    """Also when a checkpoint has covered it meanwhile: a repair must not give way to the damage."""

    async def story() -> None:
        slow = GcConfig(rate_by_entries=8)
        world = World(tmp_path, gc=slow, journal_write_data=journal_write_data)
        async with world.opened():
            await world.write(range(1, 5), range(6))
            await world.bookie.checkpoint()
            world.living -= {LedgerId(2), LedgerId(3), LedgerId(4)}
            collecting = asyncio.ensure_future(world.collector.collect(force=True))
            metrics = world.bookie.metrics
            while not metrics.compacted_logs_total:
                await world.bookie.room()
            again = {}
            for entry_id in range(6):
                payload = b"again %d" % entry_id
                again[entry_id] = entry_body(LedgerId(1), entry_id, payload)
                added = add(LedgerId(1), entry_id, payload, recovery=True)
                assert (await ask(world.bookie, added)).status is EOK
            await world.bookie.checkpoint()
            assert (await collecting).entry_logs
            assert metrics.compacted_logs_total > 1
            for entry_id, body in again.items():
                assert (await ask(world.bookie, read(LedgerId(1), entry_id))).body == body

    run(story)
