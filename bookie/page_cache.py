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
from pathlib import Path
from typing import NamedTuple

from core.runtime.files import Files
from protocol.ids import Position

STEP_BYTES = 8 * 1024 * 1024
"""Pages are given back in pieces of at least this size: one cheap call for many groups."""

FORGET_BYTES = 16 * 1024 * 1024
LAG_BYTES = 64 * 1024 * 1024
"""What a reader left behind is given back in pieces, and that much later."""

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


class ReadBehind:
    """Lets go of what was read through and lies before the window. Used by one thread only."""

    def __init__(self, files: Files, window: PageCacheWindow) -> None:
        self._files = files
        self._window = window
        self._kept_from: dict[int, Position] = {}
        """Log id -> where what was read and not given back begins."""

    def read(self, log_id: int, fd: int, start: Position, end: Position) -> None:
        """Take note of bytes that were read. Cost: a system call each 16 MiB.

        The last `LAG_BYTES` stay for others who read along.
        """
        kept_from = self._kept_from.get(log_id)
        if kept_from is None or not 0 <= start - kept_from < LAG_BYTES + 2 * FORGET_BYTES:
            self._kept_from[log_id] = start  # somewhere else: what lies between is another's
            return
        upto = start - LAG_BYTES
        if upto - kept_from >= FORGET_BYTES and self._window.is_behind(log_id, end):
            self._files.forget_cached(fd, kept_from, upto - kept_from)
            self._kept_from[log_id] = upto

    def forget_log(self, log_id: int) -> None:
        """Forget about a log that is closed."""
        self._kept_from.pop(log_id, None)
