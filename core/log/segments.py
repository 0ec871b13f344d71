"""The ordered list of a log's segments: what follows from it, and how it changes. Values only.

Invariant: log segment sequence numbers (LSSN) rise by one without a hole; of one LSSN there is one
segment, the completed one if both are known. Segments of version 1 have no number; here they get
the one of their place, at the head 0, -1, ... Flow: the metadata nodes (or the owner's own
transitions) in; positions, next LSSN and completed metadata out.
Source: reference DistributedLog 4.3, 4.4, 4.5, 7.2, 7.3.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData, MetadataConflict
from tailrace.core.metadata.segment_metadata import (
    INVALID_TXID,
    UNASSIGNED_LSSN,
    SegmentMetadata,
    Truncation,
)
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId, TxId

UNKNOWN_SEQUENCE_ID: Final = -1


class SegmentEnd(NamedTuple):
    """Where a segment ends, as its completion records it."""

    last_txid: TxId
    record_count: int
    last_entry_id: EntryId
    last_slot: int


@dataclass(frozen=True, slots=True)
class SegmentList:
    """The segments of one log, oldest first. Immutable: every change is a new list."""

    segments: tuple[SegmentMetadata, ...] = ()

    @staticmethod
    def of(found: Iterable[SegmentMetadata]) -> "SegmentList":
        """Put in order what the metadata holds; of two of one LSSN the completed one counts.

        Errors: CorruptData when an LSSN is missing.
        """
        by_lssn: dict[int, SegmentMetadata] = {}
        for segment in _numbered(list(found)):
            known = by_lssn.get(segment.lssn)
            if known is None or known.in_progress:
                by_lssn[segment.lssn] = segment
        ordered = tuple(by_lssn[lssn] for lssn in sorted(by_lssn))
        if ordered and ordered[-1].lssn - ordered[0].lssn != len(ordered) - 1:
            raise CorruptData(f"log segments with a hole: {[s.lssn for s in ordered][:20]}")
        return SegmentList(ordered)

    def __iter__(self) -> Iterator[SegmentMetadata]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def last(self) -> SegmentMetadata | None:
        """The newest segment."""
        return self.segments[-1] if self.segments else None

    @property
    def last_txid(self) -> TxId:
        """Highest txid of the completed segments; INVALID_TXID (-999) when there is none."""
        return max((s.last_txid for s in self.segments), default=INVALID_TXID)

    def find(self, lssn: int) -> SegmentMetadata | None:
        """Return the segment of this LSSN."""
        segment = self.at_or_after(lssn)
        return segment if segment is not None and segment.lssn == lssn else None

    def at_or_after(self, lssn: int) -> SegmentMetadata | None:
        """Return the oldest segment whose LSSN is not less."""
        if not self.segments:
            return None
        index = max(lssn - self.segments[0].lssn, 0)
        return self.segments[index] if index < len(self.segments) else None

    def with_segment(self, segment: SegmentMetadata) -> "SegmentList":
        """Add a segment at either end, or replace the one of its LSSN. Cost: a copied tuple.

        Errors: CorruptData (it leaves a hole).
        """
        segments = self.segments
        at = segment.lssn - segments[0].lssn if segments else 0
        if not -1 <= at <= len(segments):
            raise CorruptData(f"segment {segment.lssn} leaves a hole in {self._span}")
        return SegmentList((*segments[: max(at, 0)], segment, *segments[at + 1 :]))

    def without(self, lssn: int) -> "SegmentList":
        """Drop the oldest or the newest segment. Errors: CorruptData for one in the middle."""
        segments = self.segments
        if segments and segments[0].lssn == lssn:
            return SegmentList(segments[1:])
        if segments and segments[-1].lssn == lssn:
            return SegmentList(segments[:-1])
        raise CorruptData(f"segment {lssn} cannot go from {self._span}")

    @property
    def _span(self) -> str:
        return f"{self.segments[0].lssn}..{self.segments[-1].lssn}" if self.segments else "nothing"

    def next_lssn(self, counter: int, first: int = 1) -> int:
        """Return the LSSN of the next segment. `counter` is the one that the metadata keeps.

        Equal to the counter is right after an empty segment was deleted.
        Errors: MetadataConflict: what we know is not what is there any more.
        """
        lssn = self.segments[-1].lssn + 1 if self.segments else first
        if lssn - counter in (0, 1) or (not self.segments and counter == 0):
            return lssn
        raise MetadataConflict(f"next log segment would be {lssn}, the counter says {counter}")

    def completed(self, segment: SegmentMetadata, end: SegmentEnd, now_ms: int) -> SegmentMetadata:
        """Return the metadata of `segment` as completed. Errors: AssertionError (order).

        One that was truncated up to its end or further is truncated whole.
        """
        truncation = segment.truncation
        last = DLSN(segment.lssn, end.last_entry_id, end.last_slot)
        if truncation is Truncation.PARTIALLY_TRUNCATED and last < min_active(segment):
            truncation = Truncation.TRUNCATED
        return replace(
            segment,
            truncation=truncation,
            in_progress=False,
            last_txid=end.last_txid,
            record_count=end.record_count,
            last_entry_id=end.last_entry_id,
            last_slot=end.last_slot,
            completion_time_ms=now_ms,
            start_sequence_id=self._start_sequence_id(segment),
            node_name="",
        )

    def _start_sequence_id(self, segment: SegmentMetadata) -> int:
        previous = self.find(segment.lssn - 1)
        if previous is None:
            return 0
        assert not previous.in_progress, f"segment {previous.lssn} is not completed yet"
        if previous.version < 5:
            return 0  # what 4.17.3 does, reference section 0
        if previous.start_sequence_id < 0:
            return UNKNOWN_SEQUENCE_ID
        return previous.start_sequence_id + previous.record_count

    def first_not_less(self, txid: TxId) -> SegmentMetadata | None:
        """Return the segment in which a search for the first record with txid >= `txid` begins.

        None: the list is empty. The answer may hold no such record; then the next one has it.
        """
        segments = self.segments
        if not segments:
            return None
        # first txids never fall (each is at least the last txid of the segment before)
        after = bisect_left(segments, txid + 1, key=lambda s: s.first_txid)
        if after == 0:
            return segments[0]
        index = after - 1
        if segments[index].first_txid == txid:
            at = index
            while at and (self._reaches(at - 1, txid) or self._is_bare(at - 1)):
                at -= 1
                index = index if self._is_bare(at) else at
            return segments[index]
        if index + 1 < len(segments) and not self._reaches(index, txid):
            return segments[index + 1]
        return segments[index]

    def _is_bare(self, index: int) -> bool:
        """Tell whether a completed segment has no txid at all, as other libraries leave them."""
        segment = self.segments[index]
        return not segment.in_progress and segment.last_txid < segment.first_txid

    def _reaches(self, index: int, txid: TxId) -> bool:
        segment = self.segments[index]
        return segment.in_progress or segment.last_txid >= txid


def _numbered(found: list[SegmentMetadata]) -> list[SegmentMetadata]:
    """Give segments of version 1 the LSSN of their place, which their first txid tells.

    Before the first number they count down from it (to 0 if there is none: the next segment is 1),
    behind the last one they count up. So the next LSSN is DistributedLog's (reference 4.4).
    """
    bare = sorted((s for s in found if s.lssn == UNASSIGNED_LSSN), key=_by_txid)
    if not bare:
        return found
    numbered = sorted((s for s in found if s.lssn != UNASSIGNED_LSSN), key=lambda s: s.lssn)
    bare = [s for s, after in zip(bare, [*bare[1:], None], strict=True) if not _is_same(s, after)]
    first = numbered[0] if numbered else None
    head = [s for s in bare if first is None or s.first_txid < first.first_txid]
    tail = bare[len(head) :]
    floor = 1 if first is None else first.lssn
    last = numbered[-1].lssn if numbered else 0
    return [
        *(replace(s, lssn=floor - len(head) + at) for at, s in enumerate(head)),
        *numbered,
        *(replace(s, lssn=last + 1 + at) for at, s in enumerate(tail)),
    ]


def _by_txid(segment: SegmentMetadata) -> tuple[TxId, int, bool]:
    return segment.first_txid, segment.ledger_id, not segment.in_progress


def _is_same(segment: SegmentMetadata, after: SegmentMetadata | None) -> bool:
    """Tell a segment in progress that is in the list as completed, too."""
    return after is not None and segment.in_progress and segment.ledger_id == after.ledger_id


def min_active(segment: SegmentMetadata) -> DLSN:
    """Return the first position of a segment that is not truncated."""
    return DLSN(segment.lssn, segment.min_active_entry_id, segment.min_active_slot)


def last_dlsn(segment: SegmentMetadata) -> DLSN:
    """Return the position of a completed segment's last record (entry -1 when it has none)."""
    return DLSN(segment.lssn, segment.last_entry_id, segment.last_slot)
