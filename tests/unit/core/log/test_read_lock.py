"""The reader lock: one reads, others wait in line. Scenarios of TestAsyncReaderLock."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from tailrace.core.errors import OwnershipAcquireFailed, OwnershipLost
from tailrace.core.log.read_lock import LockedReader
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.world import Listener, World, run_world, settle, write


async def txids(reader: LockedReader) -> list[int]:
    return [txid for entry in await reader.read_entries(1 << 20) for txid in entry.columns.txids]


def test_readers_wait_in_line(tmp_path: Path) -> None:
    """testReaderLockManyLocks, testReaderLockClosed, testReaderLockFutureCancelledWhileWaiting."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0, 1, 2)
        await writer.close()
        logs = [await world.log(client_id=f"reader-{number}") for number in range(4)]
        first = await logs[0].open_reader_with_lock(INITIAL)
        assert await txids(first) == [0, 1, 2]
        with pytest.raises(OwnershipAcquireFailed) as caught:
            await logs[1].open_reader_with_lock(INITIAL, wait_ms=0)
        assert caught.value.current_owner == "reader-0"
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(each.open_reader_with_lock(DLSN(1, 0, 1))) for each in logs[1:]]
        while len(await world.store.children(log._paths.read_lock)) < 4:  # all are in line
            await settle()
        assert not any(task.done() for task in waiting)
        waiting[0].cancel()
        with suppress(asyncio.CancelledError):
            await waiting[0]
        plain = await logs[1].open_reader(INITIAL)
        assert len(await plain.read(1 << 20)) == 3, "the lock is advisory"
        await plain.close()
        await first.close()
        await first.close()
        with pytest.raises(OwnershipLost):
            await txids(first)
        done, _ = await asyncio.wait(waiting[1:], return_when=asyncio.FIRST_COMPLETED)
        (second,) = (task.result() for task in done)
        assert await txids(second) == [1, 2]
        await second.close()
        async with asyncio.timeout(20):
            for task in waiting[1:]:
                if task not in done:
                    await (await task).close()

    run_world(tmp_path, story)


def test_subscribers_have_locks_of_their_own(tmp_path: Path) -> None:
    """testReaderLockMultiReadersScenario with subscriber ids."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        other = await world.log(client_id="other")
        readers = [
            await log.open_reader_with_lock(INITIAL),
            await other.open_reader_with_lock(INITIAL, "a"),
            await log.open_reader_with_lock(INITIAL, "b"),
        ]
        with pytest.raises(OwnershipAcquireFailed):
            await log.open_reader_with_lock(INITIAL, "a", wait_ms=0)
        for reader in readers:
            await reader.close()
        await (await log.open_reader_with_lock(INITIAL, "a", wait_ms=0)).close()
        await writer.close()

    run_world(tmp_path, story)


def test_a_lock_that_is_lost_gives_nothing_out(tmp_path: Path) -> None:
    """testReaderLockSessionExpires."""

    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0, 1)
        reader = await log.open_reader_with_lock(INITIAL)
        members = await world.store.children(f"{log._paths.read_lock}")
        reader._claim._member = None  # as when its session ends, until it has the place again
        with pytest.raises(OwnershipLost):
            await txids(reader)
        reader._claim._member = f"{log._paths.read_lock}/{members[0]}"
        assert await txids(reader) == [0, 1], "nothing was lost"
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)
