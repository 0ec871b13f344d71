"""Deleting a log while others rewrite, copy or restore its segments: nothing is left of either."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, LogNotFound
from tailrace.core.log.log import Log
from tailrace.core.log.rewrite import SegmentRewrite
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_cold_log import objects, release_all, run_cold
from tests.unit.core.log.test_rewrite import fill, rewritten, with_state
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import World, run_world

CHANGES_MAX = 20

Act = Callable[[], Awaitable[object]]


async def delete_beside(world: World, change: int, act: Act) -> bool:
    """Delete the log, letting another process act before one change; tell whether it came to it."""
    store = FaultyStore(world.store)
    acted = []

    async def before(number: int) -> None:
        if number == change:
            acted.append(number)
            with suppress(CoreError):
                await act()

    store.before = before
    await world.namespace(store, client_id="deleter").delete_log("s")
    return bool(acted)


async def nothing_is_left(world: World, path: Path) -> None:
    assert await world.ledger_ids() == set(), "ledgers that nobody knows"
    assert objects(path) == []
    assert await world.store.children("/distributedlog/tailrace") == []


async def stop_in_the_middle(rewrite: SegmentRewrite, _log: Log) -> None:
    await rewrite.append(2, 10, [b"x"], 1)


async def finish_one(rewrite: SegmentRewrite, log: Log) -> None:
    await fill(rewrite, log, 2)


async def finish_and_swap(rewrite: SegmentRewrite, log: Log) -> None:
    await fill(rewrite, log, 2)
    await rewrite.commit()


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("act", [stop_in_the_middle, finish_one, finish_and_swap])
def test_beside_a_rewrite(
    tmp_path: Path, act: Callable[[SegmentRewrite, Log], Awaitable[None]], *, dies: bool
) -> None:
    """`dies`: the process that rewrites tidies nothing up."""
    came_to_it = []
    for change in range(CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            log = await with_state(world)
            rewrite = await log.rewrite([2])
            came_to_it.append(await delete_beside(world, change, lambda: act(rewrite, log)))
            if not dies:
                await rewrite.abort()
            await nothing_is_left(world, tmp_path)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert came_to_it[0]
    assert not came_to_it[-1], "CHANGES_MAX does not reach the end"


@pytest.mark.parametrize("what", ["copy", "restore", "rewrite", "rewrite_cold"])
def test_beside_cold_storage(tmp_path: Path, what: str) -> None:
    came_to_it = []
    for change in range(3 * CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            log = await with_segments(world, 3)
            if what in ("restore", "rewrite_cold"):
                await release_all(world, log)
            acts: dict[str, Act] = {
                "copy": log.upkeep.copy_to_cold,
                "restore": lambda: log.upkeep.restore(1),
                "rewrite": lambda: rewritten(log, [2]),
                "rewrite_cold": lambda: rewritten(log, [2]),
            }
            came_to_it.append(await delete_beside(world, change, acts[what]))
            world.clock.advance_ms(DELAY_MS)
            await nothing_is_left(world, tmp_path / str(change))

        path = tmp_path / str(change)
        path.mkdir()
        run_cold(path, story)
    assert came_to_it[0]
    assert not came_to_it[-1], "the changes do not reach the end"


def test_a_log_that_was_deleted_in_part_is_not_trimmed_any_more(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await with_segments(world, 3)
        store = FaultyStore(world.store)
        deleted = []

        async def die_at_first_segment(_number: int) -> None:
            if await world.ledger_ids() != there:
                deleted.append(1)
                store.died.set()

        there = await world.ledger_ids()
        store.after = die_at_first_segment
        with pytest.raises(CoreError):
            await world.namespace(store, client_id="dies").delete_log("s")
        assert deleted
        await world.restart_store()
        again = await world.log(client_id="another")
        await again.refresh()
        with pytest.raises(LogNotFound, match="being deleted"):
            await again.purge_segments(9)
        rewrite = await again.rewrite([3])
        with pytest.raises(LogNotFound, match="being deleted"):
            await rewrite.append(3, 20, [b"x"], 1)
        await rewrite.abort()
        await world.namespace().delete_log("s")
        await nothing_is_left(world, tmp_path)

    run_world(tmp_path, story)
