"""A rewrite that dies at any moment leaves the old segments or the new ones, and no ledger."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import BadVersion, CoreError, MetadataConflict, OwnershipLost, Unavailable
from tailrace.core.log.ownership import Ownership
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_rewrite import PATHS, fill, kept, rewritten, with_state
from tests.unit.core.log.test_trimmer import DELAY_MS, check_no_leak, with_segments
from tests.unit.core.log.world import Listener, World, run_world, settle, txids_of, write

CHANGES_MAX = 16
GROUP = [1, 2]


async def until_dead(work: Coroutine[Any, Any, Any], store: FaultyStore) -> None:
    """Let a process work until its store dies, and it with it."""
    task, died = asyncio.create_task(work), asyncio.create_task(store.died.wait())
    await asyncio.wait([task, died], return_when=asyncio.FIRST_COMPLETED)
    died.cancel()
    task.cancel()
    with suppress(asyncio.CancelledError, Unavailable):
        await task


async def check_all_or_nothing(world: World) -> bool:
    """Return whether the group was swapped in."""
    found = await txids_of(await world.log())
    assert found in (list(range(30)), kept(30, GROUP)), "some of each"
    return len(found) < 30


@pytest.mark.parametrize("applied", [False, True])
def test_crash_at_every_change(tmp_path: Path, *, applied: bool) -> None:
    swapped: list[bool] = []
    finished: list[int] = []
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            await with_segments(world, 3)
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            await until_dead(rewritten(await world.namespace(store).open_log("s"), GROUP), store)
            await world.restart_store()
            is_swapped = await check_all_or_nothing(world)
            if store.died.is_set():
                swapped.append(is_swapped)
            else:
                finished.append(change)  # to the end, or a change that failed by itself
                assert is_swapped
            log = await world.log()
            await rewritten(log, GROUP)
            assert await txids_of(log) == kept(30, GROUP)
            await check_no_leak(world, log)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert finished[-1] == CHANGES_MAX - 1, "CHANGES_MAX does not reach the end"
    assert swapped == sorted(swapped), "once swapped in, it stays"
    assert not swapped[0]
    assert swapped[-1]


def test_upkeep_alone_deletes_what_a_crash_left(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        await fill(await log.rewrite(GROUP), log, 1)  # and then the process is gone
        await log.upkeep.trimmer.collect()
        assert len(await world.ledger_ids()) == 4, "it might go on"
        world.clock.advance_ms(24 * 3_600_000)
        await log.upkeep.trimmer.collect()
        assert len(await world.ledger_ids()) == 3
        assert await world.store.children(PATHS.purged) == []

    run_world(tmp_path, story)


@pytest.mark.parametrize("change", range(CHANGES_MAX))
def test_an_answer_that_was_lost(tmp_path: Path, change: int) -> None:
    """Whoever asked fails or goes on; done twice or given up, it is the same."""

    async def story(world: World) -> None:
        await with_segments(world, 3)
        store = FaultyStore(world.store)
        store.lose_answer_of(change)
        log = await world.namespace(store).open_log("s")
        with suppress(CoreError):
            rewrite = await log.rewrite(GROUP)
            try:
                for lssn in GROUP:
                    await fill(rewrite, log, lssn)
            except CoreError:
                await rewrite.abort()
            else:
                await rewrite.commit()
                assert await txids_of(log) == kept(30, GROUP)
                assert await check_all_or_nothing(world)
        await world.restart_store()
        log = await world.log()
        await rewritten(log, GROUP)
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_a_swap_that_arrives_after_it_was_given_up(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world, 3)
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        rewrite = await log.rewrite(GROUP)
        for lssn in GROUP:
            await fill(rewrite, log, lssn)
        arrives, is_held = asyncio.Event(), asyncio.Event()

        async def hold(_change: int) -> None:
            is_held.set()
            await arrives.wait()

        store.before = hold
        commit = asyncio.create_task(rewrite.commit())
        await is_held.wait()
        await rewritten(await world.log(), [1, 2, 3])  # took what it found for leftovers
        store.before = None
        arrives.set()
        with pytest.raises(BadVersion):
            await commit
        await rewrite.abort()
        other = await world.log()
        assert await txids_of(other) == kept(30, [1, 2, 3])
        await check_no_leak(world, other)

    run_world(tmp_path, story)


def test_of_two_rewrites_in_a_process_the_later_one_gets_through(tmp_path: Path) -> None:
    """They share a session, so the lock does not keep them apart; their notes do."""

    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        first = await log.rewrite([1])
        await fill(first, log, 1)
        second = await log.rewrite([1])
        with pytest.raises(BadVersion, match="took the rewrite"):
            await first.commit()
        await fill(second, log, 1)
        await first.abort()
        assert len(await second.commit()) == 1
        assert await txids_of(log) == kept(30, [1])
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_an_abort_beats_a_swap_on_its_way(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world, 3)
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        rewrite = await log.rewrite(GROUP)
        for lssn in GROUP:
            await fill(rewrite, log, lssn)
        arrives, is_held = asyncio.Event(), asyncio.Event()

        async def hold(_change: int) -> None:
            if not is_held.is_set():
                is_held.set()
                await arrives.wait()

        store.before = hold
        commit = asyncio.create_task(rewrite.commit())
        await is_held.wait()
        await rewrite.abort()
        arrives.set()
        with pytest.raises((MetadataConflict, OwnershipLost)):
            await commit
        log = await world.log()
        assert await txids_of(log) == list(range(30))
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_a_swap_that_arrives_in_the_middle_of_an_abort(tmp_path: Path) -> None:
    """Once a ledger is to be deleted, no segment can take it."""

    async def story(world: World) -> None:
        await with_segments(world, 3)
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        rewrite = await log.rewrite([1])
        await fill(rewrite, log, 1)
        arrives, is_held, calls = asyncio.Event(), asyncio.Event(), []

        async def hold(_change: int) -> None:
            calls.append(asyncio.current_task())
            if len(calls) == 1:
                is_held.set()
                await arrives.wait()
            elif len(calls) == 3:  # the abort claimed the note; now it deletes the ledger
                arrives.set()
                await asyncio.wait([commit])

        store.before = hold
        commit = asyncio.create_task(rewrite.commit())
        await is_held.wait()
        await rewrite.abort()
        with pytest.raises((MetadataConflict, OwnershipLost)):
            await commit
        log = await world.log()
        assert await txids_of(log) == list(range(30))
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_a_bookie_that_fails_meanwhile(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        rewrite = await log.rewrite(GROUP)
        await fill(rewrite, log, 1)
        world.bookie.fault = lambda request: (
            StatusCode.LOCAL_TIMEOUT if isinstance(request, AddRequest) else None
        )
        with pytest.raises(CoreError):
            await fill(rewrite, log, 2)
        await rewrite.abort()
        world.bookie.fault = lambda _request: None
        assert await txids_of(log) == list(range(30))
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_what_is_on_its_way_is_bounded(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        rewrite = await log.rewrite([1])
        await rewrite.append(1, 0, [b"r0"], 2)
        world.bookie.hold()
        large, written = bytes(512 << 10), []

        async def append() -> None:
            for txid in range(1, 10):
                await rewrite.append(1, txid, [large], len(large))
                written.append(txid)

        task = asyncio.create_task(append())
        await settle(200)
        assert 3 <= len(written) <= 5, "2 MiB, and one that waits"
        world.bookie.release()
        await task
        await rewrite.finish(1, None, b"")
        assert (await rewrite.commit())[0].record_count == 10

    run_world(tmp_path, story)


@pytest.mark.parametrize("when", ["copying", "filled", "swapped"])
def test_a_new_owner_takes_over_while_it_runs(tmp_path: Path, when: str) -> None:
    async def story(world: World) -> None:
        log = await with_state(world)
        old_owner = await log.open_writer(Listener())
        await write(old_owner, 30)
        cleaner = await world.log()
        rewrite = await cleaner.rewrite([2, 3])
        await fill(rewrite, cleaner, 2)
        new = await world.log()

        async def take_over() -> None:
            await old_owner.abort()
            writer = await new.open_writer(Listener())
            await write(writer, 31)
            await writer.close()

        if when == "copying":
            await take_over()
        await fill(rewrite, cleaner, 3)
        if when == "filled":
            await take_over()
        await rewrite.commit()
        if when == "swapped":
            await take_over()
        world.clock.advance_ms(DELAY_MS)
        await cleaner.upkeep.trimmer.collect()
        for each in (new, await world.log()):
            assert await txids_of(each) == [*kept(30, [2, 3]), 30, 31]
        await check_no_leak(world, new)

    run_world(tmp_path, story)


def test_an_owner_without_its_lock_rewrites_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        writer = await log.open_writer(Listener())
        rewrite = await log.rewrite([1])
        await fill(rewrite, log, 1)
        for name in await world.store.children(PATHS.lock):
            await world.store.delete(f"{PATHS.lock}/{name}")
        with pytest.raises(OwnershipLost):
            await rewrite.commit()
        await rewrite.abort()
        await writer.abort()
        assert await txids_of(log) == list(range(30))
        await check_no_leak(world, log)

    run_world(tmp_path, story)


def test_an_owner_knows_of_its_swap_whatever_becomes_of_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for number in range(3):
            await write(writer, *range(number * 10, number * 10 + 10))
            await writer.roll()
        await log.refresh()
        rewrite = await log.rewrite(GROUP)
        for lssn in GROUP:
            await fill(rewrite, log, lssn)

        async def cancelled(_claim: Ownership) -> None:
            raise asyncio.CancelledError

        with monkeypatch.context() as patched:
            patched.setattr(Ownership, "release", cancelled)
            with pytest.raises(asyncio.CancelledError):
                await rewrite.commit()
        await rewrite.abort()
        world.clock.advance_ms(DELAY_MS)
        await log.upkeep.trimmer.collect()
        await log.refresh()
        assert await txids_of(log) == kept(30, GROUP)

    run_world(tmp_path, story)
