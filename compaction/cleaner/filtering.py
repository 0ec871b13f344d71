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

from compaction.cleaner.building import columns_of, keys_of, note_marker
from compaction.cleaner.cleanable import AbortedRange, LastSequence
from compaction.cleaner.columns import Choice, Columns, Ints, read_headers
from compaction.cleaner.errors import CorruptBatch
from compaction.cleaner.key_summary import KeySummary
from compaction.cleaner.outcome import KeptBatch, SegmentOutcome
from compaction.cleaner.rebuilding import TIGHTEST, Kept, choose, empty, rebuild
from compaction.cleaner.transactions import CleanedTransactions
from protocol.ids import Buffer, Offset
from protocol.records.batch import DELETE_HORIZON, BatchHeader

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


class _Fate(NamedTuple):
    """What is decided of a batch before its records are looked at."""

    at: int
    """Its place in the block."""
    header: BatchHeader
    drops_records: bool
    stays_empty: bool
    may_go: bool
    """A marker whose transaction has nothing left: it gets a horizon."""


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

    def filter(self, batches: Sequence[Buffer]) -> list[KeptBatch]:
        """Return what stays of a block of batches, in order. Errors: CorruptBatch."""
        headers = read_headers(batches)
        fates = [self._fate(at, header, batches[at]) for at, header in enumerate(headers)]
        self._count_in(batches, headers)
        read = [each.at for each in fates if not each.drops_records and each.header.record_count]
        kept: list[KeptBatch | None] = [None] * len(batches)
        if read:
            self._filter_records(batches, headers, [fates[at] for at in read], kept)
        for fate in fates:
            if kept[fate.at] is None and fate.stays_empty:
                kept[fate.at] = self._emptied(fate.header, batches[fate.at])
        return self._count_out(kept)

    def _fate(self, at: int, header: BatchHeader, batch: Buffer) -> _Fate:
        if header.is_control:
            may_go = note_marker(self._transactions, at, header, batch)
            drops = may_go and self._is_past_horizon(header)
        else:
            may_go = False
            drops = self._transactions.on_batch(header)
        stays = header.last_offset + 1 == self._end or self._holds_last_sequence(header)
        return _Fate(at, header, drops, stays, may_go)

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        has_horizon = header.attributes & DELETE_HORIZON
        return bool(has_horizon) and header.base_timestamp <= self._now_ms

    def _holds_last_sequence(self, header: BatchHeader) -> bool:
        last = self._rules.last_sequences.get(header.producer_id)
        if last is None or not header.has_producer_id:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _filter_records(
        self,
        batches: Sequence[Buffer],
        headers: Sequence[BatchHeader],
        fates: Sequence[_Fate],
        kept: list[KeptBatch | None],
    ) -> None:
        columns = columns_of(batches, headers, [fate.at for fate in fates])
        keeps = self._keeps(columns, fates)
        is_tombstone = keeps & ~columns.has_value
        chosen = choose(columns, keeps)
        tombstones = _per_batch(is_tombstone, columns.first)
        self._outcome.tombstones += int(np.count_nonzero(is_tombstone & (columns.key_size >= 0)))
        self._outcome.keyed += self._count_keyed(columns, keeps, fates)
        for place, fate in enumerate(fates):
            count = chosen.first[place + 1] - chosen.first[place]
            if not count:
                continue
            horizon = self._new_horizon(fate, has_tombstones=bool(tombstones[place]))
            is_whole = count == fate.header.record_count
            rebuilt = None
            if horizon is not None or not is_whole:
                rebuilt = self._rebuilt(fate, chosen, place, horizon, is_whole=is_whole)
            if rebuilt is None:
                rebuilt = KeptBatch(batches[fate.at], fate.header, is_changed=False)
            kept[fate.at] = rebuilt

    def _rebuilt(
        self, fate: _Fate, chosen: Kept, place: int, horizon: int | None, *, is_whole: bool
    ) -> KeptBatch | None:
        """Return the batch anew; None: as it is, because with a horizon it would be too large.

        Timestamps become some bytes longer with a horizon, and a codec may pack worse than the
        producer's did. Delete markers that get no horizon stay until their batch has room.
        Errors: CorruptBatch, if what is left cannot be packed into a batch any more.
        """
        header, bytes_max = fate.header, self._rules.batch_bytes_max
        if horizon is not None:
            rebuilt = rebuild(header, chosen, place, horizon)
            if len(rebuilt.data) <= bytes_max:
                return rebuilt
            if is_whole:
                return None
        rebuilt = rebuild(header, chosen, place, None)
        if len(rebuilt.data) > bytes_max and header.codec in TIGHTEST:
            rebuilt = rebuild(header, chosen, place, None, TIGHTEST[header.codec])
        if len(rebuilt.data) <= bytes_max:
            return rebuilt
        what = f"its records that stay take {len(rebuilt.data)} bytes, {bytes_max} fit"
        raise CorruptBatch(fate.at, header.base_offset, what)

    def _count_keyed(self, columns: Columns, keeps: Choice, fates: Sequence[_Fate]) -> int:
        is_data = np.array([not fate.header.is_control for fate in fates], np.bool_)
        return int(np.count_nonzero(keeps & (columns.key_size >= 0) & is_data[columns.batch]))

    def _keeps(self, columns: Columns, fates: Sequence[_Fate]) -> Choice:
        """Say of each record whether it stays."""
        control = np.array([fate.header.is_control for fate in fates], np.bool_)[columns.batch]
        judged = (columns.offset < self._end) & ~control
        keyed = judged & (columns.key_size >= 0)
        keeps = ~judged
        is_latest = self._is_latest(columns, keyed)
        past = np.array([self._is_past_horizon(fate.header) for fate in fates], np.bool_)
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

    def _new_horizon(self, fate: _Fate, *, has_tombstones: bool) -> int | None:
        """Return the horizon that a batch gets now; None: it has one, or needs none."""
        header = fate.header
        if header.attributes & DELETE_HORIZON or header.last_offset >= self._end:
            return None
        if fate.may_go or (has_tombstones and not header.is_control):
            return min(self._now_ms + self._rules.delete_retention_ms, TIMESTAMP_MAX)
        return None

    def _emptied(self, header: BatchHeader, batch: Buffer) -> KeptBatch:
        if not header.record_count:
            return KeptBatch(batch, header, is_changed=False)
        return empty(header)

    def _count_in(self, batches: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        outcome = self._outcome
        outcome.batches_in += len(batches)
        outcome.bytes_in += sum(map(len, batches))
        outcome.records_in += sum(header.record_count for header in headers)

    def _count_out(self, kept: Sequence[KeptBatch | None]) -> list[KeptBatch]:
        outcome = self._outcome
        left = [batch for batch in kept if batch is not None]
        outcome.is_changed |= len(left) < len(kept) or any(each.is_changed for each in left)
        for data, header, _ in left:
            if not outcome.batches:
                outcome.first_timestamp = header.max_timestamp
            outcome.batches += 1
            outcome.records += header.record_count
            outcome.bytes_out += len(data)
            outcome.max_timestamp = max(outcome.max_timestamp, header.max_timestamp)
            outcome.last_offset = header.last_offset
        return left


def _per_batch(flags: Choice, first: Ints) -> Ints:
    """Count flags per batch; `first` says where each batch's records begin, and the end."""
    sums = np.concatenate(([0], np.cumsum(flags)))
    counts: Ints = np.diff(sums[first])
    return counts
