"""ZooKeeper's tree of nodes in one SQLite table: the rules, without threads, waiting or watches.

Invariant: every call happens inside one transaction that `SqliteStore` opens and commits; a call
that raises a `MetadataConflict` has changed nothing. Each change tells which watches it touches by
appending to `changes`, in the order in which it happened.

Sequence numbers: ZooKeeper appends the number of children that the parent ever had created, so a
number is never used twice, not even after the child is deleted (`creates`). What a client sees as
`cversion` counts creations and deletions.
"""

import logging
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tailrace.core.errors import (
    BadVersion,
    CorruptData,
    MetadataConflict,
    NodeExists,
    NoNode,
    NotEmpty,
    Unavailable,
)
from tailrace.core.metadata.node_path import split_path
from tailrace.core.metadata.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    Op,
    SetData,
    WatchEvent,
)
from tailrace.core.runtime.files import SystemFiles

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 1
WAL_RESERVED_BYTES = 8 * 1024 * 1024
"""Room of the write-ahead log: twice what it grows to before SQLite begins it anew, where it can
move what is in it (a new page of the database needs room too)."""
APPLICATION_ID = 0x54524D44  # "TRMD": tells our files from other SQLite files
SEQUENCE_FORMAT = "%010d"

_SCHEMA = """
CREATE TABLE nodes (
  parent TEXT NOT NULL,
  name TEXT NOT NULL,
  data BLOB NOT NULL,
  version INTEGER NOT NULL,
  ctime_ms INTEGER NOT NULL,
  mtime_ms INTEGER NOT NULL,
  ephemeral_owner INTEGER NOT NULL,
  cversion INTEGER NOT NULL,
  creates INTEGER NOT NULL,
  PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE INDEX nodes_ephemeral ON nodes (ephemeral_owner) WHERE ephemeral_owner <> 0;
CREATE TABLE session (last INTEGER NOT NULL);
INSERT INTO session VALUES (0);
"""
_NODE_COLUMNS = "data, version, ctime_ms, mtime_ms, ephemeral_owner, cversion"


class Change(NamedTuple):
    """One thing that happened to one node, for the watches."""

    path: str
    event: WatchEvent


class SqliteTree:
    """The nodes of one database file. Not thread-safe; one thread at a time may use it."""

    def __init__(self, connection: sqlite3.Connection, session_id: int) -> None:
        self._db = connection
        self.session_id = session_id
        self.changes: list[Change] = []

    def get(self, path: str) -> Node:
        """Return the node. Errors: NoNode."""
        node = self.find(path)
        if node is None:
            raise NoNode(path)
        return node

    def find(self, path: str) -> Node | None:
        """Return the node or None."""
        row = self._db.execute(
            f"SELECT {_NODE_COLUMNS} FROM nodes WHERE parent=? AND name=?",
            split_path(path),
        ).fetchone()
        return None if row is None else Node._make(row)

    def children(self, path: str) -> list[str]:
        """Return the children's names, sorted. Errors: NoNode."""
        self.get(path)
        rows = self._db.execute("SELECT name FROM nodes WHERE parent=? ORDER BY name", (path,))
        return [name for (name,) in rows]

    def create(self, path: str, data: bytes, now_ms: int, *, owner: int, sequential: bool) -> str:
        """Create one node below an existing parent and return its path."""
        # A sequential name may be the number alone ("/q/"), so the path is checked as it will be.
        parent, name = split_path(path + "0" if sequential else path)
        row = self._db.execute(
            "SELECT creates, ephemeral_owner FROM nodes WHERE parent=? AND name=?",
            split_path(parent or "/"),
        ).fetchone()
        if row is None:
            raise NoNode(parent)
        creates, parent_owner = row
        if parent_owner:
            raise MetadataConflict(f"{parent} is ephemeral and cannot have children")
        if sequential:
            name = name[:-1] + SEQUENCE_FORMAT % creates
        self._insert(parent, name, data, now_ms, owner)
        self._count_child(parent, created=1)
        made = f"{parent.rstrip('/')}/{name}"
        self.changes += (Change(made, WatchEvent.CREATED), Change(parent, WatchEvent.CHILDREN))
        return made

    def create_parents(self, path: str, now_ms: int) -> None:
        """Make what is missing above `path`, shallowest first, empty and persistent."""
        missing = []
        parent = path.rpartition("/")[0]
        while parent and self.find(parent) is None:
            missing.append(parent)
            parent = split_path(parent)[0]
        for made in reversed(missing):
            self.create(made, b"", now_ms, owner=0, sequential=False)

    def set(self, path: str, data: bytes, version: int, now_ms: int) -> int:
        """Replace the data and return the new version. Errors: NoNode, BadVersion."""
        new_version = self._checked(path, version).version + 1
        self._db.execute(
            "UPDATE nodes SET data=?, version=?, mtime_ms=? WHERE parent=? AND name=?",
            (data, new_version, now_ms, *split_path(path)),
        )
        self.changes.append(Change(path, WatchEvent.CHANGED))
        return new_version

    def delete(self, path: str, version: int) -> None:
        """Delete a node without children. Errors: NoNode, BadVersion, NotEmpty."""
        parent, name = split_path(path)
        self._checked(path, version)
        if not parent:
            raise NotEmpty("the root stays")
        if self._db.execute("SELECT 1 FROM nodes WHERE parent=? LIMIT 1", (path,)).fetchone():
            raise NotEmpty(path)
        self._db.execute("DELETE FROM nodes WHERE parent=? AND name=?", (parent, name))
        self._count_child(parent, created=0)
        self.changes += (Change(path, WatchEvent.DELETED), Change(parent, WatchEvent.CHILDREN))

    def multi(self, ops: Sequence[Op], now_ms: int, owner: int) -> list[int]:
        """Do all or nothing. Errors: the first failing op's, naming the op.

        `owner`: the session that ephemeral nodes get.
        """
        for op in ops:
            split_path(op.path)
        self._db.execute("SAVEPOINT multi")
        before = len(self.changes)
        versions: list[int] = []
        try:
            for op in ops:
                versions.append(self._apply(op, now_ms, owner))  # noqa: PERF401 - its length names the op
        except MetadataConflict as error:
            self._db.execute("ROLLBACK TO multi")
            self._db.execute("RELEASE multi")
            del self.changes[before:]
            at = len(versions)
            raise type(error)(f"{error} (op {at}: {type(ops[at]).__name__})") from None
        self._db.execute("RELEASE multi")
        return versions

    def end_session(self) -> None:
        """Delete every ephemeral node: an embedded store has one session at a time.

        Fires no watch: those who could see it go with the session.
        """
        rows = self._db.execute("SELECT parent, name FROM nodes WHERE ephemeral_owner <> 0")
        for parent, name in rows.fetchall() if self.session_id else []:
            self.delete(f"{parent.rstrip('/')}/{name}", ANY_VERSION)
        self.changes.clear()

    def _apply(self, op: Op, now_ms: int, session_id: int) -> int:
        if isinstance(op, Create):
            owner = session_id if op.ephemeral else 0
            self.create(op.path, op.data, now_ms, owner=owner, sequential=False)
            return 0
        if isinstance(op, SetData):
            return self.set(op.path, op.data, op.version, now_ms)
        if isinstance(op, Delete):
            self.delete(op.path, op.version)
            return -1
        self._checked(op.path, op.version)
        return -1

    def _checked(self, path: str, version: int) -> Node:
        node = self.get(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(f"{path}: expected version {version}, found {node.version}")
        return node

    def _insert(self, parent: str, name: str, data: bytes, now_ms: int, owner: int) -> None:
        try:
            self._db.execute(
                "INSERT INTO nodes VALUES (?,?,?,0,?,?,?,0,0)",
                (parent, name, data, now_ms, now_ms, owner),
            )
        except sqlite3.IntegrityError:
            raise NodeExists(f"{parent.rstrip('/')}/{name}") from None

    def _count_child(self, parent: str, *, created: int) -> None:
        self._db.execute(
            "UPDATE nodes SET cversion=cversion+1, creates=creates+? WHERE parent=? AND name=?",
            (created, *split_path(parent)),
        )


def open_tree(path: Path, now_ms: int) -> tuple[sqlite3.Connection, SqliteTree]:
    """Open or make the database, start a new session and drop what the former one left.

    Cost: one or two fsyncs. Errors: CorruptData when the file is something else or broken,
    Unavailable when it cannot be opened.
    """
    try:
        connection = _connect(f"file:{_quoted(path)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        if _schema_version(connection, path) == 0:
            _make_schema(connection, now_ms)
        tree = SqliteTree(connection, _next_session(connection))
        tree.end_session()  # the former one's: it was killed, or it would have ended itself
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise sqlite_failure(error, path) from error
    _reserve_wal(path)
    return connection, tree


def _reserve_wal(path: Path) -> None:
    """Take the room for some hundred more changes, so that a full disk does not stop them.

    Topics must be deleted there, and partitions opened. SQLite writes the log in place and does not
    make it shorter before it closes it; it reads no frame whose checksum is wrong, so zeros end it.
    Its locks lie on other files: closing this one lets none go.
    """
    files = SystemFiles()
    try:
        fd = files.open(path.with_name(f"{path.name}-wal"), os.O_RDWR)
        try:
            size = files.size(fd)
            try:
                files.allocate(fd, 0, WAL_RESERVED_BYTES)
            except OSError:
                files.truncate(fd, size)  # it took what there was: others need that more
                raise
        finally:
            files.close(fd)
    except OSError as error:
        logger.warning("metadata_room_not_reserved path=%s error=%s", path, error)


def open_tree_read_only(path: Path) -> tuple[sqlite3.Connection, SqliteTree]:
    """Open an existing database beside the process that owns it. Errors: as `open_tree`."""
    if not path.exists():
        raise Unavailable(f"{path}: no such metadata store")
    try:
        connection = _connect(f"file:{_quoted(path)}?mode=ro")
        if _schema_version(connection, path) == 0:
            raise Unavailable(f"{path}: the metadata store is empty")
    except sqlite3.Error as error:
        raise sqlite_failure(error, path) from error
    return connection, SqliteTree(connection, session_id=0)


def sqlite_failure(error: sqlite3.Error, path: Path) -> CorruptData | Unavailable:
    """Return what to raise for an error of SQLite's own: broken file, or just not possible now."""
    broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.OperationalError
    )
    return (CorruptData if broken else Unavailable)(f"metadata store {path}: {error}")


def _quoted(path: Path) -> str:
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _connect(uri: str) -> sqlite3.Connection:
    # Opened by one thread and then handed to the store's own: never used by two at once.
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _schema_version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != (APPLICATION_ID if version or tables else 0) or version > SCHEMA_VERSION:
        raise CorruptData(f"{path} is not a metadata store of version <= {SCHEMA_VERSION}")
    return int(version)


def _make_schema(connection: sqlite3.Connection, now_ms: int) -> None:
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute(
        "INSERT INTO nodes VALUES ('','/',x'',0,?,?,0,0,0)",
        (now_ms, now_ms),
    )


def _next_session(connection: sqlite3.Connection) -> int:
    connection.execute("UPDATE session SET last=last+1")
    (session_id,) = connection.execute("SELECT last FROM session").fetchone()
    return int(session_id)
