import contextlib
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.core.runtime import files as files_module
from tailrace.core.runtime.files import (
    PARTS_MAX,
    LockHeld,
    SystemFiles,
    lock_file,
    write_atomically,
)
from tailrace.protocol.ids import Buffer

FILES = SystemFiles()


@pytest.fixture
def fd(tmp_path: Path) -> int:  # type: ignore[misc]
    opened = FILES.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    yield opened
    FILES.close(opened)


@pytest.mark.parametrize("count", [0, 1, 3, PARTS_MAX, PARTS_MAX + 1, 3 * PARTS_MAX + 5])
def test_parts_are_written_one_after_the_other(fd: int, count: int) -> None:
    rng = random.Random(count)
    parts: list[Buffer] = [rng.randbytes(rng.randrange(40)) for _ in range(count)]
    parts = [memoryview(part) if rng.random() < 0.5 else part for part in parts]
    FILES.write_at(fd, parts, 7)
    expected = b"".join(parts)
    assert FILES.read_at(fd, len(expected) + 100, 7) == expected
    assert FILES.size(fd) == (7 + len(expected) if expected else 0)


@pytest.mark.parametrize("limit", [1, 2, 7, 1000])
def test_short_writes_and_reads_are_continued(
    fd: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = os.pwritev, os.pread

    def short_write(fd: int, parts: Sequence[Buffer], position: int) -> int:
        return write(fd, [b"".join(parts)[:limit]], position)

    monkeypatch.setattr(files_module.os, "pwritev", short_write)
    monkeypatch.setattr(files_module.os, "pread", lambda f, n, at: read(f, min(n, limit), at))
    parts = [b"", b"abc", b"", memoryview(b"defgh"), b"i"]
    FILES.write_at(fd, parts, 0)
    assert FILES.read_at(fd, 9, 0) == b"abcdefghi"
    assert FILES.read_at(fd, 100, 3) == b"defghi"
    assert FILES.read_at(fd, 100, 50) == b""


def test_allocated_room_reads_as_zeros(fd: int) -> None:
    FILES.write_at(fd, [b"abc"], 0)
    FILES.allocate(fd, 3, 1000)
    FILES.sync(fd)
    assert FILES.read_at(fd, 10, 0) == b"abc" + bytes(7)
    FILES.truncate(fd, 2)
    assert FILES.read_at(fd, 10, 0) == b"ab"


def test_names(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c"
    FILES.make_directory(deep)
    FILES.make_directory(deep)
    write_atomically(FILES, deep / "mark", b"one")
    write_atomically(FILES, deep / "mark", b"two")
    assert FILES.names(deep) == ["mark"]
    assert FILES.read_file(deep / "mark") == b"two"
    FILES.remove(deep / "mark")
    FILES.remove(deep / "mark")
    assert FILES.read_file(deep / "mark") is None
    assert FILES.names(tmp_path / "missing") == []
    assert 0 < FILES.space(tmp_path).free_bytes < FILES.space(tmp_path).total_bytes


def test_lock_names_its_holder(tmp_path: Path) -> None:
    first = lock_file(tmp_path / "LOCK", "bookie")
    with pytest.raises(LockHeld, match=f"bookie: .* in use by process {os.getpid()}"):
        lock_file(tmp_path / "LOCK", "bookie")
    os.close(first)
    os.close(lock_file(tmp_path / "LOCK", "bookie"))


class _Killed(BaseException):
    """What a kill looks like from inside."""


class _DirectorySyncs(SystemFiles):
    """Remembers which directories were synced; killed before it syncs the n-th."""

    def __init__(self, killed_at: int = -1) -> None:
        self.synced: list[Path] = []
        self._left = killed_at

    @override
    def sync_directory(self, path: Path) -> None:
        if self._left == 0:
            raise _Killed
        self._left -= 1
        super().sync_directory(path)
        self.synced.append(path)


@pytest.mark.parametrize("killed_at", range(4))
def test_a_directory_that_a_killed_process_made_is_synced_by_the_next(
    tmp_path: Path, killed_at: int
) -> None:
    deep = tmp_path / "a" / "b" / "c"
    first, second = _DirectorySyncs(killed_at), _DirectorySyncs()
    with contextlib.suppress(_Killed):
        first.make_directory(deep)
    second.make_directory(deep)
    assert deep.is_dir()
    made = {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    assert made <= {*first.synced, *second.synced}
