"""Flushing a memtable: its entries go to the entry log by ledger and entry id, then one sync.

Used by one thread at a time: at start by recovery, later by the thread of the checkpoints. What a
crash leaves of a flush is harmless: the journals have its entries until a mark has passed them.
"""

from typing import NamedTuple

from tailrace.bookie.entry_log_format import pack_location
from tailrace.bookie.group_format import RECORD_HEAD_SIZE, pack_size
from tailrace.bookie.grouped_file import EntryLog
from tailrace.bookie.ledger_state import LocationTable
from tailrace.bookie.marks import Mark
from tailrace.bookie.memtable import MemEntry, Memtable
from tailrace.protocol.ids import Buffer, LedgerId, Position

GROUP_BYTES = 1024 * 1024
"""Entries are written in groups of about this size. Unit: bytes."""


class LogToSeal(NamedTuple):
    """An entry log that is written no more."""

    log_id: int
    end: Position
    """Where its groups end and its ledgers map belongs."""
    usage: dict[int, int] | None
    """Ledger id -> bytes; None if that must be read from the log."""


class Flushed(NamedTuple):
    """What is in the entry logs now, synced."""

    entry_log_mark: Mark
    """Where the next group begins."""
    seals: list[LogToSeal]
    """Logs that were left behind."""
    tables: dict[LedgerId, LocationTable]
    """Where entries went that no other table has."""


class SortedFlush:
    """Writes memtables to the entry log."""

    def __init__(self, entry_log: EntryLog) -> None:
        self.entry_log = entry_log
        self._seals: list[LogToSeal] = []
        self._mark = entry_log.mark()
        """Where the last group that was written ends, also if there was no room behind a roll."""
        self._usage: dict[int, int] | None = None if self._mark.position else {}
        """Of the log that is being written; None: some of it was there before."""

    def flush(self, memtable: Memtable) -> Flushed:
        """Write and sync all entries. Errors: OSError: nothing may be acknowledged after it."""
        tables: dict[LedgerId, LocationTable] = {}
        group: list[MemEntry] = []
        size = 0
        for entry in memtable.entries():
            group.append(entry)
            size += RECORD_HEAD_SIZE + len(entry.body)
            if size >= GROUP_BYTES:
                self._write(group, size, tables)
                group, size = [], 0
        if group:
            self._write(group, size, tables)
        if memtable:
            self.entry_log.sync()
        seals, self._seals = self._seals, []
        return Flushed(self.entry_log.mark(), seals, tables)

    def _write(
        self, group: list[MemEntry], size: int, tables: dict[LedgerId, LocationTable]
    ) -> None:
        parts: list[Buffer] = []
        for entry in group:
            parts += (pack_size(len(entry.body)), entry.body)
        before = self._mark
        start = self.entry_log.append(parts, size, synced=False)
        self._mark = self.entry_log.mark()
        if start.file_id != before.file_id or not before.position:
            if before.position:
                self._seals.append(LogToSeal(before.file_id, before.position, self._usage))
            self._usage = {}
        location = pack_location(*start) + RECORD_HEAD_SIZE
        for ledger_id, entry_id, body in group:
            table = tables.get(ledger_id)
            if table is None:
                table = tables[ledger_id] = LocationTable()
            table.put(entry_id, location)
            if self._usage is not None:
                used = self._usage.get(ledger_id, 0)
                self._usage[ledger_id] = used + RECORD_HEAD_SIZE + len(body)
            location += RECORD_HEAD_SIZE + len(body)
