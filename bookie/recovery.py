"""Start: what the journal and the entry logs say since the last checkpoint.

1. The journal is replayed from lastMark: keys, fences, explicit LACs (and entries, if it has any).
2. The entry logs are scanned from entryLogMark: every whole group is indexed again, the torn end of
   the last log is cut off.
3. What was found is synced, names and bytes: after a kill it may be in memory only, and nothing
   is served that a power loss could still take away.
4. Entries that only the journal has are given back, to be added again.
Everything is idempotent: a crash at any point leaves the same to be found. Blocks.
"""

import logging
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bookie import entry_log_format, journal_format
from bookie.checkpoint import LogToSeal
from bookie.entry_log_format import file_ids, pack_location
from bookie.entry_reader import EntryReader
from bookie.group_format import Group
from bookie.group_scan import GroupScan
from bookie.index_files import IndexFiles
from bookie.index_format import IndexHeader
from bookie.ledger_dirs import LedgerDirs
from bookie.ledger_state import LedgerState
from bookie.marks import ENTRY_LOG_MARK, JOURNAL_MARK, Mark, read_mark
from core.errors import CorruptData
from core.runtime.files import Files
from protocol.errors import DecodeError
from protocol.ids import EntryId, LedgerId, Position

logger = logging.getLogger(__name__)


class JournalEntry(NamedTuple):
    """An entry that the journal has and the entry log lost."""

    ledger_id: LedgerId
    entry_id: EntryId
    lac: EntryId
    body: bytes


@dataclass(slots=True)
class Recovered:
    """What a bookie begins with."""

    ledgers: dict[LedgerId, LedgerState] = field(default_factory=dict)
    entry_log: Mark | None = None
    """Where the entry log goes on; None: there is none yet."""
    journal: Mark = field(default_factory=Mark)
    """Where a replay of the journal would begin once everything here is in the index files."""
    next_journal_id: int = 0
    seals: list[LogToSeal] = field(default_factory=list)
    only_in_journal: list[JournalEntry] = field(default_factory=list)
    marks: tuple[Mark, Mark] = (Mark(-1), Mark(-1))
    """What entryLogMark and lastMark say; (-1) for one that is not there."""
    tail_bytes: int = 0
    """Bytes of groups that no checkpoint covers."""


class Recovery:
    """One start of a bookie. Errors: OSError, CorruptData."""

    def __init__(
        self,
        files: Files,
        journal_directory: Path,
        dirs: LedgerDirs,
        indexes: IndexFiles,
        reader: EntryReader,
    ) -> None:
        self._files = files
        self._journals = journal_directory
        self._dirs = dirs
        self._indexes = indexes
        self._reader = reader
        self._found = Recovered()
        self._journal_entries: list[JournalEntry] = []

    def run(self, now_ms: int) -> Recovered:
        """Return what is there; the files are ready to be appended to."""
        for current in (self._journals, *self._dirs.all):
            for directory in (current.parent.parent, current.parent, current):
                self._files.sync_directory(directory)
        self._replay_journals(now_ms)
        self._scan_entry_logs()
        self._found.only_in_journal = [
            entry for entry in self._journal_entries if not self._is_indexed(entry)
        ]
        return self._found

    # The journal

    def _replay_journals(self, now_ms: int) -> None:
        found = read_mark(self._files, self._dirs.all, JOURNAL_MARK)
        self._found.marks = (self._found.marks[0], found or Mark(-1))
        mark = found or Mark()
        ids = file_ids(self._files.names(self._journals), journal_format.SUFFIX)
        if mark.file_id and mark.file_id not in ids:
            raise CorruptData(
                f"{self._journals}: journal {mark.file_id:x}, where the replay begins, is missing"
            )
        self._found.journal = mark
        for journal_id in ids:
            if journal_id >= mark.file_id:
                start = mark.position if journal_id == mark.file_id else journal_format.HEADER_SIZE
                self._replay_journal(journal_id, start)
        self._found.next_journal_id = max([now_ms, *(i + 1 for i in ids)])

    def _replay_journal(self, journal_id: int, start: Position) -> None:
        path = self._journals / journal_format.file_name(journal_id)
        fd = self._files.open(path, os.O_RDWR)
        try:
            header = self._files.read_at(fd, journal_format.HEADER_SIZE, 0)
            if _is_unborn(header, journal_format.HEADER_SIZE, self._files.size(fd)):
                return
            journal_format.check_header(header)
            scan = GroupScan(
                lambda size, at: self._files.read_at(fd, size, at),
                str(path),
                journal_id,
                journal_format.ALIGNMENT,
            )
            for group in scan.groups(start):
                if not group.intact:
                    raise CorruptData(f"{path}: damaged at position {group.start}")
                self._apply_journal_group(fd, group)
            self._files.sync(fd)
            self._found.journal = Mark(journal_id, scan.end)
        except (DecodeError, struct.error) as error:
            raise CorruptData(f"{path}: {error}") from error
        finally:
            self._files.close(fd)

    def _apply_journal_group(self, fd: int, group: Group) -> None:
        for number, entry_id, lac, position, size in group.records:
            body = self._files.read_at(fd, size, position)
            ledger_id = LedgerId(number)
            if entry_id >= 0:
                self._journal_entries.append(JournalEntry(ledger_id, entry_id, lac, body))
                self._state(ledger_id)
            else:
                self._apply_special(ledger_id, entry_id, memoryview(body))

    def _apply_special(self, ledger_id: LedgerId, kind: int, body: memoryview) -> None:
        state = self._state(ledger_id)
        if kind == journal_format.KEY:
            state.master_key = journal_format.read_value(body)
        elif kind == journal_format.FENCE:
            state.fenced = state.fence_durable = True
        elif kind == journal_format.EXPLICIT_LAC:
            state.take_explicit_lac(journal_format.read_value(body))
        else:
            logger.warning("journal_record_skipped ledger=%d kind=%d", ledger_id, kind)
            return
        state.header_unsaved = True

    # The entry logs

    def _scan_entry_logs(self) -> None:
        mark = read_mark(self._files, self._dirs.all, ENTRY_LOG_MARK)
        self._found.marks = (mark or Mark(-1), self._found.marks[1])
        ids = self._dirs.log_ids()
        if mark and mark != Mark() and mark.file_id not in ids:
            raise CorruptData(
                f"{_shown(self._dirs)}: entry log {mark.file_id:x}, where the scan begins, "
                "is missing"
            )
        first = mark.file_id if mark else 0
        tail = [log_id for log_id in ids if log_id >= first]
        if tail and self._remove_unborn(tail[-1]):
            tail.pop()
        ends: list[LogToSeal] = []
        for log_id in tail:
            start = entry_log_format.HEADER_SIZE
            if mark and mark.position and log_id == first:
                start = mark.position
            previous = ends[-1].end if ends and ends[-1].log_id == log_id - 1 else None
            end = self._scan_entry_log(log_id, start, previous, is_last=log_id == tail[-1])
            ends.append(LogToSeal(log_id, end, None))
        if ends:
            last = ends.pop()
            self._found.entry_log = Mark(last.log_id, last.end)
        self._found.seals = ends

    def _remove_unborn(self, log_id: int) -> bool:
        """Remove a log that a crash left without header or groups."""
        path = self._dirs.log_path(log_id)
        fd = self._files.open(path)
        try:
            header = self._files.read_at(fd, entry_log_format.HEADER_SIZE, 0)
            unborn = _is_unborn(header, entry_log_format.HEADER_SIZE, self._files.size(fd))
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
            if previous_end is not None and header.previous_end not in (0, previous_end):
                raise CorruptData(
                    f"{self._dirs.log_path(log_id - 1)} ends at {previous_end}, but "
                    f"{header.previous_end} bytes of it were acknowledged"
                )
            if start > self._files.size(fd):
                raise CorruptData(f"{path}: ends before position {start}, where the scan begins")
            scan = GroupScan(lambda size, at: self._files.read_at(fd, size, at), str(path), log_id)
            for group in scan.groups(start):
                self._index_group(log_id, group, str(path))
            if is_last and self._files.size(fd) > scan.end:
                logger.info("entry_log_cut file=%s position=%d", path, scan.end)
                self._files.truncate(fd, scan.end)
            self._files.sync(fd)
        except DecodeError as error:
            raise CorruptData(f"{path}: {error}") from error
        finally:
            self._files.close(fd)
        self._found.tail_bytes += scan.end - start
        return scan.end

    def _index_group(self, log_id: int, group: Group, name: str) -> None:
        if not group.intact:
            logger.error("group_damaged file=%s position=%d", name, group.start)
        ledgers = self._found.ledgers
        first = pack_location(log_id, 0)
        for number, entry_id, lac, position, _ in group.records:
            state = ledgers.get(LedgerId(number)) or self._state(LedgerId(number))
            state.unsaved.put(entry_id, first + position)
            if entry_id > state.last_entry:
                state.last_entry = entry_id
            if lac > state.lac:
                state.lac = lac

    # Ledgers

    def _state(self, ledger_id: LedgerId) -> LedgerState:
        state = self._found.ledgers.get(ledger_id)
        if state is None:
            state = load_state(ledger_id, self._indexes, self._reader)
            if state is None:
                state = LedgerState(ledger_id, IndexHeader(b""))
            self._found.ledgers[ledger_id] = state
        return state

    def _is_indexed(self, entry: JournalEntry) -> bool:
        state = self._state(entry.ledger_id)
        return bool(
            state.locate(entry.entry_id)
            or self._reader.locate(entry.ledger_id, entry.entry_id, generation=0)
        )


def load_state(ledger_id: LedgerId, indexes: IndexFiles, reader: EntryReader) -> LedgerState | None:
    """Return a ledger as its index file has it, None if it has none. Blocks.

    Errors: OSError, CorruptData. A damaged last entry costs only the knowledge of its LAC.
    """
    loaded = indexes.load(ledger_id)
    if loaded is None:
        return None
    state = LedgerState(ledger_id, loaded.header)
    state.last_entry = loaded.last_entry
    if loaded.last_location:
        try:
            lac = reader.lac_at(ledger_id, loaded.last_entry, loaded.last_location)
            state.lac = max(state.lac, lac)
        except CorruptData:
            logger.exception("last_entry_damaged ledger=%d", ledger_id)
    return state


def _shown(dirs: LedgerDirs) -> str:
    return ", ".join(map(str, dirs.all))


def _is_unborn(header: bytes, header_size: int, file_size: int) -> bool:
    """Return whether a crash left this file before its header and first group were written."""
    return file_size <= header_size and (len(header) < header_size or not any(header))
