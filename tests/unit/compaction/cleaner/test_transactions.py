"""Whose batches are aborted, where a marker was emptied."""

from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.compaction.cleaner.rebuilding import empty
from tailrace.compaction.cleaner.transactions import CleanedTransactions
from tailrace.protocol.records.batch import TRANSACTIONAL, read_header
from tailrace.protocol.records.control import EndTransaction, build_marker
from tailrace.protocol.records.record import Producer, Record, build_batch

PRODUCER = 7


def test_an_emptied_marker_ends_its_transaction_for_the_next_one() -> None:
    marker = build_marker(PRODUCER, 0, EndTransaction(committed=False, coordinator_epoch=1), 1)
    emptied = empty(read_header(marker))
    header = read_header(emptied)
    transactions = CleanedTransactions([AbortedRange(PRODUCER, 0, header.last_offset)])
    assert transactions.on_control(header, emptied), "it ends nothing that is left"
    data = build_batch(
        [Record(5, 1, key=b"k", value=b"v")], 0, 5, Producer(PRODUCER, 0, 0), TRANSACTIONAL
    )
    assert not transactions.on_batch(read_header(data)), "it belongs to no aborted transaction"
