"""Logs as a cleaner leaves them, drawn by Hypothesis, and what a slow reader sees in them."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tailrace.compaction.restoring.fold import Aborted
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    pack_header,
    stamp,
    stamp_crc,
)
from tailrace.protocol.records.control import EndTransaction, build_marker
from tailrace.protocol.records.record import Producer, Record, build_batch


@dataclass(slots=True)
class Transaction:
    producer_id: int
    first: int
    last: int = -1
    committed: bool = False


@dataclass(slots=True)
class Log:
    """Batches by base offset, and what is true about them."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """First and last offset, and the bytes."""
    end: int = 0
    records: list[tuple[Record, Transaction | None]] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    markers: int = 0

    def aborted(self, first: int) -> list[Aborted]:
        """Return what a broker lists for an answer from `first` on."""
        return [
            Aborted(each.producer_id, each.first)
            for each in self.transactions
            if not each.committed and each.last >= first
        ]

    def visible(self, start: int) -> list[Record]:
        """Return what a read_committed consumer sees from `start` on."""
        return [
            record
            for record, transaction in self.records
            if record.offset >= start and (transaction is None or transaction.committed)
        ]

    def latest(self, start: int = 0) -> dict[bytes, bytes]:
        """Fold what is visible, slowly."""
        values: dict[bytes, bytes] = {}
        for record in self.visible(start):
            if record.key is None:
                continue
            values.pop(record.key, None)
            if record.value is not None:
                values[record.key] = record.value
        return values

    def append(self, batch: bytearray, last: int) -> None:
        self.batches.append((self.end, last, bytes(batch)))
        self.end = last + 1


keys = st.none() | st.binary(max_size=2)
values = st.none() | st.binary(max_size=3) | st.binary(min_size=60, max_size=300)
headers = st.sampled_from([(), (("h", b"x"), ("empty", None))])
codecs = st.sampled_from(list(Codec))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Yield a log without open transactions: its end is its last stable offset."""
    log = Log(end=draw(st.integers(0, 5)))
    open_ones: dict[int, Transaction] = {}
    for _ in range(draw(st.integers(0, 12))):
        producer = draw(st.sampled_from([-1, 7, 8]))
        kind = draw(st.sampled_from(["records", "records", "records", "end", "empty", "hole"]))
        if kind == "hole":  # whole batches are gone
            log.end += draw(st.integers(1, 50))
        elif kind == "empty":
            add_empty(log, draw(st.integers(0, 5)), producer)
        elif kind == "end":
            end_transaction(log, open_ones.pop(producer, None), draw(st.booleans()))
        else:
            add_records(draw, log, producer, open_ones)
    for transaction in open_ones.values():
        end_transaction(log, transaction, draw(st.booleans()))
    return log


def add_records(
    draw: st.DrawFn, log: Log, producer_id: int, open_ones: dict[int, Transaction]
) -> None:
    offset = log.end - 1
    records = []
    for _ in range(draw(st.integers(1, 6))):
        offset += draw(st.sampled_from([1, 1, 1, 3, 200]))
        records.append(
            Record(
                offset=offset,
                timestamp=draw(st.integers(0, 1 << 41)),
                key=draw(keys),
                value=draw(values),
                headers=draw(headers),
            )
        )
    transaction = None
    if producer_id >= 0:
        transaction = open_ones.get(producer_id)
        if transaction is None:
            transaction = open_ones[producer_id] = Transaction(producer_id, log.end)
            log.transactions.append(transaction)
    batch = build_batch(
        records,
        codec=draw(codecs),
        base_offset=log.end,
        producer=Producer(producer_id, 0, 0 if producer_id >= 0 else -1),
        attributes=TRANSACTIONAL if producer_id >= 0 else 0,
    )
    log.records += [(record, transaction) for record in records]
    log.append(batch, offset)


def add_empty(log: Log, last_delta: int, producer_id: int) -> None:
    """Add what the cleaner keeps of a batch for its producer's sequence or the log's end."""
    header = BatchHeader(
        log.end, HEADER_SIZE - LOG_OVERHEAD, 0, MAGIC, 0, 0, last_delta, -1, 5, producer_id, 0, 3, 0
    )
    batch = bytearray(pack_header(header))
    stamp_crc(batch)
    log.append(batch, log.end + last_delta)


def end_transaction(log: Log, transaction: Transaction | None, committed: bool) -> None:
    if transaction is None:
        return
    transaction.committed = committed
    transaction.last = log.end
    marker = build_marker(transaction.producer_id, 0, EndTransaction(committed, 1), 0)
    stamp(marker, log.end, 0)
    log.markers += 1
    log.append(marker, log.end)
