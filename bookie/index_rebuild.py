"""Making index files again from the entry logs, which say of each entry whose it is. For a tool.

What stands only in an index file comes from elsewhere where that cannot be trusted any more: the
master key from a journal that is still there, or from the password; the fence from nowhere. So a
ledger whose header was lost is fenced from then on: no writer is let in that was shut out. A writer
that was not finds its ledger fenced, as after any recovery, and goes on in a new one.

An index is built aside and takes the old one's place when it is whole: until then the old one
stays, and a crash leaves the one or the other. Where an entry log is damaged, ledgers that may have
had entries there get an index without checksums: what it lacks is answered EIO, never "not here".
"""

from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tailrace.bookie import entry_log_format, journal_format
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.entry_log_format import file_ids, pack_location
from tailrace.bookie.entry_log_scan import is_grouped
from tailrace.bookie.group_format import RECORD_HEAD_SIZE, Record
from tailrace.bookie.identity import lock_directories, unlock_directories
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import ENTRY_ID_MAX, IndexHeader
from tailrace.bookie.index_sums import SUFFIX as SUMS_SUFFIX
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_index import SLOTS_PER_SECTOR, Cut, LedgerIndex
from tailrace.bookie.ledger_state import LocationTable
from tailrace.bookie.log_usage import LogUsages
from tailrace.bookie.marks import (
    ENTRY_LOG_MARK,
    JAVA_LOG_MARK,
    Mark,
    journal_mark_name,
    read_mark,
    write_mark,
)
from tailrace.bookie.salvage import JournalRecords, WholeLog, whole_journal
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import EntryId, LedgerId

ASIDE = ".new"
LOCATIONS_MAX = 8_000_000
"""Locations that are kept in memory until they are written: about 100 MB."""


class Rebuilt(NamedTuple):
    """One ledger whose index was made again, or would be."""

    ledger_id: LedgerId
    why: str
    entries: int
    fenced: bool
    key: str
    """Where the master key comes from: index, journal, password, none."""
    is_whole: bool
    """Whether all its entries can be there: no entry log that may have had some is damaged."""


class Report(NamedTuple):
    """What a rebuild did."""

    ledgers: list[Rebuilt]
    damaged_logs: list[str]
    marks: list[str]
    """Marks that were damaged and now point to where everything is replayed from."""


@dataclass(slots=True)
class _Ledger:
    why: str
    header: IndexHeader | None
    """As the index has it; None if that cannot be trusted, or is not there."""
    seen_bytes: dict[int, int] = field(default_factory=dict)
    """Entry log -> bytes of its records there."""
    table: LocationTable = field(default_factory=LocationTable)
    is_whole: bool = True


def rebuild_indexes(
    config: BookieConfig,
    files: Files,
    *,
    ledger_ids: Collection[LedgerId] = (),
    master_key: bytes = b"",
    dry_run: bool = False,
) -> Report:
    """Make the index files of a stopped bookie again that are damaged or missing.

    `ledger_ids`: these instead, damaged or not. `master_key`: of ledgers whose own is not known.
    Cost: reads all entry logs, when there is anything to do. Errors: LockHeld (a bookie runs on
    them), OSError, CorruptData.
    """
    locks = lock_directories(config, files)
    try:
        return _Rebuild(config, files, master_key, dry_run=dry_run).run(ledger_ids)
    finally:
        unlock_directories(locks, files)


class _Rebuild:
    def __init__(
        self, config: BookieConfig, files: Files, master_key: bytes, *, dry_run: bool
    ) -> None:
        self._files = files
        self._journals = [directory / "current" for directory in config.journal_directories]
        self._dirs = LedgerDirs(files, config.ledger_directories)
        self._indexes = IndexFiles(files, self._dirs)
        self._usages = LogUsages(files, self._dirs)
        self._master_key = master_key
        self._dry_run = dry_run
        self._ledgers: dict[int, _Ledger] = {}
        self._only: frozenset[LedgerId] = frozenset()
        self._unsure: list[tuple[int, EntryId, int]] = []
        """(ledger, entry, location) of groups whose checksum is wrong: used without another."""
        self._damaged_logs: dict[int, str] = {}
        self._waiting = 0
        self._well: set[int] = set()
        """Ledgers whose index is left alone."""
        self._begun: set[int] = set()
        self._journaled: JournalRecords | None = None

    def run(self, ledger_ids: Collection[LedgerId]) -> Report:
        marks = self._mend_marks()
        log_ids = self._dirs.log_ids()
        self._indexes.newest_log = max(log_ids, default=-1)
        self._indexes.java_log = self._java_log(log_ids)
        self._indexes.unsettled = self._in_tail(log_ids)
        self._only = frozenset(ledger_ids)
        for ledger_id in sorted(self._only or self._indexes.list_ledger_ids()):
            self._look(ledger_id)
        for log_id in log_ids:
            self._read_log(log_id)
        self._use_unsure()
        self._judge_damage()
        return Report(self._finish(), list(self._damaged_logs.values()), marks)

    # What is there

    def _mend_marks(self) -> list[str]:
        """Where a mark is damaged, have the replay begin at the oldest file."""
        mended = []
        places = {name: Mark() for name in (ENTRY_LOG_MARK, JAVA_LOG_MARK)}
        if log_ids := self._dirs.log_ids():
            places[ENTRY_LOG_MARK] = Mark(log_ids[0], entry_log_format.HEADER_SIZE)
            places[JAVA_LOG_MARK] = Mark(log_ids[-1])
        for index, directory in enumerate(self._journals):
            ids = file_ids(self._files.names(directory), journal_format.SUFFIX)
            first = Mark(ids[0], journal_format.HEADER_SIZE) if ids else Mark()
            places[journal_mark_name(index)] = first
        self._mark = Mark()
        for name, place in places.items():
            try:
                mark = read_mark(self._files, self._dirs.all, name)
            except CorruptData as error:
                mended.append(str(error))
                if not self._dry_run:
                    write_mark(self._files, self._dirs.all, name, place)
            else:
                places[name] = mark or Mark()
                if name == ENTRY_LOG_MARK:
                    self._mark = mark or Mark()
        count = range(len(self._journals))
        self._journal_marks = [places[journal_mark_name(index)] for index in count]
        return mended

    def _java_log(self, log_ids: list[int]) -> int:
        java = [log_id for log_id in log_ids if not self._is_ours(log_id)]
        try:
            known = read_mark(self._files, self._dirs.all, JAVA_LOG_MARK)
        except CorruptData:  # a dry run leaves it as it is
            return max(log_ids, default=-1)
        return max([*java, -1 if known is None else known.file_id])

    def _in_tail(self, log_ids: list[int]) -> dict[LedgerId, Cut]:
        """Return the ledgers that the next start replays: a checkpoint of theirs may be cut."""
        found: dict[LedgerId, set[int]] = {}
        for record in chain(self._tail_of_logs(log_ids), self._tail_of_journals()):
            sectors = found.setdefault(LedgerId(record[0]), set())
            sectors.add(record[1] // SLOTS_PER_SECTOR)
        return {ledger_id: frozenset(sectors) for ledger_id, sectors in found.items()}

    def _tail_of_logs(self, log_ids: list[int]) -> Iterator[Record]:
        for log_id in log_ids:
            if log_id >= self._mark.file_id:
                with self._open_log(log_id) as log:
                    for records, _ in log.groups():
                        yield from (r for r in records if (log_id, r[3]) >= self._mark)

    def _tail_of_journals(self) -> Iterator[Record]:
        for directory, mark in zip(self._journals, self._journal_marks, strict=True):
            for journal_id in file_ids(self._files.names(directory), journal_format.SUFFIX):
                if journal_id >= mark.file_id:
                    records = whole_journal(self._files, directory, journal_id)
                    yield from (r for r, _ in records if (journal_id, r[3]) >= mark)

    @contextmanager
    def _open_log(self, log_id: int) -> Iterator[WholeLog]:
        fd = self._dirs.open_log(log_id)
        try:
            yield WholeLog(self._files, fd, log_id, str(self._dirs.log_path(log_id)))
        finally:
            self._files.close(fd)

    def _is_ours(self, log_id: int) -> bool:
        fd = self._dirs.open_log(log_id)
        try:
            return is_grouped(self._files, fd, log_id)
        except DecodeError:
            return True  # its header is damaged: groups prove themselves, records do not
        finally:
            self._files.close(fd)

    def _look(self, ledger_id: LedgerId) -> None:
        """Take note of a ledger whose index is to be made again."""
        header: IndexHeader | None = None
        why = "asked for" if self._only else ""
        try:
            loaded = self._indexes.load(ledger_id)
            header = loaded.header if loaded else None
            self._indexes.entry_ids(ledger_id)
        except CorruptData as error:
            why = str(error)
        if why:
            self._ledgers[ledger_id] = _Ledger(why, header)
        else:
            self._well.add(ledger_id)

    # The entry logs

    def _read_log(self, log_id: int) -> None:
        with self._open_log(log_id) as log:
            for records, is_sure in log.groups():
                for record in records:
                    self._take(log_id, record, is_sure=is_sure)
                if self._waiting > LOCATIONS_MAX:
                    self._write_aside()
            if log.damage:
                self._damaged_logs[log_id] = log.damage

    def _take(self, log_id: int, record: Record, *, is_sure: bool) -> None:
        number, entry_id, _, position, size = record
        if number < 0 or not 0 <= entry_id <= ENTRY_ID_MAX or number in self._well:
            return
        ledger = self._ledgers.get(number)
        if ledger is None:
            if self._only or (log_id, position) >= self._mark:
                return  # what came after the last checkpoint is replayed by the next start
            ledger = self._ledgers[number] = _Ledger("missing", None)
        location = pack_location(log_id, position)
        if not is_sure:
            self._unsure.append((number, entry_id, location))
            return
        ledger.table.put(entry_id, location)
        used = ledger.seen_bytes.get(log_id, 0)
        ledger.seen_bytes[log_id] = used + size + RECORD_HEAD_SIZE
        self._waiting += 1

    def _use_unsure(self) -> None:
        """Follow what damaged groups say where nothing else does: the entries' digests judge it."""
        if not self._unsure:
            return
        self._write_aside()
        for number, entry_id, location in self._unsure:
            with self._aside(LedgerId(number)) as index:
                index.look(self._indexes.java_log, None)
                found = index.location(entry_id)
            if not found:
                self._ledgers[number].table.put(entry_id, location)

    def _judge_damage(self) -> None:
        """Find out which ledgers may have had entries where a log is damaged."""
        for log_id in self._damaged_logs:
            usage = self._usages.read_map(log_id)
            for number, ledger in self._ledgers.items():
                had = None if usage is None else usage.get(number, 0)
                ledger.is_whole &= had is not None and ledger.seen_bytes.get(log_id, 0) >= had

    # What is written

    def _header(self, number: int, ledger: _Ledger) -> tuple[IndexHeader, str]:
        """Return the header that a ledger gets, and where its key comes from."""
        if ledger.header is not None:
            return ledger.header, "index"
        journaled = self._read_journals()
        key, source = journaled.keys.get(number, b""), "journal"
        if not key:
            key, source = self._master_key, "password" if self._master_key else "none"
        return IndexHeader(key, fenced=True, explicit_lac=journaled.lacs.get(number, b"")), source

    def _read_journals(self) -> JournalRecords:
        if self._journaled is None:
            self._journaled = JournalRecords()
            for directory in self._journals:
                for journal_id in file_ids(self._files.names(directory), journal_format.SUFFIX):
                    for record, body in whole_journal(self._files, directory, journal_id):
                        self._journaled.take(record, body)
        return self._journaled

    def _path(self, ledger_id: LedgerId) -> Path:
        with closing(self._indexes.opened(ledger_id)) as index:
            return index.path

    def _aside(self, ledger_id: LedgerId) -> "closing[LedgerIndex]":
        path = self._path(ledger_id)
        spare = path.with_name(path.name + ASIDE)
        sums = path.with_suffix(SUMS_SUFFIX + ASIDE)
        return closing(LedgerIndex(self._files, ledger_id, spare, sums))

    def _write_aside(self) -> None:
        """Write what was found so far; the later of two locations of an entry stays."""
        for number, ledger in self._ledgers.items():
            if ledger.table or number not in self._begun:
                self._write_one(LedgerId(number), ledger)
                ledger.table = LocationTable()
        self._waiting = 0

    def _write_one(self, ledger_id: LedgerId, ledger: _Ledger) -> None:
        path = self._path(ledger_id)
        self._files.make_directory(path.parent)
        if ledger_id not in self._begun:  # what a rebuild left that was cut
            self._remove_aside(path)
            self._begun.add(ledger_id)
        with self._aside(ledger_id) as index:
            index.look(self._indexes.java_log, None)
            header, _ = self._header(ledger_id, ledger)
            sync = partial(self._files.sync_directory, path.parent)
            index.write(header, [ledger.table], self._indexes.newest_log, sync)

    def _finish(self) -> list[Rebuilt]:
        self._write_aside()
        rebuilt = []
        for number, ledger in sorted(self._ledgers.items()):
            ledger_id = LedgerId(number)
            with self._aside(ledger_id) as index:
                index.look(self._indexes.java_log, None)
                count = len(index.entry_ids())
            path = self._path(ledger_id)
            if self._dry_run:
                self._remove_aside(path)
            else:
                self._replace(path, is_whole=ledger.is_whole)
            header, source = self._header(number, ledger)
            rebuilt.append(
                Rebuilt(ledger_id, ledger.why, count, header.fenced, source, ledger.is_whole)
            )
        return rebuilt

    def _remove_aside(self, path: Path) -> None:
        self._files.remove(path.with_name(path.name + ASIDE))
        self._files.remove(path.with_suffix(SUMS_SUFFIX + ASIDE))

    def _replace(self, path: Path, *, is_whole: bool) -> None:
        """Put an index in the place of the old one.

        Between the steps the sums are not those of the index: nothing is denied by it then.
        """
        sums, aside = path.with_suffix(SUMS_SUFFIX), path.with_suffix(SUMS_SUFFIX + ASIDE)
        if is_whole:
            self._files.replace(aside, sums)
        self._files.replace(path.with_name(path.name + ASIDE), path)
        if not is_whole:
            self._files.remove(sums)
            self._files.remove(aside)
        self._files.sync_directory(path.parent)
