"""Rewriting where segments are in cold storage as well: a copy is of one ledger."""

from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import BadVersion
from tailrace.core.log.cold.nodes import ColdSegment
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.unit.core.log.test_cold_log import objects, on_bookies, release_all, run_cold
from tests.unit.core.log.test_rewrite import fill, kept, rewritten
from tests.unit.core.log.test_rewrite_readers import read_rest, read_some
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import World, txids_of


def test_a_rewritten_segment_is_copied_anew(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 4)
        assert await log.upkeep.copy_to_cold() == [1, 2, 3, 4]
        await rewritten(log, [2, 3])
        assert len(objects(tmp_path)) == 4, "for readers inside"
        for each in (log, await world.log()):  # one that remembers what it copied, one that looks
            assert await each.upkeep.copy_to_cold() == ([2, 3] if each is log else [])
        await release_all(world, log)
        assert await on_bookies(world) == [4]
        assert len(objects(tmp_path)) == 4, "the copies of the old ledgers are gone"
        for each in (log, await world.log()):
            assert await txids_of(each) == kept(40, [2, 3])

    run_cold(tmp_path, story)


def test_a_segment_without_a_copy_keeps_its_ledger(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 4)
        await log.upkeep.copy_to_cold()
        await rewritten(log, [2])
        released = await log.upkeep.trimmer.release(99)
        assert [segment.lssn for segment in released] == [1], "nothing old comes back"
        assert await txids_of(log) == kept(40, [2])

    run_cold(tmp_path, story)


def test_a_reader_of_the_old_ledger_does_not_take_the_new_copy_for_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 4, read_ahead_entries=1)
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, 3)
        await log.upkeep.copy_to_cold()
        await rewritten(log, [1, 2, 3], lambda txid: txid % 5 == 0)
        await release_all(world, log)
        seen += await read_rest(reader)
        assert seen == sorted(set(seen))
        assert set(seen) >= {*range(0, 30, 5), *range(30, 40)}

    run_cold(tmp_path, story)


def test_a_copy_made_while_it_is_rewritten(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, copier = await with_segments(world, 3), await world.log()
        rewrite = await log.rewrite([1])
        await fill(rewrite, log, 1)
        await copier.upkeep.copy_to_cold()
        assert len(await rewrite.commit()) == 1
        await release_all(world, await world.log())
        assert await txids_of(await world.log()) == kept(30, [1])

    run_cold(tmp_path, story)


def test_a_copy_that_is_old_before_it_is_noted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, cleaner = await with_segments(world, 3), await world.log()
        assert world.cold is not None
        copy, left = world.cold.copy, [1]

        async def rewrite_after(*args: Any) -> ColdSegment:
            made = await copy(*args)
            while left:
                await rewritten(cleaner, [left.pop()])
            return made

        world.cold.copy = rewrite_after  # type: ignore[method-assign]
        assert await log.upkeep.copy_to_cold() == [2, 3]
        assert await log.upkeep.copy_to_cold() == [1]
        await release_all(world, log)
        assert await txids_of(await world.log()) == kept(30, [1])
        assert len(objects(tmp_path)) == 3

    run_cold(tmp_path, story)


def test_a_release_while_it_is_rewritten_wins(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        rewrite = await log.rewrite([1])
        await fill(rewrite, log, 1)
        await release_all(world, await world.log())
        with pytest.raises(BadVersion):
            await rewrite.commit()
        await rewrite.abort()
        assert await txids_of(await world.log()) == list(range(30))
        world.clock.advance_ms(DELAY_MS)
        await log.upkeep.trimmer.collect()
        assert len(await world.ledger_ids()) == 1

    run_cold(tmp_path, story)
