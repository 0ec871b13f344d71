"""Ledgers that other bookies keep by now: what goes, what stays, whatever happens in between."""

import asyncio
import contextlib
import errno
import functools
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.compaction_rules import GcConfig
from tailrace.bookie.errors import BookieError
from tailrace.bookie.fenced_and_removed import FILE_NAME
from tailrace.bookie.over_replicated import is_kept_by_others
from tailrace.core.errors import CoreError, Unavailable
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import (
    Fragment,
    LedgerMetadata,
    LedgerState,
    encode_ledger,
)
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import Node
from tailrace.core.metadata.underreplication import LAYOUT_BYTES, Mark, encode_lock, encode_mark
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import Files, SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.bookie.crash_files import CrashFiles
from tests.unit.bookie.test_gc import SlowRemoval
from tests.unit.bookie.world import add, ask, entry_body, fence, read, run, small_config

ME = BookieId("test:3181")
OTHERS = (BookieId("a:1"), BookieId("b:1"), BookieId("c:1"))
PATHS = LedgerPaths()
MARKS = UnderreplicationPaths()
EOK, ENOLEDGER = StatusCode.EOK, StatusCode.ENOLEDGER
DAY_MS = 86_400_000
L1, L2 = LedgerId(1), LedgerId(2)
ENTRIES = range(3)

OPEN, IN_RECOVERY, CLOSED = LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED


def metadata(*ensembles: tuple[BookieId, ...], state: LedgerState = CLOSED) -> bytes:
    fragments = [Fragment(10 * number, ensemble) for number, ensemble in enumerate(ensembles)]
    return encode_ledger(
        LedgerMetadata(
            ensemble_size=3,
            write_quorum=3,
            ack_quorum=2,
            fragments=tuple(fragments),
            state=state,
            last_entry_id=29 if state is CLOSED else -1,
        )
    )


ELSEWHERE = metadata(OTHERS)
HERE = metadata((ME, *OTHERS[1:]))
HERE_EARLIER = metadata((ME, *OTHERS[1:]), OTHERS)
HERE_LATER = metadata(OTHERS, (*OTHERS[:2], ME))


class Store(SqliteStore):
    """A store in which others do something just before, or an answer is lost just after."""

    def __init__(self, directory: Path, clock: ManualClock) -> None:
        super().__init__(directory / "metadata.sqlite", clock)
        self.before_lock: Callable[[], Awaitable[Any]] | None = None
        self.before_look: Callable[[], Awaitable[Any]] | None = None
        self.lose_answers = self.lose_requests = self.lose_deletes = 0
        self.held = self.held_max = 0

    @override
    async def create(self, path: str, data: bytes = b"", **how: Any) -> str:
        is_lock = path.startswith(MARKS.locks + "/")
        if is_lock and self.before_lock is not None:
            await self.before_lock()
        if is_lock and self.lose_requests:
            self.lose_requests -= 1
            raise Unavailable(f"no answer: {path}")
        made = await super().create(path, data, **how)
        if is_lock:
            self.held += 1
            self.held_max = max(self.held, self.held_max)
            self._maybe_lose(path)
        return made

    @override
    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        if any(path.startswith(MARKS.locks) for path in paths) and self.before_look is not None:
            await self.before_look()
        return await super().get_all(paths)

    @override
    async def delete(self, path: str, version: int = -1) -> None:
        is_lock = path.startswith(MARKS.locks + "/")
        if is_lock and self.lose_deletes:
            self.lose_deletes -= 1
            raise Unavailable(f"no answer: {path}")
        await super().delete(path, version)
        self.held -= is_lock

    def _maybe_lose(self, path: str) -> None:
        if self.lose_answers:
            self.lose_answers -= 1
            raise Unavailable(f"no answer: {path}")


class World:
    """A bookie of a cluster whose other bookies exist in the metadata only."""

    def __init__(self, directory: Path, *, gc: GcConfig | None = None, **changes: Any) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.gc = gc or GcConfig()
        self.changes = changes
        self.shares_ledgers = True
        self.store: Store
        self.bookie: OpenBookie

    async def open(self, files: Files | None = None) -> None:
        self.directory.mkdir(exist_ok=True)
        self.store = Store(self.directory, self.clock)
        await initialize_layout(self.store, instance_id="instance-1")
        changes = {"log_size_limit": 3000, "preallocate_mb": 0, "gc": self.gc} | self.changes
        config = small_config(self.directory, **changes)
        try:
            self.bookie = await open_bookie(config, self.store, self.clock, files or SystemFiles())
        except BaseException:
            await self.store.close()
            raise
        if self.shares_ledgers:
            self.bookie.give_up_over_replicated(self.store, self.clock)

    async def close(self) -> None:
        try:
            await self.bookie.close()
        finally:
            await self.store.close()

    @asynccontextmanager
    async def opened(self, files: Files | None = None) -> AsyncIterator["World"]:
        await self.open(files)
        try:
            yield self
        finally:
            await self.close()

    async def fill(self, ledgers: dict[int, bytes]) -> None:
        """Store some entries of each ledger, whose metadata is then as given."""
        for number, data in ledgers.items():
            ledger_id = LedgerId(number)
            for entry_id in ENTRIES:
                assert (await ask(self.bookie, add(ledger_id, entry_id, bytes(700)))).status is EOK
            await self.store.create(PATHS.ledger(ledger_id), data, parents=True)
        await self.bookie.checkpoint()

    async def kept(self, number: int) -> bool:
        """Tell whether a ledger is here, whole."""
        ledger_id = LedgerId(number)
        answers = [await ask(self.bookie, read(ledger_id, entry)) for entry in ENTRIES]
        if all(answer.status is ENOLEDGER for answer in answers):
            return False
        for entry_id, answer in zip(ENTRIES, answers, strict=True):
            assert answer.status is EOK
            assert bytes(answer.body) == entry_body(ledger_id, entry_id, bytes(700))
        return True

    async def collect(self, *, force: bool = True) -> list[LedgerId]:
        return (await self.bookie.collect_garbage(force=force)).ledgers

    async def lock_names(self) -> list[str]:
        return await self.store.children(MARKS.locks)


def one(story: Callable[[World], Awaitable[Any]], tmp_path: Path, **changes: Any) -> None:
    """Run a story in a world of its own."""

    async def whole() -> None:
        async with World(tmp_path / "world", **changes).opened() as world:
            await story(world)

    run(whole)


@pytest.mark.parametrize(
    ("data", "goes"),
    [
        (ELSEWHERE, True),
        (metadata(OTHERS, tuple(reversed(OTHERS))), True),
        (HERE, False),
        (HERE_EARLIER, False),
        (HERE_LATER, False),
        (metadata(OTHERS, state=OPEN), False),
        (metadata(OTHERS, state=IN_RECOVERY), False),
        (b"BookieMetadataFormatVersion\t4\n", False),
    ],
    ids=["elsewhere", "elsewhere-twice", "here", "earlier", "later", "open", "recovery", "unread"],
)
def test_what_goes_and_what_stays(tmp_path: Path, data: bytes, goes: bool) -> None:
    async def story(world: World) -> None:
        await world.fill({1: data, 2: HERE, 3: ELSEWHERE})
        assert await world.collect() == ([1, 3] if goes else [3])
        assert await world.kept(1) == (not goes)
        assert await world.kept(2)
        assert await world.lock_names() == []
        assert world.bookie.metrics.over_replicated_total == goes + 1
        assert await world.collect() == []

    one(story, tmp_path)


def test_an_open_ledger_may_still_come_to_this_bookie() -> None:
    ledger = LedgerMetadata(
        ensemble_size=1, write_quorum=1, ack_quorum=1, fragments=(Fragment(0, (OTHERS[0],)),)
    )
    assert not is_kept_by_others(ledger, ME)
    assert not is_kept_by_others(ledger.in_recovery(), ME)
    assert is_kept_by_others(ledger.closed(5, 50), ME)
    assert not is_kept_by_others(ledger.closed(5, 50), OTHERS[0])


def test_it_stays_away_after_a_restart_and_its_room_is_freed(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        logs = tmp_path / "ledgers/current"
        async with world.opened():
            await world.fill({1: ELSEWHERE, 2: HERE})
            before = len(list(logs.glob("*.log")))
            removed = await world.bookie.collect_garbage(force=True)
            assert removed.ledgers == [L1]
            assert removed.entry_logs
            assert len(list(logs.glob("*.log"))) < before
        async with world.opened():
            assert not await world.kept(1)
            assert await world.kept(2)

    run(story)


def test_it_is_looked_for_now_and_then(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        world.clock.advance_ms(DAY_MS - 1000)
        assert await world.collect(force=False) == []
        world.clock.advance_ms(1000)
        assert await world.collect(force=False) == [L1]
        await world.fill({2: ELSEWHERE})
        world.clock.advance_ms(DAY_MS - 1000)
        assert await world.collect(force=False) == []
        world.clock.advance_ms(1000)
        assert await world.collect(force=False) == [L2]

    one(story, tmp_path)


def test_never_means_never_by_itself(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        world.clock.advance_ms(100 * DAY_MS)
        assert await world.collect(force=False) == []

    one(story, tmp_path, gc=GcConfig(over_replicated_wait_ms=0))


def test_a_bookie_alone_keeps_all(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        world.shares_ledgers = False
        async with world.opened():
            await world.fill({1: ELSEWHERE})
            assert await world.collect() == []

    run(story)


def test_what_is_marked_stays(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        mark = encode_mark(Mark((OTHERS[0],), 1))
        await world.store.create(MARKS.layout, LAYOUT_BYTES, parents=True)
        await world.store.create(MARKS.mark(L1), mark, parents=True)
        assert await world.collect() == []
        assert await world.kept(1)
        assert await world.lock_names() == []
        await world.store.delete(MARKS.mark(L1))
        assert await world.collect() == [L1]

    one(story, tmp_path)


def test_what_somebody_else_has_locked_stays(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE, 2: ELSEWHERE})
        await world.store.create(MARKS.lock(L1), encode_lock("worker"), parents=True)
        assert await world.collect() == [L2]
        assert await world.kept(1)
        assert await world.lock_names() == ["urL0000000001"]

    one(story, tmp_path)


@pytest.mark.parametrize(
    "data", [HERE, metadata(OTHERS, state=OPEN), b"damaged"], ids=["here", "open", "damaged"]
)
def test_metadata_that_changes_before_the_lock_counts(tmp_path: Path, data: bytes) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})

        async def others() -> None:
            await world.store.set(PATHS.ledger(L1), data)

        world.store.before_lock = others
        assert await world.collect() == []
        assert await world.kept(1)
        assert await world.lock_names() == []

    one(story, tmp_path)


def test_a_ledger_deleted_before_the_lock_is_left_to_the_next_collection(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})

        async def others() -> None:
            with contextlib.suppress(CoreError):
                await world.store.delete(PATHS.ledger(L1))

        world.store.before_lock = others
        assert await world.collect() == []
        assert await world.collect() == [L1]
        assert world.bookie.metrics.over_replicated_total == 0

    one(story, tmp_path)


def test_a_mark_that_comes_with_the_lock_counts(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})

        async def others() -> None:
            mark = encode_mark(Mark((OTHERS[0],), 1))
            await world.store.create(MARKS.mark(L1), mark, parents=True)

        world.store.before_lock = others
        assert await world.collect() == []
        assert await world.kept(1)

    one(story, tmp_path)


def test_a_lock_that_was_lost_meanwhile_is_no_lock(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})

        async def others() -> None:
            await SqliteStore.delete(world.store, MARKS.lock(L1))
            await SqliteStore.create(world.store, MARKS.lock(L1), encode_lock("worker"))

        world.store.before_look = others
        assert await world.collect() == []
        assert await world.kept(1)
        assert await world.lock_names() == ["urL0000000001"]  # it is the worker's now

    one(story, tmp_path)


def test_an_answer_from_before_a_pause_counts_for_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})

        async def pause() -> None:
            world.clock.advance_ms(2000)

        world.store.before_look = pause
        assert await world.collect() == []
        world.store.before_look = None
        assert await world.collect() == [L1]

    one(story, tmp_path)


def test_a_lock_whose_making_got_no_answer_is_removed_later(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE, 2: HERE})
        world.store.lose_answers = 1
        assert await world.collect() == []
        assert await world.kept(1)
        assert await world.lock_names() == ["urL0000000001"]
        assert await world.collect() == [L1]
        assert await world.lock_names() == []

    one(story, tmp_path)


@pytest.mark.parametrize("lost", ["lose_answers", "lose_deletes"])
def test_a_lock_that_was_left_goes_with_the_next_collection(tmp_path: Path, lost: str) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        setattr(world.store, lost, 1)
        await world.collect()
        assert await world.lock_names() == ["urL0000000001"]
        world.store.lose_deletes = 1
        await world.collect(force=False)
        assert await world.lock_names() == ["urL0000000001"]
        await world.collect(force=False)
        assert await world.lock_names() == []

    one(story, tmp_path, gc=GcConfig(over_replicated_wait_ms=0))


@pytest.mark.parametrize("lost", ["lose_answers", "lose_requests", "lose_deletes"])
def test_a_look_that_had_errors_is_repeated(tmp_path: Path, lost: str) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE, 2: HERE})
        world.clock.advance_ms(DAY_MS)
        setattr(world.store, lost, 1)
        first = await world.collect(force=False)
        await world.store.set(PATHS.ledger(L2), ELSEWHERE)
        assert first + await world.collect(force=False) == [L1, L2]
        assert await world.lock_names() == []
        await world.fill({3: ELSEWHERE})
        assert await world.collect(force=False) == []  # that one was whole

    one(story, tmp_path)


def test_a_look_that_found_others_locks_is_not_repeated(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE, 2: HERE})
        world.clock.advance_ms(DAY_MS)
        await world.store.create(MARKS.lock(L1), encode_lock("worker"), parents=True)
        assert await world.collect(force=False) == []
        await world.store.set(PATHS.ledger(L2), ELSEWHERE)
        assert await world.collect(force=False) == []

    one(story, tmp_path)


def test_nothing_goes_where_marks_are_kept_in_another_way(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE, 2: ELSEWHERE})
        await world.store.create(MARKS.layout, b'type: "NEW"\nversion: 2\n', parents=True)
        await world.store.delete(PATHS.ledger(L2))
        assert await world.collect() == [L2]  # this one is dead, whatever the marks say
        assert await world.kept(1)

    one(story, tmp_path)


def test_nothing_goes_without_metadata(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        await world.store.close()
        assert await world.collect() == []
        assert await world.kept(1)

    one(story, tmp_path)


def test_only_so_many_are_locked_at_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.fill(dict.fromkeys(range(1, 8), ELSEWHERE))
        assert await world.collect() == list(range(1, 8))
        assert world.store.held_max == 3

    one(story, tmp_path, gc=GcConfig(over_replicated_requests_max=3))


@pytest.mark.parametrize("changes", [{"over_replicated_wait_ms": -1}])
def test_settings_that_make_no_sense(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="gcOverreplicatedLedgerWaitTime"):
        GcConfig(**changes)
    with pytest.raises(ValueError, match="gcOverreplicatedLedgerMaxConcurrentRequests"):
        GcConfig(over_replicated_requests_max=0)


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("saved", [True, False])
def test_its_late_writer_stays_refused_and_copies_are_taken(
    tmp_path: Path, saved: bool, restarts: bool
) -> None:
    async def story(world: World) -> None:
        await world.fill({1: ELSEWHERE})
        assert (await ask(world.bookie, fence(L1))).status is EOK
        if saved:
            await world.close()
            await world.open()
        assert await world.collect() == [L1]
        if restarts:
            await world.close()
            await world.open()
        assert (await ask(world.bookie, add(L1, 3))).status is StatusCode.EFENCED
        for entry_id in ENTRIES:
            copy = add(L1, entry_id, bytes(700), recovery=True)
            assert (await ask(world.bookie, copy)).status is EOK
        assert await world.kept(1)
        assert (await ask(world.bookie, add(L1, 3))).status is StatusCode.EFENCED

    one(story, tmp_path)


def test_a_fence_that_cannot_be_written_down_keeps_the_ledger(tmp_path: Path) -> None:
    class NoRoomForFences(SystemFiles):
        is_full = True

        @override
        def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
            if self.is_full and path.name.startswith(FILE_NAME) and flags != os.O_RDONLY:
                raise OSError(errno.ENOSPC, "no room", str(path))
            return super().open(path, flags)

    async def story() -> None:
        files = NoRoomForFences()
        world = World(tmp_path / "data")
        async with world.opened(files):
            await world.fill({1: ELSEWHERE, 2: ELSEWHERE, 3: ELSEWHERE})
            for ledger_id in (L1, LedgerId(2)):
                assert (await ask(world.bookie, fence(ledger_id))).status is EOK
            await world.store.delete(PATHS.ledger(LedgerId(2)))
            assert await world.collect() == [2, 3]  # deleted, and never fenced
            assert await world.kept(1)
            assert (await ask(world.bookie, add(LedgerId(2), 3))).status is StatusCode.EFENCED
            files.is_full = False
            assert await world.collect() == [L1]

    run(story)


def test_a_copy_that_arrives_during_the_removal_is_kept(tmp_path: Path) -> None:
    """As when the session and the lock are lost while a slow disk removes the file."""

    async def story() -> None:
        world = World(tmp_path, log_size_limit=100_000)  # no checkpoint but those of the end
        files = SlowRemoval("1.idx")
        async with world.opened():
            await world.fill({1: ELSEWHERE})
        async with world.opened(files):
            collecting = asyncio.ensure_future(world.collect())
            reached = asyncio.get_running_loop().run_in_executor(None, files.reached.wait, 20)
            assert await reached
            copies = [
                ask(world.bookie, add(L1, entry_id, bytes(700), recovery=True))
                for entry_id in ENTRIES
            ]
            for copy in copies:
                assert (await copy).status is EOK
            await world.store.set(PATHS.ledger(L1), HERE)
            files.go.set()
            assert await collecting == [L1]
            assert await world.kept(1)
        async with world.opened():
            assert await world.kept(1)
            assert await world.collect() == []
            assert await world.kept(1)

    run(story)


@pytest.mark.parametrize("journal_write_data", [False, True])
def test_a_crash_at_every_step(tmp_path: Path, journal_write_data: bool) -> None:
    """What is kept is whole; what goes can go again; and it can be copied back."""
    ways: dict[str, Any] = {"journal_write_data": journal_write_data}
    base = World(tmp_path / "base", **ways)

    async def fill() -> None:
        async with base.opened():
            await base.fill({1: ELSEWHERE, 2: HERE, 3: ELSEWHERE})

    async def story(step: int | None) -> list[str]:
        shutil.copytree(base.directory, tmp_path / f"{step}")
        world = World(tmp_path / f"{step}", **ways)
        files = CrashFiles()
        await world.open(files)
        opened = len(files.steps)
        files.stop_at = None if step is None else opened + step
        await _or_crash(files, world.collect())
        await _or_crash(files, world.close())
        if step is not None and step % 2 == journal_write_data:
            files.lose_power(random.Random(step))  # else it is killed and the machine stays on
        async with world.opened():
            assert await world.lock_names() == []
            assert await world.kept(2)
            await world.collect()
            assert await world.kept(2)
            assert not await world.kept(1)
            assert not await world.kept(3)
            for entry_id in ENTRIES:
                copy = add(L1, entry_id, bytes(700), recovery=True)
                assert (await ask(world.bookie, copy)).status is EOK
            await world.store.set(PATHS.ledger(L1), HERE)
        async with world.opened():
            await world.collect()
            assert await world.kept(1)
            assert await world.kept(2)
        return files.steps[opened:]

    run(fill)
    steps = run(functools.partial(story, None))
    assert steps.count("remove 1.idx") == steps.count("remove 3.idx") == 1
    for step in range(len(steps)):
        run(functools.partial(story, step))


async def _or_crash(files: CrashFiles, work: Awaitable[Any]) -> None:
    try:
        await work
    except (OSError, BookieError, CoreError):
        assert files.is_crashed
