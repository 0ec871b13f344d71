"""Which batches belong to aborted transactions, and which markers have nothing left to end. Pure.

Batches are shown in offset order; those of no transaction need not be. A marker may go once a pass
met no batch of its transaction any more; batches that stay empty for their producer's sequence are
still batches of it.
Source: CleanedTransactionMetadata (reference Kafka 9.5).
"""

from collections.abc import Sequence

from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import BatchHeader
from tailrace.protocol.records.control import read_marker


class CleanedTransactions:
    """The transactions of the part of a log that one walk goes over."""

    def __init__(self, aborted: Sequence[AbortedRange]) -> None:
        """`aborted`: all that have records in the part, wherever they begin and end."""
        self._waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, bool] = {}
        """By producer: whether a batch of its aborted transaction was met."""
        self._committed: set[int] = set()

    def on_batch(self, header: BatchHeader) -> bool:
        """Note a batch of records; return whether it was aborted, so that all of it may go."""
        self._begin_up_to(header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._committed.add(header.producer_id)
        return False

    def on_control(self, header: BatchHeader, batch: Buffer) -> bool:
        """Note a control batch; return whether it may go: it ends nothing that is left.

        Errors: DecodeError of a marker that is none.
        """
        self._begin_up_to(header)
        marker = read_marker(batch)
        if marker is None:  # it was emptied, as nothing of its transaction was left
            self._aborted.pop(header.producer_id, None)
            self._committed.discard(header.producer_id)
            return True
        if not marker.committed:
            return not self._aborted.pop(header.producer_id, False)
        was_met = header.producer_id in self._committed
        self._committed.discard(header.producer_id)
        return not was_met

    def _begin_up_to(self, header: BatchHeader) -> None:
        """Begin transactions that reach into a batch; those that ended before it are over."""
        while self._waiting and self._waiting[-1].first_offset <= header.last_offset:
            begun = self._waiting.pop()
            if begun.last_offset >= header.base_offset:
                self._aborted.setdefault(begun.producer_id, False)
