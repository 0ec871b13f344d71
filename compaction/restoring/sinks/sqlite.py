"""Values in an SQLite file, or only their digests beside a callback."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from typing_extensions import override

from tailrace.compaction.restoring.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from tailrace.compaction.restoring.digest import Live, live_state, merged, pair_digest
from tailrace.compaction.restoring.errors import WrongCheckpoint
from tailrace.compaction.restoring.records import Changes

CACHE_KIB = 64 * 1024
"""Pages that SQLite keeps in memory."""
_BUSY_S = 5.0

_TABLES = """
CREATE TABLE IF NOT EXISTS restored (
  partition INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (partition, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS restore_checkpoint (
  only INTEGER PRIMARY KEY CHECK (only = 0), body TEXT NOT NULL
);
"""
_PUT = "INSERT INTO restored VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
_DELETE = "DELETE FROM restored WHERE partition = ? AND key = ?"
_CHECKPOINT = "INSERT OR REPLACE INTO restore_checkpoint VALUES (0, ?)"


class SqliteSink:
    """Keeps values in the table `restored (partition, key, value)` of a file.

    Memory: 64 MiB of pages, whatever the file holds. Every save is one transaction that is synced.
    Errors: WrongCheckpoint for a file that is no SQLite database; sqlite3.Error for a full disk
    and the like.
    """

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._database = _opened(path)

    def load(self) -> Checkpoint | None:
        """Return what was saved last; None if nothing was."""
        row = self._database.execute("SELECT body FROM restore_checkpoint").fetchone()
        return None if row is None else decode_checkpoint(row[0], self.place)

    def clear(self) -> None:
        """Forget everything, in one transaction."""
        with self._database:
            self._database.execute("DELETE FROM restored")
            self._database.execute("DELETE FROM restore_checkpoint")

    def save(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Apply changes and checkpoint in one transaction."""
        with self._database:
            for partition, some in changes.items():
                self._apply(partition, some)
            self._database.execute(_CHECKPOINT, (encode_checkpoint(checkpoint).decode(),))

    def finish(self, checkpoint: Checkpoint) -> dict[int, Live]:
        """Return what is alive. Cost: one scan."""
        return {each: self._live(each) for each in checkpoint.partitions}

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()

    def _apply(self, partition: int, changes: Changes) -> None:
        self._database.executemany(_PUT, self._rows(partition, changes))
        gone = ((partition, key) for key, value in changes.items() if value is None)
        self._database.executemany(_DELETE, gone)

    def _rows(self, partition: int, changes: Changes) -> Iterator[tuple[int, bytes, bytes]]:
        for key, value in changes.items():
            if value is not None:
                yield partition, key, value

    def _live(self, partition: int) -> Live:
        return live_state(self._select(partition))

    def _select(self, partition: int) -> Iterator[tuple[bytes, bytes]]:
        query = "SELECT key, value FROM restored WHERE partition = ?"
        yield from self._database.execute(query, (partition,))


class DigestSink(SqliteSink):
    """Keeps 20 bytes for each live value, which is enough for counts and hash."""

    @override
    def _rows(self, partition: int, changes: Changes) -> Iterator[tuple[int, bytes, bytes]]:
        for key, value in changes.items():
            if value is not None:
                size = (len(key) + len(value)).to_bytes(4, "big")
                yield partition, key, pair_digest(key, value) + size

    @override
    def _live(self, partition: int) -> Live:
        return merged(
            Live(1, int.from_bytes(kept[16:], "big"), int.from_bytes(kept[:16], "big"))
            for _, kept in self._select(partition)
        )


Callback = Callable[[int, Mapping[bytes, bytes | None]], None]
"""Told a partition and what became of keys in it since the last call; None is deleted."""


class CallbackSink(DigestSink):
    """Tells a callback, and keeps digests in an SQLite file for the hash and the checkpoint.

    At least once: after a crash the last call's changes are told again, perhaps in other portions
    (they are latest values, so putting them twice is as good as once). What the callback raises
    ends the restore.
    """

    def __init__(self, callback: Callback, index: Path) -> None:
        super().__init__(index)
        self._callback = callback

    @override
    def save(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Tell the callback, then keep the digests and the checkpoint."""
        for partition, some in changes.items():
            self._callback(partition, some)
        super().save(changes, checkpoint)


def _opened(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_BUSY_S)
    try:
        database.execute("PRAGMA locking_mode=EXCLUSIVE")  # one restore at a time
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        database.executescript(_TABLES)
    except sqlite3.DatabaseError as error:
        database.close()
        raise WrongCheckpoint(
            f"SQLite cannot use the file: {error}", place=str(path), remedy="name another file"
        ) from error
    return database
