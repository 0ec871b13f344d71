import asyncio

import pytest

from tailrace.core.errors import LedgerNotFound, Unavailable
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.metadata_watch import MetadataWatch
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.store import Node, Watch
from tests.unit.core.ledger.fast_world import FastWorld, run_fast
from tests.unit.core.ledger.test_speculative_reads import written
from tests.unit.core.ledger.world import settle


class Kept:
    """A watch, and what it installed."""

    def __init__(self, world: FastWorld, writer: LedgerWriter) -> None:
        self.versions: list[int] = []
        self.watch = MetadataWatch(world.client._nodes, writer.ledger_id, self._install)

    def _install(self, stored: StoredLedger) -> None:
        self.versions.append(stored.version)


async def touch(world: FastWorld, writer: LedgerWriter) -> None:
    """Change the node without a change of meaning."""
    path = world.client._paths.ledger(writer.ledger_id)
    await world.store.set(path, (await world.store.get(path)).data)


def test_reads_once_and_again_after_a_change() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        kept = Kept(world, writer)
        for _ in range(3):
            await kept.watch.refresh()
        news = kept.watch.changed()
        await settle()
        assert not news.done()
        await touch(world, writer)
        assert news.done()
        assert kept.watch.changed().done(), "who comes late must look, too"
        await kept.watch.refresh()
        assert not kept.watch.changed().done()
        assert kept.versions == [1, 2]

    run_fast(story)


def test_change_during_the_read_is_read() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        kept = Kept(world, writer)
        get, changes = world.store.get, iter([True])

        async def overtaken(path: str, watch: Watch | None = None) -> Node:
            node = await get(path, watch)
            if watch is not None and next(changes, False):
                await touch(world, writer)
            return node

        world.store.get = overtaken  # type: ignore[method-assign]
        await kept.watch.refresh()
        assert kept.versions[-1] == 2

    run_fast(story)


def test_those_who_wait_share_one_read_and_its_failure_is_not_theirs() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        kept = Kept(world, writer)
        get, reads = world.store.get, []

        async def failing(path: str, watch: Watch | None = None) -> Node:
            reads.append(path)
            await asyncio.sleep(1)
            if len(reads) == 1:
                raise Unavailable("the first read fails")
            return await get(path, watch)

        world.store.get = failing  # type: ignore[method-assign]
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(kept.watch.refresh()) for _ in range(5)]
        await asyncio.wait(waiting)
        failed = [task for task in waiting if task.exception() is not None]
        assert len(failed) == 1
        assert isinstance(failed[0].exception(), Unavailable)
        assert len(reads) == 2
        assert kept.versions == [1]

    run_fast(story)


def test_deleted_ledger() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        kept = Kept(world, writer)
        await kept.watch.refresh()
        await world.client.delete_ledger(writer.ledger_id)
        for _ in range(2):
            with pytest.raises(LedgerNotFound):
                await kept.watch.refresh()

    run_fast(story)
