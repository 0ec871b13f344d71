"""What no segment names any more, on its way out: ledgers, and objects in cold storage.

A ledger and the list of segments are two things that cannot change together. So the multi that
ends a segment also notes its ledger below the log's `purged` node, with the time from which it may
be deleted. Then ledger first, note second: a crash in between leaves a note, and deleting twice is
harmless.

    segment --multi--> note --delete delay--> ledger deleted --> note deleted

A ledger that is to take a segment's place is noted as well, before it is made (`noted_ledger.py`).
The `purged` node itself is the guard of this side of the metadata: whoever changes which segments
there are, or how much of them is kept, names the version that it read and raises it. (A segment's
own node is made anew with each change, as DistributedLog does it: its version tells nothing.)
Who deletes the whole log closes the guard first: what was decided before then fails, nothing more
is noted, and so nothing comes beside what the deletion finds. Java's library looks at none of these
nodes.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from tailrace.core.errors import (
    BadVersion,
    CorruptData,
    LogNotFound,
    MetadataConflict,
    NodeExists,
    NoNode,
)
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import Check, Create, MetadataStore, Op, SetData
from tailrace.core.runtime.stored_json import NOT_JSON, Natural
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

NEVER_MS: Final = 2**63 - 1
"""Later than anything is due."""

_ATTEMPTS: Final = 8
"""Changes of others to the segments, after which one of ours is given up."""

_CLOSED: Final = b"deleted"
"""Data of the guard of a log that is being deleted; else it has none."""

_LEDGER: Final = "ledger_"
_NEW: Final = "new_"
_COLD: Final = "cold_"

DeleteLedger = Callable[[LedgerId], Awaitable[None]]
DeleteObjects = Callable[[str], Awaitable[None]]


class Purpose(StrEnum):
    """What a ledger is made for that no segment has yet."""

    RESTORE = "restore"
    REWRITE = "rewrite"


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to delete, as JSON in a node: a ledger, or what a prefix names in cold storage."""

    due_ms: Natural
    """Not before this time. Unit: ms since the epoch."""
    ledger_id: Natural | None = None
    cold_prefix: str | None = None
    """Besides a ledger: the objects that it was copied to, for a segment in cold storage only."""
    purpose: Purpose | None = None
    """Set for a ledger that a segment may still take."""
    version: Natural = 1


class PurgedNodes:
    """The guard and the notes of one log."""

    def __init__(self, store: MetadataStore, paths: LogPaths) -> None:
        self._store = store
        self._paths = paths
        self.noted: set[LedgerId] = set()
        """What `note_new` noted through this object."""

    async def version(self) -> int | None:
        """Return the guard's version; None when nothing was ever changed here.

        Errors: LogNotFound once a deletion of the log has closed it.
        """
        node = await self._store.exists(self._paths.purged)
        if node is not None and node.data == _CLOSED:
            raise LogNotFound(f"{self._paths.log} is being deleted, or was in part: delete it")
        return None if node is None else node.version

    async def close(self) -> None:
        """Let no change through that names the guard, for good: the log is deleted. Idempotent.

        Errors: MetadataConflict, when others change it all the time.
        """
        for _ in range(_ATTEMPTS):
            node = await self._store.exists(self._paths.purged)
            try:
                if node is None:
                    await self._store.create(self._paths.purged, _CLOSED)
                elif node.data != _CLOSED:
                    await self._store.set(self._paths.purged, _CLOSED, node.version)
            except (BadVersion, NodeExists) as error:
                logger.info("purged_close_raced log=%s error=%s", self._paths.log, error)
            else:
                return
        raise MetadataConflict(f"others kept changing the segments of {self._paths.log}")

    def guard(self, version: int | None) -> Op:
        """Return the op that makes a multi fail if the guard has another version by then."""
        if version is None:
            return Create(self._paths.purged)
        return SetData(self._paths.purged, b"", version)

    def note_ledger(self, ledger_id: LedgerId, due_ms: int) -> Create:
        """Return the op that has a ledger deleted."""
        return self._create(self.ledger_path(ledger_id), Note(due_ms, ledger_id=ledger_id))

    def ledger_path(self, ledger_id: LedgerId) -> str:
        """Return where a ledger is noted."""
        return f"{self._paths.purged}/{_LEDGER}{ledger_id}"

    def note_cold(self, prefix: str, due_ms: int) -> Create:
        """Return the op that has the objects of one segment and ledger deleted."""
        name = prefix.rpartition("/")[2].strip("-")
        path = f"{self._paths.purged}/{_COLD}{name}"
        return self._create(path, Note(due_ms, cold_prefix=prefix))

    def new_path(self, ledger_id: LedgerId) -> str:
        """Return where a ledger is noted that no segment has yet."""
        return f"{self._paths.purged}/{_NEW}{ledger_id}"

    async def note_new(
        self, ledger_id: LedgerId, due_ms: int, purpose: Purpose, cold_prefix: str | None = None
    ) -> None:
        """Have a ledger deleted that is not made yet, unless a segment takes it until `due_ms`.

        `cold_prefix`: of its objects, which are deleted with it.
        Errors: LogNotFound when the log is being deleted; MetadataConflict, when others change its
        segments all the time.
        """
        new = Note(due_ms, ledger_id=ledger_id, cold_prefix=cold_prefix, purpose=purpose)
        note = self._create(self.new_path(ledger_id), new)
        self.noted.add(ledger_id)
        for left in range(_ATTEMPTS - 1, -1, -1):
            version = await self.version()
            is_open = self.guard(None) if version is None else Check(self._paths.purged, version)
            try:
                await self._store.multi([is_open, note])
            except MetadataConflict:
                if not left:
                    raise
            else:
                return

    async def is_new(self, ledger_id: LedgerId) -> bool:
        """Tell whether a ledger may still be taken."""
        node = await self._store.exists(self.new_path(ledger_id))
        return node is not None and node.version == 0

    async def discard_new(
        self,
        purpose: Purpose,
        delete_ledger: DeleteLedger,
        delete_objects: DeleteObjects | None,
        only: Collection[LedgerId] | None = None,
    ) -> int:
        """Delete the ledgers made for this, or those of `only`, that no segment took.

        With their objects; `delete_objects` None: there is no cold storage, those that have some
        stay. Returns how many. Whoever still fills one finds out when a segment is to take it.
        Errors: CoreError, with the rest left to the next call.
        """
        discarded = 0
        for path, note in await self.notes():
            if note.purpose is not purpose or note.ledger_id is None:
                continue
            if only is not None and note.ledger_id not in only:
                continue
            if note.cold_prefix is not None and delete_objects is None:
                logger.warning("cold_objects_left prefix=%s", note.cold_prefix)
                continue
            if await self._claim(path, note):
                await self._delete(note, delete_ledger, delete_objects)
                await self._forget(path)
                discarded += 1
                logger.info("leftover_deleted path=%s", path)
        return discarded

    async def _claim(self, path: str, note: Note) -> bool:
        """Make every multi fail that would still take the ledger; False when one was faster."""
        try:
            await self._store.set(path, msgspec.json.encode(note))
        except NoNode:
            return False
        return True

    async def collect(
        self, now_ms: int, delete_ledger: DeleteLedger, delete_objects: DeleteObjects | None
    ) -> int:
        """Delete what is due; return how much. `delete_objects` None: there is no cold storage.

        Errors: CoreError, with the rest left to the next call. Cost: one read when nothing is
        noted, one more for each note.
        """
        collected = 0
        for path, note in await self.notes():
            if note.due_ms > now_ms:
                continue
            if note.cold_prefix is not None and delete_objects is None:
                logger.warning("cold_objects_left prefix=%s", note.cold_prefix)
                continue
            if note.purpose is not None and not await self._claim(path, note):
                continue
            await self._delete(note, delete_ledger, delete_objects)
            await self._forget(path)
            collected += 1
            logger.info("purged path=%s", path)
        return collected

    async def notes(self) -> Sequence[tuple[str, Note]]:
        """Return what waits to be deleted, with the paths of the notes. Errors: CorruptData."""
        try:
            names = await self._store.children(self._paths.purged)
        except NoNode:
            return ()
        paths = [f"{self._paths.purged}/{name}" for name in names]
        nodes = await read_nodes(self._store, paths)
        return [
            (path, _decode(node.data, path))
            for path, node in zip(paths, nodes, strict=True)
            if node is not None
        ]

    @staticmethod
    async def _delete(
        note: Note, delete_ledger: DeleteLedger, delete_objects: DeleteObjects | None
    ) -> None:
        if note.ledger_id is not None:
            await delete_ledger(LedgerId(note.ledger_id))
        if note.cold_prefix is not None and delete_objects is not None:
            await delete_objects(note.cold_prefix)

    async def _forget(self, path: str) -> None:
        try:
            await self._store.delete(path)
        except NoNode:
            logger.info("purged_by_another path=%s", path)

    @staticmethod
    def _create(path: str, note: Note) -> Create:
        return Create(path, msgspec.json.encode(note))


def _decode(data: bytes, path: str) -> Note:
    try:
        return msgspec.json.decode(data, type=Note)
    except NOT_JSON as error:
        raise CorruptData(f"{path}: {error}") from error
