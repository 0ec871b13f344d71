"""What a partition keeps in its stream's application metadata, as JSON: log start, what is clean.

Every change is one versioned write of the whole, so nothing is lost between two that meet: the
later one gets BadVersion, reads again and says so.
"""

import msgspec

from tailrace.core.errors import CorruptData
from tailrace.core.log.log import Log
from tailrace.core.log.stored_log import StoredLog
from tailrace.core.runtime.stored_json import NOT_JSON, Natural

VERSION = 2
"""1, which is read, knows of no cleaning; it still is written until a first pass."""


class CleanNotes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the cleaner did so far."""

    first_dirty_offset: Natural
    cleaned_ms: Natural
    """When the last pass ended."""
    bytes_before: Natural
    """Of batches that all passes read, and wrote."""
    bytes_after: Natural


class LogNotes(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """All of it."""

    log_start_offset: Natural = 0
    cleaned: CleanNotes | None = None
    """None: never."""
    version: Natural = 0

    def encode(self) -> bytes:
        """Return the stored form: of version 1 as long as that can say it."""
        version = 1 if self.cleaned is None else VERSION
        return msgspec.json.encode(msgspec.structs.replace(self, version=version))


async def read_notes(stream: Log | StoredLog) -> LogNotes:
    """Return what was noted with the stream. Errors: CoreError, CorruptData."""
    return decode_notes(stream.name, await stream.get_data())


def decode_notes(name: str, data: bytes) -> LogNotes:
    """Read what was noted with the stream of that name. Errors: CorruptData."""
    if not data:
        return LogNotes()
    try:
        notes = msgspec.json.decode(data, type=LogNotes)
    except NOT_JSON as error:
        raise CorruptData(f"notes of log {name}: {error}") from error
    if notes.version > VERSION:
        raise CorruptData(f"notes of log {name}: version {notes.version}")
    return notes
