"""How much of the entry logs stays in the operating system's page cache: the newest part.

A log that is written for ever fills all memory with its pages. That costs more than it gives: each
new page has to be found (under a hypervisor, faulted in from the host), while consumers near the
tail are served from newer ones. So what lies further back than the window is given back, and new
pages are recycled ones. Measured (1 MiB groups, synced, virtual machine): 269-391 MiB/s and
1.8-2.9 s of system time for each GiB without, 1048 MiB/s and 0.3 s with. Whoever reads further back
reads from disk, and leaves its pages as it goes (`ReadBehind`): else a catching-up consumer would
take the memory that was given back, at the same price (cold reads, virtual machine: 496 MB/s and
1.9 s of system time for each GB when pages were kept, 2055 MB/s and 0.1 s when not).
BookKeeper does this to its journal (journalRemoveFromPageCache).
"""

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import Position

STEP_BYTES = 8 * 1024 * 1024
"""Pages are given back in pieces of at least this size: one cheap call for many groups."""

FORGET_BYTES = 16 * 1024 * 1024
"""What a reader left behind is given back in pieces of this size."""
GAP_BYTES_MAX = 16 * 1024 * 1024
"""Whoever goes on so far behind what was read before reads one of many ledgers of that stretch."""
STRETCHES_MAX = 64
LAG_BYTES = 64 * 1024 * 1024
"""So much later, for readers of other ledgers who go through the same stretch. Not more: half a GiB
was as slow for 100 partitions that are far apart in 1.5 GB (160-200 MB/s from disk, 2026-11-23)."""

SHARE_OF_MEMORY = 8
WINDOW_BYTES_MAX = 1024 * 1024 * 1024
"""Unless it was set, the window takes this part of the machine's memory, and not more than that."""


class _Piece(NamedTuple):
    path: Path
    start: Position
    end: Position


class PageCacheWindow:
    """Remembers what was written lately and lets go of what is older than `size_max` bytes.

    Used by the writer thread; `is_behind` by any.
    """

    def __init__(self, files: Files, size_max: int) -> None:
        """`size_max` below 0: leave everything to the operating system."""
        self._files = files
        self._size_max = size_max
        self._pieces: deque[_Piece] = deque()
        self._size = 0
        self._first: tuple[int, Position] | None = None

    def is_behind(self, log_id: int, position: Position) -> bool:
        """Tell whether bytes that end there lie before the window. Without a limit none do."""
        first = self._first
        return self._size_max >= 0 and (first is None or (log_id, position) <= first)

    def written(self, path: Path, start: Position, end: Position) -> None:
        """Take note of bytes that were written and synced. Cost: a system call each 8 MiB."""
        if self._size_max < 0:
            return
        newest = self._pieces[-1] if self._pieces else None
        if newest is not None and newest.path == path and newest.end - newest.start < STEP_BYTES:
            start = newest.start
            self._size -= newest.end - newest.start
            self._pieces.pop()
        self._pieces.append(_Piece(path, start, end))
        self._size += end - start
        while self._size > self._size_max and len(self._pieces) > 1:
            oldest = self._pieces.popleft()
            self._size -= oldest.end - oldest.start
            self._forget(oldest)
        first = self._pieces[0]
        self._first = (int(first.path.stem, 16), first.start)

    def _forget(self, piece: _Piece) -> None:
        try:
            fd = self._files.open(piece.path, os.O_RDONLY)
        except FileNotFoundError:
            return  # its ledgers are gone, and its pages with them
        try:
            self._files.forget_cached(fd, piece.start, piece.end - piece.start)
        finally:
            self._files.close(fd)


@dataclass(slots=True, eq=False)
class _Stretch:
    """What somebody reads through of a log, as far as its pages were not given back."""

    log_id: int
    fd: int
    start: Position
    end: Position


class ReadBehind:
    """Lets go of what was read through and lies before the window. Used by one thread only.

    Invariant: no stretch is empty; the one read longest ago comes first.
    """

    def __init__(self, files: Files, window: PageCacheWindow) -> None:
        self._files = files
        self._window = window
        self._stretches: deque[_Stretch] = deque()
        self._size = 0

    def read(self, log_id: int, fd: int, start: Position, end: Position) -> None:
        """Take note of bytes that were read. Cost: a system call each 16 MiB.

        The last `LAG_BYTES` over all logs stay for others who read along.
        """
        if end <= start:
            return  # behind the end of the file: nothing was read
        stretch = self._latest(log_id, start)
        if stretch is None:
            self._stretches.append(_Stretch(log_id, fd, start, end))
            self._size += end - start
        elif end > stretch.end:
            self._size += end - stretch.end
            stretch.end = end
        while self._size >= LAG_BYTES + FORGET_BYTES or len(self._stretches) > STRETCHES_MAX:
            self._forget_some(self._stretches[0])

    def close_log(self, log_id: int) -> None:
        """Let go of what is left of a log that is about to be closed. Idempotent."""
        for stretch in [each for each in self._stretches if each.log_id == log_id]:
            while stretch.start < stretch.end:
                self._forget_some(stretch)

    def _latest(self, log_id: int, at: Position) -> _Stretch | None:
        """Return the stretch that a read goes on in, which is the last one from now on."""
        for number in range(len(self._stretches) - 1, -1, -1):
            stretch = self._stretches[number]
            if stretch.log_id == log_id and stretch.start <= at <= stretch.end + GAP_BYTES_MAX:
                if number < len(self._stretches) - 1:
                    del self._stretches[number]
                    self._stretches.append(stretch)
                return stretch
        return None

    def _forget_some(self, stretch: _Stretch) -> None:
        upto = min(stretch.end, stretch.start + FORGET_BYTES)
        if self._window.is_behind(stretch.log_id, upto):  # else it goes when it leaves the window
            self._files.forget_cached(stretch.fd, stretch.start, upto - stretch.start)
        self._size -= upto - stretch.start
        stretch.start = upto
        if stretch.start == stretch.end:
            self._stretches.remove(stretch)
