"""The second walk of a pass: which batches and records of a segment stay. Pure.

Kafka's rules, decided for a block of batches at once. Where it differs: a batch behind the end of
the pass gets no delete horizon (Kafka's gets one as soon as it is recopied). The horizon promises a
reader that began before it the delete marker; the values that the marker deletes go only in a pass
that covers it, so a clock that started before would let marker and value go together.
Source: Cleaner.cleanInto, MemoryRecords.filterTo (reference Kafka 9.5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.building import columns_of, keys_of, note_marker
from tailrace.compaction.cleaner.cleanable import AbortedRange, LastSequence
from tailrace.compaction.cleaner.columns import Columns
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import Choice, Headers, Ints, read_headers
from tailrace.compaction.cleaner.key_summary import KeySummary, Places
from tailrace.compaction.cleaner.outcome import SegmentOutcome, Stays
from tailrace.compaction.cleaner.rebuilding import TIGHTEST, Kept, choose, cut_out, empty, rebuild
from tailrace.compaction.cleaner.transactions import CleanedTransactions
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import DELETE_HORIZON, BatchHeader

TIMESTAMP_MAX = 2**63 - 1
"""Largest that a batch can say; delete.retention.ms alone may be as large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRules:
    """What the second walk of one pass goes by."""

    summary: KeySummary
    """Full of the head; its `latest_offset` is where the pass ends."""
    delete_retention_ms: int
    batch_bytes_max: int = 2**31 - 1
    """Larger ones cannot be written."""
    last_sequences: Mapping[int, LastSequence] = field(default_factory=dict)
    """By producer id; who is not there needs no batch kept."""


class _Fates(NamedTuple):
    """What is decided of a block's batches before their records are looked at; one value each."""

    drops_records: Choice
    stays_empty: Choice
    may_go: Choice
    """Markers whose transaction has nothing left: they get a horizon."""


class SegmentFilter:
    """Goes over the segments of a log from its start to the end of a pass."""

    def __init__(self, rules: FilterRules, aborted: Sequence[AbortedRange]) -> None:
        """`aborted`: all with records in the segments that come."""
        self._rules = rules
        self._end = rules.summary.latest_offset + 1
        self._transactions = CleanedTransactions(aborted)
        self._outcome = SegmentOutcome()
        self._now_ms = 0

    def begin_segment(self, now_ms: int) -> None:
        """Go on to the next segment. `now_ms`: horizons are judged by it and count from it."""
        self._outcome = SegmentOutcome()
        self._now_ms = now_ms

    def end_segment(self, next_offset: Offset) -> SegmentOutcome:
        """Return what became of the segment, which covers offsets up to `next_offset`."""
        outcome = self._outcome
        if next_offset <= self._end:  # everything before the end of a pass is its key's last
            outcome.keys = outcome.keyed
        return outcome

    def filter(self, batches: Sequence[Buffer]) -> list[Stays]:
        """Return what stays of a block of batches, in order. Errors: CorruptBatch."""
        block = Block.of(batches)
        headers = read_headers(block)
        fates = self._fates(headers, block)
        self._count_in(headers)
        stays: dict[int, Stays] = {}
        is_read = ~fates.drops_records & (headers.record_count != 0)
        read = np.flatnonzero(is_read & ~self._is_superseded(headers))
        if read.size:
            self._filter_records(block, headers, fates, read, stays)
        for at in np.flatnonzero(fates.stays_empty).tolist():
            if at not in stays:
                stays[at] = empty(headers[at]) if headers[at].record_count else at
        self._outcome.is_changed |= any(stays.get(at) != at for at in range(len(batches)))
        left = [stays[at] for at in sorted(stays)]
        self._count_out([batches[each] if isinstance(each, int) else each for each in left])
        return left

    def _fates(self, headers: Headers, block: Block) -> _Fates:
        drops, may_go = np.zeros((2, len(headers)), np.bool_)
        for at in np.flatnonzero(headers.is_of_transaction).tolist():
            header = headers[at]
            if header.is_control:
                may_go[at] = note_marker(self._transactions, at, header, block.batch(at))
                drops[at] = may_go[at] and self._is_past_horizon(header)
            else:
                drops[at] = self._transactions.on_batch(header)
        stays = headers.last_offset + 1 == self._end
        if self._rules.last_sequences:
            for at in np.flatnonzero(headers.has_producer_id & ~stays).tolist():
                stays[at] = self._holds_last_sequence(headers[at])
        return _Fates(drops, stays, may_go)

    def _is_superseded(self, headers: Headers) -> Choice:
        """Say of which batches nothing stays, as offsets tell it: they need not be unpacked.

        Those of the head that lack no offset, so that their headers say which offsets they have. A
        block that begins in the head is all of it, as base offsets rise, and no key is looked up
        any more.
        """
        summary = self._rules.summary
        if summary.has_keyless or not len(headers) or headers.base_offset[0] < summary.first_offset:
            return np.zeros(len(headers), np.bool_)
        summary.keep_offsets()
        first, last = headers.base_offset, headers.last_offset
        is_told: Choice = (headers.record_count == last - first + 1) & ~headers.is_control
        is_told &= (headers.record_count > 0) & (last < self._end)
        return is_told & ~summary.has_latest(first, last)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        has_horizon = header.attributes & DELETE_HORIZON
        return bool(has_horizon) and header.base_timestamp <= self._now_ms

    def _holds_last_sequence(self, header: BatchHeader) -> bool:
        last = self._rules.last_sequences.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _filter_records(
        self,
        block: Block,
        headers: Headers,
        fates: _Fates,
        read: Places,
        stays: dict[int, Stays],
    ) -> None:
        """Say what stays of the batches at `read`. Errors: CorruptBatch."""
        columns = columns_of(block, headers, read)
        headers = headers.take(read)
        keeps = self._keeps(columns, headers)
        is_tombstone = keeps & ~columns.has_value
        is_data = ~headers.is_control
        keyed = keeps & (columns.key_size >= 0)
        self._outcome.tombstones += int(np.count_nonzero(keyed & ~columns.has_value))
        self._outcome.keyed += int(np.count_nonzero(keyed & is_data[columns.batch]))
        tombstones = _per_batch(is_tombstone, columns.first)
        gets_horizon = fates.may_go[read] | (is_data & (tombstones > 0))
        gets_horizon &= ~headers.has_delete_horizon & (headers.last_offset < self._end)
        kept = choose(columns, keeps)
        is_left = kept.counts > 0
        is_whole = kept.counts == headers.record_count
        is_same = is_left & is_whole & ~gets_horizon
        is_cut = is_left & ~is_whole & ~gets_horizon
        for place in np.flatnonzero(is_same).tolist():
            stays[int(read[place])] = int(read[place])
        cut = np.flatnonzero(is_cut)
        for place, data in zip(cut.tolist(), cut_out(headers.take(cut), kept, cut), strict=True):
            is_cut[place] = len(data) <= self._bytes_max(headers[place])
            stays[int(read[place])] = data
        for place in np.flatnonzero(is_left & ~is_same & ~is_cut).tolist():
            horizon = self._new_horizon() if gets_horizon[place] else None
            at, is_complete = int(read[place]), bool(is_whole[place])
            rebuilt = self._rebuilt(headers[place], kept, place, horizon, is_whole=is_complete)
            bytes_max = self._bytes_max(headers[place])
            if rebuilt is not None and len(rebuilt) > bytes_max:
                what = f"its records that stay take {len(rebuilt)} bytes,"
                what = f"{what} {bytes_max} fit"
                raise CorruptBatch(at, headers[place].base_offset, what)
            stays[at] = at if rebuilt is None else rebuilt

    def _rebuilt(
        self, header: BatchHeader, kept: Kept, place: int, horizon: int | None, *, is_whole: bool
    ) -> bytes | None:
        """Return the batch anew; None: as it is, because with a horizon it would be too large.

        Timestamps become some bytes longer with a horizon, and a codec may pack worse than the
        producer's did. Delete markers that get no horizon stay until their batch has room. What
        cannot be packed into a batch any more is returned too large.
        """
        bytes_max = self._bytes_max(header)
        if horizon is not None:
            rebuilt = rebuild(header, kept, place, horizon)
            if len(rebuilt) <= bytes_max:
                return rebuilt
            if is_whole:
                return None
        rebuilt = rebuild(header, kept, place, None)
        if len(rebuilt) > bytes_max and header.codec in TIGHTEST:
            rebuilt = rebuild(header, kept, place, None, TIGHTEST[header.codec])
        return rebuilt

    def _bytes_max(self, header: BatchHeader) -> int:
        """Return how large a batch may become: what is stored already has room where it goes."""
        return max(self._rules.batch_bytes_max, header.size_bytes)

    def _keeps(self, columns: Columns, headers: Headers) -> Choice:
        """Say of each record whether it stays."""
        judged = (columns.offset < self._end) & ~headers.is_control[columns.batch]
        keyed = judged & (columns.key_size >= 0)
        keeps = ~judged
        is_latest = self._is_latest(columns, keyed)
        past = headers.has_delete_horizon & (headers.base_timestamp <= self._now_ms)
        is_wanted = columns.has_value[keyed] | ~past[columns.batch[keyed]]
        keeps[keyed] = is_latest & is_wanted
        self._outcome.invalid += int(np.count_nonzero(judged & ~keyed))
        return keeps

    def _is_latest(self, columns: Columns, keyed: Choice) -> Choice:
        """Say of keyed records whether no later one has their key.

        What lies before the head is looked up by key; the head's own are told by their offsets.
        """
        summary, offsets = self._rules.summary, columns.offset[keyed]
        count = int(np.searchsorted(offsets, summary.first_offset))
        is_latest = np.zeros(len(offsets), np.bool_)
        if count:
            before = keyed & (columns.offset < summary.first_offset)
            is_latest[:count] = offsets[:count] >= summary.find(keys_of(columns, before))
        if count < len(offsets):
            summary.keep_offsets()
            is_latest[count:] = summary.is_latest(offsets[count:])
        return is_latest

    def _new_horizon(self) -> int:
        return min(self._now_ms + self._rules.delete_retention_ms, TIMESTAMP_MAX)

    def _count_in(self, headers: Headers) -> None:
        outcome = self._outcome
        outcome.batches_in += len(headers)
        outcome.bytes_in += int(headers.size_bytes.sum())
        outcome.records_in += int(headers.record_count.sum())

    def _count_out(self, batches: Sequence[Buffer]) -> None:
        """Count what is written, by what it says itself."""
        if not batches:
            return
        outcome, headers = self._outcome, Headers.of(batches)
        if not outcome.batches:
            outcome.first_timestamp = int(headers.max_timestamp[0])
        outcome.batches += len(headers)
        outcome.records += int(headers.record_count.sum())
        outcome.bytes_out += int(headers.size_bytes.sum())
        outcome.max_timestamp = max(outcome.max_timestamp, int(headers.max_timestamp.max()))
        outcome.last_offset = int(headers.last_offset[-1])


def _per_batch(flags: Choice, first: Ints) -> Ints:
    """Count flags per batch; `first` says where each batch's records begin, and the end."""
    sums = np.concatenate(([0], np.cumsum(flags)))
    counts: Ints = np.diff(sums[first])
    return counts
