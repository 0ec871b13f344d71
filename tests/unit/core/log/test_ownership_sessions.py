"""Logs that change hands between processes with ZooKeeper sessions of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tailrace.core.errors import CoreError, OwnershipAcquireFailed, OwnershipLost, Unavailable
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.ownership import Ownership, member_prefix
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.store import SessionEvent, Watch
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.world import Listener, World, txids_of, write
from tests.unit.core.metadata.test_zookeeper_session import SessionLog, expire
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java


class Two(NamedTuple):
    """Two processes."""

    one: ZookeeperStore
    other: ZookeeperStore


@asynccontextmanager
async def two(zookeeper: ZooKeeperServer) -> AsyncIterator[Two]:
    root = await asyncio.to_thread(zookeeper.make_root)
    one = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    other = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    try:
        yield Two(one, other)
    finally:
        await one.close()
        await other.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(main(), debug=True)


def test_next_in_line_owns_when_the_owners_session_ends(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            owner, waiter = Ownership(at.one, "/lock", "a"), Ownership(at.other, "/lock", "b")
            await owner.acquire(0)
            with pytest.raises(OwnershipLost, match="owned by a"):
                await Ownership(at.other, "/lock", "b").acquire(0)
            waiting = asyncio.create_task(waiter.acquire(60_000))
            while at.other.metrics.watches < 2:  # its own member, and the one before
                await at.other.get("/")
            await expire(zookeeper, at.one)
            await waiting
            assert waiter.is_held
            await waiter.release()

    run(story)


def test_place_in_line_goes_with_its_session(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            owner, waiter = Ownership(at.one, "/lock", "a"), Ownership(at.other, "/lock", "b")
            await owner.acquire(0)
            log = SessionLog(at.other)
            waiting = asyncio.create_task(waiter.acquire(60_000))
            while at.other.metrics.watches < 2:  # its own member, and the one before
                await at.other.get("/")
            await expire(zookeeper, at.other)
            await log.until(SessionEvent.NEW_SESSION)
            with pytest.raises(OwnershipLost, match="went with its session"):
                await waiting
            await owner.release()
            assert await at.one.children("/lock") == []

    run(story)


@asynccontextmanager
async def owner_without_a_session(
    zookeeper: ZooKeeperServer, path: Path
) -> AsyncIterator[tuple[LogWriter, LogNamespace]]:
    """Return who has written 1, 2, 3 to the log "s", and another process' namespace."""
    async with two(zookeeper) as at:
        world = World(path)
        await initialize_layout(at.one, instance_id="test")
        namespace = world.namespace(at.one, client_id="one")
        await namespace.create_log("s")
        owner = await (await namespace.open_log("s")).open_writer(Listener())
        await write(owner, 1, 2, 3)
        await expire(zookeeper, at.one)
        yield owner, world.namespace(at.other, client_id="other")
        await world.store.close()


def test_log_is_taken_over_from_an_owner_whose_session_ended(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async def story() -> None:
        async with owner_without_a_session(zookeeper, tmp_path) as (first, others):
            await write(first, 4)  # a lost session alone stops nobody
            taken = await others.open_log("s")
            second = await taken.open_writer(Listener())
            with pytest.raises(CoreError):
                await write(first, 5)
            await write(second, 6)
            assert await txids_of(taken) == [1, 2, 3, 4, 6]
            await second.close()

    run(story)


def test_log_is_deleted_that_an_owner_without_a_session_still_writes(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async def story() -> None:
        async with owner_without_a_session(zookeeper, tmp_path) as (owner, others):
            await others.delete_log("s")
            with pytest.raises(CoreError):
                await write(owner, 4)

    run(story)


def test_owner_asks_for_its_place_again(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            refused: list[OwnershipLost] = []
            owner = Ownership(at.one, "/lock", "a", refused.append)
            with pytest.raises(OwnershipLost, match="not held"):
                owner.check_ownership()
            await owner.acquire(0)
            (former,) = await at.other.children("/lock")
            log = SessionLog(at.one)
            await expire(zookeeper, at.one)
            await log.until(SessionEvent.NEW_SESSION)
            while not owner.is_held:
                await at.one.sync()
            owner.check_ownership()
            (member,) = await at.other.children("/lock")
            assert member != former
            assert f"_s{at.one.session_id}_" in member
            assert not refused
            await owner.release()
            assert await at.other.children("/lock") == []

    run(story)


def test_owner_whose_place_was_taken_is_refused(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    """A log's writer fails then, before anybody fences it; its successor is not disturbed."""

    async def story() -> None:
        async with two(zookeeper) as at:
            world = World(tmp_path)
            await initialize_layout(at.one, instance_id="test")
            namespace = world.namespace(at.one, client_id="one")
            await namespace.create_log("s")
            listener = Listener()
            log = await namespace.open_log("s")
            writer = await log.open_writer(listener)
            await write(writer, 1)
            lock = LogPaths("/distributedlog/tailrace", "s").lock
            waiter = Ownership(at.other, lock, "two")
            waiting = asyncio.create_task(waiter.acquire(-1))
            while len(await at.one.children(lock)) < 2:
                await at.one.sync()
            await expire(zookeeper, at.one)
            await waiting
            while not listener.errors:
                await at.other.sync()
            (error,) = listener.errors
            assert isinstance(error, OwnershipAcquireFailed)
            assert error.current_owner == "two"
            with pytest.raises(OwnershipAcquireFailed):
                await write(writer, 2)
            assert len(await at.other.children(lock)) == 1
            await waiter.release()
            again = await log.open_writer(Listener())
            await write(again, 2)
            await again.close()
            assert await txids_of(log) == [1, 2]
            await world.store.close()

    run(story)


def test_an_owner_hears_of_who_came_and_went_while_it_was_away(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """It would show readers too little, and who writes nothing meets no fence."""

    async def story() -> None:
        async with two(zookeeper) as at:
            world = World(tmp_path)
            await initialize_layout(at.one, instance_id="test")
            namespace = world.namespace(at.one, client_id="one")
            await namespace.create_log("s")
            listener = Listener()
            log = await namespace.open_log("s")
            writer = await log.open_writer(listener)
            await write(writer, 1)
            lock = LogPaths("/distributedlog/tailrace", "s").lock
            children, back = at.one.children, asyncio.Event()

            async def late(path: str, watch: Watch | None = None) -> list[str]:
                if path == lock:
                    await back.wait()
                return await children(path, watch)

            at.one.children = late  # type: ignore[method-assign]
            await expire(zookeeper, at.one)
            other = world.namespace(at.other, client_id="two")
            taken = await (await other.open_log("s")).open_writer(Listener())
            await write(taken, 2)
            await taken.close()
            back.set()
            while not listener.errors:
                await at.other.sync()
            (error,) = listener.errors
            assert isinstance(error, OwnershipAcquireFailed)
            assert "meanwhile" in str(error)
            assert await at.other.children(lock) == []
            again = await log.open_writer(Listener())
            await write(again, 3)
            await again.close()
            assert await txids_of(log) == [1, 2, 3]
            await world.store.close()

    run(story)


def test_place_is_asked_for_until_there_is_an_answer(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            owner = Ownership(at.one, "/lock", "a")
            await owner.acquire(0)
            failures = [Unavailable("not now"), Unavailable("nor now")]
            children = at.one.children

            async def flaky(path: str) -> list[str]:
                if failures:
                    raise failures.pop()
                return await children(path)

            monkeypatch.setattr(at.one, "children", flaky)
            await expire(zookeeper, at.one)
            while not owner.is_held or failures:
                await at.other.sync()
            await owner.release()
            assert await at.other.children("/lock") == []

    run(story)


def test_member_that_somebody_deletes_comes_again(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            owner = Ownership(at.one, "/lock", "a")
            await owner.acquire(0)
            (former,) = await at.other.children("/lock")
            await at.other.delete(f"/lock/{former}")
            while await at.other.children("/lock") in ([], [former]):
                await at.other.sync()
            while not owner.is_held:
                await at.one.sync()
            await owner.release()
            assert await at.other.children("/lock") == []

    run(story)


def test_owner_without_its_lock_truncates_nothing(
    zookeeper: ZooKeeperServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with two(zookeeper) as at:
            world = World(tmp_path)
            await initialize_layout(at.one, instance_id="test")
            namespace = world.namespace(at.one)
            await namespace.create_log("s")
            log = await namespace.open_log("s")
            writer = await log.open_writer(Listener())
            await write(writer, 1, 2)
            await writer.roll()
            create = at.one.create
            may_create = asyncio.Event()

            async def late(*arguments: Any, **options: Any) -> str:
                await may_create.wait()
                return await create(*arguments, **options)

            monkeypatch.setattr(at.one, "create", late)
            sessions = SessionLog(at.one)
            await expire(zookeeper, at.one)
            await sessions.until(SessionEvent.NEW_SESSION)
            for change in (log.truncate(DLSN(1, 0, 1)), log.purge_segments(1)):
                with pytest.raises(OwnershipLost, match="not held"):
                    await change
            await write(writer, 3)
            may_create.set()
            lock = LogPaths("/distributedlog/tailrace", "s").lock
            while not await at.one.children(lock):
                await at.one.sync()
            while (claim := log._writing._ownership) is None or not claim.is_held:
                await at.one.sync()
            await log.truncate(DLSN(1, 0, 1))
            assert await txids_of(log) == [2, 3]
            await writer.close()
            await world.store.close()

    run(story)


def test_member_of_the_former_session_is_claimed_over(zookeeper: ZooKeeperServer) -> None:
    """It is no stranger, and goes by itself; its name is the same client's (reference 6.2)."""

    async def story() -> None:
        async with two(zookeeper) as at:
            await at.one.create("/lock")
            refused: list[OwnershipLost] = []
            owner = Ownership(at.one, "/lock", "a", refused.append)
            await owner.acquire(0)
            prefix = member_prefix("a", at.one.session_id)
            left = await at.other.create(f"/lock/{prefix}", b"a", ephemeral=True, sequential=True)
            await expire(zookeeper, at.one)
            while not (owner.is_held and len(await at.one.children("/lock")) == 2):
                await at.one.sync()
            assert not refused
            with pytest.raises(OwnershipAcquireFailed):  # for anybody else it is one
                await Ownership(at.one, "/lock", "a").acquire(0)
            await at.other.delete(left)
            await owner.release()
            assert await at.other.children("/lock") == []

    run(story)
