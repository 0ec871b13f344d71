"""Emptying a bookie's directories, so that it can begin anew. Blocks: for a tool.

The cookies go first: a bookie that is started over directories that were emptied half way is
refused as one that lost a disk, and erasing again finishes the work.
"""

import contextlib
import shutil
from pathlib import Path

from tailrace.bookie.config import BookieConfig
from tailrace.bookie.cookie import FILE_NAME
from tailrace.bookie.identity import lock_directories, unlock_directories
from tailrace.core.runtime.files import Files


def erase_directories(config: BookieConfig, files: Files) -> list[Path]:
    """Remove all entries, journals and cookies; return the directories.

    Errors: LockHeld (a bookie runs on them), OSError.
    """
    directories = [*config.journal_directories, *config.ledger_directories]
    locks = lock_directories(config, files)
    try:
        for directory in directories:
            with contextlib.suppress(FileNotFoundError):
                files.remove(directory / "current" / FILE_NAME)
            files.sync_directory(directory / "current")
        for directory in directories:
            shutil.rmtree(directory / "current", ignore_errors=False)
            files.sync_directory(directory)
    finally:
        unlock_directories(locks, files)
    return directories
