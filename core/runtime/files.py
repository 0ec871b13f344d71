"""Files and the threads that wait for them: the only door to the disk.

Everything that touches a file takes a `Files`; tests put one in its place that stops at step n or
forgets what was not synced. `WorkerThread` is how an event loop hands work to a thread without
waiting: whoever puts pays well under a microsecond, and the thread is given all that waits at once.
"""

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from core.errors import CoreError
from protocol.ids import Buffer, Position

logger = logging.getLogger(__name__)

PARTS_MAX = 1024
"""Buffers of one vectored write: IOV_MAX of Linux."""

RESULT_BYTES_MAX = 4 * 1024 * 1024
"""Results of a JobThread go to the loop when they are this big together. Unit: bytes."""

T = TypeVar("T")


class Space(NamedTuple):
    """Room of the file system that holds a directory. Unit: bytes."""

    total_bytes: int
    free_bytes: int


class LockHeld(Exception):
    """Another process holds the lock file; the message names it."""


class Files(Protocol):
    """What a store needs of a file system. Every call may raise OSError.

    File descriptors are plain ints so that a hot path can keep them; positions are always given,
    no descriptor's own position is ever used.
    """

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open a file and return its descriptor."""

    def close(self, fd: int) -> None:
        """Close a descriptor."""

    def read_at(self, fd: int, size: int, position: Position) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""

    def write_at(self, fd: int, parts: Sequence[Buffer], position: Position) -> None:
        """Write all parts one after the other, without joining them."""

    def allocate(self, fd: int, position: Position, size: int) -> None:
        """Reserve room; what was not written reads as zeros. A hint: may do nothing."""

    def forget_cached(self, fd: int, position: Position, size: int) -> None:
        """Let the system drop synced pages of the file from its memory. A hint: may do nothing."""

    def truncate(self, fd: int, size: int) -> None:
        """Set the length of the file."""

    def sync(self, fd: int) -> None:
        """Return when the file's bytes and its length are on disk. Never retry one that failed."""

    def size(self, fd: int) -> int:
        """Return the length of the file."""

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted; an absent directory is empty."""

    def read_file(self, path: Path) -> bytes | None:
        """Return a whole small file, None if it is not there."""

    def replace(self, source: Path, target: Path) -> None:
        """Rename over `target`."""

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is no error."""

    def make_directory(self, path: Path) -> None:
        """Make a directory and its missing parents; each new name is on disk on return."""

    def sync_directory(self, path: Path) -> None:
        """Return when the names of a directory are on disk."""

    def memory_bytes(self) -> int:
        """Return how much memory the machine has."""

    def space(self, path: Path) -> Space:
        """Return the room of the file system."""


class SystemFiles:
    """The machine's file system."""

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open a file, never inherited by children."""
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def read_at(self, fd: int, size: int, position: Position) -> bytes:
        """Read; loops over short reads. Cost: one system call when the range is there."""
        data = os.pread(fd, size, position)
        if len(data) == size or not data:
            return data
        chunks = [data]
        got = len(data)
        while got < size and (data := os.pread(fd, size - got, position + got)):
            chunks.append(data)
            got += len(data)
        return b"".join(chunks)

    def write_at(self, fd: int, parts: Sequence[Buffer], position: Position) -> None:
        """Write; at most `PARTS_MAX` buffers for each system call, short writes are continued."""
        for first in range(0, len(parts), PARTS_MAX):
            some = parts[first : first + PARTS_MAX]
            position += _write_some(fd, some, position)

    def allocate(self, fd: int, position: Position, size: int) -> None:
        """Reserve blocks, so that a sync later has no block map to write."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, position, size)

    def forget_cached(self, fd: int, position: Position, size: int) -> None:
        """Drop clean pages; dirty ones stay."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, position, size, os.POSIX_FADV_DONTNEED)

    def truncate(self, fd: int, size: int) -> None:
        """Set the length."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Sync data and what is needed to find it."""
        if hasattr(os, "fdatasync"):
            os.fdatasync(fd)
        else:
            os.fsync(fd)

    def size(self, fd: int) -> int:
        """Return the length."""
        return os.fstat(fd).st_size

    def names(self, directory: Path) -> list[str]:
        """List a directory."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def read_file(self, path: Path) -> bytes | None:
        """Read a whole file."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, source: Path, target: Path) -> None:
        """Rename over `target`."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory with its parents."""
        if path.is_dir():
            return
        self.make_directory(path.parent)
        path.mkdir(exist_ok=True)
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        """Sync the names of a directory."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def memory_bytes(self) -> int:
        """Ask the system for its physical pages."""
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def space(self, path: Path) -> Space:
        """Ask the file system; free is what an ordinary user may still take."""
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def _write_some(fd: int, parts: Sequence[Buffer], position: Position) -> int:
    total = sum(map(len, parts))
    written = os.pwritev(fd, parts, position)
    while written < total:
        rest = list(_after(parts, written))
        written += os.pwritev(fd, rest, position + written)
    return total


def _after(parts: Sequence[Buffer], skip: int) -> list[Buffer]:
    """Return what is left of `parts` behind the first `skip` bytes."""
    for index, part in enumerate(parts):
        if skip < len(part):
            return [memoryview(part)[skip:], *islice(parts, index + 1, None)]
        skip -= len(part)
    return []


def write_atomically(files: Files, path: Path, data: bytes) -> None:
    """Replace a small file: after a crash it holds the old bytes or the new ones.

    Cost: two syncs (the new file, its directory).
    """
    spare = path.with_name(path.name + ".new")
    fd = files.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        files.write_at(fd, [data], 0)
        files.sync(fd)
    finally:
        files.close(fd)
    files.replace(spare, path)
    files.sync_directory(path.parent)


def lock_file(path: Path, purpose: str) -> int:
    """Take an exclusive lock that ends with this process; return the descriptor that holds it.

    Errors: LockHeld, its message naming the process that holds it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise LockHeld(f"{purpose}: {path.parent} is in use by process {holder}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


class WorkerThread(Generic[T]):
    """One thread that is given all that waits, up to a weight, each time it is free.

    Invariant: items are worked on in the order they were put, each once. When `work` raises, the
    thread reports to `failed` and ends: nothing that was put after is ever worked on (fail-stop).
    Cost: `put` takes 0.1 us while the thread is busy and about 5 us when it must be woken.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[list[T]], None],
        failed: Callable[[Exception], None],
        *,
        weigh: Callable[[T], int] = lambda _: 1,
        weight_max: int = 1024,
    ) -> None:
        self._work = work
        self._failed = failed
        self._weigh = weigh
        self._weight_max = weight_max
        self._queue: SimpleQueue[T | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.put: Callable[[T], None] = self._queue.put

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end after what was put before. Does not wait; see `join`."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the thread's end. Blocks: never call it on a loop that others use."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_and_work():
                pass
        except Exception as error:
            logger.exception("worker_failed name=%s", self._thread.name)
            self._failed(error)

    def _take_and_work(self) -> bool:
        queue, weigh = self._queue, self._weigh
        item = queue.get()
        batch: list[T] = []
        weight = 0
        while item is not None:
            batch.append(item)
            weight += weigh(item)
            if weight >= self._weight_max or queue.empty():
                break
            item = queue.get_nowait()
        if batch:
            self._work(batch)
        return item is not None


class JobThread:
    """A thread for calls that block: `work()` runs there, `then(result or error)` on the loop.

    Jobs run in order. Results go back together, one wake-up of the loop for all that were ready,
    but not more than `RESULT_BYTES_MAX` at once. Only OSError and CoreError reach `then`; anything
    else is our bug: it goes to `failed`, and no job runs after it.
    """

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._thread = WorkerThread[tuple[Callable[[], Any], Callable[[Any], None]]](
            name, self._run, self._report, weight_max=256
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Run `work` in the thread and `then` on the loop."""
        self._thread.put((work, then))

    def call(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `work` in the thread; the future has its result or its error."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | Exception) -> None:
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.submit(work, settle)
        return future

    def stop(self) -> None:
        """Let the thread end after what was submitted before."""
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread's end. Blocks."""
        self._thread.join()

    def _report(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self._failed, error)

    def _run(self, jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]]) -> None:
        results: list[tuple[Callable[[Any], None], Any]] = []
        size = 0
        for work, then in jobs:
            try:
                result = work()
            except (OSError, CoreError) as error:
                result = error
            results.append((then, result))
            size += len(result) if isinstance(result, bytes) else 0
            if size > RESULT_BYTES_MAX:
                self._loop.call_soon_threadsafe(_give_out, results)
                results, size = [], 0
        if results:
            self._loop.call_soon_threadsafe(_give_out, results)


def _give_out(results: list[tuple[Callable[[Any], None], Any]]) -> None:
    for then, result in results:
        then(result)
