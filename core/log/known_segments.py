"""The segments of one log as this process knows them: the owner's own list, or the metadata's.

Invariant: while this process owns the log, segments begin and end by its own steps only; else the
list is read, with a watch that says when it is out of date. An owner begins with the recent
segments; the older ones are read when somebody needs them (`is_whole`). What others do to completed
segments (truncate, purge, rewrite, restore) raises the version of the guard (`purged.py`), which an
owner watches from its first `refresh` on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from tailrace.core.log.segment_nodes import read_segments
from tailrace.core.log.segments import SegmentList
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.metadata.store import MetadataStore, WatchEvent

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
"""Changes of our own, while the segments are read, after which the next call reads them again."""


class KnownSegments:
    """One log's list. All calls come from the loop."""

    __slots__ = (
        "_guard",
        "_is_guarded",
        "_is_owned",
        "_is_stale",
        "_is_watched",
        "_on_changed",
        "_paths",
        "_refreshing",
        "_store",
        "is_whole",
        "rewrites",
        "segments",
    )

    def __init__(
        self, store: MetadataStore, paths: LogPaths, on_changed: Callable[[], None]
    ) -> None:
        """`on_changed` hears of every other list, and that this one may be out of date."""
        self.segments = SegmentList()
        self.is_whole = True
        """Whether no segment is missing before those of the list."""
        self.rewrites = 0
        """How often segments of the list got other ledgers."""
        self._store = store
        self._paths = paths
        self._on_changed = on_changed
        self._guard: int | None = None
        """Version of the guard that an owner's list is not older than; None: there was none."""
        self._is_guarded = False
        """Whether a watch says when it changes."""
        self._is_owned = False
        self._is_stale = True
        self._is_watched = False
        self._refreshing = asyncio.Lock()

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the list if it may have changed, or anyway; an owner reads what it left out.

        One read at a time: whoever comes meanwhile waits for it, and no list replaces a newer one.
        Errors: LogNotFound, CorruptData.
        """
        async with self._refreshing:
            if not self._is_owned and (self._is_stale or is_forced):
                await self._read(is_forced=is_forced)
            if self._is_owned:  # perhaps since then
                await self.load_older()
                if is_forced or not self._is_guarded:
                    await self._follow_others()

    async def load_older(self) -> None:
        """Read the segments before those that an owner had to know. Errors: as `refresh`."""
        if not self.is_whole:
            self._prepend(await read_segments(self._store, self._paths))

    # ------------------------------------------------------------------ the owner's steps

    async def take(self, segments: SegmentList, *, is_whole: bool, guard: int | None) -> None:
        """Begin with a list that is our own. `guard`: its version before the list was read.

        Readers of this process may be anywhere in the list that they know, so if there is one, what
        comes before ours is read first. Errors: as `refresh`; nothing is taken.
        """
        if self.segments and not is_whole:
            older = await read_segments(self._store, self._paths)
            segments, is_whole = _joined(older, segments), True
        self._is_owned, self.is_whole = True, is_whole
        self._guard, self._is_guarded = guard, False
        self._install(segments)

    def guard_moved(self, before: int | None) -> None:
        """Hear that a change of our own, which the list has or will have, raised the guard."""
        if self._guard == before:
            self._guard = 0 if before is None else before + 1

    def let_go(self) -> None:
        """Read the list again before it is used: it may have another owner."""
        self._is_owned, self._is_stale = False, True

    def put(self, segment: SegmentMetadata) -> None:
        """Add a segment, or replace the one of its number."""
        self._install(self.segments.with_segment(segment))

    def rewrite(self, segments: Sequence[SegmentMetadata]) -> None:
        """Take over what segments of the list say now."""
        known = self.segments
        for segment in segments:
            if (old := known.find(segment.lssn)) is not None and old != segment:
                known = known.with_segment(segment)
                self.rewrites += old.ledger_id != segment.ledger_id
        if known is not self.segments:
            self._install(known)

    def drop_through(self, lssn: int) -> list[SegmentMetadata]:
        """Forget the oldest segments up to this number; return them."""
        gone = [segment for segment in self.segments if segment.lssn <= lssn]
        if gone:
            self._install(SegmentList(self.segments.segments[len(gone) :]))
        return gone

    def clear(self) -> None:
        """Forget all of them: the log was deleted."""
        self._install(SegmentList())

    # ------------------------------------------------------------------ reading the metadata

    async def _read(self, *, is_forced: bool) -> None:
        self._is_stale = False
        watch = None if self._is_watched and not is_forced else self._on_nodes_changed
        self._is_watched = True
        try:
            found = await read_segments(self._store, self._paths, watch)
        except BaseException:
            self._is_stale = True
            if watch is not None:
                self._is_watched = False  # as far as we know; to set it twice does no harm
            raise
        self._adopt(found)

    def _adopt(self, found: SegmentList) -> None:
        """Take a list that was read, unless an owner of this process has its own by now."""
        if not self._is_owned:
            self.is_whole = True
            self.rewrites += sum(_is_in_another_ledger(each, self.segments) for each in found)
            self._install(found)

    async def _follow_others(self) -> None:
        """Take over what others did to completed segments. Cost: one read if they did nothing."""
        for _ in range(_ATTEMPTS):
            self._is_guarded = True
            try:
                node = await self._store.exists(self._paths.purged, self._on_guard_changed)
                version = None if node is None else node.version
                before = self._guard
                if version == before:
                    return
                found = await read_segments(self._store, self._paths)
            except BaseException:
                self._is_guarded = False
                raise
            if self._guard == before and self._is_owned:
                self._guard = version
                self._take_over(found)
                return
        self._is_guarded = False
        logger.info("segments_change log=%s", self._paths.log)

    def _take_over(self, found: SegmentList) -> None:
        there = {segment.lssn: segment for segment in found if not segment.in_progress}
        self.rewrite([there[old.lssn] for old in self.segments if _is_in(old, there)])
        if found:
            self.drop_through(found.segments[0].lssn - 1)

    def _on_guard_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_guarded = False
        self._on_changed()

    def _prepend(self, found: SegmentList) -> None:
        if self.is_whole:  # somebody else was faster, and may have purged since
            return
        self.is_whole = True
        self._install(_joined(found, self.segments))

    def _on_nodes_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_stale = True
        self._is_watched = False
        self._on_changed()

    def _install(self, segments: SegmentList) -> None:
        self.segments = segments
        self._on_changed()


def _joined(older: SegmentList, own: SegmentList) -> SegmentList:
    """Return an owner's list with what comes before it."""
    if not own:  # all are in cold storage
        return older
    first = own.segments[0].lssn
    return SegmentList.of((*(each for each in older if each.lssn < first), *own))


def _is_in_another_ledger(segment: SegmentMetadata, known: SegmentList) -> bool:
    before = known.find(segment.lssn)
    return before is not None and before.ledger_id != segment.ledger_id


def _is_in(known: SegmentMetadata, there: dict[int, SegmentMetadata]) -> bool:
    return not known.in_progress and known.lssn in there
