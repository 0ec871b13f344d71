"""Files that a test breaks, against a model: what a directory held when it was last synced."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import write_atomically
from tailrace.faults import breakable_files, unsynced
from tailrace.faults.breakable_files import BreakableFiles
from tailrace.faults.skewed_clock import SkewedClock

NAMES = ("a", "b", "c")
OPEN = os.O_RDWR | os.O_CREAT

steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 12), st.binary(max_size=8)),
    st.tuples(st.just("allocate"), st.sampled_from(NAMES), st.integers(0, 12)),
    st.tuples(st.just("truncate"), st.sampled_from(NAMES), st.integers(0, 12)),
    st.tuples(st.just("empty"), st.sampled_from(NAMES)),
    st.tuples(st.just("replace"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("sync"), st.sampled_from(NAMES)),
    st.tuples(st.just("names")),
)


class File:
    """What a file holds, and what of it is on disk."""

    def __init__(self) -> None:
        self.data = self.synced = b""


class Model:
    """The files of a directory by name, and the names that are on disk."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.names: dict[str, File] = {}

    def apply(self, step: Sequence[Any]) -> None:
        kind, *given = step
        if kind == "names":
            self.names = dict(self.files)
        elif kind == "remove":
            self.files.pop(given[0], None)
        elif kind == "replace":
            if given[0] in self.files and given[0] != given[1]:
                self.files[given[1]] = self.files.pop(given[0])
        elif kind == "sync":
            if given[0] in self.files:
                self.files[given[0]].synced = self.files[given[0]].data
        else:
            file = self.files.setdefault(given[0], File())
            file.data = changed(file.data, kind, given[1:])

    def after_power_cut(self) -> dict[str, bytes]:
        return {name: file.synced for name, file in self.names.items()}


def changed(data: bytes, kind: str, given: Sequence[Any]) -> bytes:
    if kind == "empty":
        return b""
    if kind == "truncate":
        return data[: given[0]].ljust(given[0], b"\0")
    if kind == "allocate":
        return data.ljust(given[0] + 4, b"\0")
    position, new = given
    if not new:
        return data
    return data.ljust(position, b"\0")[:position] + new + data[position + len(new) :]


def play(files: BreakableFiles, at: Path, step: Sequence[Any]) -> None:
    kind, *given = step
    if kind == "names":
        files.sync_directory(at)
    elif kind == "remove":
        files.remove(at / given[0])
    elif kind == "replace":
        if (at / given[0]).exists() and given[0] != given[1]:
            files.replace(at / given[0], at / given[1])
    elif kind != "sync" or (at / given[0]).exists():
        change(files, at / given[0], kind, given[1:])


def change(files: BreakableFiles, path: Path, kind: str, given: Sequence[Any]) -> None:
    fd = files.open(path, OPEN | (os.O_TRUNC if kind == "empty" else 0))
    try:
        if kind == "write":
            files.write_at(fd, [given[1]], given[0])
        elif kind == "allocate":
            files.allocate(fd, given[0], 4)
        elif kind == "truncate":
            files.truncate(fd, given[0])
        elif kind == "sync":
            files.sync(fd)
    finally:
        files.close(fd)


def found(at: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in at.iterdir()}


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_a_power_cut_leaves_what_was_synced(script: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as directory:
        at, files, model = Path(directory), BreakableFiles(), Model()
        before = len(os.listdir("/proc/self/fd"))
        for step in script:
            play(files, at, step)
            model.apply(step)
            assert found(at) == {name: file.data for name, file in model.files.items()}
        files.undo_unsynced()
        assert found(at) == model.after_power_cut()
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def files() -> BreakableFiles:
    return BreakableFiles()


def test_what_is_written_while_a_sync_runs_is_not_covered_by_it(
    files: BreakableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = files.open(tmp_path / "f", OPEN)
    files.sync_directory(tmp_path)
    files.write_at(fd, [b"1234"], 0)
    real = os.fdatasync

    def sync_and_write(fd: int) -> None:
        real(fd)
        files.write_at(fd, [b"x"], 1)

    monkeypatch.setattr(os, "fdatasync", sync_and_write)
    files.sync(fd)
    assert (tmp_path / "f").read_bytes() == b"1x34"
    files.undo_unsynced()
    assert (tmp_path / "f").read_bytes() == b"1234"
    files.close(fd)


def test_the_last_of_two_syncs_covers_only_what_was_there_when_it_began(
    files: BreakableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = files.open(tmp_path / "f", OPEN)
    files.sync_directory(tmp_path)
    files.write_at(fd, [b"1234"], 0)
    real = os.fdatasync

    def sync_another_time(fd: int) -> None:
        monkeypatch.setattr(os, "fdatasync", sync_and_write)
        files.write_at(fd, [b"5"], 4)
        files.sync(fd)
        real(fd)

    def sync_and_write(fd: int) -> None:
        real(fd)
        files.write_at(fd, [b"x"], 1)

    monkeypatch.setattr(os, "fdatasync", sync_another_time)
    files.sync(fd)
    assert (tmp_path / "f").read_bytes() == b"1x345"
    files.undo_unsynced()
    assert (tmp_path / "f").read_bytes() == b"12345"
    files.close(fd)


def test_a_sync_that_fails_covers_nothing(
    files: BreakableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = files.open(tmp_path / "f", OPEN)
    files.write_at(fd, [b"1234"], 0)
    files.sync(fd)
    files.sync_directory(tmp_path)
    files.write_at(fd, [b"abcd"], 0)

    def write_and_fail(fd: int) -> None:
        files.write_at(fd, [b"xy"], 1)
        raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(os, "fdatasync", write_and_fail)
    with pytest.raises(OSError, match="no disk"):
        files.sync(fd)
    files.undo_unsynced()
    assert found(tmp_path) == {"f": b"1234"}
    files.close(fd)


def test_an_atomic_replacement_stays(files: BreakableFiles, tmp_path: Path) -> None:
    for data in (b"old", b"new"):
        write_atomically(files, tmp_path / "f", data)
    files.undo_unsynced()
    assert found(tmp_path) == {"f": b"new"}


def test_it_keeps_so_many_names_and_so_many_bytes(
    files: BreakableFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakable_files, "NAMES_MAX", 2)
    for name in ("a", "b", "c"):
        files.close(files.open(tmp_path / name, OPEN))
    files.undo_unsynced()
    assert found(tmp_path) == {"a": b""}, "the oldest counts as written back"
    monkeypatch.setattr(unsynced, "SAVED_BYTES_MAX", 4)
    fd = files.open(tmp_path / "a", OPEN)
    files.write_at(fd, [b"12345678"], 0)
    files.sync(fd)
    for position in range(6):
        files.write_at(fd, [b"x"], position)
    files.undo_unsynced()
    assert found(tmp_path) == {"a": b"xx345678"}
    files.close(fd)


def test_a_full_disk_lets_no_file_grow(files: BreakableFiles, tmp_path: Path) -> None:
    fd = files.open(tmp_path / "f", OPEN)
    files.write_at(fd, [b"12"], 0)
    files.is_full = True
    assert files.space(tmp_path).free_bytes == 0
    files.write_at(fd, [b"34"], 0)
    for grow in (
        lambda: files.write_at(fd, [b"56"], 1),
        lambda: files.allocate(fd, 0, 3),
        lambda: files.truncate(fd, 3),
    ):
        with pytest.raises(OSError, match="No space left") as caught:
            grow()
        assert caught.value.errno == errno.ENOSPC
    files.is_full = False
    files.write_at(fd, [b"56"], 2)
    assert found(tmp_path) == {"f": b"3456"}
    assert files.space(tmp_path).free_bytes > 0
    files.close(fd)


def test_the_process_dies_of_it(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        "from tailrace.faults.breakable_files import BreakableFiles;"
        "files = BreakableFiles(); at = Path(sys.argv[1]);"
        "fd = files.open(at / 'f', os.O_RDWR | os.O_CREAT); files.sync_directory(at);"
        "files.write_at(fd, [b'kept'], 0); files.sync(fd); files.write_at(fd, [b'lost'], 2);"
        "files.lose_unsynced()"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert found(tmp_path) == {"f": b"kept"}


def test_a_skewed_clock_dates_differently_and_times_alike() -> None:
    true = ManualClock()
    clock = SkewedClock(true)
    assert clock.now_ms() == true.now_ms()
    clock.skew_ms = -5000
    true.advance_ms(10)
    assert clock.now_ms() == true.now_ms() - 5000
    assert clock.monotonic_s() == true.monotonic_s()
