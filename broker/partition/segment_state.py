"""What a partition's owner keeps per log segment (D6), and how it is written down.

Pure. `core.log` calls it while it writes and while it opens a log; the bytes go into the first
control record of a segment (snapshot: the state before it) and the last (index: what it holds,
beside a snapshot of the state after it). State follows the log, not the appends: a batch counts
when its position is known (`observe`), so a snapshot never speaks of a batch that a crash may still
take away. The appends' own view of producers, which runs ahead of it, is `PartitionLog`'s.

    snapshot := u8 version 3 | i64 next offset | leader epochs | producers | aborted holders
    index    := u8 version 3 | segment index | aborted transactions

Older versions are read. A snapshot of version 2 does not say which segments hold aborted
transactions; an index of version 2 has no counts (first timestamp, tombstones, keys). Version 1
knows no transactions: no coordinator epoch and no first offset with a producer, no aborted ones.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error

from tailrace.broker.partition.aborted import AbortedHolders, AbortedIndex, AbortedTransaction
from tailrace.broker.partition.leader_epochs import LeaderEpochs
from tailrace.broker.partition.offsets import SegmentIndex
from tailrace.broker.partition.producers import Producers
from tailrace.core.errors import CorruptData
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, RecordParts
from tailrace.protocol.errors import BadValue, BufferUnderflow, ProtocolError
from tailrace.protocol.ids import Buffer, EntryId, LedgerId, Offset
from tailrace.protocol.records.batch import CONTROL, LOG_APPEND_TIME, BatchHeader, read_header
from tailrace.protocol.records.control import read_marker

VERSION = 3
"""Of snapshots."""
_VERSIONS_READ = (1, 2, VERSION)
_HOLDERS_SINCE = 3
INDEX_VERSION = 3
"""Raised by counts."""
_ABORTED_SINCE = 2
_COUNTS_SINCE = 3
SEGMENTS_KEPT = 8
"""Indexes kept in memory; those of older segments are read when they are asked for."""

_HEAD = Struct(">Bq")


class PartitionState:
    """Producers, leader epochs and segment indexes of one partition, as of its last entry."""

    def __init__(self, now_ms: int) -> None:
        """`now_ms`: the time at which what is counted next was written; the owner moves it."""
        self.producers = Producers()
        self.epochs = LeaderEpochs()
        self.aborted = AbortedHolders()
        self.next_offset: Offset = 0
        self.now_ms = now_ms
        self.indexes: dict[int, SegmentIndex] = {}
        """Of the newest segments that this owner wrote or replayed, by sequence number."""
        self._index = SegmentIndex()
        self._lssn = -1
        self._epoch = -1

    @property
    def lssn(self) -> int:
        """Sequence number of the segment that records are counted for; -1: none so far."""
        return self._lssn

    def snapshot(self) -> bytes:
        """Return the state before the next record."""
        head = _HEAD.pack(VERSION, self.next_offset)
        return head + self.epochs.encode() + self.producers.encode() + self.aborted.encode()

    def begin_segment(self, lssn: int, ledger_id: LedgerId) -> None:
        """Have later records counted for segment `lssn`."""
        self._end_index()
        self._lssn = lssn
        self.aborted.begin_segment(lssn)
        self._index = self.indexes[lssn] = SegmentIndex(self.next_offset)
        self._index.ledger_id = ledger_id
        while len(self.indexes) > SEGMENTS_KEPT:
            del self.indexes[next(iter(self.indexes))]

    def observe(self, lssn: int, entry_id: EntryId, records: Sequence[RecordParts]) -> None:
        """Count batches whose entry is known now. Errors: CorruptData, which is our bug."""
        take = self._take
        for _, payload, _, _ in records:
            take(lssn, entry_id, payload[0])

    def index(self) -> bytes:
        """Return what the segment that is being written holds."""
        return encode_index(self.ended_index())

    def ended_index(self) -> SegmentIndex:
        """Return the same as it is kept in memory."""
        self._end_index()
        return self._index

    def restore(self, snapshot: bytes | None) -> None:
        """Forget everything and begin with a snapshot; None: before the first record.

        Errors: CorruptData.
        """
        self.producers, self.epochs, self.next_offset = Producers(), LeaderEpochs(), 0
        self.aborted = AbortedHolders()
        self.indexes.clear()
        self._epoch = self._lssn = -1
        if not snapshot:
            return
        try:
            self._restore(snapshot)
        except ProtocolError as error:
            raise CorruptData(f"segment snapshot: {error}") from error

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        """Count a record that is in the log already. Errors: CorruptData."""
        if dlsn.lssn != self._lssn:
            self.begin_segment(dlsn.lssn, LedgerId(-1))
        self._take(dlsn.lssn, dlsn.entry_id, record.payload)

    def _end_index(self) -> None:
        """Note what the segment leaves open; asked again, it is what is open by then."""
        self._index.aborted.stable_end = next(iter(self.producers.open), self.next_offset)

    def _take(self, lssn: int, entry_id: EntryId, batch: Buffer) -> None:
        try:
            header = read_header(batch)
        except ProtocolError as error:
            where = f"segment {lssn} entry {entry_id}"
            raise CorruptData(f"{where} holds no record batch: {error}") from error
        base, last = header.base_offset, header.base_offset + header.last_offset_delta
        if base < self.next_offset:
            where = f"segment {lssn} entry {entry_id}"
            raise CorruptData(f"{where} has offset {base}, expected {self.next_offset}")
        if header.partition_leader_epoch > self._epoch:
            self._epoch = header.partition_leader_epoch
            self.epochs.begin(self._epoch, base)
        if header.attributes & CONTROL:
            self._take_marker(header, batch)
        elif header.producer_id >= 0:
            self.producers.record(header, base, self.now_ms, append_time(header))
        self._index.add(base, last, entry_id, len(batch), header.max_timestamp, header.record_count)
        self.next_offset = last + 1

    def _take_marker(self, header: BatchHeader, batch: Buffer) -> None:
        offset = header.base_offset
        try:
            marker = read_marker(batch)
        except ProtocolError as error:
            raise CorruptData(f"control batch at offset {offset}: {error}") from error
        if marker is None:
            return
        ended = self.producers.end_transaction(
            header.producer_id, header.producer_epoch, marker, offset, self.now_ms
        )
        if ended is not None and not ended.committed:
            self._index.aborted.add(AbortedTransaction._make(ended[:4]))
            self.aborted.add(self._lssn)

    def _restore(self, snapshot: Buffer) -> None:
        try:
            version, next_offset = _HEAD.unpack_from(snapshot)
        except struct_error:
            raise BufferUnderflow("the bytes end inside the snapshot's head") from None
        if version not in _VERSIONS_READ:
            raise BadValue(f"snapshot version {version}")
        epochs, at = LeaderEpochs.decode(snapshot, _HEAD.size)
        producers, at = Producers.decode(snapshot, at, version)
        aborted = AbortedHolders(known_from=-1)
        if version >= _HOLDERS_SINCE:
            aborted, at = AbortedHolders.decode(snapshot, at)
        if at != len(snapshot):
            raise BadValue(f"{len(snapshot) - at} bytes after the snapshot")
        self.next_offset, self.epochs, self.producers = next_offset, epochs, producers
        self.aborted = aborted
        if epochs.entries:
            self._epoch = epochs.entries[-1].epoch


def append_time(header: BatchHeader) -> int:
    """Return the batch's log append time; -1 if it keeps the client's."""
    return header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1


def encode_index(index: SegmentIndex) -> bytes:
    """Write down what a completed segment holds."""
    return bytes((INDEX_VERSION,)) + index.encode() + index.aborted.encode()


def decode_index(data: Buffer) -> SegmentIndex:
    """Read what a completed segment holds. Errors: CorruptData."""
    try:
        if not data or not 1 <= data[0] <= INDEX_VERSION:
            raise BadValue(f"version {data[0] if data else 'missing'}")
        index, end = SegmentIndex.decode(data, 1, has_counts=data[0] >= _COUNTS_SINCE)
        if data[0] >= _ABORTED_SINCE:
            index.aborted, end = AbortedIndex.decode(data, end)
        else:
            index.aborted.stable_end = index.next_offset
        if end != len(data):
            raise BadValue(f"{len(data) - end} bytes too many")
    except ProtocolError as error:
        raise CorruptData(f"segment index: {error}") from error
    return index
