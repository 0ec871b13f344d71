"""Reading entry logs and journals whole, also where they are damaged. For a tool."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.bookie import entry_log_format, journal_format
from tailrace.bookie.entry_log_scan import is_grouped
from tailrace.bookie.group_format import Record
from tailrace.bookie.group_scan import GroupScan
from tailrace.bookie.ledger_state import lac_of
from tailrace.bookie.record_scan import scan_records
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Position

logger = logging.getLogger(__name__)


class WholeLog:
    """All records of one entry log; what is damaged is leapt over. Errors: OSError."""

    def __init__(self, files: Files, fd: int, log_id: int, name: str) -> None:
        self._files = files
        self._fd = fd
        self._log_id = log_id
        self._name = name
        self.damage = ""
        """What is damaged of what was read so far: records may be missing there."""

    def groups(self) -> Iterator[tuple[Collection[Record], bool]]:
        """Yield records that belong together, and whether they are as they were written."""
        yield from self._ours() if self._is_ours() else self._of_java()

    def _is_ours(self) -> bool:
        try:
            return is_grouped(self._files, self._fd, self._log_id)
        except DecodeError as error:
            self.damage = f"{self._name}: {error}"
            return True  # groups prove themselves, records do not

    def _ours(self) -> Iterator[tuple[Collection[Record], bool]]:
        scan = GroupScan(self._read, self._name, self._log_id)
        position: Position | None = entry_log_format.HEADER_SIZE
        while position is not None:
            try:
                for group in scan.groups(position):
                    if not group.intact:
                        self.damage = f"{self._name}: damaged at position {group.start}"
                    yield group.records, group.intact
                position = None
            except CorruptData as error:
                self.damage = str(error)
                position = scan.next_group(scan.end + 1)

    def _of_java(self) -> Iterator[tuple[Collection[Record], bool]]:
        try:
            for record in scan_records(self._read, entry_log_format.HEADER_SIZE, self._name):
                yield (record,), True
        except CorruptData as error:
            self.damage = str(error)

    def _read(self, size: int, at: Position) -> bytes:
        return self._files.read_at(self._fd, size, at)


@dataclass(slots=True)
class JournalRecords:
    """What the journals say of ledgers, the last record of each kind."""

    keys: dict[int, bytes] = field(default_factory=dict)
    lacs: dict[int, bytes] = field(default_factory=dict)

    def take(self, record: Record, body: memoryview) -> None:
        """Take note of a key or an explicit LAC; of one that is damaged not."""
        number, kind = record[0], record[1]
        try:
            if kind == journal_format.KEY:
                self.keys[number] = journal_format.read_value(body)
            elif kind == journal_format.EXPLICIT_LAC:
                packet = journal_format.read_value(body)
                if lac_of(packet) >= lac_of(self.lacs.get(number, b"")):
                    self.lacs[number] = packet
        except DecodeError as error:
            logger.warning("journal_record_damaged ledger=%d error=%s", number, error)


def whole_journal(
    files: Files, directory: Path, journal_id: int
) -> Iterator[tuple[Record, memoryview]]:
    """Yield the records of a journal with their bodies; of a damaged one those before that.

    Errors: OSError.
    """
    path = directory / journal_format.file_name(journal_id)
    fd = files.open(path)
    try:
        for record in _journal_records(files, fd, str(path), journal_id):
            yield record, memoryview(files.read_at(fd, record[4], record[3]))
    except CorruptData as error:
        logger.warning("journal_read_in_part error=%s", error)
    finally:
        files.close(fd)


def _journal_records(files: Files, fd: int, name: str, journal_id: int) -> Iterator[Record]:
    def read(size: int, at: Position) -> bytes:
        return files.read_at(fd, size, at)

    start = journal_format.HEADER_SIZE
    scan = GroupScan(read, name, journal_id, journal_format.ALIGNMENT)
    if journal_format.is_grouped(read(start, 0)) or scan.has_group(start):
        for group in scan.groups(start):
            if group.intact:
                yield from group.records
    else:
        yield from scan_records(read, start, name)
