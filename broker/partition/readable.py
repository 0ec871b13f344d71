"""What readers see of an open partition: batches, watermarks, epochs, what was aborted.

The state that readers see is changed by the one who writes (`PartitionLog`); nothing here does.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tailrace.broker.partition.aborted import AbortedTransaction
from tailrace.broker.partition.bookmarks import Bookmarks
from tailrace.broker.partition.found import NOTHING, Found
from tailrace.broker.partition.leader_epochs import LeaderEpochs
from tailrace.broker.partition.reads import OpenReaders, ReadRange, Source
from tailrace.broker.partition.segment_state import PartitionState
from tailrace.broker.partition.segments import SegmentCatalog
from tailrace.broker.partition.tail_cache import TailCache
from tailrace.broker.partition.unstable import UnstableOffsets
from tailrace.broker.partition.waiters import Waiters
from tailrace.core.errors import CorruptData, LogTruncated
from tailrace.core.log.log import Log
from tailrace.core.log.reader_settings import ReadRules
from tailrace.core.log.resume import Place
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.fair_lane import FairLane
from tailrace.core.runtime.fair_queue import Named
from tailrace.protocol.compression import Codec
from tailrace.protocol.errors import ErrorCode, ProtocolError
from tailrace.protocol.ids import Buffer, Offset, TopicPartition
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.recompress import StoredAs, recompress


class SharedParts(NamedTuple):
    """What all partitions of a broker share."""

    clock: Clock
    cache: TailCache
    readers: OpenReaders
    lane: FairLane
    """For what is too much for the loop."""


class ReadablePartition:
    """An open partition, as readers see it.

    `leader_epoch`: higher than that of any owner before, whether that wrote anything or not.
    `log_start_offset`: first offset that is kept. `high_watermark`: first that is not readable.
    `log_end_offset`: the end, readable or not. These three rise only.
    """

    is_follower = False
    """Whether another broker owns it: then what this one sees is not all there is."""

    def __init__(self, partition: TopicPartition, log: Log, shared: SharedParts) -> None:
        self.partition = partition
        self.log = log
        self.state = PartitionState(shared.clock.now_ms())
        self.tail = shared.cache.partition()
        self.waiters = Waiters()
        self.segments = SegmentCatalog(log, self.state)
        self.epochs = LeaderEpochs()
        self.leader_epoch = -1
        self.log_start_offset: Offset = 0
        self.high_watermark: Offset = 0
        self.log_end_offset: Offset = 0
        self.topic_id: bytes = b""
        """Of the topic that it was opened for; a topic made again has another."""
        self.failure: ErrorCode | None = None
        """Why nothing goes in or out any more."""
        self._readers = shared.readers
        self._lane = shared.lane
        self._source = Source(log, Bookmarks(), self.locate, self.tail.holds)
        self._unstable = UnstableOffsets()

    async def unpacked(self, batch: Buffer) -> Buffer:
        """Return a whole batch without compression, unpacked where the loop does not wait for it.

        Errors: CorruptData; OverCapacity: too much waits for the lane.
        """
        header = read_header(batch)
        plain = StoredAs(Codec.NONE, None)
        try:
            work = partial(recompress, batch, header, plain)
            return await self._lane.call(Named(str(self.partition)), work)
        except ProtocolError as error:
            raise CorruptData(f"batch at offset {header.base_offset}: {error}") from error

    def read_tail(
        self, offset: Offset, max_bytes: int, *, at_least_one: bool, committed: bool = False
    ) -> Found | None:
        """Return whole batches from the one that holds `offset` on, from memory.

        Shape: nothing at the high watermark, or at the last stable offset if `committed`; the first
        batch even above `max_bytes` if `at_least_one`. None if the tail cache does not have them:
        then `read_log` does.
        """
        end = self.end_for(committed=committed)
        if offset >= end:
            return NOTHING
        return self.tail.read(offset, max_bytes, at_least_one=at_least_one, end=end)

    async def read_log(
        self, offset: Offset, max_bytes: int, *, at_least_one: bool, committed: bool = False
    ) -> Found:
        """Return the same from the bookies. Errors: CoreError."""
        end = self.end_for(committed=committed)
        if offset >= end:
            return NOTHING
        span = ReadRange(offset, end, max_bytes, at_least_one)
        return await self._readers.read(self._source, span)

    async def read(self, offset: Offset, max_bytes: int) -> Sequence[Buffer]:
        """Return whole batches from the one that holds `offset`: at least one if there is any.

        Shape: empty at the high watermark. Errors: CoreError, LogTruncated below the log start.
        """
        if offset < self.log_start_offset:
            raise LogTruncated(f"offset {offset}, log start {self.log_start_offset}")
        found = self.read_tail(offset, max_bytes, at_least_one=True)
        if found is None:
            found = await self.read_log(offset, max_bytes, at_least_one=True)
            self._readers.ask_ahead()
        return found.parts

    async def read_around(self, offset: Offset, max_bytes: int) -> Sequence[Buffer]:
        """Return what `read` does, without batches in entries that cannot be read from any copy.

        Errors: CoreError.
        """
        near = await self.locate(offset)
        if near is None:
            return []
        rules = ReadRules(skips_damaged=True)
        reader = await self.log.open_reader(offset, near, reads_ahead=False, rules=rules)
        try:
            entries = await reader.read_entries(max_bytes)
        finally:
            await reader.close()
        end = self.high_watermark
        return [
            batch
            for entry in entries
            for txid, batch in zip(entry.columns.txids, entry.columns.payloads, strict=True)
            if offset <= txid < end
        ]

    async def locate(self, offset: Offset) -> Place | None:
        """Return a place from which on a reader meets `offset`. Errors: CoreError."""
        return self.segments.position(offset) or await self.log.find(offset)

    def end_for(self, *, committed: bool) -> Offset:
        """Return the first offset that a reader may not see."""
        return self.last_stable_offset if committed else self.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """First offset that a reader of committed records may not see.

        The oldest open transaction begins there, or one whose marker is not confirmed; never below
        the log start, which DeleteRecords may move beyond either.
        """
        unstable = self._unstable.first
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def aborted_in_memory(self, first: Offset, last: Offset) -> list[AbortedTransaction] | None:
        """Return the same as `aborted_between`, or None if that would have to read."""
        return self.segments.aborted_in_memory(first, last)

    async def aborted_between(self, first: Offset, last: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions with records among offsets `first` to `last`.

        Shape: both inclusive, `last` below the last stable offset. Errors: CoreError. Cost: none
        outside memory unless `first` lies in a segment that a former owner completed.
        """
        return await self.segments.aborted_between(first, last)

    def check_epoch(self, epoch: int) -> ErrorCode:
        """Compare a client's leader epoch with ours; -1 is not compared."""
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        if epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    async def is_there(self, offset: Offset) -> bool:
        """Return whether the log has an offset, as far as its owner says. Errors: none."""
        return offset <= self.log_end_offset

    def end_of_epoch(self, epoch: int) -> tuple[int, Offset]:
        """Return the largest epoch up to `epoch` and where it ends; (-1, -1) if unknown."""
        return self.epochs.end_of(epoch, self.high_watermark)
