"""Checkpoints: make the index files say what memory knows, then move the marks.

Order, each step synced before the next: seal the entry logs that were left behind (ledgers map,
header) -> index files -> entryLogMark -> lastMark -> old journal files go. A crash between any two
leaves marks that are too old: the tail is replayed again, to the same result.
"""

import logging
import os
from pathlib import Path
from typing import NamedTuple

from bookie import entry_log_format, journal_format
from bookie.entry_log_format import LogHeader, file_ids, pack_ledgers_map, read_header
from bookie.group_format import RECORD_HEAD_SIZE
from bookie.group_scan import GroupScan
from bookie.index_files import IndexFiles
from bookie.index_format import IndexHeader
from bookie.ledger_dirs import LedgerDirs
from bookie.ledger_state import LocationTable
from bookie.marks import ENTRY_LOG_MARK, JOURNAL_MARK, Mark, write_mark
from core.errors import CorruptData
from core.runtime.files import Files
from protocol.ids import LedgerId, Position

logger = logging.getLogger(__name__)


class LogToSeal(NamedTuple):
    """An entry log that is written no more."""

    log_id: int
    end: Position
    """Where its groups end and its ledgers map belongs."""
    usage: dict[int, int] | None
    """Ledger id -> bytes; None if that must be read from the log."""


class CheckpointPlan(NamedTuple):
    """Everything a checkpoint writes, as it was at one moment on the loop."""

    ledgers: list[tuple[LedgerId, IndexHeader, LocationTable]]
    seals: list[LogToSeal]
    active_log: int | None
    """Id of the log being written, if its bytes are not synced by group commits."""
    entry_log_mark: Mark
    journal_mark: Mark


class Checkpointer:
    """Carries out plans, in one thread. Errors: OSError: nothing may be acknowledged after it."""

    def __init__(
        self, files: Files, journal_directory: Path, dirs: LedgerDirs, indexes: IndexFiles
    ) -> None:
        self._files = files
        self._journals = journal_directory
        self._dirs = dirs
        self._indexes = indexes

    def run(self, plan: CheckpointPlan) -> None:
        """Carry out one plan."""
        if plan.active_log is not None:
            self._sync_log(plan.active_log)
        for seal in plan.seals:
            self.seal(seal)
        for ledger_id, header, locations in plan.ledgers:
            self._indexes.write(ledger_id, header, locations)
        write_mark(self._files, self._dirs.all, ENTRY_LOG_MARK, plan.entry_log_mark)
        write_mark(self._files, self._dirs.all, JOURNAL_MARK, plan.journal_mark)
        for journal_id in file_ids(self._files.names(self._journals), journal_format.SUFFIX):
            if journal_id < plan.journal_mark.file_id:
                self._files.remove(self._journals / journal_format.file_name(journal_id))

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
            sealed = LogHeader(log.end, len(usage), header.previous_end)
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

    def _sync_log(self, log_id: int) -> None:
        fd = self._dirs.open_log(log_id, os.O_RDWR)
        try:
            self._files.sync(fd)
        finally:
            self._files.close(fd)


def log_usage(files: Files, fd: int, log_id: int, end: Position) -> dict[int, int]:
    """Return ledger id -> bytes of an entry log, by reading its groups up to `end`."""
    usage: dict[int, int] = {}
    scan = GroupScan(
        lambda size, at: files.read_at(fd, max(min(size, end - at), 0), at),
        entry_log_format.file_name(log_id),
        log_id,
    )
    for group in scan.groups(entry_log_format.HEADER_SIZE):
        for ledger_id, _, _, _, size in group.records:
            usage[ledger_id] = usage.get(ledger_id, 0) + size + RECORD_HEAD_SIZE
    return usage
