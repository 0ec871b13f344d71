"""The index files of all ledgers: read by the reading thread, written by checkpoints.

Shape: `current/<x>/<y>/<ledger id in hex>.idx`, as BookKeeper's, and a `.sums` of ours beside it
(`ledger_index`). A file that a crash left without its header (all zeros, or short) counts as
absent: its ledger is still in the tail that is replayed.
"""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from tailrace.bookie.entry_log_format import file_ids
from tailrace.bookie.errors import NoRoom, is_no_room
from tailrace.bookie.index_format import (
    HEADER_SIZE,
    PAGE_SIZE,
    SLOT_SIZE,
    SUFFIX,
    IndexHeader,
    file_path,
    slot_position,
    unpack_slots,
)
from tailrace.bookie.index_sums import SUFFIX as SUMS_SUFFIX
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_index import NOTHING, SECTORS_PER_PAGE, Cut, LedgerIndex
from tailrace.bookie.ledger_state import LocationTable
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import EntryId, LedgerId

T = TypeVar("T")

SLOTS_PER_PAGE = PAGE_SIZE // SLOT_SIZE
_HEX_DIRECTORIES = frozenset(f"{number:x}" for number in range(256))


class LoadedIndex(NamedTuple):
    """What an index file says of its ledger."""

    header: IndexHeader
    last_entry: EntryId
    last_location: int
    is_last_known: bool = True
    """Whether the index has no higher entry for sure: the end of a damaged one is not known."""


class Page(NamedTuple):
    """A page of locations."""

    data: bytes
    """Shorter or empty behind the end of the file."""
    damaged: frozenset[int] | None = None
    """Sectors (by their number in the page) that cannot be trusted; None: not looked at yet."""

    def location(self, at: int) -> int:
        """Return the location at a place in the page, 0 if there is none."""
        slot = unpack_slots(self.data[at * SLOT_SIZE : (at + 1) * SLOT_SIZE])
        return slot[0] if slot else 0


class IndexFiles:
    """Index files below the ledger directories. Every call blocks; Errors: OSError, CorruptData.

    Threads: any may read while one writes and removes.
    """

    def __init__(self, files: Files, dirs: LedgerDirs) -> None:
        self._files = files
        self._dirs = dirs
        self._writing = Lock()
        self.java_log = -1
        """The highest entry log of Java's bookie: sums that are older prove nothing."""
        self.newest_log = -1
        """The highest entry log of all when this process began."""
        self.unsettled: dict[LedgerId, Cut] | None = None
        """Ledgers in the tail, until they are written, with what of theirs a crash may have cut.

        None: any may be, as a tool that looks from outside has to assume.
        """
        self._synced_directories: set[Path] = set()
        self._ledger_ids: set[LedgerId] | None = None
        """What was listed once, and has changed since only here; at least what there is."""

    def load(self, ledger_id: LedgerId) -> LoadedIndex | None:
        """Return header and last entry of a ledger, None if it has no index file."""

        def work() -> LoadedIndex | None:
            with self._opened(ledger_id) as index:
                header = self._look(index, ledger_id)
                return None if header is None else LoadedIndex(header, *index.last())

        return self._between_writes(work)

    def is_fenced(self, ledger_id: LedgerId) -> bool:
        """Return whether the index file of a ledger says so, or cannot say that it is not."""
        try:
            loaded = self.load(ledger_id)
        except CorruptData:
            return True
        return loaded is not None and loaded.header.fenced

    def read_page(self, ledger_id: LedgerId, page: int) -> Page:
        """Return one page of locations as it is. Cost: one read."""
        fd = self._open(ledger_id)
        if fd is None:
            return Page(b"")
        try:
            return Page(self._files.read_at(fd, PAGE_SIZE, slot_position(page * SLOTS_PER_PAGE)))
        finally:
            self._files.close(fd)

    def check_page(self, ledger_id: LedgerId, page: int) -> Page:
        """Return one page of locations, and what of it is damaged. Cost: four reads."""
        sectors = range(page * SECTORS_PER_PAGE, (page + 1) * SECTORS_PER_PAGE)

        def work() -> Page:
            with self._opened(ledger_id) as index:
                self._look(index, ledger_id)
                data = index.read(sectors)
                damaged = index.damaged(sectors, data)
            return Page(data, frozenset(sector - sectors.start for sector in damaged))

        found = self._between_writes(work)
        if found.damaged:
            with self._writing:
                return work()
        return found

    def entries_max(self, ledger_id: LedgerId) -> int:
        """Return how many entries a ledger's index has room for; 0 without one. Errors: OSError."""
        fd = self._open(ledger_id)
        if fd is None:
            return 0
        try:
            return max(self._files.size(fd) - HEADER_SIZE, 0) // SLOT_SIZE
        finally:
            self._files.close(fd)

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of all entries in a ledger's index file, sorted.

        Cost: reads the file, 8 bytes for each id up to the highest; holes are only skipped.
        Errors: CorruptData: part of it is damaged.
        """

        def work() -> list[EntryId]:
            with self._opened(ledger_id) as index:
                self._look(index, ledger_id)
                return index.entry_ids()

        return self._between_writes(work)

    def _between_writes(self, work: Callable[[], T]) -> T:
        """Call `work`; what looks damaged is looked at again while nothing is being written."""
        try:
            return work()
        except CorruptData:
            with self._writing:
                return work()

    def _look(self, index: LedgerIndex, ledger_id: LedgerId) -> IndexHeader | None:
        cut = None if self.unsettled is None else self.unsettled.get(ledger_id, NOTHING)
        return index.look(self.java_log, cut)

    def is_begun(self, ledger_id: LedgerId) -> bool:
        """Return whether a ledger has checksums, though perhaps no index."""
        with self._opened(ledger_id) as index:
            self._look(index, ledger_id)
            return index.is_begun

    def write(
        self, ledger_id: LedgerId, header: IndexHeader, tables: Sequence[LocationTable]
    ) -> None:
        """Write header and locations of one ledger and sync them. Idempotent.

        Of two locations of an entry the one in the later table stays. Errors: NoRoom: some of it
        may be there, and all of it must be written again; OSError.
        """
        with self._writing, self._opened(ledger_id) as index:
            try:
                self._write(ledger_id, index, header, tables)
            except OSError as error:
                if is_no_room(error):
                    path = index.path
                    raise NoRoom(path, error, path.parents[3]) from error
                raise

    def _write(
        self,
        ledger_id: LedgerId,
        index: LedgerIndex,
        header: IndexHeader,
        tables: Sequence[LocationTable],
    ) -> None:
        leaf = index.path.parent
        is_new = not index.is_there
        if self._ledger_ids is not None:
            self._ledger_ids.add(ledger_id)
        if is_new and leaf not in self._synced_directories:
            self._files.make_directory(leaf)
        with suppress(CorruptData):  # this write replaces the header; other damage stays
            self._look(index, ledger_id)
        if self.unsettled is not None:
            self.unsettled[ledger_id] = None  # should this be cut
        sync_names = partial(self._sync_names, leaf, is_new=is_new)
        index.write(header, tables, self.newest_log, sync_names)
        if self.unsettled is not None:
            self.unsettled.pop(ledger_id, None)

    def remove(self, ledger_id: LedgerId) -> None:
        """Remove the index file of a ledger; its sums first: alone they tell that it was lost."""
        with self._writing:
            for suffix in (SUMS_SUFFIX, SUFFIX):
                for current in self._dirs.all:
                    path = current.joinpath(*file_path(ledger_id))
                    self._files.remove(path.with_suffix(suffix))
        if self._ledger_ids is not None:
            self._ledger_ids.discard(ledger_id)

    def ledger_ids(self) -> set[LedgerId]:
        """Return the ids of all ledgers that have an index file, also one that is being made.

        Listed once: for the bookie itself. Thread: that of `write` and `remove`.
        """
        if self._ledger_ids is None:
            self._ledger_ids = self.list_ledger_ids()
        return self._ledger_ids.copy()

    def list_ledger_ids(self) -> set[LedgerId]:
        """Return what there is now, also another process' files. Cost: walks all directories."""
        found: set[LedgerId] = set()
        for current in self._dirs.all:
            for outer in _hex_directories(self._files.names(current)):
                for inner in _hex_directories(self._files.names(current / outer)):
                    names = self._files.names(current / outer / inner)
                    for suffix in (SUFFIX, SUMS_SUFFIX):
                        found.update(LedgerId(i) for i in file_ids(names, suffix))
        return found

    def _open(self, ledger_id: LedgerId) -> int | None:
        """Return the file of a ledger, open for reading; None without one."""
        relative = file_path(ledger_id)
        for current in self._dirs.in_order(ledger_id):
            with suppress(FileNotFoundError):
                return self._files.open(current.joinpath(*relative))
        return None

    def _opened(self, ledger_id: LedgerId) -> "closing[LedgerIndex]":
        return closing(self.opened(ledger_id))

    def opened(self, ledger_id: LedgerId) -> LedgerIndex:
        """Return index and sums of a ledger, open; without any, where they belong."""
        relative = file_path(ledger_id)
        with_sums: Path | None = None
        for current in self._dirs.in_order(ledger_id):
            path = current.joinpath(*relative)
            index = LedgerIndex(self._files, ledger_id, path, path.with_suffix(SUMS_SUFFIX))
            if index.is_there:
                return index
            if index.has_sums:
                with_sums = with_sums or path
            index.close()
        path = with_sums or self._dirs.for_new_index(ledger_id).joinpath(*relative)
        sums_path = path.with_suffix(SUMS_SUFFIX)
        return LedgerIndex(self._files, ledger_id, path, sums_path)

    def _sync_names(self, leaf: Path, *, is_new: bool) -> None:
        """Sync the way to a file: once for each directory (a killed process may not have)."""
        for directory in (leaf.parent.parent, leaf.parent, leaf):
            if directory not in self._synced_directories or (is_new and directory == leaf):
                self._files.sync_directory(directory)
                self._synced_directories.add(directory)


def _hex_directories(names: list[str]) -> list[str]:
    return [name for name in names if name in _HEX_DIRECTORIES]
