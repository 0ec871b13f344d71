"""Giving up the oldest part of a log, in the metadata: marking, purging, and what is left of it.

Invariant: whatever a crash, another owner or a roll does in between, the log opens, its segments
have no hole, nothing that is still named is deleted, and nothing that is not named is forgotten.
Each change is one multi under the guard of `purged.py`, decided anew from what that guard saw. So
truncation never goes back, and doing a thing twice is the same as doing it once. Rolling touches
segments in progress only, truncating completed ones only: neither fails the other.
Source: reference DistributedLog 8; seed 000, "Truncation".
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from tailrace.core.errors import (
    BadVersion,
    ColdStorageDisabled,
    MetadataConflict,
    NodeExists,
    NoNode,
)
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold, read_cold
from tailrace.core.log.context import LogContext
from tailrace.core.log.purged import NEVER_MS, PurgedNodes
from tailrace.core.log.segment_nodes import first_on_bookies
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.truncation import (
    Expiry,
    plan_expired,
    plan_purge,
    plan_purge_older_than,
    plan_truncation,
)
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    decode_segment,
    encode_segment,
    segment_name,
)
from tailrace.core.metadata.store import Create, Delete, Node, Op, SetData
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId, TxId

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
"""Lost races after which a change is given up: `MetadataConflict`, and the next round tries."""

_SEGMENTS_MAX: Final = 500
"""Segments that one multi changes; a kilobyte each at most, so far below NODE_BYTES_MAX."""

Plan = Callable[[SegmentList], list[SegmentMetadata]]
_HOUR_MS: Final = 3_600_000


class SegmentHome(Protocol):
    """Whoever keeps the list of a log's segments in this process."""

    @property
    def segments(self) -> SegmentList:
        """All segments, oldest first."""

    async def refresh(self) -> None:
        """Read the list again if it may have changed."""

    def segments_rewritten(self, segments: Sequence[SegmentMetadata]) -> None:
        """Take over what completed segments say now."""

    def segments_gone(self, through_lssn: int) -> None:
        """Forget the oldest segments, up to this one."""

    def guard_moved(self, before: int | None) -> None:
        """Hear that a multi of ours raised the guard's version, and what it did comes next."""


class _Place(NamedTuple):
    """A completed segment as the metadata has it now: on bookies, in cold storage, or both."""

    metadata: SegmentMetadata
    on_bookies: bool
    cold: ColdSegment | None
    cold_version: int

    @property
    def in_cold(self) -> bool:
        """Whether cold storage has a copy of the ledger that the segment has, not a former one."""
        return self.cold is not None and self.cold.is_copy_of(self.metadata)


class SegmentTier(NamedTuple):
    """Where a segment is: on bookies, in cold storage, or both."""

    metadata: SegmentMetadata
    on_bookies: bool
    in_cold: bool


class LogTrimmer:
    """Truncates and purges one log. Any process may, at any time; the writer's does."""

    def __init__(self, home: SegmentHome, paths: LogPaths, context: LogContext) -> None:
        self._home = home
        self._paths = paths
        self._context = context
        self._store = context.store
        self._purged = PurgedNodes(context.store, paths)

    async def truncate(self, before: DLSN, ledger_id: LedgerId | None = None) -> None:
        """Mark every record before `before` in completed segments as given up. Idempotent.

        `ledger_id`: in which the position counts; None: in that which its segment has now.
        One multi for up to 500 segments. Errors: BadVersion: the segment has another ledger;
        MetadataConflict, when others change the segments all the time; Unavailable: it may have
        happened, so do it again.
        """

        def plan(segments: SegmentList) -> list[SegmentMetadata]:
            segment = segments.find(before.lssn)
            if segment is not None and ledger_id not in (None, segment.ledger_id):
                raise BadVersion(f"segment {before.lssn} of {self._paths.log} was rewritten")
            return plan_truncation(segments, before)

        while changed := await self._change(plan, self._rewrite):
            self._home.segments_rewritten(changed)

    async def purge(self, before_lssn: int) -> list[SegmentMetadata]:
        """End the completed segments below `before_lssn`, but the last one; return them.

        Here and in cold storage. Their ledgers and objects go with the first purge or `collect`
        that comes `log.segment.delete.delay.ms` later.
        Errors: as `truncate`; ColdStorageDisabled.
        """
        return await self._purge(lambda segments: plan_purge(segments, before_lssn))

    async def purge_older_than(self, txid: TxId) -> list[SegmentMetadata]:
        """Do the same for segments that hold only records below `txid` (purgeLogsOlderThan)."""
        return await self._purge(lambda segments: plan_purge_older_than(segments, txid))

    async def purge_expired(self) -> list[SegmentMetadata]:
        """Do the same for segments that reached the configured age; return what left the bookies.

        With cold storage they only leave the bookies, once they are there, and are purged at
        `log.cold.retention.hours`.
        """
        config = self._context.config
        now_ms = self._context.clock.now_ms()
        expiry = Expiry(config.retention_hours * _HOUR_MS, config.only_truncated_expires)

        def expired(segments: SegmentList) -> list[SegmentMetadata]:
            return plan_expired(segments, expiry, now_ms)

        if not config.cold_storage:
            return await self._purge(expired)
        final = expiry._replace(age_ms=config.cold_retention_hours * _HOUR_MS)
        await self._purge(lambda segments: plan_expired(segments, final, now_ms))
        return await self._release(expired)

    async def release(self, before_lssn: int) -> list[SegmentMetadata]:
        """Take the segments below `before_lssn` that are in cold storage off the bookies.

        Stops at the first that is not there. They stay readable. Errors: as `truncate`.
        """
        return await self._release(lambda segments: plan_purge(segments, before_lssn))

    async def collect(self) -> int:
        """Delete ledgers and objects whose delay is over; return how many. Errors: CoreError."""
        cold = self._context.cold
        return await self._purged.collect(
            self._context.clock.now_ms(),
            self._context.ledgers.delete_ledger,
            None if cold is None else cold.delete,
        )

    async def has_cold(self) -> bool:
        """Return whether a segment is in cold storage. Errors: CoreError. Cost: one read."""
        try:
            return bool(await self._store.children(self._paths.cold))
        except NoNode:
            return False

    async def tiers(self) -> list[SegmentTier]:
        """Return where each segment is, oldest first.

        Errors: CoreError. Cost: reads two nodes for each completed segment, many at once.
        """
        await self._home.refresh()
        completed = [each for each in self._home.segments if not each.in_progress]
        places = await self._read(completed)
        return [
            SegmentTier(place.metadata, place.on_bookies, place.in_cold)
            for _, place in sorted(places.items())
        ] + [
            SegmentTier(each, on_bookies=True, in_cold=False)
            for each in self._home.segments
            if each.in_progress
        ]

    async def drop_purged_and_cold(self) -> None:
        """Delete at once all that waits for its time and all that is in cold storage.

        For the deletion of the log: from now on nobody truncates, purges, rewrites, copies or
        restores it. Things first, their nodes second, so that it can be repeated.
        Errors: ColdStorageDisabled, with nothing done; CoreError.
        """
        cold = self._context.cold
        if cold is None:
            for segment in (await read_cold(self._store, self._paths)).values():
                raise self._needs_cold(segment)
        await self._purged.close()
        for lssn, segment in (await read_cold(self._store, self._paths)).items():
            if cold is None:  # copied this moment by a process that has cold storage
                raise self._needs_cold(segment)
            await cold.delete(segment.prefix)
            await self._store.delete(self._paths.cold_segment(lssn))
        await self._purged.collect(
            NEVER_MS, self._context.ledgers.delete_ledger, None if cold is None else cold.delete
        )

    # ------------------------------------------------------------------ one change

    async def _purge(self, plan: Plan) -> list[SegmentMetadata]:
        purged: list[SegmentMetadata] = []
        while some := await self._change(plan, self._end):
            self._home.segments_gone(some[-1].lssn)
            purged += some
        await self.collect()
        return purged

    async def _release(self, plan: Plan) -> list[SegmentMetadata]:
        released: list[SegmentMetadata] = []
        first_here = await first_on_bookies(self._store, self._paths)  # some may be restored

        def rest(segments: SegmentList) -> list[SegmentMetadata]:
            return [each for each in plan(segments) if each.lssn >= first_here]

        while some := await self._change(rest, self._take_off_bookies):
            first_here = some[-1].lssn + 1
            released += some
        await self.collect()
        return released

    async def _change(
        self, plan: Plan, ops_of: Callable[[_Place, SegmentMetadata], list[Op] | None]
    ) -> list[SegmentMetadata]:
        """Apply the first part of a plan; return what was changed, [] when nothing is to do.

        `ops_of` gets a segment as it is and as it is planned; None ends the part before it.
        """
        await self._home.refresh()
        for _ in range(_ATTEMPTS):
            planned = plan(self._home.segments)[:_SEGMENTS_MAX]
            if not planned:
                return []
            version = await self._purged.version()
            wanted = planned
            places = await self._read(wanted)
            planned = plan(self._home.segments)[:_SEGMENTS_MAX]  # from what is there now
            changed, ops = _collect(planned, places, ops_of)
            if not changed and len(places) < len(wanted):
                continue  # all of these are gone, others may have their turn
            if not ops:
                return changed
            try:
                await self._store.multi([self._purged.guard(version), *ops])
            except (BadVersion, NodeExists, NoNode) as error:
                logger.info("trim_raced log=%s error=%s", self._paths.log, error)
            else:
                self._home.guard_moved(version)
                return changed
        raise MetadataConflict(f"others kept changing the segments of {self._paths.log}")

    async def _read(self, segments: Sequence[SegmentMetadata]) -> dict[int, _Place]:
        """Read segments as they are now, and correct the list in this process by it."""
        cold_paths = [self._paths.cold_segment(segment.lssn) for segment in segments]
        nodes = await read_nodes(self._store, [*map(self._path, segments), *cold_paths])
        here, cold = nodes[: len(segments)], nodes[len(segments) :]
        places = {
            segment.lssn: place
            for segment, node, cold_node in zip(segments, here, cold, strict=True)
            if (place := self._place(segment, node, cold_node)) is not None
        }
        self._home.segments_rewritten([place.metadata for place in places.values()])
        gone = [segment.lssn for segment in segments if segment.lssn not in places]
        if gone:  # purged by another process, or by us without an answer; always the oldest
            self._home.segments_gone(gone[-1])
        return places

    def _place(
        self, known: SegmentMetadata, node: Node | None, cold_node: Node | None
    ) -> _Place | None:
        cold, cold_version = None, -1
        if cold_node is not None:
            cold = decode_cold(cold_node.data, self._paths.cold_segment(known.lssn))
            cold_version = cold_node.version
        if node is None:
            if cold is None:
                return None
            metadata = cold.metadata
            return _Place(metadata, on_bookies=False, cold=cold, cold_version=cold_version)
        # Version 1 has no LSSN in its data, and older writers had other names.
        now = replace(decode_segment(node.data), lssn=known.lssn, node_name=known.node_name)
        return _Place(now, on_bookies=True, cold=cold, cold_version=cold_version)

    def _path(self, segment: SegmentMetadata) -> str:
        return self._paths.segment(segment_name(segment))

    # ------------------------------------------------------------------ what becomes of a segment

    def _rewrite(self, place: _Place, planned: SegmentMetadata) -> list[Op]:
        ops: list[Op] = []
        if place.on_bookies:
            path = self._path(planned)
            ops += (Delete(path), Create(path, encode_segment(planned)))
        if place.cold is not None and place.in_cold:
            data = encode_cold(place.cold.with_metadata(planned))
            ops.append(SetData(self._paths.cold_segment(planned.lssn), data, place.cold_version))
        return ops

    def _end(self, place: _Place, planned: SegmentMetadata) -> list[Op]:
        ops = self._off_bookies(place) if place.on_bookies else []
        if place.cold is not None:
            if self._context.cold is None:
                raise self._needs_cold(place.cold)
            ops.append(Delete(self._paths.cold_segment(planned.lssn), place.cold_version))
            prefix = place.cold.prefix
            ops.append(self._purged.note_cold(prefix, self._due_ms()))
        return ops

    def _take_off_bookies(self, place: _Place, _: SegmentMetadata) -> list[Op] | None:
        if not place.in_cold:
            return None
        return self._off_bookies(place) if place.on_bookies else []

    def _off_bookies(self, place: _Place) -> list[Op]:
        return [
            Delete(self._path(place.metadata)),
            self._purged.note_ledger(place.metadata.ledger_id, self._due_ms()),
        ]

    def _needs_cold(self, segment: ColdSegment) -> ColdStorageDisabled:
        return ColdStorageDisabled(
            f"{self._paths.log} has {segment.name} in cold storage: set cold.storage.url, so that"
            " it can be deleted there"
        )

    def _due_ms(self) -> int:
        return self._context.clock.now_ms() + self._context.config.delete_delay_ms


def _collect(
    planned: Sequence[SegmentMetadata],
    places: dict[int, _Place],
    ops_of: Callable[[_Place, SegmentMetadata], list[Op] | None],
) -> tuple[list[SegmentMetadata], list[Op]]:
    changed: list[SegmentMetadata] = []
    ops: list[Op] = []
    for segment in planned:
        place = places.get(segment.lssn)
        more = None if place is None else ops_of(place, segment)
        if more is None:
            break
        changed.append(segment)
        ops += more
    return changed, ops
