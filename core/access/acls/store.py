"""The cluster's access control lists: in memory for decisions, in the metadata store for good.

A request's changes happen all or not at all, in one `multi`, and are in force here before they are
answered. Other brokers hear of them by their watches. What a node says that does not decode is not
known, and may be a DENY: until somebody deletes it, nothing is allowed that its pattern matches.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.codec import (
    CLOSED,
    PatternEntries,
    decode_entries,
    encode_entries,
    entity_of,
    pattern_of,
)
from tailrace.core.access.acls.filters import AclFilter, PatternFilter
from tailrace.core.access.acls.model import Acl, Entry, Pattern
from tailrace.core.errors import CorruptData, MetadataConflict, OverCapacity
from tailrace.core.metadata.entity_nodes import entity_name
from tailrace.core.metadata.node_reads import READS_AT_ONCE, read_current
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.stored_entities import (
    NAME_UNIT,
    EntityCodec,
    StoredEntities,
    pause_before,
)
from tailrace.core.runtime.loop_turns import LoopTurns, Pace

logger = logging.getLogger(__name__)

ENTRIES_MAX: Final = 1_000
"""Of one pattern."""
PATTERNS_MAX: Final = 10_000
ACLS_MAX: Final = 100_000
"""Entries of all patterns, each broker has them in memory. Changes that several brokers make in
one moment may go over it and over `PATTERNS_MAX` by what they add."""
CHANGED_MAX: Final = 10_000
"""Entries that one change may add or delete, as in Kafka."""
PATTERNS_CHANGED_MAX: Final = 2_000
"""Patterns that one change may be about: they go in one `multi`."""
ATTEMPTS_MAX: Final = 10
"""How often a deletion is tried against others of the same patterns."""


@dataclass(slots=True, kw_only=True)
class AclMetrics:
    """How much there is."""

    entries: int = 0
    patterns: int = 0
    unreadable: int = 0
    """Patterns whose nodes do not decode: nothing is allowed that they match."""


class AclStore:
    """Creates, deletes and finds access control lists. All calls come from the loop."""

    def __init__(self, store: MetadataStore, parent: str, authorizer: AclAuthorizer) -> None:
        """Take what they are kept in, below which node, and the authorizer that decides by them."""
        self.authorizer = authorizer
        self._store = store
        self._parent = parent
        codec = EntityCodec(encode_entries, _decode_or_close)
        self._entities = StoredEntities[PatternEntries](store, parent, codec)
        self._entries: dict[Pattern, tuple[Entry, ...]] = {}
        self._unreadable: set[Pattern] = set()
        self.metrics = AclMetrics()
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Read everything, then follow what others change. Errors: Unavailable."""
        self._entities.listen(self._changed)
        await self._entities.start()

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        await self._entities.close()

    @property
    def patterns(self) -> Mapping[Pattern, tuple[Entry, ...]]:
        """All entries; another broker's changes of this moment may be missing, as in Kafka."""
        return self._entries

    async def create(self, acls: Collection[Acl], pace: Pace | None = None) -> None:
        """Add entries, all or none; those that are there stay.

        `pace`: of the request, if it may be long. Errors: OverCapacity (a limit of this module),
        CorruptData (a pattern's node does not decode), CoreError. Cancel: it happened or not.
        """
        pace = pace or Pace(LoopTurns())
        added: dict[Pattern, dict[Entry, None]] = {}
        async for pattern, entry in pace.each(acls):
            added.setdefault(pattern, {})[entry] = None
        self._check_room(added)
        changes = {
            entity_of(pattern): partial(_added, pattern, tuple(entries))
            async for pattern, entries in pace.each(added.items())
        }
        async with self._lock:
            await self._entities.change(changes, pace)
        logger.info("acls_created entries=%d patterns=%d", len(acls), len(added))

    def _check_room(self, added: Mapping[Pattern, Collection[Entry]]) -> None:
        count = sum(map(len, added.values()))
        if count > CHANGED_MAX or len(added) > PATTERNS_CHANGED_MAX:
            raise _too_many_changed()
        if len(added.keys() | self._entries.keys()) > PATTERNS_MAX:
            raise OverCapacity(f"there are at most {PATTERNS_MAX} resource patterns with ACLs")
        if self.metrics.entries + count > ACLS_MAX:
            raise OverCapacity(f"there are at most {ACLS_MAX} ACLs")

    async def delete(
        self, filters: Sequence[AclFilter], pace: Pace | None = None
    ) -> list[list[Acl]]:
        """Delete what any filter matches, all or none; return what each of them matches.

        Nothing is missed that was created before the call, whichever broker it was asked of.
        `pace`: of the request, if it may be long. Errors: OverCapacity (a limit of this module),
        MetadataConflict, CoreError. Cancel: it happened or not.
        """
        pace = pace or Pace(LoopTurns())
        async with self._lock:
            for attempt in range(ATTEMPTS_MAX):
                await pause_before(attempt)
                wanted = await self._wanted(filters, pace)
                deletion = _Deletion(len(filters))
                async for pattern, there in self._read(list(wanted), pace):
                    matching = [(number, filters[number]) for number in wanted[pattern]]
                    await deletion.take(pattern, there, matching, pace)
                try:
                    await self._entities.change(deletion.changes, pace)
                except _Overtaken:
                    continue
                logger.info("acls_deleted patterns=%d", len(deletion.changes))
                return deletion.matched
        raise MetadataConflict(f"{self._parent}: others change the same patterns")

    async def _wanted(self, filters: Sequence[AclFilter], pace: Pace) -> dict[Pattern, list[int]]:
        """Return the patterns that filters match, each with the numbers of those filters."""
        nodes = await read_current(self._store, lambda: self._store.children(self._parent))
        there: dict[Pattern, None] = {}
        for node in nodes:
            if (pattern := pattern_of(entity_name(node))) is not None:
                there[pattern] = None
            await pace.spend(1 + len(node) // NAME_UNIT)
        wanted: dict[Pattern, list[int]] = {}
        for number, each in enumerate(filters):
            async for pattern in pace.each(_possible(each.pattern, there)):
                if each.pattern.matches(pattern):
                    wanted.setdefault(pattern, []).append(number)
        return wanted

    async def _read(
        self, patterns: Sequence[Pattern], pace: Pace
    ) -> AsyncIterator[tuple[Pattern, PatternEntries]]:
        """Yield what patterns have now."""
        for at in range(0, len(patterns), READS_AT_ONCE):
            some = patterns[at : at + READS_AT_ONCE]
            there = await self._entities.read([entity_of(each) for each in some], pace)
            for pattern in some:
                if (entries := there[entity_of(pattern)]) is not None:
                    yield pattern, entries

    def _changed(self, entity: str) -> None:
        pattern = pattern_of(entity)
        if pattern is None:
            logger.error("acl_pattern_unknown name=%r", entity)
            return
        value = self._entities.get(entity)
        entries = () if value is None else value.entries
        metrics = self.metrics
        metrics.entries += len(entries) - len(self._entries.pop(pattern, ()))
        if entries:
            self._entries[pattern] = entries
        self._unreadable.discard(pattern)
        if value is not None and not value.is_readable:
            self._unreadable.add(pattern)
        metrics.patterns, metrics.unreadable = len(self._entries), len(self._unreadable)
        self.authorizer.use(pattern, entries)


class _Overtaken(Exception):
    """Somebody changed a pattern after it was read."""


class _Deletion:
    """What a deletion takes away; the changes hold only for what was read."""

    def __init__(self, filters: int) -> None:
        self.matched: list[list[Acl]] = [[] for _ in range(filters)]
        self.changes: dict[str, partial[PatternEntries | None]] = {}
        self._count = 0

    async def take(
        self,
        pattern: Pattern,
        there: PatternEntries,
        filters: Iterable[tuple[int, AclFilter]],
        pace: Pace,
    ) -> None:
        """Take what filters match of one pattern. Errors: OverCapacity."""
        gone: set[Entry] = set()
        for number, each in filters:
            async for entry in pace.each(there.entries):
                if each.entry.matches(entry):
                    gone.add(entry)
                    self.matched[number].append(Acl(pattern, entry))
                    self._count += 1
        if gone:
            left = tuple(each for each in there.entries if each not in gone)
            made = PatternEntries(left) if left else None
            self.changes[entity_of(pattern)] = partial(_replaced, there, made)
        if self._count > CHANGED_MAX or len(self.changes) > PATTERNS_CHANGED_MAX:
            raise _too_many_changed()


def _too_many_changed() -> OverCapacity:
    return OverCapacity(
        f"one request changes at most {CHANGED_MAX} ACLs of {PATTERNS_CHANGED_MAX} patterns"
    )


def _possible(wanted: PatternFilter, there: Mapping[Pattern, None]) -> Collection[Pattern]:
    only = wanted.only
    if only is None:
        return there
    return (only,) if only in there else ()


def _added(
    pattern: Pattern, entries: tuple[Entry, ...], there: PatternEntries | None
) -> PatternEntries:
    if there is not None and not there.is_readable:
        raise CorruptData(
            f"the ACLs of {entity_of(pattern)} are stored in a form that this release cannot read: "
            "delete them, then create them again"
        )
    before = () if there is None else there.entries
    made = tuple(dict.fromkeys([*before, *entries]))
    if len(made) > ENTRIES_MAX:
        raise OverCapacity(f"{entity_of(pattern)} may have at most {ENTRIES_MAX} ACLs")
    return PatternEntries(made)


def _replaced(
    expected: PatternEntries, made: PatternEntries | None, there: PatternEntries | None
) -> PatternEntries | None:
    if there != expected:
        raise _Overtaken
    return made


def _decode_or_close(path: str, data: bytes) -> PatternEntries:
    try:
        return decode_entries(path, data)
    except CorruptData as error:
        logger.error("acl_unreadable error=%s remedy=%r", error, "delete its ACLs")  # noqa: TRY400
        return CLOSED
