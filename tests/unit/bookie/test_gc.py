import asyncio
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.compaction_rules import GcConfig
from tailrace.bookie.errors import InvalidCookie
from tailrace.bookie.gc import GarbageCollector
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_tree import all_ledgers
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.bookie.world import add, ask, fence, read, run, small_config

PATHS = LedgerPaths()


async def open_store(tmp_path: Path) -> SqliteStore:
    store = SqliteStore(tmp_path / "metadata.sqlite", ManualClock())
    await store.create(PATHS.instance_id, b"instance-1", parents=True)
    await store.create(PATHS.cookies, b"")
    return store


async def open_with_store(tmp_path: Path, store: SqliteStore) -> OpenBookie:
    config = small_config(tmp_path, log_size_limit=5000, preallocate_mb=0)
    return await open_bookie(config, store, ManualClock(), SystemFiles())


def logs(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "ledgers/current").glob("*.log"))


def test_collection(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        for number in (1, 2, 3, 2**40):
            ledger_id = LedgerId(number)
            await store.create(PATHS.ledger(ledger_id), b"", parents=True)
            for entry_id in range(4):
                await ask(bookie, add(ledger_id, entry_id, bytes(1500)))
        await ask(bookie, fence(LedgerId(1)))
        await bookie.checkpoint()
        before = logs(tmp_path)
        assert len(before) == 8
        assert await bookie.collect_garbage() == ([], [])

        await store.delete(PATHS.ledger(LedgerId(1)))
        removed = await bookie.collect_garbage()
        assert removed == ([1], [0, 1])
        assert logs(tmp_path) == before[2:]
        assert (await ask(bookie, read(LedgerId(1), 0))).status is StatusCode.ENOLEDGER
        assert (await ask(bookie, add(LedgerId(1), 9))).status is StatusCode.EFENCED
        assert (await ask(bookie, read(LedgerId(2), 0))).status is StatusCode.EOK

        await bookie.close()
        bookie = await open_with_store(tmp_path, store)
        await store.delete(PATHS.ledger(LedgerId(2**40)))
        removed = await bookie.collect_garbage()
        assert removed == ([2**40], [6])  # the last log is still being written
        for number in (2, 3):
            for entry_id in range(4):
                response = await ask(bookie, read(LedgerId(number), entry_id))
                assert response.status is StatusCode.EOK
        await bookie.close()
        await store.close()

    run(story)


def test_unreadable_metadata_removes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        await ask(bookie, add(LedgerId(1), 0))
        await store.delete(PATHS.instance_id)
        assert await bookie.collect_garbage() == ([], [])
        assert (await ask(bookie, read(LedgerId(1), 0))).status is StatusCode.EOK
        await store.create(PATHS.instance_id, b"instance-1")
        await store.close()
        assert await bookie.collect_garbage() == ([], [])
        await bookie.close()

    run(story)


def test_a_log_with_one_living_ledger_stays(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        await store.create(PATHS.ledger(LedgerId(2)), b"", parents=True)
        for entry_id in range(4):
            answers = [ask(bookie, add(LedgerId(i), entry_id, bytes(1500))) for i in (1, 2)]
            await asyncio.wait(answers)
        await bookie.checkpoint()
        before = logs(tmp_path)
        removed = await bookie.collect_garbage()
        assert removed.ledgers == [1]
        for entry_id in range(4):
            assert (await ask(bookie, read(LedgerId(2), entry_id))).status is StatusCode.EOK
        assert set(logs(tmp_path)) <= set(before)
        await bookie.close()
        await store.close()

    run(story)


def test_cookies_tie_directories_to_bookie_and_metadata(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        await ask(bookie, add(LedgerId(1), 0))
        await bookie.close()
        assert b"test:3181" in (await store.get(PATHS.cookies + "/test:3181")).data

        await store.set(PATHS.instance_id, b"instance-2")
        with pytest.raises(InvalidCookie, match="instance-1"):
            await open_with_store(tmp_path, store)
        await store.set(PATHS.instance_id, b"instance-1")

        cookie = await store.get(PATHS.cookies + "/test:3181")
        await store.delete(PATHS.cookies + "/test:3181")
        with pytest.raises(InvalidCookie, match="metadata does not know"):
            await open_with_store(tmp_path, store)
        await store.create(PATHS.cookies + "/test:3181", cookie.data)

        lose_cookie(tmp_path)
        with pytest.raises(InvalidCookie, match="has no cookie"):
            await open_with_store(tmp_path, store)
        await store.close()

    run(story)


def lose_cookie(tmp_path: Path) -> None:
    (tmp_path / "journal/current/VERSION").unlink()


def test_a_first_start_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        await (await open_with_store(tmp_path, store)).close()
        await store.delete(PATHS.cookies + "/test:3181")
        lose_data(tmp_path)
        await (await open_with_store(tmp_path, store)).close()
        assert b"test:3181" in (await store.get(PATHS.cookies + "/test:3181")).data
        await store.close()

    run(story)


def lose_data(tmp_path: Path) -> None:
    for path in (tmp_path / "ledgers/current").iterdir():
        if path.name != "VERSION":
            path.unlink()
    lose_cookie(tmp_path)


def test_metadata_of_another_cluster_removes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        await ask(bookie, add(LedgerId(1), 0))
        await store.set(PATHS.instance_id, b"instance-2")  # formatted under a running bookie
        assert await bookie.collect_garbage() == ([], [])
        assert (await ask(bookie, read(LedgerId(1), 0))).status is StatusCode.EOK
        await store.set(PATHS.instance_id, b"instance-1")
        assert (await bookie.collect_garbage()).ledgers == [1]
        await bookie.close()
        await store.close()

    run(story)


def test_a_ledger_made_while_the_metadata_is_read_lives(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        made = LedgerId(7)

        async def list_then_make() -> set[LedgerId]:
            living = await all_ledgers(store, PATHS.root, "instance-1")
            await store.create(PATHS.ledger(made), b"", parents=True)
            assert (await ask(bookie, add(made, 0))).status is StatusCode.EOK
            return living

        collector = GarbageCollector(
            bookie._storage, SystemFiles(), list_then_make, ManualClock(), GcConfig(),
            bookie.has_no_room,
        )  # fmt: skip
        assert await collector.collect() == ([], [])
        assert (await ask(bookie, read(made, 0))).status is StatusCode.EOK
        await bookie.close()
        await store.close()

    run(story)


class SlowRemoval(SystemFiles):
    """Stops before it removes the file of that name, until told to go on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.reached, self.go = threading.Event(), threading.Event()

    @override
    def remove(self, path: Path) -> None:
        if path.name == self._name:
            self.reached.set()
            assert self.go.wait(20)
        super().remove(path)


def test_a_fence_holds_while_its_ledger_is_being_removed(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = LedgerId(1), LedgerId(2)
        bookie = await open_bookie(small_config(tmp_path), None, ManualClock(), SystemFiles())
        for ledger_id in (first, second):
            await ask(bookie, add(ledger_id, 0))
            await ask(bookie, fence(ledger_id))
        await bookie.close()
        files = SlowRemoval("2.idx")
        bookie = await open_bookie(small_config(tmp_path), None, ManualClock(), files)

        async def none_lives() -> set[LedgerId]:
            return set()

        collector = GarbageCollector(
            bookie._storage, files, none_lives, ManualClock(), GcConfig(), bookie.has_no_room
        )
        collecting = asyncio.ensure_future(collector.collect())
        reached = asyncio.get_running_loop().run_in_executor(None, files.reached.wait, 20)
        assert await reached  # the index file of the first is gone
        late = ask(bookie, add(first, 1))
        assert (await late).status is StatusCode.EFENCED
        files.go.set()
        assert (await collecting).ledgers == [1, 2]
        await bookie.close()

    run(story)


def test_a_bug_in_one_collection_does_not_end_them(tmp_path: Path) -> None:
    async def story() -> None:
        store = await open_store(tmp_path)
        bookie = await open_with_store(tmp_path, store)
        calls, went_on = 0, asyncio.Event()

        async def living() -> set[LedgerId]:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise KeyError("a bug")
            went_on.set()
            return set()

        collector = GarbageCollector(
            bookie._storage,
            SystemFiles(),
            living,
            ManualClock(),
            GcConfig(wait_ms=1),
            lambda: False,
        )
        running = asyncio.create_task(collector.run())
        await went_on.wait()
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        await bookie.close()
        await store.close()

    run(story)
