"""Scanning the entry logs' tail: what came after entryLogMark, and where the last log goes on."""

import logging
import os
from collections.abc import Callable
from typing import Final

from tailrace.bookie import entry_log_format
from tailrace.bookie.group_format import Group, read_group
from tailrace.bookie.group_scan import WINDOW_BYTES, GroupScan
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.marks import Mark
from tailrace.bookie.sorted_flush import LogToSeal
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Position

logger = logging.getLogger(__name__)

_MISSING: Final = 0
"""Stands for where a log ended that is not there."""


class EntryLogScan:
    """One scan of the tail. Blocks. Errors: OSError, CorruptData."""

    def __init__(
        self,
        files: Files,
        dirs: LedgerDirs,
        index: Callable[[int, Group], None],
        note_java_log: Callable[[int], None],
    ) -> None:
        """`index` takes (log id, group) of each group, in the order they were written.

        `note_java_log` hears first of each log of the tail that Java's bookie wrote.
        """
        self._files = files
        self._dirs = dirs
        self._index = index
        self._note_java_log = note_java_log
        self.seals: list[LogToSeal] = []
        """Logs of the tail but the last: they may lack their ledgers map."""
        self.bytes = 0
        """How much the tail holds."""

    def run(self, ids: list[int], mark: Mark | None) -> Mark | None:
        """Scan from `mark` on; return where the last log ends, None if there is none of ours."""
        if mark and mark != Mark() and mark.file_id not in ids:
            shown = ", ".join(map(str, self._dirs.all))
            raise CorruptData(
                f"{shown}: entry log {mark.file_id:x}, where the scan begins, is missing"
            )
        first = mark.file_id if mark else 0
        tail = [log_id for log_id in ids if log_id >= first]
        if tail and not _is_in_use(mark, tail[-1]) and self._remove_unborn(tail[-1]):
            tail.pop()
        ours = [log_id for log_id in tail if self._is_ours(log_id)]
        for log_id in sorted({*tail} - {*ours}):
            self._note_java_log(log_id)
        tail = ours
        ends: list[LogToSeal] = []
        for log_id in tail:
            start = entry_log_format.HEADER_SIZE
            if mark and mark.position and log_id == first:
                start = mark.position
            previous = ends[-1].end if ends and ends[-1].log_id == log_id - 1 else None
            if previous is None and log_id > first and log_id - 1 not in ids:
                previous = _MISSING
            end = self._scan_entry_log(log_id, start, previous, is_last=log_id == tail[-1])
            ends.append(LogToSeal(log_id, end, None))
        last = ends.pop() if ends else None
        self.seals = ends
        return Mark(last.log_id, last.end) if last else None

    def _is_ours(self, log_id: int) -> bool:
        fd = self._dirs.open_log(log_id)
        try:
            return is_grouped(self._files, fd, log_id)
        except DecodeError as error:
            raise CorruptData(f"{self._dirs.log_path(log_id)}: {error}") from error
        finally:
            self._files.close(fd)

    def _remove_unborn(self, log_id: int) -> bool:
        """Remove a log that a crash left without its whole header: two sectors, and no group yet.

        Java's empty log goes too. Else what comes would be written behind a header without our
        sign, and with its first group damaged the log would be taken for one of Java's.
        """
        path = self._dirs.log_path(log_id)
        fd = self._files.open(path)
        try:
            header = self._files.read_at(fd, entry_log_format.HEADER_SIZE, 0)
            is_empty = self._files.size(fd) <= entry_log_format.HEADER_SIZE
            unborn = is_empty and not _is_whole(header)
        finally:
            self._files.close(fd)
        if unborn:
            self._dirs.remove_log(log_id)
            self._files.sync_directory(path.parent)
        return unborn

    def _scan_entry_log(
        self, log_id: int, start: Position, previous_end: Position | None, *, is_last: bool
    ) -> Position:
        path = self._dirs.log_path(log_id)
        fd = self._files.open(path, os.O_RDWR)
        try:
            header = entry_log_format.read_header(
                self._files.read_at(fd, entry_log_format.HEADER_SIZE, 0)
            )
            if previous_end == _MISSING and header.previous_end:
                raise CorruptData(f"{path}: entry log {log_id - 1:x}, which it follows, is missing")
            if previous_end is not None and header.previous_end not in (0, previous_end):
                raise CorruptData(
                    f"{self._dirs.log_path(log_id - 1)} ends at {previous_end}, but "
                    f"{header.previous_end} bytes of it were acknowledged"
                )
            if start > self._files.size(fd):
                raise CorruptData(f"{path}: ends before position {start}, where the scan begins")
            scan = GroupScan(lambda size, at: self._files.read_at(fd, size, at), str(path), log_id)
            for group in scan.groups(start):
                if not group.intact:
                    logger.error("group_damaged file=%s position=%d", path, group.start)
                self._index(log_id, group)
            if is_last and self._files.size(fd) > scan.end:
                logger.info("entry_log_cut file=%s position=%d", path, scan.end)
                self._files.truncate(fd, scan.end)
            self._files.sync(fd)
        except DecodeError as error:
            raise CorruptData(f"{path}: {error}") from error
        finally:
            self._files.close(fd)
        self.bytes += scan.end - start
        return scan.end


def is_grouped(files: Files, fd: int, log_id: int) -> bool:
    """Tell our logs from those that Java's bookie wrote: these are left as they are.

    Errors: OSError, DecodeError.
    """
    size = entry_log_format.HEADER_SIZE
    if entry_log_format.read_header(files.read_at(fd, size, 0)).grouped:
        return True
    data = files.read_at(fd, WINDOW_BYTES, size)
    return not data or isinstance(read_group(memoryview(data), 0, size, log_id), Group)


def _is_in_use(mark: Mark | None, log_id: int) -> bool:
    """Tell whether groups of a log were checkpointed: what lacks its header then is damaged."""
    if mark is None or mark.file_id != log_id:
        return False
    return mark.position > entry_log_format.HEADER_SIZE


def _is_whole(header: bytes) -> bool:
    """Tell whether a header is as we write it."""
    try:
        return entry_log_format.read_header(header).grouped
    except DecodeError:
        return False
