"""The embedded metadata store: one SQLite file, one thread that runs all its SQL.

Invariant: an operation that was answered is on disk (WAL, synchronous=FULL). Flow: an operation is
queued with a future; the thread takes everything that waits, runs it in order in one transaction,
commits once (one fsync for all), and hands results and watch events back to the loop in one call,
each operation's events before its result, as ZooKeeper does.

One process owns the file: a new open ends the former session and deletes its ephemeral nodes.
Tools look in from beside with `read_only=True`.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tailrace.core.errors import MetadataConflict, NoNode, OverCapacity, Unavailable
from tailrace.core.metadata.node_path import check_ops, check_size
from tailrace.core.metadata.sqlite_tree import (
    SqliteTree,
    open_tree,
    open_tree_read_only,
    sqlite_failure,
)
from tailrace.core.metadata.store import ANY_VERSION, Node, Op, SessionListener, Watch
from tailrace.core.metadata.watches import Fired, WatchTable
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.metrics import counter, gauge

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAITING_MAX: Final = 10_000
"""Operations that may wait at once; the next one is refused with OverCapacity."""

GROUP_MAX: Final = 512
"""Operations in one commit: bounds how long the first of them waits for the last."""


@dataclass(slots=True)
class MetadataMetrics:
    """Numbers of one store. Register them as `metadata`."""

    operations_total: int = counter("operations run")
    commits_total: int = counter("transactions committed; an fsync each, if anything changed")
    failed_commits_total: int = counter("transactions that failed as a whole")
    refusals_total: int = counter("operations refused because too many waited")
    waiting: int = gauge("operations that wait or run")


class _Job:
    """One waiting operation; after it ran, its outcome and the watches that it fired."""

    __slots__ = ("error", "fired", "future", "result", "run")

    def __init__(self, run: Callable[[SqliteTree], Any], future: "asyncio.Future[Any]") -> None:
        self.run = run
        self.future = future
        self.result: Any = None
        self.error: Exception | None = None
        self.fired: list[Fired] = []


class SqliteStore:
    """A `MetadataStore` in one file. Errors: see the contract; CorruptData when the file is broken.

    The constructor opens the file (a few ms) so that a broken or foreign one fails at start.
    With `read_only`, writes raise Unavailable and watches never fire: the owner is another process.
    Cancel: a cancelled operation may still happen.
    """

    def __init__(self, path: Path | str, clock: Clock, *, read_only: bool = False) -> None:
        self._path = Path(path)
        self._clock = clock
        self._read_only = read_only
        if read_only:
            self._connection, self._tree = open_tree_read_only(self._path)
        else:
            self._connection, self._tree = open_tree(self._path, clock.now_ms())
        self._watches = WatchTable()
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.metrics = MetadataMetrics()
        self._closed = False
        self._ended: asyncio.Future[None] | None = None
        # A daemon: a process that forgets to close, or is killed, must not hang on us.
        self._thread = threading.Thread(target=self._serve, name="metadata", daemon=True)
        self._thread.start()

    @property
    def session_id(self) -> int:
        """The session of this open; 0 when read-only."""
        return self._tree.session_id

    def on_session(self, listener: SessionListener) -> None:
        """Do nothing: the session of an embedded store is there for as long as the store is."""

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return the node. Errors: NoNode. The watch fires on CHANGED or DELETED."""

        def run(tree: SqliteTree) -> Node:
            node = tree.get(path)
            self._watches.add_data(path, watch)
            return node

        return await self._submit(run)

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """Return the node or None. The watch fires on CREATED, CHANGED or DELETED."""

        def run(tree: SqliteTree) -> Node | None:
            node = tree.find(path)
            self._watches.add_data(path, watch)
            return node

        return await self._submit(run)

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, None for each that is not there."""
        return await self._submit(lambda tree: [tree.find(path) for path in paths])

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, sorted. Errors: NoNode. Fires on CHILDREN, DELETED."""

        def run(tree: SqliteTree) -> list[str]:
            names = tree.children(path)
            self._watches.add_children(path, watch)
            return names

        return await self._submit(run)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create a node and return its path. Errors: NodeExists, NoNode."""
        check_size(path, data)

        def run(tree: SqliteTree) -> str:
            now_ms = self._clock.now_ms()
            owner = tree.session_id if ephemeral else 0
            try:
                return tree.create(path, data, now_ms, owner=owner, sequential=sequential)
            except NoNode:
                if not parents:
                    raise
            tree.create_parents(path, now_ms)
            return tree.create(path, data, now_ms, owner=owner, sequential=sequential)

        return await self._submit_write(run)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace the data and return the new version. Errors: NoNode, BadVersion."""
        check_size(path, data)
        return await self._submit_write(
            lambda tree: tree.set(path, data, version, self._clock.now_ms())
        )

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node. Errors: NoNode, BadVersion, NotEmpty."""
        await self._submit_write(lambda tree: tree.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        """Do all or nothing; return each op's new version. Errors: the first failing op's."""
        ops = tuple(ops)
        check_ops(ops)
        return await self._submit_write(
            lambda tree: tree.multi(ops, self._clock.now_ms(), tree.session_id)
        )

    async def sync(self) -> None:
        """Do nothing but wait for what was asked before: one process owns the file."""
        await self._submit(lambda _: None)

    async def close(self) -> None:
        """End the session after what waits: its ephemeral nodes go. Idempotent.

        Cancel: the close goes on in its thread.
        """
        if self._ended is None:
            self._ended = self._enqueue(SqliteTree.end_session)
            self._closed = True
            self._queue.put(None)
        await asyncio.wait([self._ended])
        self._thread.join()
        self._ended.result()

    async def _submit(self, run: Callable[[SqliteTree], T]) -> T:
        return cast("T", await self._enqueue(run))

    async def _submit_write(self, run: Callable[[SqliteTree], T]) -> T:
        if self._read_only:
            raise Unavailable(f"metadata store {self._path} is open for reading only")
        return cast("T", await self._enqueue(run))

    def _enqueue(self, run: Callable[[SqliteTree], Any]) -> "asyncio.Future[Any]":
        if self._closed:
            raise Unavailable("the metadata store is closed")
        if self.metrics.waiting >= WAITING_MAX:
            self.metrics.refusals_total += 1
            raise OverCapacity(f"{WAITING_MAX} metadata operations wait")
        self.metrics.waiting += 1
        future = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(run, future))
        return future

    # From here on: the store's own thread.

    def _serve(self) -> None:
        ending = False
        while not ending:
            group, ending = self._next_group()
            if group:
                self._run_group(group)
                self._hand_back(group)
        self._connection.close()

    def _next_group(self) -> tuple[list[_Job], bool]:
        job = self._queue.get()
        group: list[_Job] = []
        while job is not None:
            group.append(job)
            if len(group) == GROUP_MAX:
                return group, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _run_group(self, group: list[_Job]) -> None:
        try:
            self._connection.execute("BEGIN")
            for job in group:
                self._run_job(job)
            self._connection.execute("COMMIT")
            self.metrics.commits_total += 1
        except Exception as error:  # noqa: BLE001 - the thread's own boundary: it must serve on
            self._give_up(group, error)

    def _run_job(self, job: _Job) -> None:
        try:
            job.result = job.run(self._tree)
        except (MetadataConflict, ValueError) as error:
            job.error = error  # refused before it changed anything: the others go on
        job.fired = self._watches.take(self._tree.changes)
        self._tree.changes.clear()

    def _give_up(self, group: list[_Job], error: Exception) -> None:
        """Undo the group. Its watches may have fired: a spurious event only causes a read."""
        self.metrics.failed_commits_total += 1
        if isinstance(error, sqlite3.Error):  # the disk's fault or the file's, not ours
            logger.error("metadata_commit_failed operations=%d error=%s", len(group), error)
            error = sqlite_failure(error, self._path)
        else:
            logger.error("metadata_commit_failed operations=%d", len(group), exc_info=error)
        self._tree.changes.clear()
        if self._connection.in_transaction:
            self._connection.rollback()
        for job in group:
            job.error = job.error or error

    def _hand_back(self, group: list[_Job]) -> None:
        loop = group[0].future.get_loop()
        try:
            loop.call_soon_threadsafe(self._deliver, group)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more, and what was committed stays

    # On the loop again.

    def _deliver(self, group: list[_Job]) -> None:
        self.metrics.waiting -= len(group)
        self.metrics.operations_total += len(group)
        for job in group:
            for fired in job.fired:
                tell("metadata.watch", fired.watch, fired.path, fired.event)
            if job.future.done():
                continue
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
