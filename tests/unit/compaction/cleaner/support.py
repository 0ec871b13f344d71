"""A log to clean as plain values, and a pass over it: no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.compaction.cleaner.building import SummaryBuilder
from tailrace.compaction.cleaner.cleanable import AbortedRange, LastSequence
from tailrace.compaction.cleaner.filtering import FilterRules, SegmentFilter
from tailrace.compaction.cleaner.key_summary import SLOT_BYTES, KeySummary
from tailrace.compaction.cleaner.outcome import SegmentOutcome, Stays
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader, read_header, stamp
from tailrace.protocol.records.control import EndTransaction, build_marker
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records

DAY_MS = 86_400_000
Pair = tuple[bytes | None, bytes | None]


class Seen(NamedTuple):
    """What a reader gets of one record."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass
class FakeLog:
    """Segments of batches, producers, transactions: appended to, rolled and cleaned."""

    delete_retention_ms: int = DAY_MS
    now_ms: int = 1_000
    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    bases: list[int] = field(default_factory=lambda: [0])
    next_offset: int = 0
    first_dirty: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    last: dict[int, LastSequence] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[AbortedRange] = field(default_factory=list)

    def append(
        self,
        *pairs: Pair,
        codec: int = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
        timestamps: Sequence[int] = (),
        attributes: int = 0,
    ) -> int:
        """Append one batch; return its base offset."""
        base = self.next_offset
        times = timestamps or [self.now_ms] * len(pairs)
        records = [
            Record(base + at, time, key=key, value=value)
            for at, ((key, value), time) in enumerate(zip(pairs, times, strict=True))
        ]
        producer = Producer()
        if producer_id >= 0:
            producer = Producer(producer_id, 0, self.sequences.get(producer_id, 0))
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(pairs)
            self.last[producer_id] = LastSequence(base + len(pairs) - 1, 0)
        flags = attributes | (TRANSACTIONAL if transactional else 0)
        self.add(build_batch(records, codec, base, producer, flags, leader_epoch=3))
        if transactional:
            self.open.setdefault(producer_id, base)
        return base

    def end(self, producer_id: int, *, commit: bool) -> int:
        """Append a marker; return its offset."""
        offset = self.next_offset
        marker = build_marker(producer_id, 0, EndTransaction(commit, 1), self.now_ms)
        stamp(marker, offset, 3)
        self.add(marker)
        first = self.open.pop(producer_id, None)
        if first is not None and not commit:
            self.aborted.append(AbortedRange(producer_id, first, offset))
        return offset

    def add(self, batch: bytes | bytearray) -> None:
        """Append a batch as it is."""
        self.segments[-1].append(bytes(batch))
        self.next_offset = read_header(batch).last_offset + 1

    def roll(self) -> None:
        """End the active segment."""
        self.segments.append([])
        self.bases.append(self.next_offset)

    @property
    def last_stable_offset(self) -> int:
        return min([self.next_offset, *self.open.values()])

    def cleanable_segments(self) -> int:
        """How many segments of the beginning may be cleaned: none active, none undecided."""
        ends = self.bases[1:]
        return sum(end <= self.last_stable_offset for end in ends)

    def clean(self, slots: int = 1009, block: int = 3, segments: int | None = None) -> "Cleaned":
        """Run one pass as far as the map reaches; `block`: batches taken at a time."""
        count = self.cleanable_segments() if segments is None else segments
        summary = KeySummary(slots * SLOT_BYTES)
        builder = self.fill(summary, count, block)
        end = summary.latest_offset + 1
        rules = FilterRules(
            summary=summary, delete_retention_ms=self.delete_retention_ms, last_sequences=self.last
        )
        cleaner = SegmentFilter(rules, self.aborted)
        outcomes = []
        for at in range(count):
            if self.bases[at] >= end:
                break
            outcomes.append(self._clean_segment(cleaner, at, block))
        self.first_dirty = end
        markers = set(self.markers())  # an index of aborted transactions goes with the marker
        self.aborted = [each for each in self.aborted if each.last_offset in markers]
        return Cleaned(summary, builder, outcomes, end)

    def fill(self, summary: KeySummary, count: int, block: int = 3) -> SummaryBuilder:
        builder = SummaryBuilder(summary, self.first_dirty, self.aborted)
        for at in range(count):
            if self.bases[at + 1] <= self.first_dirty:
                continue
            if not all(map(builder.add, blocks(self.segments[at], block))):
                return builder
            builder.end_segment(self.bases[at + 1])
        return builder

    def _clean_segment(self, cleaner: SegmentFilter, at: int, block: int) -> SegmentOutcome:
        cleaner.begin_segment(self.now_ms)
        self.segments[at] = [
            batch
            for part in blocks(self.segments[at], block)
            for batch in left_of(part, cleaner.filter(part))
        ]
        return cleaner.end_segment(self.bases[at + 1])

    def batches(self) -> list[bytes]:
        return [batch for segment in self.segments for batch in segment]

    def headers(self) -> list[BatchHeader]:
        return [read_header(batch) for batch in self.batches()]

    def read(self, start: int = 0, *, committed: bool = False) -> list[Seen]:
        """Return what a reader gets; `committed`: of a consumer with isolation level 1."""
        waiting = sorted(self.aborted, key=lambda each: each.first_offset)
        dropped: set[int] = set()
        seen = []
        for batch in self.batches():
            header = read_header(batch)
            while waiting and waiting[0].first_offset <= header.last_offset:
                dropped.add(waiting.pop(0).producer_id)
            if header.is_control:
                dropped.discard(header.producer_id)
                continue
            if committed and header.is_transactional and header.producer_id in dropped:
                continue
            seen += [
                Seen(r.offset, r.key, r.value, r.timestamp)
                for r in iter_records(batch)
                if r.offset >= start and not (committed and r.offset >= self.last_stable_offset)
            ]
        return seen

    def table(self) -> dict[bytes, bytes]:
        """Return the state that a consumer of committed records ends with."""
        state: dict[bytes, bytes] = {}
        for seen in self.read(committed=True):
            assert seen.key is not None
            if seen.value is None:
                state.pop(seen.key, None)
            else:
                state[seen.key] = seen.value
        return state

    def offsets(self) -> list[int]:
        return [seen.offset for seen in self.read()]

    def markers(self) -> list[int]:
        return [header.base_offset for header in self.headers() if header.is_control]


class Cleaned(NamedTuple):
    summary: KeySummary
    builder: SummaryBuilder
    outcomes: list[SegmentOutcome]
    end: int


def left_of(block: Sequence[bytes], stays: Iterable[Stays]) -> list[bytes]:
    return [block[each] if isinstance(each, int) else bytes(each) for each in stays]


def blocks(batches: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    for at in range(0, len(batches), size):
        yield batches[at : at + size]


def keys(log: FakeLog) -> list[bytes | None]:
    return [seen.key for seen in log.read()]


def last_values(seen: Iterable[Seen]) -> Mapping[bytes | None, bytes | None]:
    return {each.key: each.value for each in seen}
