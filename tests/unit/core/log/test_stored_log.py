"""A log that is looked at where it lies: what is seen, and that nobody notices."""

from pathlib import Path

import pytest

from tailrace.core.errors import LogNotFound
from tests.unit.core.log.world import Listener, RecordState, World, run_world, write


def test_what_lies_there(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        state = RecordState()
        writer = await log.open_writer(Listener(), state)
        looked_at = world.namespace().stored_log("s")
        assert list(await looked_at.segments()) == []
        await write(writer, 1, 2, 3)
        await log.set_data(b"notes")
        before = await world.dump()
        (segment,) = await looked_at.segments()
        assert (segment.in_progress, await looked_at.has_owner()) == (True, True)
        assert await looked_at.get_data() == b"notes"
        assert not await looked_at.is_being_purged()
        assert await world.dump() == before
        await writer.roll()
        await write(writer, 4)
        await writer.close()
        first, second = await looked_at.segments()
        assert (first.in_progress, second.in_progress) == (False, False)
        assert not await looked_at.has_owner()
        index, size = await looked_at.index_of(first)
        assert index == await log.read_index(first.lssn)
        assert index is not None
        assert size > 0
        await log.purge_segments(second.lssn)
        assert await looked_at.is_being_purged()

    run_world(tmp_path, story)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        with pytest.raises(LogNotFound):
            await world.namespace().stored_log("nobody").segments()

    run_world(tmp_path, story)
