"""Looks into the files of a data directory, also beside the process that owns it: read only.

The only module of the command that knows a bookie's files. It goes the way a record took,
backwards: partition -> log stream -> segments -> ledgers -> entries -> records -> batches.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.bookie.errors import BookieError
from tailrace.bookie.inspect import BookieFiles, EntryPlace
from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.topic_codec import decode_topic
from tailrace.broker.partition.offsets import Totals
from tailrace.broker.partition.segment_state import decode_index
from tailrace.core.errors import CoreError, CorruptData, LogNotFound
from tailrace.core.log.cold.nodes import read_cold
from tailrace.core.log.entries import read_slots
from tailrace.core.log.namespace import DEFAULT_ROOT
from tailrace.core.log.owner_records import INDEX_MAGIC, OwnerPart, join_index, read_part
from tailrace.core.log.segment_nodes import read_segments
from tailrace.core.metadata.layout import LedgerPaths, LogPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.processes.standalone_config import StandaloneConfig
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import Entry, read_entry
from tailrace.protocol.compression import Codec
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.ids import EntryId, Offset, Position, TopicPartition
from tailrace.protocol.records.batch import BatchHeader, read_header
from tailrace.tools.errors import CliError


def codec_name(codec: int) -> str:
    """Return what people call a batch's codec."""
    return Codec(codec).name.lower() if codec in set(Codec) else str(codec)


class StoredEntry(NamedTuple):
    """One entry, as it lies in a file."""

    entry: Entry
    body: bytes
    place: EntryPlace
    slots: list[tuple[int, LogRecord]]


class Found(NamedTuple):
    """One record of a log: a record batch, and where it lies."""

    segment: "StoredSegment"
    stored: StoredEntry
    slot: int
    record: LogRecord
    header: BatchHeader

    @property
    def dlsn(self) -> DLSN:
        """Position in the log."""
        return DLSN(self.segment.metadata.lssn, self.stored.entry.entry_id, self.slot)

    @property
    def batch_position(self) -> Position | None:
        """Position of the batch in the file; None if the entry is compressed."""
        at = self.stored.body.find(bytes(self.record.payload))
        return None if at < 0 else self.stored.place.position + at


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """One segment of a log, with its ledger's entries in this data directory."""

    metadata: SegmentMetadata
    ledger: LedgerMetadata | None
    """None if the ledger is gone."""
    entry_ids: Sequence[EntryId]
    files: BookieFiles
    object_name: str | None = None
    """Of a segment that is in cold storage."""

    def check_is_here(self, at: TopicPartition) -> None:
        """Refuse to look for what only cold storage has. Errors: CliError."""
        if self.ledger is None and self.object_name is not None:
            raise CliError(
                f"segment {self.metadata.lssn} of {at} is in cold storage only",
                place=self.object_name,
                remedy="tailrace consume reads it",
            )

    def read(self, entry_id: EntryId) -> StoredEntry:
        """Return an entry. Errors: CliError: it is not here; CorruptData: it does not verify."""
        assert self.ledger is not None, "an entry of a ledger that is gone"
        ledger_id = self.metadata.ledger_id
        body = self.files.read(ledger_id, entry_id)
        place = self.files.locate(ledger_id, entry_id)
        if body is None or place is None:
            raise CliError(f"entry {entry_id} of ledger {ledger_id} is not in this directory")
        try:
            digest = Digest(self.ledger.digest, self.ledger.password)
            entry = read_entry(body, ledger_id, entry_id, digest)
        except ProtocolError as error:
            raise CorruptData(f"entry {entry_id} of ledger {ledger_id}: {error}") from error
        return StoredEntry(entry, body, place, read_slots(self.metadata, entry))

    def batches(self, first: EntryId = 0) -> Iterator[Found]:
        """Yield the batches from an entry on. Errors: as `read`."""
        for entry_id in self.entry_ids[bisect_left(self.entry_ids, first) :]:
            yield from self.batches_of(self.read(entry_id))

    def batches_of(self, stored: StoredEntry) -> Iterator[Found]:
        """Yield the batches of an entry. Errors: CorruptData."""
        for slot, record in stored.slots:
            if not record.is_control and not record.is_end_of_stream:
                try:
                    header = read_header(record.payload)
                except ProtocolError as error:
                    raise CorruptData(f"record {slot} is no record batch: {error}") from error
                yield Found(self, stored, slot, record, header)

    def entry_reaching(self, offset: Offset) -> EntryId | None:
        """Return the first entry with a record at or after an offset. Cost: log2(n) reads."""
        low, high = 0, len(self.entry_ids)
        while low < high:
            middle = (low + high) // 2
            slots = self.read(self.entry_ids[middle]).slots
            if slots and slots[-1][1].txid >= offset:
                high = middle
            else:
                low = middle + 1
        return self.entry_ids[low] if low < len(self.entry_ids) else None

    def find(self, offset: Offset) -> Found | None:
        """Return the batch with the first record at or after an offset."""
        start = self.entry_reaching(offset)
        if start is None:
            return None
        return next((f for f in self.batches(start) if f.header.last_offset >= offset), None)

    def totals(self) -> Totals | None:
        """Return what the segment's own index says; None if it has none (yet)."""
        parts: list[OwnerPart] = []
        for entry_id in reversed(self.entry_ids):
            part = self._index_part(entry_id)
            if part is None:
                return None
            parts.insert(0, part)
            if part.number == 0:
                return decode_index(join_index(parts).segment_index).totals
        return None

    def _index_part(self, entry_id: EntryId) -> OwnerPart | None:
        slots = self.read(entry_id).slots
        if len(slots) != 1 or not slots[0][1].is_control:
            return None
        part = read_part(slots[0][1].payload)
        return part if part is not None and part.magic == INDEX_MAGIC else None


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One partition's log stream as it lies in a data directory."""

    at: TopicPartition
    stream: str
    segments: Sequence[StoredSegment]

    def find_offset(self, offset: Offset) -> Found:
        """Return the batch that holds an offset. Errors: CliError where there is none."""
        last: Found | None = None
        for segment in self.segments:
            if not segment.metadata.in_progress and segment.metadata.last_txid < offset:
                continue
            segment.check_is_here(self.at)
            last = segment.find(offset)
            if last is not None:
                break
        if last is None:
            raise CliError(f"{self.at} ends before offset {offset}", remedy="tailrace log show")
        if last.header.base_offset > offset:
            raise CliError(
                f"{self.at} has no record at offset {offset}; the next is {last.header.base_offset}"
            )
        return last

    def find_dlsn(self, dlsn: DLSN) -> Found:
        """Return the batch at a DLSN. Errors: CliError where there is none."""
        segment = next((s for s in self.segments if s.metadata.lssn == dlsn.lssn), None)
        if segment is None:
            raise CliError(f"{self.at} has no segment {dlsn.lssn}", remedy="tailrace log show")
        segment.check_is_here(self.at)
        if segment.ledger is None or dlsn.entry_id not in segment.entry_ids:
            raise CliError(f"segment {dlsn.lssn} of {self.at} has no entry {dlsn.entry_id}")
        for found in segment.batches_of(segment.read(dlsn.entry_id)):
            if found.slot == dlsn.slot:
                return found
        raise CliError(
            f"entry {dlsn.entry_id} of segment {dlsn.lssn} has no batch in slot {dlsn.slot}",
            remedy="tailrace log dump shows control records too",
        )


def open_log(config: StandaloneConfig, at: TopicPartition) -> StoredLog:
    """Look up a partition in a data directory. Errors: CliError."""
    if not config.metadata_path.is_file():
        raise CliError(
            "there is no Tailrace data here", place=str(config.data), remedy="name it with --data"
        )
    stream = stream_name(at.topic, at.partition)
    with damage(config):
        found = asyncio.run(_read_metadata(config, at, stream))
        files = BookieFiles(SystemFiles(), config.bookie_config().ledger_directories)
        return StoredLog(at, stream, [_stored(files, *each) for each in found])


def _stored(
    files: BookieFiles,
    segment: SegmentMetadata,
    ledger: LedgerMetadata | None,
    object_name: str | None,
) -> StoredSegment:
    entry_ids = files.entry_ids(segment.ledger_id) if ledger else ()
    return StoredSegment(segment, ledger, entry_ids, files, object_name)


@contextmanager
def damage(config: StandaloneConfig) -> Iterator[None]:
    """Turn what is wrong with files into what to say of it. Errors: CliError."""
    try:
        yield
    except (CoreError, BookieError, ProtocolError, OSError) as error:
        raise CliError(f"{type(error).__name__}: {error}", place=str(config.data)) from error


async def _read_metadata(
    config: StandaloneConfig, at: TopicPartition, stream: str
) -> list[tuple[SegmentMetadata, LedgerMetadata | None, str | None]]:
    store = SqliteStore(config.metadata_path, SystemClock(), read_only=True)
    try:
        await _check_partition(store, at)
        try:
            segments = await read_segments(store, LogPaths(DEFAULT_ROOT, stream))
            cold = await read_cold(store, LogPaths(DEFAULT_ROOT, stream))
        except LogNotFound as error:
            raise CliError(f"the log stream of {at} is gone", place=stream) from error
        paths = LedgerPaths(config.bookie.ledgers_root)
        return [
            (
                segment,
                await _read_ledger(store, paths.ledger(segment.ledger_id)),
                cold[segment.lssn].name if segment.lssn in cold else None,
            )
            for segment in segments
        ]
    finally:
        await store.close()


async def _check_partition(store: MetadataStore, at: TopicPartition) -> None:
    node = await store.exists(ClusterPaths().topic(at.topic))
    if node is None:
        raise CliError(f"there is no topic {at.topic}", remedy="tailrace topic list")
    partitions = decode_topic(at.topic, node.data).partitions
    if at.partition >= partitions:
        raise CliError(
            f"topic {at.topic} has no partition {at.partition}", remedy=f"0 to {partitions - 1}"
        )


async def _read_ledger(store: MetadataStore, path: str) -> LedgerMetadata | None:
    node = await store.exists(path)
    return decode_ledger(node.data) if node is not None else None
