"""What can stop a bookie. What goes wrong with one request is a status code, not an exception.

    BookieError
      StorageFailed     a write or sync failed: the process must not acknowledge anything any more
      InvalidCookie     these directories are not this bookie's, or a disk was lost
    OSError
      NoRoom            a disk is full before anything was promised: the bookie becomes read-only

Damaged files are core.errors.CorruptData; a directory in use is core.runtime.files.LockHeld.

What a request is answered when it fails tells those who keep copies what to do (`status_of`):

    EIO                this copy is damaged, or its disk cannot be read: another one has to be made
    ETOOMANYREQUESTS   the machine lacks file descriptors or memory now: ask again
    LOCAL_UNAVAILABLE  the bookie ends; over TCP its connections do, as those of Java's
"""

import errno
from pathlib import Path

from tailrace.protocol.bookkeeper.messages import StatusCode

_FULL = (errno.ENOSPC, errno.EDQUOT)
_SHORT = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EINTR)
)


class BookieError(Exception):
    """Root of what stops a bookie."""


class StorageFailed(BookieError):
    """A write or sync failed; never retried, nothing is acknowledged after it."""


class InvalidCookie(BookieError):
    """The directories do not belong to this bookie: starting could deny data that it promised."""


class NoRoom(OSError):
    """There is no room for a file to grow; nothing was acknowledged that needs it."""

    def __init__(self, path: Path, error: OSError, directory: Path | None = None) -> None:
        """`directory`: the configured one; else `path` is a file in its `current`."""
        super().__init__(error.errno, f"no room for {path}")
        self.directory = directory or path.parent.parent


def is_no_room(error: BaseException) -> bool:
    """Tell whether a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in _FULL


def status_of(error: Exception) -> StatusCode:
    """Return what a request is answered that failed by this."""
    is_short = isinstance(error, OSError) and error.errno in _SHORT
    return StatusCode.ETOOMANYREQUESTS if is_short else StatusCode.EIO
