import asyncio
import errno
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, NodeExists, OverCapacity, Unavailable
from tailrace.core.metadata import sqlite
from tailrace.core.metadata.node_path import split_path
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.sqlite_tree import WAL_RESERVED_BYTES, open_tree
from tailrace.core.metadata.store import Create, MetadataStore, SetData
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tests.unit.core.metadata.store_contract import MetadataStoreContract, WatchLog


class TestSqliteStore(MetadataStoreContract):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "metadata.db"

    async def open_store(self) -> MetadataStore:
        return SqliteStore(self.path, ManualClock())

    async def reopen(self) -> MetadataStore:
        return SqliteStore(self.path, ManualClock())


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story(), debug=True)


def test_times_come_from_the_clock(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock(now_ms=1000)
        store = SqliteStore(tmp_path / "m", clock)
        await store.create("/a")
        clock.advance_ms(5)
        await store.set("/a", b"x")
        node = await store.get("/a")
        assert (node.ctime_ms, node.mtime_ms) == (1000, 1005)
        await store.close()

    run(story)


def test_waiting_operations_share_one_commit(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        statements: list[str] = []
        await store.create("/p")
        store._connection.set_trace_callback(statements.append)
        begun, hold = threading.Event(), threading.Event()
        first = store._enqueue(lambda tree: begun.set() or hold.wait(10))
        assert await asyncio.to_thread(begun.wait, 10)  # else its commit may take the others too
        async with asyncio.TaskGroup() as group:
            for i in range(100):
                group.create_task(store.create(f"/p/{i}"))
            await asyncio.sleep(0)
            hold.set()
        await first
        store._connection.set_trace_callback(None)
        assert len(await store.children("/p")) == 100
        assert statements.count("COMMIT") == 2
        await store.close()

    run(story)


def test_refused_operation_does_not_disturb_its_group(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        first = store._enqueue(lambda tree: tree.create("/a", b"", 0, owner=0, sequential=False))
        second = store._enqueue(lambda tree: tree.create("/a", b"", 0, owner=0, sequential=False))
        third = store._enqueue(lambda tree: tree.create("/b", b"", 0, owner=0, sequential=False))
        await asyncio.wait([first, second, third])
        assert (first.result(), third.result()) == ("/a", "/b")
        assert isinstance(second.exception(), NodeExists)
        await store.close()

    run(story)


def test_failed_commit_fails_the_whole_group_and_the_store_serves_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())

        def disk_full(tree: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        good = store._enqueue(lambda tree: tree.create("/a", b"", 0, owner=0, sequential=False))
        bad = store._enqueue(disk_full)
        await asyncio.wait([good, bad])
        assert isinstance(bad.exception(), Unavailable)
        if good.exception() is None:  # it had a commit of its own
            assert await store.exists("/a") is not None
        else:
            assert await store.exists("/a") is None
        await store.create("/b")
        await store.close()

    run(story)
    assert "metadata_commit_failed" in caplog.text


def test_too_many_waiting_operations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        monkeypatch.setattr(sqlite, "WAITING_MAX", 3)
        waiting = [store._enqueue(lambda tree: None) for _ in range(3)]
        with pytest.raises(OverCapacity):
            await store.get("/")
        await asyncio.wait(waiting)
        await store.get("/")
        numbers = store.metrics
        assert (numbers.refusals_total, numbers.waiting, numbers.operations_total) == (1, 0, 4)
        assert 0 < numbers.commits_total <= 4
        await store.close()

    run(story)


def test_read_only_open_sees_what_the_owner_commits(tmp_path: Path) -> None:
    async def story() -> None:
        owner = SqliteStore(tmp_path / "m", ManualClock())
        await owner.create("/a", b"1", ephemeral=True)
        tool = SqliteStore(tmp_path / "m", ManualClock(), read_only=True)
        assert (await tool.get("/a")).data == b"1"
        await owner.set("/a", b"2")
        assert (await tool.get("/a")).data == b"2"
        assert tool.session_id == 0
        for write in (tool.create("/b"), tool.set("/a", b""), tool.delete("/a"), tool.multi([])):
            with pytest.raises(Unavailable):
                await write
        await tool.close()
        assert (await owner.get("/a")).data == b"2"
        await owner.close()

    run(story)


def test_read_only_open_works_without_the_owner(tmp_path: Path) -> None:
    async def story() -> None:
        owner = SqliteStore(tmp_path / "m", ManualClock())
        await owner.create("/a", b"1")
        await owner.close()
        tool = SqliteStore(tmp_path / "m", ManualClock(), read_only=True)
        assert (await tool.get("/a")).data == b"1"
        await tool.close()

    run(story)


def test_read_only_open_of_nothing_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        SqliteStore(tmp_path / "m", ManualClock(), read_only=True)
    assert not (tmp_path / "m").exists()


def test_abandoned_session_ends_with_the_next_open(tmp_path: Path) -> None:
    async def story() -> None:
        killed = SqliteStore(tmp_path / "m", ManualClock())
        await killed.create("/a", ephemeral=True)
        await killed.create("/b")
        store = SqliteStore(tmp_path / "m", ManualClock())
        assert await store.children("/") == ["b"]
        assert store.session_id == killed.session_id + 1
        await store.close()
        killed._queue.put(None)  # its thread must not outlive the test

    run(story)


@pytest.mark.parametrize("content", [b"not a database, but long enough to look at" * 50])
def test_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(CorruptData):
        SqliteStore(path, ManualClock())
    with pytest.raises(CorruptData):
        SqliteStore(path, ManualClock(), read_only=True)
    assert path.read_bytes() == content


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (a)")
    other.commit()
    other.close()
    with pytest.raises(CorruptData):
        SqliteStore(path, ManualClock())


def test_watch_of_the_own_session_is_silent_at_close(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        watch = WatchLog()
        await store.create("/a", ephemeral=True)
        await store.get("/a", watch)
        await store.close()
        assert watch.seen == []

    run(story)


def test_close_finishes_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        async with asyncio.TaskGroup() as group:
            ops = [Create("/a"), SetData("/a", b"x")]
            write = group.create_task(store.multi(ops))
            await asyncio.sleep(0)
            await store.close()
        assert write.result() == [0, 1]

    run(story)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/a\0b", "a/b"])
def test_bad_path_is_our_bug(path: str) -> None:
    with pytest.raises(ValueError, match="not a node path"):
        split_path(path)


def test_paths_split() -> None:
    assert split_path("/") == ("", "/")
    assert split_path("/a") == ("/", "a")
    assert split_path("/a/b c/<default>") == ("/a/b c", "<default>")


def test_a_commit_is_synced_before_it_is_answered(tmp_path: Path) -> None:
    """A killed process cannot show what only a power loss takes away, so the setting is checked."""
    connection, _ = open_tree(tmp_path / "m", 0)
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    finally:
        connection.close()


def test_room_that_is_not_whole_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """ext4 keeps what it found before there was no more."""
    allocate = SystemFiles.allocate

    def half(files: SystemFiles, fd: int, position: int, size: int) -> None:
        allocate(files, fd, position, size // 2)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SystemFiles, "allocate", half)

    async def story() -> None:
        store = SqliteStore(tmp_path / "m", ManualClock())
        assert (tmp_path / "m-wal").stat().st_size < 1_000_000
        await store.create("/a")
        await store.close()

    run(story)
    assert "metadata_room_not_reserved" in caplog.text


def test_changes_have_room_that_was_taken_before(tmp_path: Path) -> None:
    """A disk that is full then stops none of them."""

    async def story() -> None:
        for life in range(3):
            store = SqliteStore(tmp_path / "m", ManualClock())
            log = tmp_path / "m-wal"
            taken = log.stat().st_blocks * 512
            assert taken >= WAL_RESERVED_BYTES
            for number in range(300):
                await store.create(f"/{life}-{number}", b"x" * 1000)
            assert log.stat().st_blocks * 512 == taken
            assert len(await store.children("/")) == 300 * (life + 1)
            store._queue.put(None)
            store._thread.join()

    run(story)
