"""One process' view of a simulated disk: descriptors and locks that end with the process."""

import os
from collections.abc import Sequence
from pathlib import Path

from tailrace.core.runtime.files import LockHeld, Space
from tailrace.protocol.ids import Buffer
from tailrace.simulation.disk import BLOCK, Inode, SimDisk
from tailrace.simulation.process import ProcessDied, SimProcess, State

_DEAD = State.DEAD
TOTAL_BYTES = 1 << 34


class SimFiles:
    """`core.runtime.files.Files` over a SimDisk."""

    def __init__(self, disk: SimDisk, process: SimProcess | None = None) -> None:
        self.disk = disk
        self._process = process
        self._fds: dict[int, tuple[str, Inode]] = {}
        self._locked: dict[int, str] = {}
        self._last_fd = 2
        if process is not None:
            process.on_death.append(self._give_back_locks)

    # Changes: each is a boundary, at which the machine may stop.

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        self._check()
        name = str(path)
        inode = self.disk.files.get(name)
        if inode is None:
            if not flags & os.O_CREAT or str(path.parent) not in self.disk.directories:
                raise FileNotFoundError(2, "No such file or directory", name)
            self._boundary("create", name)
            inode = Inode()
            self.disk.change_names((name, inode))
        elif flags & os.O_TRUNC:
            self._boundary("truncate", name)
            inode.note(0, len(inode.data))
            del inode.data[:]
        self._last_fd += 1
        self._fds[self._last_fd] = (name, inode)
        return self._last_fd

    def write_at(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        name, inode = self._fds[fd]
        data = b"".join(parts)
        rng = self.disk.rng
        self._check()
        try:
            self._boundary("write", name, len(data))
            self.disk.take_space(name, position + len(data) - len(inode.data))
        except (ProcessDied, OSError):
            # It may have got half way. No block is torn: a kernel copies pages whole, and ends a
            # write for a signal or for want of room only between them.
            end = (position + rng.randint(0, len(data))) // BLOCK * BLOCK
            inode.write(position, data[: max(end - position, 0)])
            raise
        inode.write(position, data)

    def allocate(self, fd: int, position: int, size: int) -> None:
        name, inode = self._fds[fd]
        self._boundary("allocate", name, size)
        grow = position + size - len(inode.data)
        self.disk.take_space(name, grow)
        if grow > 0:
            inode.note(len(inode.data), 0)
            inode.data.extend(bytes(grow))

    def truncate(self, fd: int, size: int) -> None:
        name, inode = self._fds[fd]
        self._boundary("truncate", name, size)
        inode.note(size, max(len(inode.data) - size, 0))
        del inode.data[size:]
        inode.data.extend(bytes(size - len(inode.data)))

    def sync(self, fd: int) -> None:
        name, inode = self._fds[fd]
        self._boundary("sync", name)
        self.disk.sync(inode, name)

    def replace(self, source: Path, target: Path) -> None:
        self._boundary("replace", str(target))
        inode = self.disk.files.get(str(source))
        if inode is None:
            raise FileNotFoundError(2, "No such file or directory", str(source))
        self.disk.change_names((str(source), None), (str(target), inode))

    def remove(self, path: Path) -> None:
        self._boundary("remove", str(path))
        if str(path) in self.disk.files:
            self.disk.change_names((str(path), None))

    def make_directory(self, path: Path) -> None:
        self._check()
        self.disk.make_directories(path)

    def sync_directory(self, path: Path) -> None:
        self._boundary("names", str(path))
        self.disk.sync_names(str(path))

    # The rest

    def close(self, fd: int) -> None:
        if self._process is not None and not self._process.alive:
            return
        self._fds.pop(fd)
        path = self._locked.pop(fd, None)
        if path is not None:
            del self.disk.locks[path]

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self._check()
        name, inode = self._fds[fd]
        self.disk.read_fault(name)
        return bytes(inode.data[position : position + size])

    def forget_cached(self, fd: int, position: int, size: int) -> None:
        self._check()

    def size(self, fd: int) -> int:
        self._check()
        return len(self._fds[fd][1].data)

    def names(self, directory: Path) -> list[str]:
        self._check()
        return self.disk.names(str(directory))

    def read_file(self, path: Path) -> bytes | None:
        self._check()
        inode = self.disk.files.get(str(path))
        if inode is None:
            return None
        self.disk.read_fault(str(path))
        return bytes(inode.data)

    def lock(self, path: Path, purpose: str) -> int:
        self._check()
        holder = self.disk.locks.get(str(path))
        if holder is not None:
            raise LockHeld(f"{purpose}: {path.parent} is in use by process {holder}")
        self._last_fd += 1
        self._fds[self._last_fd] = (str(path), Inode())
        self._locked[self._last_fd] = str(path)
        self.disk.locks[str(path)] = self._process.name if self._process else "test"
        return self._last_fd

    def memory_bytes(self) -> int:
        return 1 << 30

    def space(self, path: Path) -> Space:
        self._check()
        free = self.disk.faults.free_bytes
        return Space(TOTAL_BYTES, TOTAL_BYTES if free is None else free)

    def _boundary(self, kind: str, path: str, size: int = 0) -> None:
        self._check()
        self.disk.boundary(kind, path, size)
        self._check()  # the machine may have stopped right here

    def _check(self) -> None:
        process = self._process
        if process is not None and process.state is _DEAD:
            raise ProcessDied(process.name)

    def _give_back_locks(self) -> None:
        for path in self._locked.values():
            self.disk.locks.pop(path, None)
