"""The window of entry-log pages: what is given back, and when."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tailrace.bookie.page_cache import (
    FORGET_BYTES,
    LAG_BYTES,
    STEP_BYTES,
    STRETCHES_MAX,
    PageCacheWindow,
    ReadBehind,
)
from tailrace.core.runtime.files import SystemFiles

MIB = 1024 * 1024


class RecordingFiles(SystemFiles):
    """Real files that remember what they were told to forget."""

    def __init__(self) -> None:
        self.forgotten: list[tuple[str, int, int]] = []
        self._names: dict[int, str] = {}

    @override
    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self._names[fd] = path.name
        return fd

    @override
    def forget_cached(self, fd: int, position: int, size: int) -> None:
        super().forget_cached(fd, position, size)
        self.forgotten.append((self._names[fd], position, position + size))


def _log(folder: Path, name: str) -> Path:
    path = folder / name
    path.touch()
    return path


def test_a_window_below_zero_gives_nothing_back(tmp_path: Path) -> None:
    files = RecordingFiles()
    window = PageCacheWindow(files, -1)
    for start in range(0, 100 * MIB, MIB):
        window.written(_log(tmp_path, "0.log"), start, start + MIB)
    assert files.forgotten == []


@given(st.lists(st.integers(1, 6 * MIB), max_size=60), st.integers(0, 40 * MIB), st.integers(1, 20))
def test_the_newest_bytes_stay_and_older_ones_go_in_order(
    tmp_path_factory: object, sizes: list[int], size_max: int, roll: int
) -> None:
    folder = tmp_path_factory.mktemp("logs")  # type: ignore[attr-defined]
    files = RecordingFiles()
    window = PageCacheWindow(files, size_max)
    written: list[tuple[str, int, int]] = []
    for number, size in enumerate(sizes):
        path = _log(folder, f"{number // roll}.log")
        start = written[-1][2] if written and written[-1][0] == path.name else 1024
        written.append((path.name, start, start + size))
        window.written(path, start, start + size)
    assert _bytes(files.forgotten) == _bytes(written)[: len(_bytes(files.forgotten))], "in order"
    kept = sum(end - start for _, start, end in written) - sum(
        end - start for _, start, end in files.forgotten
    )
    # One piece, which may be as large as a step and a group, is kept whatever the window is.
    assert kept <= size_max + STEP_BYTES + 6 * MIB
    if files.forgotten:
        assert kept > size_max - STEP_BYTES - 6 * MIB


def test_a_log_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    files = RecordingFiles()
    window = PageCacheWindow(files, MIB)
    old = _log(tmp_path, "0.log")
    window.written(old, 0, 2 * STEP_BYTES)
    old.unlink()
    new = _log(tmp_path, "1.log")
    window.written(new, 0, 2 * STEP_BYTES)
    window.written(new, 2 * STEP_BYTES, 4 * STEP_BYTES)
    assert files.forgotten == [("1.log", 0, 2 * STEP_BYTES)]


def _bytes(pieces: list[tuple[str, int, int]]) -> list[tuple[str, int]]:
    """Join adjacent pieces to (file, end) marks at 64 KiB steps, so that orders can be compared."""
    return [
        (name, position)
        for name, start, end in pieces
        for position in range(-(-start // 65536) * 65536, end, 65536)
    ]


@pytest.mark.parametrize("window_bytes", [0, 8 * MIB, 512 * MIB])
def test_a_reader_leaves_nothing_but_its_last_pages(tmp_path: Path, window_bytes: int) -> None:
    """Of all logs that it reads together, the one it began with first."""
    files = RecordingFiles()
    window = PageCacheWindow(files, window_bytes)
    window.written(_log(tmp_path, "5.log"), 1024, 2 * MIB)
    behind = ReadBehind(files, window)
    read = []
    for log_id in (3, 1, 2):
        fd = files.open(_log(tmp_path, f"{log_id}.log"))
        for start in range(1024, 300 * MIB, MIB):
            behind.read(log_id, fd, start, start + MIB)
            read.append((f"{log_id}.log", start, start + MIB))
            forgotten = sum(upto - start for _, start, upto in files.forgotten)
            kept = len(read) * MIB - forgotten
            assert min(LAG_BYTES, len(read) * MIB) <= kept < LAG_BYTES + FORGET_BYTES
    assert _bytes(files.forgotten) == _bytes(read)[: len(_bytes(files.forgotten))], "in order"
    for log_id in (2, 1, 3):
        behind.close_log(log_id)
        behind.close_log(log_id)
    assert sorted(_bytes(files.forgotten)) == sorted(_bytes(read)), "nothing twice"


@pytest.mark.parametrize("apart", [0, 10 * MIB, 300 * MIB, 900 * MIB])
def test_two_who_read_one_log_leave_nothing_but_their_last_pages(
    tmp_path: Path, apart: int
) -> None:
    files = RecordingFiles()
    behind = ReadBehind(files, PageCacheWindow(files, 0))
    fd = files.open(_log(tmp_path, "3.log"))
    read = set()
    for at in range(300):
        for start in (at * MIB, at * MIB + apart):
            behind.read(3, fd, start, start + MIB)
            read.add(start)
        if at % 50 == 0:
            behind.read(3, fd, 5000 * MIB + at * 100 * MIB, 5000 * MIB + at * 100 * MIB + 100)
    forgotten = {start for _, start in _bytes(files.forgotten) if start % MIB == 0}
    assert forgotten <= read | {at * 100 * MIB + 5000 * MIB for at in range(300)}
    assert len(read - forgotten) * MIB <= LAG_BYTES + FORGET_BYTES
    behind.close_log(3)
    assert read <= {start for _, start in _bytes(files.forgotten)}
    files.close(fd)


def test_reads_that_give_nothing_are_nothing_to_give_back(tmp_path: Path) -> None:
    """Length 0 would mean "up to the end", a negative one is an error."""
    files = RecordingFiles()
    behind = ReadBehind(files, PageCacheWindow(files, 0))
    fd = files.open(_log(tmp_path, "3.log"))
    behind.read(3, fd, 1028, 1024)
    behind.read(3, fd, 1028, 1028)
    behind.close_log(3)
    files.close(fd)
    assert files.forgotten == []


def test_what_a_closed_log_has_before_the_window_is_given_back(tmp_path: Path) -> None:
    files = RecordingFiles()
    window = PageCacheWindow(files, 512 * MIB)
    path = _log(tmp_path, "3.log")
    window.written(path, 60 * MIB, 61 * MIB)
    behind = ReadBehind(files, window)
    fd = files.open(path)
    behind.read(3, fd, 0, 61 * MIB)
    behind.close_log(3)
    files.close(fd)
    assert [(start, end) for _, start, end in files.forgotten] == [
        (start, start + FORGET_BYTES) for start in range(0, 48 * MIB, FORGET_BYTES)
    ]


def test_however_many_places_are_read_few_are_remembered(tmp_path: Path) -> None:
    files = RecordingFiles()
    behind = ReadBehind(files, PageCacheWindow(files, 0))
    fd = files.open(_log(tmp_path, "3.log"))
    for at in range(200):
        behind.read(3, fd, at * 100 * MIB, at * 100 * MIB + 4096)
        assert len(files.forgotten) == max(0, at + 1 - STRETCHES_MAX)
    files.close(fd)


def test_many_who_read_the_same_stretch_one_after_the_other_find_it_in_memory(
    tmp_path: Path,
) -> None:
    files = RecordingFiles()
    behind = ReadBehind(files, PageCacheWindow(files, 1024 * MIB))
    fd = files.open(_log(tmp_path, "3.log"))
    for base in range(0, 200, 40):
        for reader in range(10):
            for at in range(base + reader, base + 40, 10):
                behind.read(3, fd, at * MIB, (at + 1) * MIB)
            kept_from = max([upto for _, _, upto in files.forgotten], default=0)
            assert kept_from <= base * MIB
    assert kept_from > 80 * MIB


def test_a_reader_leaves_the_writer_s_window_alone(tmp_path: Path) -> None:
    files = RecordingFiles()
    window = PageCacheWindow(files, 1000 * MIB)
    path = _log(tmp_path, "3.log")
    for start in range(0, 300 * MIB, MIB):
        window.written(path, start, start + MIB)
    behind = ReadBehind(files, window)
    fd = files.open(path)
    for start in range(0, 300 * MIB, MIB):
        behind.read(3, fd, start, start + MIB)
    files.close(fd)
    assert files.forgotten == []


def test_readers_that_jump_give_nothing_back_that_they_did_not_read(tmp_path: Path) -> None:
    files = RecordingFiles()
    behind = ReadBehind(files, PageCacheWindow(files, 0))
    fd = files.open(_log(tmp_path, "3.log"))
    for start in (0, 500 * MIB, 100 * MIB, 900 * MIB, 901 * MIB):
        behind.read(3, fd, start, start + MIB)
    files.close(fd)
    assert files.forgotten == []
