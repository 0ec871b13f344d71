"""Who writes: the lock of one side is respected by the other; who lost a log cannot add to it."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tailrace.core.errors import LedgerFenced, OwnershipLost
from tailrace.core.log.log import Log
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.store import MetadataStore
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.our_writer import OurWriter
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    our_namespace,
    put,
    read,
)
from tests.interop.distributedlog.records import check
from tests.java.peers import JavaError

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10
TURNS = 3
WITHOUT_LOCK = {"writeLockEnabled": False}


def test_java_does_not_get_a_log_that_we_own(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        async with our_logs(place, client_id="1;7;host:8000") as logs:
            await logs.create_log(name)
            writer = await (await logs.open_log(name)).open_writer(Listener())
            await put(writer, 21, 1, COUNT)
            with pytest.raises(JavaError) as refused:
                await java.open_writer()
            assert refused.value.name == "OwnershipAcquireFailedException"
            assert "1;7;host:8000" in str(refused.value)
            await put(writer, 21, COUNT + 1, COUNT)
            await writer.close()
            theirs = await java.open_writer()
            await theirs.write(21, 2 * COUNT + 1, COUNT)
            await theirs.close()
            check(await java.read(3 * COUNT), 21, range(1, 3 * COUNT + 1))

    run(story)


def test_we_do_not_get_a_log_that_java_owns(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        theirs = await java.open_writer()
        await theirs.write(22, 1, COUNT)
        async with our_logs(place, lock_timeout_s=0) as logs:
            log = await logs.open_log(name)
            with pytest.raises(OwnershipLost, match="owned by java-"):
                await log.open_writer(Listener())
            await theirs.write(22, COUNT + 1, COUNT)
            await theirs.close()
            writer = await log.open_writer(Listener())
            await put(writer, 22, 2 * COUNT + 1, COUNT)
            await writer.close()
            check(await read(log, 3 * COUNT), 22, range(1, 3 * COUNT + 1))

    run(story)


def test_we_wait_until_java_lets_go(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        theirs = await java.open_writer()
        await theirs.write(23, 1, COUNT)
        async with our_namespace(place.uri, lock_timeout_s=60) as opened:
            log = await opened.logs.open_log(name)
            async with asyncio.TaskGroup() as group:
                opening = group.create_task(log.open_writer(Listener()))
                await two_members(opened.store, LogPaths(place.path, name).lock)
                assert not opening.done()
                await theirs.write(23, COUNT + 1, COUNT)
                await theirs.close()
            writer = opening.result()
            assert writer.last_txid == 2 * COUNT
            await put(writer, 23, 2 * COUNT + 1, COUNT)
            await writer.close()
        check(await java.read(3 * COUNT), 23, range(1, 3 * COUNT + 1))

    run(story)


async def two_members(store: MetadataStore, lock: str) -> None:
    """Wait until a second contender stands in line."""
    changed = asyncio.Event()
    while len(await store.children(lock, lambda *_: changed.set())) < 2:
        await changed.wait()
        changed.clear()


@pytest.mark.crash
def test_our_paused_owner_adds_nothing_after_java_took_over(
    place: Place, opener: Opener, name: str, tmp_path: Path
) -> None:
    """Its session ended while it slept: nobody told it, and the first add meets the fence."""

    async def story() -> None:
        java = opener(name, {"lockTimeoutSeconds": 30})
        await java.ask("create")
        with OurWriter(place.uri, name, 24, 1, tmp_path / "log") as ours:
            await asyncio.to_thread(ours.reach, COUNT)
            ours.pause()
            theirs = await java.wait_for_ownership()
            last = (await java.ask("numbers"))["last_txid"]
            await theirs.write(24, last + 1, COUNT)
            ours.resume()
            confirmed, why = await asyncio.to_thread(ours.ended)
            assert COUNT <= confirmed <= last
            assert "LedgerFenced" in why or "Ownership" in why, why
            await theirs.write(24, last + COUNT + 1, COUNT)
            await theirs.close()
        check(await java.read(last + 2 * COUNT), 24, range(1, last + 2 * COUNT + 1))

    run(story)


def test_without_locks_the_fence_alone_decides(place: Place, opener: Opener, name: str) -> None:
    """Java's writer heeds no lock: it takes the log from ours and loses it again to ours."""

    async def story() -> None:
        java = opener(name, WITHOUT_LOCK)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            listener = Listener()
            writer = await log.open_writer(listener)
            await put(writer, 25, 1, COUNT)
            theirs = await java.open_writer()
            await theirs.write(25, COUNT + 1, COUNT)
            with pytest.raises(LedgerFenced):
                await put(writer, 25, COUNT + 1, 1)
            assert listener.txid == COUNT
            assert listener.errors
            writer = await log.open_writer(Listener())
            assert writer.last_txid == 2 * COUNT
            await put(writer, 25, 2 * COUNT + 1, COUNT)
            with pytest.raises(JavaError):
                await theirs.write(25, 2 * COUNT + 1, 1)
            with contextlib.suppress(JavaError):
                await theirs.abort()
            await writer.close()
            everything = await java.read(3 * COUNT)
            check(everything, 25, range(1, 3 * COUNT + 1))
            assert await read(log, 3 * COUNT) == everything

    run(story)


def test_owners_of_both_kinds_take_turns(place: Place, opener: Opener, name: str) -> None:
    """Two of each wait for one lock, again and again; nobody's record is lost or between others."""

    async def story() -> None:
        java = opener(name)
        await java.ask("create")
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            for number in range(2):
                contender = opener(name, {"lockTimeoutSeconds": 60 + number})
                group.create_task(java_turns(contender))
                logs = await stack.enter_async_context(our_logs(place, lock_timeout_s=60))
                group.create_task(our_turns(await logs.open_log(name)))
        everything = await java.read(4 * TURNS * COUNT)
        check(everything, 26, range(1, 4 * TURNS * COUNT + 1))
        segments = await java.segments()
        assert [segment["count"] for segment in segments] == [COUNT] * 4 * TURNS
        async with our_logs(place) as logs:
            assert await read(await logs.open_log(name), len(everything)) == everything

    run(story)


async def our_turns(log: Log) -> None:
    for _ in range(TURNS):
        writer = await log.open_writer(Listener())
        await put(writer, 26, max(writer.last_txid, 0) + 1, COUNT)
        await writer.close()


async def java_turns(log: JavaLog) -> None:
    """Begin again with a turn whose first write fails: what Java knew was stale by then."""
    turns = 0
    while turns < TURNS:
        with contextlib.suppress(JavaError):
            writer = await log.open_writer()
            first = max((await writer.ask("acked"))["txid"], 0) + 1
            try:
                await writer.write(26, first, 1)
            except JavaError:
                await writer.abort()
                raise
            await writer.write(26, first + 1, COUNT - 1)
            await writer.close()
            turns += 1
