"""The list of segments as a process that does not write the log keeps it."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import Unavailable
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.world import Listener, World, run_world, settle, txids_of, write


def test_who_comes_while_the_list_is_read_gets_the_new_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await (await world.log()).open_writer(Listener())
        await write(writer, 1, 2)
        await writer.close()
        log = await world.log()
        found = await asyncio.gather(*(log.locate(txid) for txid in (1, 1, 2)))
        assert None not in found
        assert found[0] == found[1] != found[2]
        assert await asyncio.gather(txids_of(log), txids_of(log)) == [[1, 2]] * 2

    run_world(tmp_path, story)


def test_a_read_that_failed_or_was_cancelled_does_not_end_the_news(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        owner = await world.log()
        writer = await owner.open_writer(Listener())
        await write(writer, 1)
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        store.died.set()
        with pytest.raises(Unavailable):
            await log.refresh()
        store.died.clear()
        cancelled = asyncio.create_task(log.refresh())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await log.refresh()
        assert [segment.lssn for segment in log.segments] == [1]
        await writer.roll()
        await write(writer, 2)
        while log.tail_version == 0 or len(log.segments) < 2:
            await settle()
            await log.refresh()
        await writer.close()

    run_world(tmp_path, story)
