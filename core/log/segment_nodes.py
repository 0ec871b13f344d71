"""The metadata nodes of one log: reading its segments, and the owner's changes to them.

Invariant: a segment starts or completes by one multi that also names the versions of the counters
that its writer knows, so that of two writers at most one gets through. A multi whose answer was
lost (or that was sent twice below us) is settled by reading what is there.
Source: reference DistributedLog 4.4, 4.5, 4.6, 5.7.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tailrace.core.errors import (
    CoreError,
    CorruptData,
    EndOfStream,
    LogNotFound,
    MetadataConflict,
    NoNode,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.log.allocation_node import AllocationNode
from tailrace.core.log.cold.nodes import read_cold
from tailrace.core.log.segments import SegmentList
from tailrace.core.metadata.layout import LOG_LAYOUT_VERSION, LogPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.segment_metadata import (
    INVALID_TXID,
    SegmentMetadata,
    are_numbered,
    completed_name,
    decode_segment,
    encode_segment,
    is_segment_name,
    read_segment_name,
    segment_name,
)
from tailrace.core.metadata.store import Create, Delete, MetadataStore, Node, Op, SetData, Watch
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal
from tailrace.core.runtime.tasks import together
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID
from tailrace.protocol.ids import TxId

logger = logging.getLogger(__name__)

_LIST_ATTEMPTS: Final = 16


async def read_segments(
    store: MetadataStore, paths: LogPaths, watch: Watch | None = None
) -> SegmentList:
    """Read the list of segments. The watch fires once, when it changes.

    Errors: LogNotFound, CorruptData, MetadataConflict when it changes faster than it can be read.
    With those that are in cold storage only; they are never changed by what is here.
    Cost: one read per segment, 128 at a time.
    """
    here = (await _read_list(store, paths, lambda names: names, watch)).segments
    cold = await read_cold(store, paths)  # after the others: from there to here they go
    if not cold:
        return here
    older = (each.metadata for lssn, each in cold.items() if here.find(lssn) is None)
    return SegmentList.of((*older, *here))


class Listing(NamedTuple):
    """Segments as they were read."""

    segments: SegmentList
    is_whole: bool
    """Whether there are none before them."""
    guard: int | None = None
    """Version of the guard of completed segments (`purged.py`), of before they were read."""


async def _read_list(
    store: MetadataStore,
    paths: LogPaths,
    choose: Callable[[list[str]], list[str]],
    watch: Watch | None = None,
    children: list[str] | None = None,
) -> Listing:
    """Read those of the segments that are chosen by name; `children`: if they were just listed."""
    for attempt in range(_LIST_ATTEMPTS):
        if children is None:
            try:
                children = await store.children(paths.segments, watch if attempt == 0 else None)
            except NoNode:
                raise LogNotFound(paths.log) from None
        names = [name for name in children if is_segment_name(name)]
        wanted = choose(names)
        nodes = await read_nodes(store, [paths.segment(name) for name in wanted])
        found = [
            replace(decode_segment(node.data), node_name=name)
            for name, node in zip(wanted, nodes, strict=True)
            if node is not None
        ]
        if len(found) == len(wanted):  # else one was completed or purged meanwhile
            return Listing(SegmentList.of(found), is_whole=len(wanted) == len(names))
        children = None
    raise MetadataConflict(f"{paths.segments} kept changing while it was read")


def recent_names(names: list[str]) -> list[str]:
    """Return the segments that an owner must know: from the last completed one on.

    From the one before the oldest in progress, if that is older. With names of older writers, which
    have no number, all of them. Shape: sorted. Source: reference DistributedLog 4.4.
    """
    if not are_numbered(names):
        return names
    completed_from = bisect_left(names, completed_name(0))
    opened, completed = names[:completed_from], names[completed_from:]
    ends = [read_segment_name(name) for name in (*opened[:1], *completed[-1:])]
    first = min((each.lssn - each.in_progress for each in ends if each is not None), default=0)
    return [*opened, *completed[bisect_left(completed, completed_name(first)) :]]


async def first_on_bookies(store: MetadataStore, paths: LogPaths) -> int:
    """Return the LSSN of the oldest segment that is not in cold storage only; 1 without any.

    Segments without a number in their name do not count. Errors: NoNode. Cost: one read.
    """
    names = await store.children(paths.segments)
    said = [read_segment_name(name) for name in names if is_segment_name(name)]
    return min((each.lssn for each in said if each is not None), default=1)


class _Counter(NamedTuple):
    """A number in a node, and the node's version when we last saw or wrote it."""

    value: int
    version: int


class SegmentNodes:
    """The nodes of one log in its owner's hands. `load` first, after the log was claimed."""

    def __init__(self, store: MetadataStore, paths: LogPaths) -> None:
        self._store = store
        self._paths = paths
        self._lssn = _Counter(0, 0)
        self._max_txid = _Counter(INVALID_TXID, 0)
        self._in_doubt: tuple[Sequence[Op], str, bytes] | None = None
        """A mark whose answer did not come."""
        self.allocation = AllocationNode(store, paths.allocation)
        """Where the log's own allocator keeps a ledger that no segment has yet."""

    @property
    def log(self) -> str:
        """The path of the log's node, for messages."""
        return self._paths.log

    @property
    def max_txid(self) -> TxId:
        """Highest txid of all segments ever completed."""
        return self._max_txid.value

    @property
    def lssn_counter(self) -> int:
        """Highest LSSN ever started, as the metadata keeps it."""
        return self._lssn.value

    async def load(self) -> Listing:
        """Read the counters and the recent segments: in progress, and the last completed one.

        Versions before the list, so that a change in between is found out.
        Errors: LogNotFound, CorruptData, EndOfStream.
        """
        paths = self._paths
        nodes, children = await self._read_at_once()
        lssn, max_txid, allocation, version, cold, purged = nodes
        if lssn is None:
            raise LogNotFound(paths.log)
        if max_txid is None or version is None or version.data != LOG_LAYOUT_VERSION:
            raise CorruptData(f"{paths.partition} has not the nodes of a DistributedLog log")
        self._lssn = _Counter(_decimal(lssn.data, paths.segments), lssn.version)
        self._max_txid = _Counter(_decimal_or_invalid(max_txid.data, paths), max_txid.version)
        if self._max_txid.value == END_OF_STREAM_TXID:
            raise EndOfStream(f"{paths.log} was sealed")
        if allocation is None:
            await self._store.create(paths.allocation)
        self.allocation = AllocationNode(self._store, paths.allocation, allocation)
        listing = await _read_list(self._store, paths, recent_names, children=children)
        return listing._replace(
            is_whole=listing.is_whole and cold is None,
            guard=None if purged is None else purged.version,
        )

    async def _read_at_once(self) -> tuple[list[Node | None], list[str]]:
        """Return the counters and their like, then the children, after all that others did before.

        Operations of one client take effect in the order of their calls. Errors: LogNotFound.
        Cost: one round trip.
        """
        paths, store = self._paths, self._store
        wanted = (
            *(paths.segments, paths.max_txid, paths.allocation, paths.version),
            *(paths.cold, paths.purged),
        )
        reads: list[Coroutine[Any, Any, Any]] = [
            store.sync(),
            store.get_all(wanted),
            store.children(paths.segments),
        ]
        session_id = store.session_id
        try:
            _, nodes, children = await together(reads)
        except NoNode:
            nodes, children = [None] * len(wanted), []
        if store.session_id != session_id:  # perhaps with a server that lags behind
            raise Unavailable(f"the session changed while {paths.log} was read")
        return nodes, children

    async def start(self, segment: SegmentMetadata, handover: SetData) -> None:
        """Make a segment in progress of a ledger; `handover` takes it from its allocator.

        Errors: OwnershipLost: another writer was faster.
        """
        await self._settle()
        paths = self._paths
        path, data = paths.segment(segment_name(segment)), encode_segment(segment)
        ops: list[Op] = [
            handover,
            Create(path, data),
            SetData(paths.segments, str(segment.lssn).encode(), self._lssn.version),
        ]
        versions = await self._apply(ops, path, data)
        self._lssn = _Counter(segment.lssn, versions[2])

    async def complete(self, segment: SegmentMetadata) -> None:
        """Put the completed segment in the place of the one in progress. Its ledger is closed.

        Errors: OwnershipLost: another writer recovered the segment.
        """
        await self._settle()
        paths = self._paths
        path, data = paths.segment(segment_name(segment)), encode_segment(segment)
        lssn = max(segment.lssn, self._lssn.value)
        max_txid = max(segment.last_txid, self._max_txid.value)
        ops: list[Op] = [
            Create(path, data),
            Delete(paths.segment(segment_name(replace(segment, in_progress=True)))),
            SetData(paths.segments, str(lssn).encode(), self._lssn.version),
            SetData(paths.max_txid, str(max_txid).encode(), self._max_txid.version),
        ]
        versions = await self._apply(ops, path, data)
        self._lssn = _Counter(lssn, versions[2])
        self._max_txid = _Counter(max_txid, versions[3])

    async def mark(self, segment: SegmentMetadata) -> None:
        """Have the node of the segment in progress say something else: how much was given up.

        The counter's version rises, so that a new owner that has read the segment before reads it
        again. Errors: OwnershipLost: another owner went on from here; Unavailable: it may have
        happened, and what this owner does next makes sure.
        """
        await self._settle()
        paths = self._paths
        path, data = paths.segment(segment_name(segment)), encode_segment(segment)
        counter = str(self._lssn.value).encode()
        ops: list[Op] = [
            Delete(path),
            Create(path, data),
            SetData(paths.segments, counter, self._lssn.version),
        ]
        self._in_doubt = ops, path, data
        await self._settle()

    async def _settle(self) -> None:
        """Make sure what became of a mark without an answer: the same multi is sent again."""
        if self._in_doubt is not None:
            versions = await self._apply(*self._in_doubt)
            self._in_doubt = None
            self._lssn = _Counter(self._lssn.value, versions[2])

    async def delete_unwritten(self, segment: SegmentMetadata) -> None:
        """Drop the newest segment, in which nobody ever had a record confirmed.

        The counter is set so that its LSSN comes again: readers need LSSNs without a hole, and
        DistributedLog allows a next LSSN equal to the counter. Errors: OwnershipLost.
        """
        paths = self._paths
        lssn = min(segment.lssn, self._lssn.value)
        ops: list[Op] = [
            Delete(paths.segment(segment_name(segment))),
            SetData(paths.segments, str(lssn).encode(), self._lssn.version),
        ]
        try:
            versions = await self._store.multi(ops)
        except MetadataConflict as error:
            raise _lost(error) from error
        self._lssn = _Counter(lssn, versions[1])

    async def _apply(self, ops: Sequence[Op], path: str, data: bytes) -> list[int]:
        """Run a multi; when its outcome is in doubt, what is there tells."""
        try:
            return await self._store.multi(ops)
        except (MetadataConflict, Unavailable) as error:
            if not await self._was_applied(ops, path, data):
                raise _lost(error) from error
            logger.info("multi_settled path=%s after=%r", path, error)
        return [op.version + 1 if isinstance(op, SetData) else 0 for op in ops]

    async def _was_applied(self, ops: Sequence[Op], path: str, data: bytes) -> bool:
        """Whether our node is there and every counter has just our change since we knew it.

        With newer counters somebody else went on from our change, and we are no owner any more.
        Errors: Unavailable: it stays in doubt, and the same multi may be sent again.
        """
        changes = [op for op in ops if isinstance(op, SetData)]
        try:
            node, *counters = await read_nodes(self._store, [path, *(op.path for op in changes)])
        except CoreError:
            logger.warning("multi_in_doubt path=%s", path)
            raise
        return (node is not None and node.data == data) and all(
            counter is not None and (counter.version, counter.data) == (op.version + 1, op.data)
            for op, counter in zip(changes, counters, strict=True)
        )


def _lost(error: CoreError) -> CoreError:
    """Return what a failed change means: with versions that moved, another owner."""
    if isinstance(error, MetadataConflict):
        return OwnershipLost(f"another writer changed the log's metadata: {error}")
    return error


async def delete_segment_node(
    store: MetadataStore, paths: LogPaths, segment: SegmentMetadata
) -> None:
    """Remove a segment's node; it may be gone already."""
    try:
        await store.delete(paths.segment(segment_name(segment)))
    except NoNode:
        logger.info("segment_node_gone log=%s lssn=%d", paths.log, segment.lssn)


def _decimal(data: bytes, path: str) -> int:
    found = decimal(data.decode("latin-1"), least=-INT64_MAX - 1)
    if found is None:
        raise CorruptData(f"{path} holds {data[:40]!r}, not a number")
    return found


def _decimal_or_invalid(data: bytes, paths: LogPaths) -> int:
    """Tolerate an unreadable `maxtxid`, as DistributedLog does: recovery raises it again."""
    try:
        return _decimal(data, paths.max_txid)
    except CorruptData:
        logger.warning("max_txid_unreadable path=%s", paths.max_txid)
        return INVALID_TXID
