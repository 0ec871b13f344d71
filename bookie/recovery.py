"""Start: what the entry logs and the journals say since the last checkpoint.

1. The entry logs are scanned from entryLogMark: every whole group is indexed again, the torn end of
   the last log is cut off.
2. The journals are replayed from their lastMark: keys, fences, explicit LACs, and entries; entries
   that no entry log has, or none with that body, are flushed to one.
3. What was found is synced, names and bytes: after a kill it may be in memory only, and nothing
   is served that a power loss could still take away.
Everything is idempotent: a crash at any point leaves the same to be found. It does not matter in
which way (`add_path`) the bookie ran before. Blocks.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.bookie import journal_format
from tailrace.bookie.entry_log_format import pack_location
from tailrace.bookie.entry_log_scan import EntryLogScan
from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.group_format import Group, Record
from tailrace.bookie.grouped_file import EntryLog
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.journal_replay import JournalReplay
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_index import REMEDY, SLOTS_PER_SECTOR, Cut
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.marks import ENTRY_LOG_MARK, JAVA_LOG_MARK, Mark, journal_mark_name, read_mark
from tailrace.bookie.memtable import Memtable
from tailrace.bookie.sorted_flush import LogToSeal, SortedFlush
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)

NO_MARK = Mark(-1)
"""Stands for a mark that is not there."""

OpenEntryLog = Callable[[Mark | None, int], EntryLog]
"""(where it goes on, highest log id of all) -> the entry log, ready to be appended to."""


@dataclass(slots=True)
class Recovered:
    """What a bookie begins with."""

    flush: SortedFlush
    """Owns the entry log, ready to be appended to."""
    ledgers: dict[LedgerId, LedgerState] = field(default_factory=dict)
    journal_marks: list[Mark] = field(default_factory=list)
    """Where replays would begin once everything here is in the index files; one a directory."""
    next_journal_ids: list[int] = field(default_factory=list)
    seals: list[LogToSeal] = field(default_factory=list)
    marks: tuple[Mark, ...] = ()
    """What entryLogMark and each lastMark say; NO_MARK for one that is not there."""
    tail_bytes: int = 0
    """Bytes of entries that no checkpoint covers."""


class Recovery:
    """One start of a bookie. Errors: OSError, CorruptData."""

    def __init__(
        self,
        files: Files,
        journals: Sequence[Path],
        dirs: LedgerDirs,
        indexes: IndexFiles,
        reader: EntryReader,
    ) -> None:
        self._files = files
        self._journals = journals
        self._dirs = dirs
        self._indexes = indexes
        self._reader = reader
        self._ledgers: dict[LedgerId, LedgerState] = {}
        self._unsettled: dict[LedgerId, Cut] = {}
        """The ledgers in the tail, which the index files know as such."""
        self._seals: list[LogToSeal] = []
        self._tail_bytes = 0
        self._memtable = Memtable()

    def run(self, now_ms: int, open_entry_log: OpenEntryLog, memtable_bytes_max: int) -> Recovered:
        """Return what is there. Memory: the locations, and `memtable_bytes_max` of entries."""
        for current in (*self._journals, *self._dirs.all):
            for directory in (current.parent.parent, current.parent, current):
                self._files.sync_directory(directory)
        entry_log_mark = read_mark(self._files, self._dirs.all, ENTRY_LOG_MARK)
        journal_marks = self._read_journal_marks()
        java_log = read_mark(self._files, self._dirs.all, JAVA_LOG_MARK)
        self._indexes.java_log = -1 if java_log is None else java_log.file_id
        self._indexes.unsettled = self._unsettled
        log_ids = self._dirs.log_ids()
        self._indexes.newest_log = max(log_ids, default=-1)
        scan = EntryLogScan(self._files, self._dirs, self._index_group, self._note_java_log)
        end = scan.run(log_ids, entry_log_mark)
        self._seals += scan.seals
        self._tail_bytes += scan.bytes
        entry_log = open_entry_log(end, max(self._dirs.log_ids(), default=-1))
        try:
            flush = SortedFlush(entry_log)
            replays = self._replay(journal_marks, flush, memtable_bytes_max)
            self._judge_indexes()
        except BaseException:
            entry_log.close()
            raise
        return Recovered(
            flush,
            self._ledgers,
            [replay.end for replay in replays],
            [max(now_ms, replay.next_id) for replay in replays],
            self._seals,
            tuple(mark or NO_MARK for mark in (entry_log_mark, *journal_marks)),
            self._tail_bytes,
        )

    def _judge_indexes(self) -> None:
        """Look again at the index files of the tail: a crash cut only what the tail has.

        A checkpoint that was cut wrote places of entries that are in the tail; and the first index
        of a ledger only if the ledger's key is. Errors: CorruptData: an index was lost.
        """
        for ledger_id, state in self._ledgers.items():
            sectors: set[int] = set()
            for first, run in state.unsaved.runs():
                last = first + len(run) - 1
                sectors.update(range(first // SLOTS_PER_SECTOR, last // SLOTS_PER_SECTOR + 1))
            self._unsettled[ledger_id] = frozenset(sectors)
            loaded = self._indexes.load(ledger_id)
            if loaded is not None:
                state.is_last_known = loaded.is_last_known
            elif not state.master_key and self._indexes.is_begun(ledger_id):
                raise CorruptData(f"the index of ledger {ledger_id} was lost; {REMEDY}")

    # The journals

    def _read_journal_marks(self) -> list[Mark | None]:
        count = len(self._journals)
        further = journal_mark_name(count)
        if read_mark(self._files, self._dirs.all, further) is not None:
            raise CorruptData(
                f"{further} says that journalDirectories had more than {count} directories: what "
                "is in the others would be lost. Start with the former list and stop cleanly, then "
                f"remove {further} from all ledger directories"
            )
        names = [journal_mark_name(index) for index in range(count)]
        return [read_mark(self._files, self._dirs.all, name) for name in names]

    def _replay(
        self, marks: list[Mark | None], flush: SortedFlush, memtable_bytes_max: int
    ) -> list[JournalReplay]:
        def apply(record: Record, body: bytes) -> None:
            self._apply(record, body)
            if self._memtable.size > memtable_bytes_max:
                self._flush(flush)

        replays = []
        for directory, mark in zip(self._journals, marks, strict=True):
            replay = JournalReplay(self._files, directory, apply)
            replay.run(mark)
            replays.append(replay)
        self._flush(flush)
        return replays

    def _apply(self, record: Record, body: bytes) -> None:
        number, entry_id, lac, _, _ = record
        if number < 0:
            return
        state = self._state(LedgerId(number))
        if entry_id < 0:
            self._apply_special(state, entry_id, memoryview(body))
            return
        held = self._memtable.get(state.ledger_id, entry_id)
        if held is not None or not self._is_stored(state, entry_id, body):
            self._memtable.put(state.ledger_id, entry_id, body)
            state.note_entry(entry_id, lac)

    def _is_stored(self, state: LedgerState, entry_id: EntryId, body: bytes) -> bool:
        """Return whether the entry logs have this body: of an entry added again the last counts."""
        location = state.locate(entry_id)
        try:
            if not location:
                location = self._reader.locate(state.ledger_id, entry_id, generation=0)
            if not location:
                return False
            return self._reader.read_at(state.ledger_id, entry_id, location) == body
        except CorruptData:
            return False

    def _apply_special(self, state: LedgerState, kind: int, body: memoryview) -> None:
        if kind == journal_format.KEY:
            state.master_key = journal_format.read_value(body)
        elif kind == journal_format.FENCE:
            state.fenced = state.fence_durable = True
        elif kind == journal_format.EXPLICIT_LAC:
            state.take_explicit_lac(journal_format.read_value(body))
        else:
            logger.warning("journal_record_skipped ledger=%d kind=%d", state.ledger_id, kind)
            return
        state.header_unsaved = True

    def _flush(self, flush: SortedFlush) -> None:
        memtable, self._memtable = self._memtable, Memtable()
        if not memtable:
            return
        self._tail_bytes += memtable.size
        flushed = flush.flush(memtable)
        self._seals += flushed.seals
        for ledger_id, table in flushed.tables.items():
            unsaved = self._ledgers[ledger_id].unsaved
            for first, locations in table.runs():
                for at, location in enumerate(locations):
                    unsaved.put(first + at, location)

    # The entry logs

    def _note_java_log(self, log_id: int) -> None:
        self._indexes.java_log = max(self._indexes.java_log, log_id)

    def _index_group(self, log_id: int, group: Group) -> None:
        ledgers = self._ledgers
        first = pack_location(log_id, 0)
        for number, entry_id, lac, position, _ in group.records:
            state = ledgers.get(LedgerId(number)) or self._state(LedgerId(number))
            state.unsaved.put(entry_id, first + position)
            state.note_entry(entry_id, lac)

    def _state(self, ledger_id: LedgerId) -> LedgerState:
        state = self._ledgers.get(ledger_id)
        if state is None:
            self._unsettled[ledger_id] = None  # which of it is known in the end
            state = load_state(ledger_id, self._indexes, self._reader)
            if state is None:
                state = LedgerState(ledger_id, IndexHeader(b""))
            self._ledgers[ledger_id] = state
        return state


def load_state(ledger_id: LedgerId, indexes: IndexFiles, reader: EntryReader) -> LedgerState | None:
    """Return a ledger as its index file has it, None if it has none. Blocks.

    Errors: OSError, CorruptData. A damaged last entry costs only the knowledge of its LAC.
    """
    loaded = indexes.load(ledger_id)
    if loaded is None:
        return None
    state = LedgerState(ledger_id, loaded.header)
    state.last_entry = loaded.last_entry
    state.is_last_known = loaded.is_last_known
    if loaded.last_location:
        try:
            lac = reader.lac_at(ledger_id, loaded.last_entry, loaded.last_location)
            state.lac = max(state.lac, lac)
        except CorruptData:
            logger.exception("last_entry_damaged ledger=%d", ledger_id)
    return state
