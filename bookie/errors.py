"""What can stop a bookie. What goes wrong with one request is a status code, not an exception.

    BookieError
      StorageFailed     a write or sync failed: the process must not acknowledge anything any more
      InvalidCookie     these directories are not this bookie's, or a disk was lost

Damaged files are core.errors.CorruptData; a directory in use is core.runtime.files.LockHeld.
"""


class BookieError(Exception):
    """Root of what stops a bookie."""


class StorageFailed(BookieError):
    """A write or sync failed; never retried, nothing is acknowledged after it."""


class InvalidCookie(BookieError):
    """The directories do not belong to this bookie: starting could deny data that it promised."""
