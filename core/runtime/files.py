"""Files: the only door to the disk.

Everything that touches a file takes a `Files`; tests put one in its place that stops at step n or
forgets what was not synced.
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from tailrace.core.runtime.memory import memory_bytes
from tailrace.protocol.ids import Buffer, Position

PARTS_MAX = 1024
"""Buffers of one vectored write: IOV_MAX of Linux."""


class Space(NamedTuple):
    """Room of the file system that holds a directory. Unit: bytes."""

    total_bytes: int
    free_bytes: int
    device: int = 0
    """Directories with the same one share the room."""

    @property
    def usage(self) -> float:
        """Share of it that is used; where there is no room at all, everything is."""
        return 1.0 - self.free_bytes / self.total_bytes if self.total_bytes else 1.0


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
        """Make a directory and its missing parents; each name is on disk on return.

        Also the name of one that is there already: whoever made it may have been killed before it
        was synced. Cost: a sync of each parent that got a name, and one where nothing is missing.
        """

    def sync_directory(self, path: Path) -> None:
        """Return when the names of a directory are on disk."""

    def lock(self, path: Path, purpose: str) -> int:
        """Take an exclusive lock that ends with this process; closing the descriptor gives it back.

        Errors: LockHeld, its message naming the process that holds it.
        """

    def memory_bytes(self) -> int:
        """Return how much memory the process may use."""

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
        """Make a directory with its parents; sync the name of the lowest that was there already.

        A process that was killed between making that one and syncing its name has left it so; the
        names above it were synced before it was made.
        """
        if not path.is_dir():
            self.make_directory(path.parent)
            path.mkdir(exist_ok=True)
            self.sync_directory(path.parent)
            return
        # Whoever may not read the parent has not made this: its name is not ours to keep.
        with suppress(PermissionError):
            self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        """Sync the names of a directory."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: Path, purpose: str) -> int:
        """Lock by `flock`, which the kernel gives back when the process ends, however it ends."""
        return lock_file(path, purpose)

    def memory_bytes(self) -> int:
        """Ask the system: the machine's, or the limit of a control group."""
        return memory_bytes()

    def space(self, path: Path) -> Space:
        """Ask the file system; free is what an ordinary user may still take."""
        found = os.statvfs(path)
        device = os.stat(path).st_dev
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, device)


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


def write_private(path: Path, data: bytes) -> None:
    """Replace a small file that only its owner may read: after a crash it is the old or the new.

    Blocks: two syncs. Errors: OSError.
    """
    spare = path.with_name(path.name + ".new")
    spare.unlink(missing_ok=True)
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    spare.replace(path)
    SystemFiles().sync_directory(path.parent)


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
