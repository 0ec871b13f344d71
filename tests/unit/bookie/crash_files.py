"""A file layer that dies at step n and then forgets what was not synced, as a power loss may.

The real files below lie in a temporary directory. Steps are the calls that change something. After
the crash every such call fails; `lose_power` then changes the directory into one that a disk could
show: of each file's unsynced writes any subset of 512-byte blocks is there, of each directory's
unsynced names any prefix.
"""

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typing_extensions import override

from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.ids import Buffer

BLOCK = 512


class Crashed(OSError):
    """The machine is off."""


class _Write(NamedTuple):
    position: int
    old: bytes
    new_size: int
    old_file_size: int


class _Name(NamedTuple):
    path: Path
    old: bytes | None
    """What the name stood for before: its bytes, None for nothing."""


class CrashFiles(SystemFiles):
    def __init__(self, stop_at: int | None = None, after: "CrashFiles | None" = None) -> None:
        """`after`: its process was killed and the machine stayed on; what it had not synced."""
        self.stop_at = stop_at
        self.steps: list[str] = []
        self._paths: dict[int, Path] = {}
        self._unsynced: dict[Path, list[_Write]] = dict(after._unsynced) if after else {}
        self._names: dict[Path, list[_Name]] = dict(after._names) if after else {}

    @property
    def is_crashed(self) -> bool:
        return self.stop_at is not None and len(self.steps) > self.stop_at

    def _step(self, what: str) -> None:
        self.steps.append(what)
        if self.is_crashed:
            raise Crashed(f"crashed at step {self.stop_at}: {what}")

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC) and not path.exists():
            self._step(f"create {path.name}")
            self._names.setdefault(path.parent, []).append(_Name(path, None))
        elif flags & os.O_TRUNC:
            self._step(f"empty {path.name}")
            self._note_write(path, 0, path.stat().st_size)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def _note_write(self, path: Path, position: int, length: int) -> None:
        with path.open("rb") as file:
            file.seek(position)
            old = file.read(length)
        size = path.stat().st_size
        self._unsynced.setdefault(path, []).append(_Write(position, old, length, size))

    @override
    def write_at(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        path = self._paths[fd]
        if self.stop_at == len(self.steps):  # the last write may have got half way
            length = sum(map(len, parts))
            self._note_write(path, position, length)
            super().write_at(fd, parts, position)
        self._step(f"write {path.name}")
        self._note_write(path, position, sum(map(len, parts)))
        super().write_at(fd, parts, position)

    @override
    def allocate(self, fd: int, position: int, size: int) -> None:
        self._step(f"allocate {self._paths[fd].name}")
        self._note_write(self._paths[fd], position, 0)
        super().allocate(fd, position, size)

    @override
    def truncate(self, fd: int, size: int) -> None:
        path = self._paths[fd]
        self._step(f"truncate {path.name}")
        self._note_write(path, size, max(path.stat().st_size - size, 0))
        super().truncate(fd, size)

    @override
    def sync(self, fd: int) -> None:
        self._step(f"sync {self._paths[fd].name}")
        self._unsynced.pop(self._paths[fd], None)

    @override
    def replace(self, source: Path, target: Path) -> None:
        self._step(f"replace {target.name}")
        names = self._names.setdefault(target.parent, [])
        names.append(_Name(target, target.read_bytes() if target.exists() else None))
        if source in self._unsynced:
            self._unsynced[target] = self._unsynced.pop(source)
        super().replace(source, target)

    @override
    def remove(self, path: Path) -> None:
        self._step(f"remove {path.name}")
        if path.exists():
            self._names.setdefault(path.parent, []).append(_Name(path, path.read_bytes()))
            self._unsynced.pop(path, None)
        super().remove(path)

    @override
    def make_directory(self, path: Path) -> None:
        if not path.is_dir():
            self._step(f"make {path.name}")
        super().make_directory(path)

    @override
    def sync_directory(self, path: Path) -> None:
        self._step(f"sync names of {path.name}")
        self._names.pop(path, None)

    def lose_power(self, rng: random.Random) -> None:
        """Leave what a disk may have kept."""
        for path, writes in self._unsynced.items():
            if path.exists():
                _undo_blocks(path, writes, rng)
        for names in self._names.values():
            kept = rng.randint(0, len(names))
            for path, old in reversed(names[kept:]):
                if old is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(old)


def _undo_blocks(path: Path, writes: list[_Write], rng: random.Random) -> None:
    share = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    with path.open("r+b", buffering=0) as file:
        fd = file.fileno()
        for position, old, length, _ in reversed(writes):
            for at in range(0, length, BLOCK):
                if rng.random() < share:
                    size = min(BLOCK, length - at)
                    os.pwrite(fd, old[at : at + size].ljust(size, b"\0"), position + at)
        if rng.random() < share:
            smallest = min(write.old_file_size for write in writes)
            file.truncate(max(smallest, 0))
