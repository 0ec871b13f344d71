"""What an entry log holds of which ledger: by its ledgers map, or by reading all of it."""

import logging

from tailrace.bookie.entry_log_format import HEADER_SIZE, LogHeader, read_header, read_ledgers_map
from tailrace.bookie.group_format import RECORD_HEAD_SIZE
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.record_scan import scan_records
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Position

logger = logging.getLogger(__name__)

ZEROS_WINDOW_BYTES = 1024 * 1024


class LogUsages:
    """Reads usages; what had to be read from a whole log is remembered."""

    def __init__(self, files: Files, dirs: LedgerDirs) -> None:
        self._files = files
        self._dirs = dirs
        self._scanned: dict[int, dict[int, int] | None] = {}

    def read(self, log_id: int) -> dict[int, int] | None:
        """Return ledger id -> bytes with size fields, None if the log is damaged or gone.

        Errors: OSError. Cost: two reads; without a map one pass over the log, once.
        """
        try:
            fd = self._dirs.open_log(log_id)
        except FileNotFoundError:
            return None
        try:
            header = read_header(self._files.read_at(fd, HEADER_SIZE, 0))
            if header.map_offset:
                return self._read_map(fd, header)
            if log_id not in self._scanned:
                self._scanned[log_id] = None  # should it be damaged
                self._scanned[log_id] = self._scan(fd, str(self._dirs.log_path(log_id)))
            return self._scanned[log_id]
        except (DecodeError, CorruptData) as error:
            logger.warning("entry_log_kept log=%x error=%s", log_id, error)
            return None
        finally:
            self._files.close(fd)

    def _read_map(self, fd: int, header: LogHeader) -> dict[int, int]:
        if not header.ledgers and header.map_offset > HEADER_SIZE:
            raise CorruptData("entries, and a ledgers map of no ledger")
        size = self._files.size(fd) - header.map_offset
        return read_ledgers_map(
            self._files.read_at(fd, max(size, 0), header.map_offset), header.ledgers
        )

    def read_map(self, log_id: int) -> dict[int, int] | None:
        """Return what the ledgers map of a log says, None without one. Errors: OSError."""
        fd = self._dirs.open_log(log_id)
        try:
            header = read_header(self._files.read_at(fd, HEADER_SIZE, 0))
            return self._read_map(fd, header) if header.map_offset else None
        except (DecodeError, CorruptData):
            return None
        finally:
            self._files.close(fd)

    def forget(self, log_id: int) -> None:
        """Drop what is remembered of a log that was removed."""
        self._scanned.pop(log_id, None)

    def _scan(self, fd: int, name: str) -> dict[int, int]:
        usage: dict[int, int] = {}
        end = HEADER_SIZE
        for ledger_id, _, _, position, size in scan_records(
            lambda length, at: self._files.read_at(fd, length, at), HEADER_SIZE, name
        ):
            end = position + size
            if ledger_id >= 0:
                usage[ledger_id] = usage.get(ledger_id, 0) + size + RECORD_HEAD_SIZE
        self._refuse_if_followed(fd, end, name)
        return usage

    def _refuse_if_followed(self, fd: int, end: Position, name: str) -> None:
        """Raise if anything but reserved room follows the last record: entries may be in it."""
        while data := self._files.read_at(fd, ZEROS_WINDOW_BYTES, end):
            if any(data):
                raise CorruptData(f"{name}: no record begins at position {end}, and bytes follow")
            end += len(data)
