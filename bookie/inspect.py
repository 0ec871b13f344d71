"""Looking into a bookie's files from outside, also beside a live bookie: read only, no lock.

What is in the index files is found there; what came after the last checkpoint by reading the
groups from entryLogMark on. A group that is being written right now is not seen. Blocks: for tools.
With journalWriteData, what a live bookie has in its memtable is not seen until it is flushed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tailrace.bookie import entry_log_format
from tailrace.bookie.entry_log_format import file_name, pack_location, split_location
from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.group_format import Group
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.marks import ENTRY_LOG_MARK, JAVA_LOG_MARK, Mark, read_mark
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import EntryId, LedgerId, Position


class EntryPlace(NamedTuple):
    """Where the body of an entry lies."""

    path: Path
    position: Position
    """Of the body's first byte; its i32 size lies 4 bytes before."""
    size: int


class LedgerSummary(NamedTuple):
    """What a bookie's files say of one ledger."""

    ledger_id: LedgerId
    header: IndexHeader | None
    """None if no checkpoint has covered the ledger yet."""
    first_entry: EntryId
    last_entry: EntryId
    entries: int


class BookieFiles:
    """The files of one bookie. Errors: OSError, CorruptData."""

    def __init__(self, files: Files, ledger_directories: Sequence[Path]) -> None:
        self._files = files
        self._dirs = LedgerDirs(files, ledger_directories)
        self._indexes = IndexFiles(files, self._dirs)
        java_log = read_mark(files, self._dirs.all, JAVA_LOG_MARK)
        self._indexes.java_log = -1 if java_log is None else java_log.file_id
        self._tail: dict[LedgerId, dict[EntryId, int]] | None = None

    def refresh(self) -> None:
        """Forget what was read of the tail: look again."""
        self._tail = None

    def locate(self, ledger_id: LedgerId, entry_id: EntryId) -> EntryPlace | None:
        """Return where an entry lies, None if it is not here. The latest of several copies."""
        with self._reader() as reader:
            location = self._location(reader, ledger_id, entry_id)
            if not location:
                return None
            body = reader.read_at(ledger_id, entry_id, location)
        log_id, position = split_location(location)
        return EntryPlace(self._dirs.log_path(log_id), position, len(body))

    def read(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return the body of an entry, None if it is not here."""
        with self._reader() as reader:
            location = self._location(reader, ledger_id, entry_id)
            return reader.read_at(ledger_id, entry_id, location) if location else None

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of a ledger's entries, sorted."""
        recent = self._recent().get(ledger_id, {})
        return sorted({*recent, *self._indexes.entry_ids(ledger_id)})

    def ledgers(self) -> list[LedgerId]:
        """Return the ids of all ledgers, sorted."""
        return sorted({*self._recent(), *self._indexes.list_ledger_ids()})

    def summary(self, ledger_id: LedgerId) -> LedgerSummary | None:
        """Return what is known of a ledger, None if it is not here."""
        loaded = self._indexes.load(ledger_id)
        ids = self.entry_ids(ledger_id)
        if loaded is None and not ids:
            return None
        header = loaded.header if loaded else None
        first, last = (ids[0], ids[-1]) if ids else (-1, -1)
        return LedgerSummary(ledger_id, header, first, last, len(ids))

    def _location(self, reader: EntryReader, ledger_id: LedgerId, entry_id: EntryId) -> int:
        recent = self._recent().get(ledger_id, {}).get(entry_id, 0)
        return recent or reader.locate(ledger_id, entry_id, generation=0)

    @contextmanager
    def _reader(self) -> Iterator[EntryReader]:
        reader = EntryReader(self._files, self._dirs, self._indexes, files_max=8, pages_max=64)
        try:
            yield reader
        finally:
            reader.close()

    def _recent(self) -> dict[LedgerId, dict[EntryId, int]]:
        if self._tail is None:
            self._tail = {}
            mark = read_mark(self._files, self._dirs.all, ENTRY_LOG_MARK) or Mark()
            for log_id in self._dirs.log_ids():
                if log_id >= mark.file_id:
                    start = mark.position if log_id == mark.file_id else 0
                    self._read_tail(log_id, start or entry_log_format.HEADER_SIZE)
        return self._tail

    def _read_tail(self, log_id: int, start: Position) -> None:
        assert self._tail is not None, "set by the caller"
        fd = self._dirs.open_log(log_id)
        try:
            scan = GroupScan(
                lambda size, at: self._files.read_at(fd, size, at), file_name(log_id), log_id
            )
            for group in scan.groups(start):
                self._note(log_id, group)
        except CorruptData:
            # Beside a live bookie the end of the file moves while it is read: what follows a
            # group that looked torn was written meanwhile. The bookie itself judges its files.
            return
        finally:
            self._files.close(fd)

    def _note(self, log_id: int, group: Group) -> None:
        assert self._tail is not None, "set by the caller"
        for ledger_id, entry_id, _, position, _ in group.records:
            entries = self._tail.setdefault(LedgerId(ledger_id), {})
            entries[entry_id] = pack_location(log_id, position)
