"""Reading a journal directory back, from its mark on: files of ours and of Java's bookie.

In a file of ours what was acknowledged is in groups that prove themselves (group_scan). A file that
Java's bookie wrote has none: there every whole record counts, and the end is where zeros begin or a
record is cut, as in its own replay. Which of the two a file is, its header says; one without our
sign is still ours if one group in it verifies.

Only the newest file may have a torn end. The header of each file of ours says which file was there
before it, and where that one's acknowledged part ended: a file that ends sooner is damaged, one
that is not there was lost. Neither is ever taken for "nothing was written".
"""

import logging
import os
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from tailrace.bookie import journal_format
from tailrace.bookie.entry_log_format import file_ids
from tailrace.bookie.group_format import Record
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.journal_format import Previous
from tailrace.bookie.marks import REMEDY, Mark
from tailrace.bookie.record_scan import scan_records
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Position

logger = logging.getLogger(__name__)

_PADDING_BYTES_MAX = 2 * journal_format.ALIGNMENT
"""A mark may lie this far behind the end: a crash took the padding of the last group."""

Apply = Callable[[Record, bytes], None]
"""Takes a record and its body; a DecodeError of it is damage of the file."""


class JournalReplay:
    """Replays the journal files of one directory. Blocks. Errors: OSError, CorruptData."""

    def __init__(self, files: Files, directory: Path, apply: Apply) -> None:
        self._files = files
        self._directory = directory
        self._apply = apply
        self.end = Mark()
        """Where a replay would begin once all that was found is in the index files."""
        self.next_id = 0
        """Above every file that is there."""

    def run(self, mark: Mark | None) -> None:
        """Apply all records from `mark` on; what is found is synced then."""
        ids = file_ids(self._files.names(self._directory), journal_format.SUFFIX)
        self.end = mark or Mark()
        if self.end.file_id and self.end.file_id not in ids:
            raise self._missing(self.end.file_id, "where the replay begins,")
        first, position = self.end
        for journal_id in ids:
            if journal_id >= first:
                start = position if journal_id == first else journal_format.HEADER_SIZE
                self._replay(journal_id, max(start, journal_format.HEADER_SIZE))
        self.next_id = max((journal_id + 1 for journal_id in ids), default=0)

    def _replay(self, journal_id: int, start: Position) -> None:
        path = self._directory / journal_format.file_name(journal_id)
        fd = self._files.open(path, os.O_RDWR)
        try:
            header = self._files.read_at(fd, journal_format.HEADER_SIZE, 0)
            if journal_id != self.end.file_id and _is_unborn(header, self._files.size(fd)):
                return
            journal_format.check_header(header)
            self._check_chain(journal_id, journal_format.read_previous(header, journal_id))
            if start > self._files.size(fd) + _PADDING_BYTES_MAX:
                raise CorruptData(f"{path}: ends before position {start}, where the replay begins")
            scan = GroupScan(
                lambda size, at: self._files.read_at(fd, size, at),
                str(path),
                journal_id,
                journal_format.ALIGNMENT,
            )
            if journal_format.is_grouped(header) or scan.has_group(journal_format.HEADER_SIZE):
                end = self._replay_groups(fd, scan, start)
            else:
                end = self._replay_records(fd, start, path)
            self._files.sync(fd)
            self.end = Mark(journal_id, end)
        except (DecodeError, struct.error) as error:
            raise CorruptData(f"{path}: {error}") from error
        finally:
            self._files.close(fd)

    def _check_chain(self, journal_id: int, previous: Previous | None) -> None:
        """Refuse to go on behind a file that is damaged at its end, or that is not there.

        `previous`: what the header of `journal_id` says. Before the mark nothing is checked.
        """
        last = self.end
        if previous is None or last.file_id == journal_id:
            return
        if previous.file_id != last.file_id:
            raise self._missing(previous.file_id, f"which journal {journal_id:x} follows,")
        if previous.end != last.position:
            path = self._directory / journal_format.file_name(last.file_id)
            raise CorruptData(
                f"{path}: damaged at position {last.position}, and acknowledged up to "
                f"{previous.end}; {REMEDY}"
            )

    def _missing(self, journal_id: int, why: str) -> CorruptData:
        return CorruptData(f"{self._directory}: journal {journal_id:x}, {why} is missing; {REMEDY}")

    def _replay_groups(self, fd: int, scan: GroupScan, start: Position) -> Position:
        for group in scan.groups(start):
            if not group.intact:
                raise CorruptData(f"{scan.name}: damaged at position {group.start}; {REMEDY}")
            self._apply_all(fd, group.records)
        return scan.end

    def _replay_records(self, fd: int, start: Position, path: Path) -> Position:
        logger.info("journal_of_java file=%s", path)
        end = start
        for record in scan_records(
            lambda size, at: self._files.read_at(fd, size, at), start, str(path)
        ):
            self._apply_all(fd, (record,))
            end = record[3] + record[4]
        return end

    def _apply_all(self, fd: int, records: Iterable[Record]) -> None:
        for record in records:
            self._apply(record, self._files.read_at(fd, record[4], record[3]))


def _is_unborn(header: bytes, file_size: int) -> bool:
    """Return whether a crash left a file before its header, one sector, was written."""
    size = journal_format.HEADER_SIZE
    return file_size <= size and (len(header) < size or not any(header))
