"""The index files of all ledgers: read by the reading thread, written by checkpoints.

Shape: `current/<x>/<y>/<ledger id in hex>.idx`, as BookKeeper's. A file that a crash left without
its header (all zeros, or short) counts as absent: its ledger is still in the tail that is replayed.
"""

import os
import sys
from array import array
from collections.abc import Sequence
from itertools import chain, compress, count
from pathlib import Path
from typing import NamedTuple

from bookie.entry_log_format import file_ids
from bookie.errors import NoRoom, is_no_room
from bookie.index_format import (
    HEADER_SIZE,
    PAGE_SIZE,
    SLOT_SIZE,
    SUFFIX,
    IndexHeader,
    file_path,
    pack_header,
    read_header,
    slot_position,
)
from bookie.ledger_dirs import LedgerDirs
from bookie.ledger_state import LocationTable
from core.errors import CorruptData
from core.runtime.files import Files
from protocol.errors import DecodeError
from protocol.ids import EntryId, LedgerId

SLOTS_PER_PAGE = PAGE_SIZE // SLOT_SIZE
_LIST_BYTES = 1024 * 1024
"""Read at once to list a ledger: one add with a high entry id makes a file of 16 GiB of holes."""
_HOLE = bytes(_LIST_BYTES)
_HEX_DIRECTORIES = frozenset(f"{number:x}" for number in range(256))


class LoadedIndex(NamedTuple):
    """What an index file says of its ledger."""

    header: IndexHeader
    last_entry: EntryId
    last_location: int


class IndexFiles:
    """Index files below the ledger directories. Every call blocks; Errors: OSError, CorruptData."""

    def __init__(self, files: Files, dirs: LedgerDirs) -> None:
        self._files = files
        self._dirs = dirs
        self._synced_directories: set[Path] = set()
        self._ledger_ids: set[LedgerId] | None = None
        """What was listed once, and has changed since only here; at least what there is."""

    def load(self, ledger_id: LedgerId) -> LoadedIndex | None:
        """Return header and last entry of a ledger, None if it has no index file."""
        path, fd = self._open(ledger_id)
        if fd is None:
            return None
        try:
            data = self._files.read_at(fd, HEADER_SIZE, 0)
            if len(data) < HEADER_SIZE or not any(data[:12]):
                return None
            header = read_header(data)
            entry_id, location = self._last_slot(fd)
        except DecodeError as error:
            raise CorruptData(f"{path}: {error}") from error
        finally:
            self._files.close(fd)
        return LoadedIndex(header, entry_id, location)

    def is_fenced(self, ledger_id: LedgerId) -> bool:
        """Return whether the index file of a ledger says so; a damaged one does not."""
        try:
            loaded = self.load(ledger_id)
        except CorruptData:
            return False
        return loaded is not None and loaded.header.fenced

    def read_page(self, ledger_id: LedgerId, page: int) -> bytes:
        """Return one page of locations; shorter or empty behind the end of the file."""
        _, fd = self._open(ledger_id)
        if fd is None:
            return b""
        try:
            return self._files.read_at(fd, PAGE_SIZE, slot_position(page * SLOTS_PER_PAGE))
        finally:
            self._files.close(fd)

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of all entries in a ledger's index file, sorted.

        Cost: reads the file, 8 bytes for each id up to the highest; holes are only skipped.
        """
        found: list[EntryId] = []
        _, fd = self._open(ledger_id)
        if fd is None:
            return found
        try:
            first = 0
            while data := self._files.read_at(fd, _LIST_BYTES, slot_position(first)):
                if data != _HOLE:
                    found += compress(count(first), unpack_slots(data))
                first += _LIST_BYTES // SLOT_SIZE
        finally:
            self._files.close(fd)
        return found

    def write(
        self, ledger_id: LedgerId, header: IndexHeader, tables: Sequence[LocationTable]
    ) -> None:
        """Write header and locations of one ledger and sync them. Idempotent.

        Of two locations of an entry the one in the later table stays. Errors: NoRoom: some of it
        may be there, and all of it must be written again; OSError.
        """
        path, fd = self._open(ledger_id)
        try:
            self._write(ledger_id, path, fd, header, tables)
        except OSError as error:
            if is_no_room(error):
                raise NoRoom(path, error, path.parents[3]) from error
            raise

    def _write(
        self,
        ledger_id: LedgerId,
        path: Path,
        fd: int | None,
        header: IndexHeader,
        tables: Sequence[LocationTable],
    ) -> None:
        is_new = fd is None
        if fd is None:
            if self._ledger_ids is not None:
                self._ledger_ids.add(ledger_id)
            self._files.make_directory(path.parent)
            fd = self._files.open(path, os.O_RDWR | os.O_CREAT)
        try:
            self._files.write_at(fd, [pack_header(header)], 0)
            end = HEADER_SIZE
            for first, run in chain.from_iterable(table.runs() for table in tables):
                self._files.write_at(fd, [_pack_slots(run)], slot_position(first))
                end = max(end, slot_position(first + len(run)))
            padded = end + -(end - HEADER_SIZE) % PAGE_SIZE
            if padded > self._files.size(fd):
                self._files.truncate(fd, padded)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._sync_names(path.parent, is_new=is_new)

    def remove(self, ledger_id: LedgerId) -> None:
        """Remove the index file of a ledger."""
        for current in self._dirs.all:
            self._files.remove(current.joinpath(*file_path(ledger_id)))
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
                    found.update(LedgerId(i) for i in file_ids(names, SUFFIX))
        return found

    def _open(self, ledger_id: LedgerId) -> tuple[Path, int | None]:
        """Return the file of a ledger, open; without one where it belongs, and None."""
        relative = file_path(ledger_id)
        for current in self._dirs.in_order(ledger_id):
            path = current.joinpath(*relative)
            try:
                return path, self._files.open(path, os.O_RDWR)
            except FileNotFoundError:
                continue
        return self._dirs.for_new_index(ledger_id).joinpath(*relative), None

    def _sync_names(self, leaf: Path, *, is_new: bool) -> None:
        """Sync the way to a file: once for each directory (a killed process may not have)."""
        for directory in (leaf.parent.parent, leaf.parent, leaf):
            if directory not in self._synced_directories or (is_new and directory == leaf):
                self._files.sync_directory(directory)
                self._synced_directories.add(directory)

    def _last_slot(self, fd: int) -> tuple[EntryId, int]:
        """Return the last entry id with a location, and that; (-1, 0) if there is none."""
        page = (self._files.size(fd) - HEADER_SIZE - 1) // PAGE_SIZE
        while page >= 0:
            first = page * SLOTS_PER_PAGE
            slots = unpack_slots(self._files.read_at(fd, PAGE_SIZE, slot_position(first)))
            for at in range(len(slots) - 1, -1, -1):
                if slots[at]:
                    return first + at, slots[at]
            page -= 1
        return -1, 0


def unpack_slots(data: bytes) -> "array[int]":
    """Return the locations in (part of) a page."""
    slots = array("q", data[: len(data) // SLOT_SIZE * SLOT_SIZE])
    _to_or_from_big_endian(slots)
    return slots


def _pack_slots(run: "array[int]") -> bytes:
    slots = array("q", run)
    _to_or_from_big_endian(slots)
    return slots.tobytes()


def _to_or_from_big_endian(slots: "array[int]") -> None:
    if sys.byteorder == "little":
        slots.byteswap()


def _hex_directories(names: list[str]) -> list[str]:
    return [name for name in names if name in _HEX_DIRECTORIES]
