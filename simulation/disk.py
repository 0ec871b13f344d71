"""A disk that forgets: what a machine's file system may show after its power went.

Each file has the bytes that processes see, and how to undo each write that was not synced; each
directory has its changes since it was synced. When power goes, of each file's unsynced writes any
subset of 512-byte blocks stays, of each directory's unsynced names any prefix. A killed process
alone loses nothing. `SimFiles` is one process' view: it holds descriptors and locks, and dies with
the process.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import NamedTuple

from tailrace.simulation.trace import Trace

BLOCK = 512
BOUNDARIES = ("sync", "write", "create", "replace", "remove", "names", "truncate", "allocate")


class _Undo(NamedTuple):
    position: int
    old: bytes
    length: int
    old_size: int


class Inode:
    __slots__ = ("data", "group_starts", "synced_starts", "undo")

    def __init__(self) -> None:
        self.data = bytearray()
        self.undo: list[_Undo] = []
        self.group_starts: list[int] = []
        """Where writes began since the last sync."""
        self.synced_starts: set[int] = set()
        """Where writes began that were synced: tells old bytes from the newest, see `damage`."""

    def note(self, position: int, length: int) -> None:
        """Remember what a change of this range replaces. Call before it."""
        old = bytes(self.data[position : position + length])
        self.undo.append(_Undo(position, old, length, len(self.data)))

    def write(self, position: int, data: bytes) -> None:
        self.note(position, len(data))
        if position > len(self.data):
            self.data.extend(bytes(position - len(self.data)))
        self.data[position : position + len(data)] = data
        self.group_starts.append(position)

    def lose_some(self, rng: Random) -> None:
        """Lose unsynced blocks, as a disk may."""
        share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        data = self.data
        for position, old, length, _ in reversed(self.undo):
            for at in range(0, length, BLOCK):
                if rng.random() < share:
                    size = min(BLOCK, length - at)
                    end = position + at + size
                    if end > len(data):
                        data.extend(bytes(end - len(data)))
                    data[position + at : end] = old[at : at + size].ljust(size, b"\0")
        if self.undo and rng.random() < share:
            del data[min(undo.old_size for undo in self.undo) :]
        self.undo.clear()
        self.group_starts.clear()


@dataclass(slots=True)
class DiskFaults:
    """What goes wrong now. Shares are probabilities of one call."""

    sync_s: float = 0.001
    slow_share: float = 0.0
    slow_s: float = 1.0
    slow_until_s: float = inf
    """When it is quick again, by the time of who waits: a worker's step runs at one moment, and
    what it asks for last may be asked long after the fault was healed."""
    write_error_share: float = 0.0
    sync_error_share: float = 0.0
    read_error_share: float = 0.0
    free_bytes: int | None = None
    """What is left before ENOSPC; None: enough."""
    crash_in: int | None = None
    """The machine (or the process) stops at the n-th boundary from now."""
    crash_kind: str | None = None
    """Count only boundaries of this kind."""


class SimDisk:
    """The file system of one machine. It outlives the processes that use it."""

    def __init__(self, name: str, rng: Random, trace: Trace, spend: Callable[[float], float]):
        """`spend`: has who runs now wait for so long, and tells when it goes on."""
        self.name = name
        self.rng = rng
        self.faults = DiskFaults()
        self.on_crash: Callable[[], None] = lambda: None
        """Kills the process that runs; called at the boundary that `faults.crash_in` names."""
        self.files: dict[str, Inode] = {}
        self.directories = {"/"}
        self.locks: dict[str, str] = {}
        self._durable: dict[str, Inode] = {}
        self._names: dict[str, list[tuple[tuple[str, Inode | None], ...]]] = {}
        self._listed: dict[str, set[str]] = {}
        """What is in each directory: processes list them all the time."""
        self._trace = trace
        self._spend = spend

    # What SimFiles calls for its process

    def boundary(self, kind: str, path: str, size: int = 0) -> None:
        """Count one change: the machine may stop before it, or the disk may refuse it."""
        faults, rng = self.faults, self.rng
        self._trace(self.name, kind, f"{path.rpartition('/')[2]} {size}")
        delay_s = faults.sync_s * (0.5 + rng.random()) if kind in ("sync", "names") else 0.00002
        goes_on_s = self._spend(delay_s)
        is_slow = faults.slow_share and goes_on_s < faults.slow_until_s
        if is_slow and rng.random() < faults.slow_share:
            self._spend(faults.slow_s * rng.random())
        if faults.crash_in is not None and faults.crash_kind in (None, kind):
            faults.crash_in -= 1
            if faults.crash_in < 0:
                faults.crash_in = None
                self.on_crash()
        if faults.write_error_share and kind != "sync" and rng.random() < faults.write_error_share:
            raise self._error(errno.EIO, kind, path)

    def take_space(self, path: str, size: int) -> None:
        free = self.faults.free_bytes
        if free is not None and size > 0:
            if size > free:
                raise self._error(errno.ENOSPC, "full", path)
            self.faults.free_bytes = free - size

    def change_names(self, *changes: tuple[str, Inode | None]) -> None:
        """Change names of one directory, all at once; None: the name goes."""
        directory = changes[0][0].rpartition("/")[0]
        self._names.setdefault(directory, []).append(changes)
        _apply(self.files, changes)
        for path, inode in changes:
            if inode is None:
                self._listed[directory].discard(path.rpartition("/")[2])
            else:
                self._list(path)

    def make_directories(self, path: Path) -> None:
        """Make a directory and those above it. They stay, whatever happens to the power."""
        for directory in map(str, (path, *path.parents)):
            if directory not in self.directories:
                self.directories.add(directory)
                self._list(directory)

    def names(self, directory: str) -> list[str]:
        """Return the names of files and directories in a directory, in their order."""
        return sorted(self._listed.get(directory, ()))

    def _list(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        if name:
            self._listed.setdefault(directory or "/", set()).add(name)

    def sync_names(self, directory: str) -> None:
        for changes in self._names.pop(directory, ()):
            _apply(self._durable, changes)

    def sync(self, inode: Inode, path: str) -> None:
        if self.faults.sync_error_share and self.rng.random() < self.faults.sync_error_share:
            inode.lose_some(self.rng)
            raise self._error(errno.EIO, "sync", path)
        inode.undo.clear()
        inode.synced_starts.update(inode.group_starts)
        inode.group_starts.clear()

    def read_fault(self, path: str) -> None:
        self._spend(0.00002)
        share = self.faults.read_error_share
        if share and self.rng.random() < share:
            raise self._error(errno.EIO, "read", path)

    def _error(self, number: int, kind: str, path: str) -> OSError:
        self._trace(self.name, f"fault.{errno.errorcode[number]}.{kind}", path)
        return OSError(number, os.strerror(number), path)

    # What happens to the machine

    def lose_power(self) -> None:
        """Leave what the disk may have kept; whoever used it is dead already."""
        for directory in sorted(self._names):
            changes = self._names[directory]
            for change in changes[: self.rng.randint(0, len(changes))]:
                _apply(self._durable, change)
        self._names.clear()
        for path in sorted(set(self.files) | set(self._durable)):
            for inode in (self.files.get(path), self._durable.get(path)):
                if inode is not None and inode.undo:
                    inode.lose_some(self.rng)
        self.files = dict(self._durable)
        self._listed.clear()
        for path in (*self.files, *self.directories):
            self._list(path)
        self._trace(self.name, "lost power", len(self.files))

    def damage(self, suffix: str, *, old_only: bool = True, zero_share: float = 0.5) -> str | None:
        """Flip one bit at rest, or zero a block, in a file of this kind.

        Return where, None if there is no such. `old_only`: leave alone what a power loss may have
        torn, as far as a bookie can know, which is the last group of the newest file of a series:
        behind what is damaged there lies a later write to the same file, or a whole later file.
        """
        paths = [path for path in sorted(self.files) if path.endswith(suffix)]
        self.rng.shuffle(paths)
        for path in paths:
            inode = self.files[path]
            end = self._provable_end(path) if old_only else len(inode.data)
            if end > 0 and not inode.undo:
                return self._damage(path, inode, end, zero_share)
        return None

    def _damage(self, path: str, inode: Inode, end: int, zero_share: float) -> str:
        """Damage a block, mostly one that holds something: index files are mostly zeros."""
        blocks = [range(at, min(at + BLOCK, end)) for at in range(0, end, BLOCK)]
        if self.rng.random() < 0.9:
            blocks = [b for b in blocks if any(inode.data[b.start : b.stop])] or blocks
        block = self.rng.choice(blocks)
        if self.rng.random() >= zero_share:
            at = self.rng.choice(block)
            inode.data[at] ^= 1 << self.rng.randrange(8)
            kind = "flip"
        else:
            at = block.start
            inode.data[at : block.stop] = bytes(len(block))
            kind = "zero"
        self._trace(self.name, f"fault.{kind}{os.path.splitext(path)[1]}", f"{path} {at}")
        return f"{path}@{at}"

    def _provable_end(self, path: str) -> int:
        """Return up to where a file is known to be whole, by what was synced behind it."""
        inode = self.files[path]
        stem, suffix = os.path.splitext(path)
        if suffix not in (".log", ".txn"):
            return len(inode.data)
        number = int(stem.rpartition("/")[2], 16)
        # Journals follow each other within a directory, entry logs over all of them.
        series = [p for p in self.files if p.endswith(suffix)]
        if suffix == ".txn":
            series = [p for p in series if p.rpartition("/")[0] == path.rpartition("/")[0]]
        for other in series:
            later = self.files[other]
            is_later = int(os.path.splitext(other)[0].rpartition("/")[2], 16) > number
            if is_later and later.synced_starts and self._durable.get(other) is later:
                return len(inode.data)
        return max(inode.synced_starts, default=0)

    def tree(self) -> dict[str, bytes]:
        """Return all files as a process would see them."""
        return {path: bytes(self.files[path].data) for path in sorted(self.files)}


def _apply(names: dict[str, Inode], changes: tuple[tuple[str, Inode | None], ...]) -> None:
    for path, inode in changes:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def parent_of(path: Path) -> str:
    return str(path.parent)
