"""Checkpoints: make the index files say what memory knows, then move the marks.

Order, each step synced before the next: flush what waits in memory to the entry log -> seal the
entry logs that were left behind (ledgers map, header) -> index files -> javaLogMark ->
entryLogMark -> lastMark of each journal -> old journal files go. A crash between any two leaves
marks that are too old: the tail is replayed again, to the same result.
"""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tailrace.bookie import entry_log_format, journal_format
from tailrace.bookie.entry_log_format import file_ids, pack_ledgers_map, read_header
from tailrace.bookie.group_format import RECORD_HEAD_SIZE
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LocationTable
from tailrace.bookie.marks import ENTRY_LOG_MARK, JAVA_LOG_MARK, Mark, journal_mark_name, write_mark
from tailrace.bookie.sorted_flush import Flushed, LogToSeal
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import LedgerId, Position

logger = logging.getLogger(__name__)


class CheckpointPlan(NamedTuple):
    """Everything a checkpoint writes, as it was at one moment on the loop."""

    ledgers: list[tuple[LedgerId, IndexHeader, LocationTable]]
    flush: Callable[[], Flushed]
    journal_marks: list[Mark]


class Checkpointer:
    """Carries out plans, in one thread. Errors: OSError: nothing may be acknowledged after it."""

    def __init__(
        self,
        files: Files,
        journals: Sequence[Path],
        dirs: LedgerDirs,
        indexes: IndexFiles,
        journal_backups_max: int,
    ) -> None:
        self._files = files
        self._journals = journals
        self._dirs = dirs
        self._indexes = indexes
        self._backups_max = journal_backups_max
        self._written: dict[str, Mark] = {}
        """Marks as all directories have them, once this process wrote them."""

    def run(self, plan: CheckpointPlan) -> Flushed:
        """Carry out one plan; return what is in the entry logs now."""
        flushed = plan.flush()
        for seal in flushed.seals:
            self.seal(seal)
        for ledger_id, header, locations in plan.ledgers:
            tables = (locations, flushed.tables.get(ledger_id))
            self._indexes.write(ledger_id, header, [table for table in tables if table])
        if self._indexes.java_log >= 0:
            self._write_mark(JAVA_LOG_MARK, Mark(self._indexes.java_log))
        self._write_mark(ENTRY_LOG_MARK, flushed.entry_log_mark)
        for index, mark in enumerate(plan.journal_marks):
            self._write_mark(journal_mark_name(index), mark)
        for directory, mark in zip(self._journals, plan.journal_marks, strict=True):
            self._remove_journals(directory, mark)
        return flushed

    def _write_mark(self, name: str, mark: Mark) -> None:
        if self._written.get(name) != mark:
            write_mark(self._files, self._dirs.all, name, mark)
            self._written[name] = mark

    def _remove_journals(self, directory: Path, mark: Mark) -> None:
        ids = file_ids(self._files.names(directory), journal_format.SUFFIX)
        behind = [journal_id for journal_id in ids if journal_id < mark.file_id]
        for journal_id in behind[: max(len(behind) - self._backups_max, 0)]:
            self._files.remove(directory / journal_format.file_name(journal_id))

    def seal(self, log: LogToSeal) -> None:
        """Append the ledgers map, then point the header at it. Idempotent.

        A log whose groups cannot be read stays without a map: it is then never removed.
        """
        fd = self._dirs.open_log(log.log_id, os.O_RDWR)
        try:
            usage = log.usage if log.usage is not None else self._read_usage(fd, log)
            if usage is None:
                return
            header = read_header(self._files.read_at(fd, entry_log_format.HEADER_SIZE, 0))
            self._files.truncate(fd, log.end)
            self._files.write_at(fd, [pack_ledgers_map(usage)], log.end)
            self._files.sync(fd)
            sealed = header._replace(map_offset=log.end, ledgers=len(usage))
            self._files.write_at(fd, [entry_log_format.pack_header(sealed)], 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)

    def _read_usage(self, fd: int, log: LogToSeal) -> dict[int, int] | None:
        try:
            return log_usage(self._files, fd, log.log_id, log.end)
        except CorruptData:
            logger.exception("entry_log_not_sealed log=%x", log.log_id)
            return None


def log_usage(files: Files, fd: int, log_id: int, end: Position) -> dict[int, int]:
    """Return ledger id -> bytes of an entry log, by reading its groups up to `end`.

    Errors: OSError; CorruptData: there may be more ledgers in it than can be read.
    """
    usage: dict[int, int] = {}
    scan = GroupScan(
        lambda size, at: files.read_at(fd, max(min(size, end - at), 0), at),
        entry_log_format.file_name(log_id),
        log_id,
    )
    for group in scan.groups(entry_log_format.HEADER_SIZE):
        for ledger_id, _, _, _, size in group.records:
            usage[ledger_id] = usage.get(ledger_id, 0) + size + RECORD_HEAD_SIZE
    if scan.end != end:
        raise CorruptData(f"{scan.name}: damaged at position {scan.end}, before its end {end}")
    return usage
