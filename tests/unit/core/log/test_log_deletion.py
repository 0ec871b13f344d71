"""Deleting a log, and openings that end in the middle: nothing of them is left over."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, LogNotFound, MetadataConflict, OwnershipLost
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_allocator_pool import POOLED
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    run_world,
    settle,
    txids_of,
    write,
)

DELETION_CHANGES_MAX = 24


class SlowState(RecordState):
    """A state that stops an opening where it restores."""

    def restore(self, snapshot: bytes | None) -> None:
        raise asyncio.CancelledError


def test_the_ledger_of_a_dead_owners_next_segment_goes_with_the_log(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await (await world.log()).open_writer(Listener())
        await write(writer, 1)
        await writer.abort()
        dead = await (await world.log()).open_writer(Listener())  # has made the next ledger
        await dead.abort()
        assert len(await world.ledger_ids()) == 2
        await world.namespace().delete_log("s")
        assert await world.ledger_ids() == set()

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_crash_at_every_metadata_change_of_a_deletion(tmp_path: Path, *, applied: bool) -> None:
    """What it had begun, the next deletion ends."""
    completed = []
    for change in range(DELETION_CHANGES_MAX):

        async def story(world: World, change: int = change) -> None:
            writer = await (await world.log()).open_writer(Listener())
            await write(writer, 1, 2)
            await writer.roll()
            await write(writer, 3)
            await writer.abort()
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            try:
                await world.namespace(store, client_id="dies").delete_log("s")
            except CoreError:
                await world.restart_store()
            completed.append(not store.died.is_set())
            with suppress(LogNotFound):  # it came so far that only its name was left to be taken
                await world.namespace().delete_log("s")
            assert await world.ledger_ids() == set()
            assert not await world.namespace().log_exists("s")

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story)
    assert completed[-1], "DELETION_CHANGES_MAX does not reach the end"
    assert not all(completed)


def test_who_deletes_is_asked_whether_it_may_when_nobody_else_can(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await (await world.log()).open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        mine, others = world.namespace(), world.namespace(client_id="other")
        lock = "/distributedlog/tailrace/s/<default>/lock"
        asked: list[int] = []

        async def check_may() -> None:
            asked.append(len(await world.store.children(lock)))
            with pytest.raises(OwnershipLost):
                await others.delete_log("s")
            raise LogNotFound("it is another log by now")

        with pytest.raises(LogNotFound, match="another log"):
            await mine.delete_log("s", check_may)
        assert asked == [1]
        assert await world.store.children(lock) == []
        log = await mine.open_log("s", {"bkcEnsembleSize": "1"})  # not the one that it looked at
        assert await txids_of(log) == [1]

    run_world(tmp_path, story)


def test_nobody_opens_a_log_that_is_being_deleted(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        deleting = asyncio.create_task(log.delete())
        while not await world.store.children("/distributedlog/tailrace/s/<default>/lock"):
            await settle()
        with pytest.raises(OwnershipLost):
            await log.open_writer(Listener())
        await deleting
        assert await world.ledger_ids() == set()
        opening = asyncio.create_task(log.open_writer(Listener()))
        await asyncio.sleep(0)
        with pytest.raises(OwnershipLost, match="being opened"):
            await log.delete()
        again = await opening
        put(again, 5)
        await again.close()
        assert await txids_of(log) == [5]

    run_world(tmp_path, story)


def test_an_opening_that_is_cancelled_keeps_no_allocator(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        for _ in range(2):
            writer = await log.open_writer(Listener())
            await write(writer, 1)
            await writer.abort()
            with pytest.raises(asyncio.CancelledError):
                await log.open_writer(Listener(), SlowState())
        assert await txids_of(log) == [1, 1]

    run_world(tmp_path, story, config=POOLED)


def test_an_opening_that_finds_a_wrong_counter_keeps_no_allocator(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace()
        for name in "st":
            await namespace.create_log(name)
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await writer.abort()
        await world.store.set("/distributedlog/tailrace/s/<default>/ledgers", b"9")
        with pytest.raises(MetadataConflict, match="the counter says 9"):
            await log.open_writer(Listener())
        other = await (await namespace.open_log("t")).open_writer(Listener())
        await write(other, 1)
        await other.close()

    run_world(tmp_path, story, config=POOLED)


def test_owners_that_do_not_write_hold_no_allocator(tmp_path: Path) -> None:
    """A crash leaves many logs in progress; few of them are written to at once."""

    async def story(world: World) -> None:
        namespace = world.namespace()
        logs = []
        for name in "stu":
            await namespace.create_log(name)
            logs.append(await namespace.open_log(name))
            writer = await logs[-1].open_writer(Listener())
            await write(writer, 1)
            await writer.abort()
        writers = [await log.open_writer(Listener()) for log in logs]
        for writer in reversed(writers):
            await write(writer, 2)
            await writer.close()
        assert [await txids_of(log) for log in logs] == [[1, 2]] * 3

    run_world(tmp_path, story, config=POOLED)
