"""One partition's way from its start to its end: what is read, left out, counted. Pure.

A fold advances by the ends of batches and never by records, so it ends whatever compaction took
out before the end and whatever markers stand there: it is done when the next offset to fetch is at
or behind the end. Every offset of the range is counted once:

    end - start = records + aborted + markers + gaps

Aborted transactions are told as a consumer is told: the list in the answer, and the markers that
end them. Source: reference Kafka 3.1, 3.2, 4.5; CompletedFetch.nextFetchedRecord.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from tailrace.compaction.restoring.errors import CorruptBatch
from tailrace.compaction.restoring.records import Changes, Taken, take_batch, take_range
from tailrace.core.runtime.stored_json import Natural
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader, check_crc, split_batches, unpack_header
from tailrace.protocol.records.control import read_marker
from tailrace.protocol.records.record import iter_records


class Aborted(NamedTuple):
    """One aborted transaction that touches what was fetched."""

    producer_id: int
    first_offset: Offset


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a partition is. Shape: `start` <= `position`; `end` exclusive; offsets and bytes."""

    start: Natural
    end: Natural
    position: Natural
    """The next offset to fetch; may lie behind `end` when it is done."""
    records: Natural = 0
    """Committed records of users, tombstones and keyless ones among them."""
    tombstones: Natural = 0
    keyless: Natural = 0
    """Records without a key: they are counted, nothing else can be done with them."""
    bytes: Natural = 0
    """Of keys and values of these records."""
    aborted: Natural = 0
    """Records of transactions that were given up."""
    markers: Natural = 0
    """Records that end transactions."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to fetch."""
        return self.position >= self.end

    @property
    def gaps(self) -> int:
        """Offsets passed so far that the log has no record for any more."""
        passed = min(self.position, self.end) - self.start
        return max(passed, 0) - self.records - self.aborted - self.markers


def next_offset(records: Buffer, place: str) -> Offset | None:
    """Return the offset after the last whole batch; None if there is none.

    Errors: CorruptBatch. Cost: looks at headers only.
    """
    last = None
    try:
        for at, _ in split_batches(records):
            last = at
    except DecodeError as error:
        raise corrupt(error, place) from error
    return None if last is None else unpack_header(records, last).last_offset + 1


def fold(
    progress: Progress, records: Buffer, aborted: Iterable[Aborted], changes: Changes, place: str
) -> None:
    """Fold an answer's batches into `changes` and advance `progress` behind the last one.

    Errors: CorruptBatch; then `progress` is at the batch, and `changes` may hold a part of it.
    Cost: CRC and decompression of each batch, 0.25 us a record.
    """
    given_up = _GivenUp(sorted(aborted, key=itemgetter(1)))
    view = memoryview(records)
    try:
        for at, end in split_batches(view):
            if progress.is_done:
                return
            _fold_batch(progress, view[at:end], given_up, changes)
    except DecodeError as error:
        raise corrupt(error, f"{place} at offset {progress.position}") from error


def corrupt(error: DecodeError, place: str) -> CorruptBatch:
    """Say that what came is no batch."""
    return CorruptBatch(
        f"a corrupt batch: {error}",
        place=place,
        remedy="read it from another replica, or repair it (`tailrace log check`); the restore "
        "goes on from its checkpoint",
    )


class _GivenUp:
    """Which producers' transactional batches are left out at this place of an answer."""

    def __init__(self, coming: Sequence[Aborted]) -> None:
        self._coming = coming
        self._at = 0
        self._producers: set[int] = set()

    def reach(self, last_offset: Offset) -> None:
        """Take in the transactions that began by this offset."""
        while self._at < len(self._coming):
            transaction = self._coming[self._at]
            if transaction.first_offset > last_offset:
                return
            self._producers.add(transaction.producer_id)
            self._at += 1

    def end(self, batch: Buffer, header: BatchHeader) -> None:
        """Let a producer's next transaction count again, after an abort marker."""
        marker = read_marker(batch) if header.is_transactional else None
        if marker is not None and not marker.committed:
            self._producers.discard(header.producer_id)

    def has(self, header: BatchHeader) -> bool:
        """Say whether a batch belongs to a transaction that was given up."""
        return header.is_transactional and header.producer_id in self._producers


def _fold_batch(
    progress: Progress, batch: memoryview, given_up: _GivenUp, changes: Changes
) -> None:
    header = unpack_header(batch)
    check_crc(header, batch)
    if header.last_offset < progress.position:
        return  # an answer may begin with batches from before the position
    given_up.reach(header.last_offset)
    if header.is_control:
        given_up.end(batch, header)
        progress.markers += _count(progress, batch, header)
    elif given_up.has(header):
        progress.aborted += _count(progress, batch, header)
    else:
        _add(progress, _take(progress, batch, header, changes))
    progress.position = header.last_offset + 1


def _take(progress: Progress, batch: memoryview, header: BatchHeader, changes: Changes) -> Taken:
    if _is_inside(progress, header):
        return take_batch(header, batch, changes)
    return take_range(batch, progress.position, progress.end, changes)


def _count(progress: Progress, batch: memoryview, header: BatchHeader) -> int:
    if _is_inside(progress, header):
        return header.record_count
    inside = range(progress.position, progress.end)
    return sum(record.offset in inside for record in iter_records(batch))


def _is_inside(progress: Progress, header: BatchHeader) -> bool:
    return progress.position <= header.base_offset and header.last_offset < progress.end


def _add(progress: Progress, taken: Taken) -> None:
    progress.records += taken.records
    progress.tombstones += taken.tombstones
    progress.keyless += taken.keyless
    progress.bytes += taken.bytes
