"""The directories that hold entry logs and index files: which take new files, where an old one is.

A new entry log goes to the writable directories in turn (by its id), a new index file to the one
that its ledger id names, else to the next writable one. What is there is found wherever it is, so
directories may be added, and one that was full stays readable. Source: LedgerDirsManager,
IndexPersistenceMgr of BookKeeper (which choose at random).
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tailrace.bookie.entry_log_format import file_ids, file_name
from tailrace.core.runtime.files import Files


class LedgerDirs:
    """The ledger directories of one bookie. Threads: any; `mark_*` from one only."""

    def __init__(self, files: Files, directories: Sequence[Path]) -> None:
        """`directories` as configured: the files lie in `current` below each."""
        self._files = files
        self._full: frozenset[Path] = frozenset()
        self.directories = tuple(directories)
        self.all = tuple(directory / "current" for directory in directories)
        """Where files lie, in the order of the configuration."""
        self._of_log: dict[int, Path] = {}

    # Which take new files

    def writable(self) -> tuple[Path, ...]:
        """Return the configured directories that take new files, in order."""
        return tuple(directory for directory in self.directories if directory not in self._full)

    def mark_full(self, directory: Path) -> None:
        """Put no new file into a (configured) directory any more."""
        self._full |= {directory}

    def mark_writable(self, directory: Path) -> None:
        """Put new files into a directory again."""
        self._full -= {directory}

    def is_better_elsewhere(self, path: Path) -> bool:
        """Tell whether the log at `path` should be left for one in a directory with room."""
        full = self._full
        return bool(full) and path.parent.parent in full and len(full) < len(self.directories)

    def for_new_log(self, log_id: int) -> Path:
        """Return where a new entry log belongs.

        With every directory full it is one of them all the same: what a bookie was asked to keep is
        written while there is room. Whether it is still asked is the disk watch's decision.
        """
        choices = self.writable() or self.directories
        path = choices[log_id % len(choices)] / "current" / file_name(log_id)
        self._of_log[log_id] = path
        return path

    def for_new_index(self, ledger_id: int) -> Path:
        """Return the directory for the index file of a ledger that has none."""
        full = self._full
        for current in self.in_order(ledger_id):
            if current.parent not in full:
                return current
        return self.all[ledger_id % len(self.all)]

    # Where a file is

    def in_order(self, number: int) -> tuple[Path, ...]:
        """Return all places, the one that `number` names first."""
        first = number % len(self.all)
        return self.all[first:] + self.all[:first]

    def log_ids(self) -> list[int]:
        """Return the ids of all entry logs, sorted."""
        found: dict[int, Path] = {}
        for current in self.all:
            for log_id in file_ids(self._files.names(current)):
                found[log_id] = current / file_name(log_id)
        self._of_log.update(found)
        return sorted(found)

    def log_path(self, log_id: int) -> Path:
        """Return where an entry log lies. Errors: FileNotFoundError."""
        path = self._of_log.get(log_id)
        if path is None and log_id in self.log_ids():
            path = self._of_log[log_id]
        if path is None:
            raise FileNotFoundError(f"entry log {file_name(log_id)} is in none of {self.all}")
        return path

    def open_log(self, log_id: int, flags: int = os.O_RDONLY) -> int:
        """Open an entry log. Errors: OSError."""
        return self._files.open(self.log_path(log_id), flags)

    def remove_log(self, log_id: int) -> None:
        """Remove an entry log, wherever it is."""
        self._files.remove(self.log_path(log_id))
        del self._of_log[log_id]
