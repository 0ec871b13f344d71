"""The window of entry-log pages: what is given back, and when."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from bookie.page_cache import LAG_BYTES, STEP_BYTES, PageCacheWindow, ReadBehind
from core.runtime.files import SystemFiles

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


def test_a_reader_leaves_nothing_but_its_last_pages(tmp_path: Path) -> None:
    files = RecordingFiles()
    window = PageCacheWindow(files, 8 * MIB)
    window.written(_log(tmp_path, "5.log"), 1024, 2 * MIB)
    behind = ReadBehind(files, window)
    fd = files.open(_log(tmp_path, "3.log"))
    end = 1024
    while end < 300 * MIB:
        behind.read(3, fd, end, end + MIB)
        end += MIB
    files.close(fd)
    assert files.forgotten[0][1] == 1024
    ends = [upto for _, _, upto in files.forgotten]
    starts = [start for _, start, _ in files.forgotten]
    assert starts[1:] == ends[:-1]
    assert LAG_BYTES - 20 * MIB < end - ends[-1] < LAG_BYTES + 20 * MIB


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
