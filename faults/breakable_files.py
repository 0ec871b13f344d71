"""The machine's files, for tests: a full disk, and a power cut that loses what was not synced.

What a power cut takes away: bytes that were written and not synced, and names (of files made,
renamed, removed) whose directory was not synced. Each such change is noted with what undoes it;
`sync` and `sync_directory` forget the notes. A kernel writes back by itself sooner or later, so the
oldest notes are forgotten beyond `SAVED_BYTES_MAX` and `NAMES_MAX`.
"""

import errno
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TypeAlias

from typing_extensions import override

from tailrace.core.runtime.files import Space, SystemFiles
from tailrace.faults.unsynced import Unsynced
from tailrace.protocol.ids import Buffer, Position

NAMES_MAX: Final = 256
"""Changed names that are kept; a removed file among them keeps its room on the disk."""
_COPY_BYTES: Final = 1024 * 1024

Inode: TypeAlias = tuple[int, int]


class _Renaming(NamedTuple):
    """A change of a name, and how to undo it."""

    directory: Path
    undo: Callable[[], None]
    old: int
    """Descriptor of the file that lost its name; -1: none did."""


class BreakableFiles(SystemFiles):
    """Files of a process that a test breaks. Thread-safe; each change costs some 10 us more."""

    def __init__(self) -> None:
        self.is_full = False
        """Whether no file may grow, and no room is reported. May be changed at any time."""
        self._lock = threading.RLock()
        self._unsynced: dict[Inode, Unsynced] = {}
        self._names: list[_Renaming] = []

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        """Open a file; one that is made has no name before its directory is synced."""
        with self._lock:
            is_new = bool(flags & os.O_CREAT) and not path.exists()
            if flags & os.O_TRUNC and not is_new:
                self._note_truncation(path)
            fd = super().open(path, flags)
            if is_new:
                self._note_name(_Renaming(path.parent, lambda: path.unlink(missing_ok=True), -1))
            return fd

    @override
    def write_at(self, fd: int, parts: Sequence[Buffer], position: Position) -> None:
        """Write. Errors: OSError (no room) if the file would grow on a disk that is full."""
        with self._lock:
            size = sum(map(len, parts))
            self._check_room(fd, position + size)
            self._of(fd).before_write(position, size)
            super().write_at(fd, parts, position)

    @override
    def allocate(self, fd: int, position: Position, size: int) -> None:
        """Reserve blocks. Errors: as `write_at`."""
        with self._lock:
            self._check_room(fd, position + size)
            self._of(fd).before_write(position, 0)
            super().allocate(fd, position, size)

    @override
    def truncate(self, fd: int, size: int) -> None:
        """Set the length."""
        with self._lock:
            self._check_room(fd, size)
            self._of(fd).before_truncation(size)
            super().truncate(fd, size)

    @override
    def sync(self, fd: int) -> None:
        """Sync; what others write meanwhile is not covered by it."""
        inode = _inode(fd)
        with self._lock:
            found = self._unsynced.get(inode)
            covered = found.seal() if found is not None else 0
        super().sync(fd)
        with self._lock:
            if found is not None and found.forget(covered) and self._unsynced.get(inode) is found:
                del self._unsynced[inode]
                found.close()

    @override
    def replace(self, source: Path, target: Path) -> None:
        """Rename over `target`."""
        with self._lock:
            old = _open_if_there(target)
            super().replace(source, target)

            def undo() -> None:
                target.replace(source)
                _put_back(old, target)

            self._note_name(_Renaming(target.parent, undo, old))

    @override
    def remove(self, path: Path) -> None:
        """Remove a file."""
        with self._lock:
            old = _open_if_there(path)
            super().remove(path)
            self._note_name(_Renaming(path.parent, lambda: _put_back(old, path), old))

    @override
    def sync_directory(self, path: Path) -> None:
        """Sync the names of a directory."""
        with self._lock:
            covered = [each for each in self._names if each.directory == path]
        super().sync_directory(path)
        with self._lock:
            self._forget_names(covered)

    @override
    def space(self, path: Path) -> Space:
        """Return the room of the file system; none of it is free on a disk that is full."""
        found = super().space(path)
        return found._replace(free_bytes=0) if self.is_full else found

    def lose_unsynced(self) -> NoReturn:
        """Undo what was not synced and end this process by SIGKILL, in one step for all threads."""
        with self._lock:
            self.undo_unsynced()
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("a process ends at its SIGKILL")

    def undo_unsynced(self) -> None:
        """Make the disk what it would be after a power cut."""
        with self._lock:
            for unsynced in self._unsynced.values():
                unsynced.undo()
                unsynced.close()
            self._unsynced.clear()
            for each in reversed(self._names):
                each.undo()
            self._forget_names(list(self._names))

    def _check_room(self, fd: int, end: int) -> None:
        if self.is_full and end > os.fstat(fd).st_size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _of(self, fd: int) -> Unsynced:
        inode = _inode(fd)
        found = self._unsynced.get(inode)
        if found is None:
            found = self._unsynced[inode] = Unsynced(fd)
        return found

    def _note_truncation(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._of(fd).before_truncation(0)
        finally:
            os.close(fd)

    def _note_name(self, renaming: _Renaming) -> None:
        self._names.append(renaming)
        self._forget_names(self._names[:-NAMES_MAX])

    def _forget_names(self, gone: Sequence[_Renaming]) -> None:
        for each in gone:
            if each in self._names:
                self._names.remove(each)
                if each.old >= 0:
                    os.close(each.old)


def _inode(fd: int) -> Inode:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _open_if_there(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1


def _put_back(old: int, path: Path) -> None:
    """Write a file again that lost its name: an inode without one can have none any more."""
    if old < 0:
        return
    with path.open("wb") as file:
        position = 0
        while data := os.pread(old, _COPY_BYTES, position):
            file.write(data)
            position += len(data)
