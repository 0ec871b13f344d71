"""What is wrong with a log, as far as its metadata and that of its ledgers tell.

Flow: `read_stream` takes everything as it lies there, foreign nodes too; `find_problems` (pure)
says what does not fit. Nothing is changed. A log that somebody writes may look odd.
Source: reference DistributedLog 4.2 to 4.6, 15.1; `dlog tool inspect`.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tailrace.core.errors import CorruptData, LedgerNotFound, LogNotFound, NoNode
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.metadata.layout import LOG_LAYOUT_VERSION, LogPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.segment_metadata import (
    UNASSIGNED_LSSN,
    SegmentMetadata,
    Truncation,
    decode_segment,
    is_segment_name,
)
from tailrace.core.metadata.store import MetadataStore, Node
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal
from tailrace.protocol.ids import NO_ENTRY, LedgerId


class StoredSegment(NamedTuple):
    """One node among the segments of a log."""

    node_name: str
    segment: SegmentMetadata | None
    """None: the node is no segment; `error` says why."""
    error: str
    version: int
    """Of the node."""
    ledger: LedgerMetadata | None
    """None: the ledger is not there."""


class StoredStream(NamedTuple):
    """The nodes of a log; a number is None where its node is missing or holds no number."""

    nodes: tuple[StoredSegment, ...]
    lssn_counter: int | None
    max_txid: int | None
    allocated: int | None
    """The ledger that the log's allocator remembers."""
    missing: tuple[str, ...]
    """Nodes that every log has."""
    layout: bytes

    @property
    def segments(self) -> list[StoredSegment]:
        """The nodes that are segments, in DistributedLog's order."""
        known = [each for each in self.nodes if each.segment is not None]
        return sorted(known, key=_order)


class Problem(NamedTuple):
    """Something that does not fit."""

    kind: str
    """One word for programs: `gap`, `duplicate`, `overlap`, ..."""
    place: str
    """The node that shows it."""
    detail: str


async def read_stream(store: MetadataStore, ledgers: LedgerClient, paths: LogPaths) -> StoredStream:
    """Read everything that the metadata has of a log, whatever it is. Errors: LogNotFound.

    Cost: two reads per segment.
    """
    parts = [path for path, _ in paths.initial_nodes()]
    found = dict(zip(parts, await read_nodes(store, parts), strict=True))
    if found[paths.partition] is None:
        raise LogNotFound(paths.log)
    try:
        names = await store.children(paths.segments)
    except NoNode:
        names = []
    nodes = await read_nodes(store, [paths.segment(name) for name in names])
    stored = [
        await _stored(ledgers, name, node)
        for name, node in zip(names, nodes, strict=True)
        if node is not None  # else it was completed or deleted since
    ]
    layout = found[paths.version]
    return StoredStream(
        nodes=tuple(stored),
        lssn_counter=_number(found[paths.segments]),
        max_txid=_number(found[paths.max_txid]),
        allocated=_number(found[paths.allocation]),
        missing=tuple(path for path in parts if found[path] is None),
        layout=LOG_LAYOUT_VERSION if layout is None else layout.data,
    )


def find_problems(stream: StoredStream) -> list[Problem]:
    """Return everything that does not fit, in the order of the segments."""
    problems = [
        *_foreign(stream),
        *_numbering(stream),
        *_following(stream),
        *_ledgers(stream),
        *_counters(stream),
    ]
    problems += [Problem("missing node", path, "every log has it") for path in stream.missing]
    if stream.layout != LOG_LAYOUT_VERSION:
        problems.append(Problem("layout", "version", f"unknown: {stream.layout.hex()}"))
    return problems


def _foreign(stream: StoredStream) -> Iterator[Problem]:
    for node in stream.nodes:
        if node.segment is None:
            yield Problem("foreign node", node.node_name, node.error)


def _numbering(stream: StoredStream) -> Iterator[Problem]:
    """Find numbers that do not rise by one, and segments in progress before completed ones."""
    numbered = [s for s in stream.segments if _of(s).lssn != UNASSIGNED_LSSN]
    for one, other in pairwise(numbered):
        before, after = _of(one).lssn, _of(other).lssn
        if after == before:
            yield Problem(
                "duplicate", other.node_name, f"{one.node_name} has number {after} as well"
            )
        elif after > before + 1:
            yield Problem("gap", other.node_name, f"{before} is followed by {after}")
    for one, other in pairwise(numbered):
        is_older = _of(one).lssn < _of(other).lssn
        if is_older and _of(one).in_progress and not _of(other).in_progress:
            detail = f"in progress, and {other.node_name} behind it is completed"
            yield Problem("order", one.node_name, detail)


def _following(stream: StoredStream) -> Iterator[Problem]:
    """Find txids and sequence ids that the segment before has as well."""
    segments = stream.segments
    for stored in segments:
        segment = _of(stored)
        if not segment.in_progress and segment.last_txid < segment.first_txid:
            detail = f"first {segment.first_txid}, last {segment.last_txid}"
            yield Problem("txids", stored.node_name, detail)
    for one, other in pairwise(segments):
        before, after = _of(one), _of(other)
        if before.in_progress:
            continue
        if after.first_txid < before.last_txid:
            detail = f"begins at {after.first_txid}, {one.node_name} ends at {before.last_txid}"
            yield Problem("overlap", other.node_name, detail)
        follows = before.start_sequence_id + before.record_count
        is_known = min(before.start_sequence_id, after.start_sequence_id) >= 0
        if is_known and after.start_sequence_id < follows:  # more: `before` or `after` was cleaned
            detail = f"{after.start_sequence_id} records before it, {follows} by {one.node_name}"
            yield Problem("count", other.node_name, detail)


def _ledgers(stream: StoredStream) -> Iterator[Problem]:
    """Find ledgers that are not there, have several segments, or hold less than they should."""
    segments = stream.segments
    used = Counter(_of(stored).ledger_id for stored in segments)
    for stored in segments:
        segment, ledger = _of(stored), stored.ledger
        name = f"ledger {segment.ledger_id}"
        if used[segment.ledger_id] > 1:
            yield Problem("shared ledger", stored.node_name, f"{name} has another segment as well")
        if segment.ledger_id == stream.allocated:
            detail = f"{name} counts as allocated and not used: the next owner deletes it"
            yield Problem("allocation", stored.node_name, detail)
        if ledger is None:
            yield Problem("missing ledger", stored.node_name, f"{name} is not there")
        elif not segment.in_progress:
            yield from _end_of(stored.node_name, segment, ledger)


def _end_of(name: str, segment: SegmentMetadata, ledger: LedgerMetadata) -> Iterator[Problem]:
    ledger_name = f"ledger {segment.ledger_id}"
    if not ledger.is_closed:
        yield Problem("open ledger", name, f"completed, and {ledger_name} is {ledger.state.name}")
    elif segment.last_entry_id > ledger.last_entry_id:
        detail = f"ends at entry {segment.last_entry_id}, {ledger_name} at {ledger.last_entry_id}"
        yield Problem("short ledger", name, detail)
    if segment.version > 1 and segment.record_count > 0 and segment.last_entry_id == NO_ENTRY:
        yield Problem("count", name, f"{segment.record_count} records, and no last entry")
    cut = segment.truncation is Truncation.PARTIALLY_TRUNCATED
    if cut and segment.min_active_entry_id > segment.last_entry_id:
        yield Problem("truncation", name, "the first kept record lies behind the last one")


def _counters(stream: StoredStream) -> Iterator[Problem]:
    """Find counters that have not seen every segment."""
    segments = [_of(stored) for stored in stream.segments]
    highest = max((s.lssn for s in segments), default=0)
    counter = stream.lssn_counter
    if counter is not None and not highest <= counter <= highest + 1 and segments:
        detail = f"says {counter}, the newest segment is {highest}"
        yield Problem("counter", "ledgers", detail)
    last = max((s.last_txid for s in segments if not s.in_progress), default=0)
    if stream.max_txid is not None and stream.max_txid < last:
        yield Problem("counter", "maxtxid", f"says {stream.max_txid}, a segment ends at {last}")


async def _stored(ledgers: LedgerClient, name: str, node: Node) -> StoredSegment:
    if not is_segment_name(name):
        return StoredSegment(name, None, "not the name of a segment", node.version, None)
    try:
        segment = decode_segment(node.data)
    except CorruptData as error:
        return StoredSegment(name, None, str(error), node.version, None)
    try:
        ledger = await ledgers.ledger_metadata(LedgerId(segment.ledger_id))
    except LedgerNotFound:
        ledger = None
    return StoredSegment(name, segment, "", node.version, ledger)


def _of(stored: StoredSegment) -> SegmentMetadata:
    assert stored.segment is not None, "only what is a segment is asked"
    return stored.segment


def _order(stored: StoredSegment) -> tuple[int, int, int, bool]:
    """DistributedLog's order; what has no number goes first, by its txids (reference 4.3)."""
    segment = _of(stored)
    is_numbered, is_completed = segment.lssn != UNASSIGNED_LSSN, not segment.in_progress
    return (is_numbered, segment.lssn, 0 if is_numbered else segment.first_txid, is_completed)


def _number(node: Node | None) -> int | None:
    return None if node is None else decimal(node.data.decode("latin-1"), least=-INT64_MAX - 1)
