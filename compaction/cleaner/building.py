"""The first walk of a pass: the head of a log goes into the key summary. Pure.

Source: Cleaner.buildOffsetMap (reference Kafka 9.4).
"""

from collections.abc import Sequence

import numpy as np

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.compaction.cleaner.columns import Columns, read_columns
from tailrace.compaction.cleaner.digests import digest_places
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import Choice, Headers, read_headers
from tailrace.compaction.cleaner.key_summary import KeySummary, Places, Words
from tailrace.compaction.cleaner.transactions import CleanedTransactions
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader


class SummaryBuilder:
    """Fills a key summary with the head of one log, block by block."""

    def __init__(
        self,
        summary: KeySummary,
        first_dirty: Offset,
        aborted: Sequence[AbortedRange],
        keys_max: int | None = None,
    ) -> None:
        """`aborted`: of the head. `keys_max`: more it has not. The summary is cleared."""
        summary.clear(keys_max)
        summary.first_offset, summary.latest_offset = first_dirty, first_dirty - 1
        self._summary = summary
        self._first = first_dirty
        self._transactions = CleanedTransactions(aborted)
        self.records = 0
        """Read so far."""
        self.bytes_read = 0

    def add(self, batches: Sequence[Buffer]) -> bool:
        """Note the keys of a block of batches; return False once the summary is full.

        What it did not take any more lies behind `latest_offset`. Errors: CorruptBatch.
        """
        block = Block.of(batches)
        headers = read_headers(block)
        self.bytes_read += int(block.sizes.sum())
        self.records += int(headers.record_count.sum())
        taken = np.flatnonzero(~self._skips(headers, block))
        if taken.size and not self._put(block, headers, taken):
            return False
        if len(headers):
            self._reach(int(headers.last_offset[-1]))
        return True

    def end_segment(self, next_offset: Offset) -> None:
        """Go on to the next segment, over offsets that the last one lacks at its end."""
        self._reach(next_offset - 1)

    def _reach(self, offset: Offset) -> None:
        self._summary.latest_offset = max(self._summary.latest_offset, offset)

    def _skips(self, headers: Headers, block: Block) -> Choice:
        """Say which batches have no key to note. Errors: CorruptBatch."""
        skips: Choice = (headers.record_count == 0) | (headers.last_offset < self._first)
        for at in np.flatnonzero(headers.is_of_transaction).tolist():
            header = headers[at]
            if header.is_control:
                note_marker(self._transactions, at, header, block.batch(at))
                skips[at] = True
            elif self._transactions.on_batch(header):
                skips[at] = True
        return skips

    def _put(self, block: Block, headers: Headers, taken: Places) -> bool:
        columns = columns_of(block, headers, taken)
        has_key = columns.key_size >= 0
        self._summary.has_keyless |= not has_key.all()
        keyed = has_key & (columns.offset >= self._first)
        offsets = columns.offset[keyed]
        count = self._summary.put(keys_of(columns, keyed), offsets)
        if count == len(offsets):
            return True
        self._reach(int(offsets[count]) - 1)
        return False


def note_marker(
    transactions: CleanedTransactions, index: int, header: BatchHeader, batch: Buffer
) -> bool:
    """Show a control batch; return whether it may go. Errors: CorruptBatch."""
    try:
        return transactions.on_control(header, batch)
    except DecodeError as error:
        raise CorruptBatch(index, header.base_offset, str(error)) from None


def columns_of(block: Block, headers: Headers, taken: Places) -> Columns:
    """Read the records of some batches of a block. Errors: CorruptBatch, of the whole block."""
    if len(taken) == len(headers):
        return read_columns(block, headers)
    try:
        return read_columns(block.take(taken), headers.take(taken))
    except CorruptBatch as error:
        raise CorruptBatch(int(taken[error.index]), error.offset, error.reason) from None


def keys_of(columns: Columns, chosen: Choice) -> Words:
    """Return the digests of the keys of chosen records, which all have one."""
    return digest_places(columns.data, columns.key_at[chosen], columns.key_size[chosen])
