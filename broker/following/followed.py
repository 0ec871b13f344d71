"""A partition that another broker owns, as this one reads it for the consumers of its rack.

It begins with the newest state that an owner left in the log (its snapshot or index) and replays
what follows, as the next owner would, but owns nothing and writes nothing. So its watermarks,
leader epochs and aborted transactions are those of the owner, as of the last entry that this
process knows to be confirmed. One reader goes along the tail for all consumers: the bookies give
each entry once.
Invariant: what consumers see here, the owner has confirmed; no watermark moves back.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from tailrace.broker.following.leader import Leaders
from tailrace.broker.following.notes_watch import NotesWatch
from tailrace.broker.partition.found import Found
from tailrace.broker.partition.notes import decode_notes
from tailrace.broker.partition.readable import ReadablePartition, SharedParts
from tailrace.broker.partition.unstable import UnstableOffsets
from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    IdleReader,
    MetadataConflict,
    OverCapacity,
    Unavailable,
)
from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.log.recovery import if_readable
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks, both
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer, LedgerId, Offset, TopicPartition
from tailrace.protocol.records.batch import CONTROL, read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.core.runtime.clock import Clock

logger = logging.getLogger(__name__)

READ_BYTES: Final = 1024 * 1024
"""Asked of the log at once."""
BATCHES_AT_ONCE: Final = 500
"""Taken in one turn of the loop: 5 to 10 us each."""
CATCH_UP_S: Final = 1.0
"""How long an opening waits until the end of the log is reached; consumers get what is there."""
ASK_PAUSE_S: Final = 1.0
"""Between questions to the leader about epochs and offsets that are not known here."""
PAUSE_S: Final = 2.0
"""Between attempts to read on, and to read what is noted with the stream, at most."""
PASSING: Final = (BookieUnavailable, IdleReader, MetadataConflict, OverCapacity, Unavailable)
"""After these the same read may succeed; until it does, consumers get what is there."""
_ATTRIBUTES: Final = slice(21, 23)


class FollowedPartition(ReadablePartition):
    """One partition of another broker; `FollowedPartitions` opens and closes it."""

    is_follower = True

    def __init__(
        self,
        partition: TopicPartition,
        log: Log,
        shared: SharedParts,
        topic_id: bytes,
        leaders: Leaders,
        noted: NotesWatch,
    ) -> None:
        """Take what all openings of the stream share as `noted`."""
        super().__init__(partition, log, shared)
        self.topic_id = topic_id
        self.on_dead: Callable[[FollowedPartition], None] = _not_yet_heard
        """Called once, when it cannot be read on."""
        self.batches_total = 0
        self.used_s = shared.clock.monotonic_s()
        """When a fetch asked for it last."""
        self._clock: Clock = shared.clock
        self._leaders = leaders
        self._leader_end: Offset = 0
        self._asking = asyncio.Lock()
        self._asked_s = -ASK_PAUSE_S
        self._began: dict[int, Offset] = {}
        """First offsets of open transactions by their producers."""
        self._rewrites = log.rewrites
        self._noted = noted
        self._at_tail = asyncio.Event()
        self._tasks = Tasks("followed", self._fail)

    # -- opening and closing ----------------------------------------------------------------------

    async def open(self) -> None:
        """Restore what owners left in the log, and follow it from there on.

        Returns when its end was reached, or after a second. Errors: CoreError.
        """
        await self._read_notes()
        start = await self._restore()
        self._unstable = UnstableOffsets(self.state.producers.open)
        self._began = {each: first for first, each in self.state.producers.open.items()}
        self.epochs = self.state.epochs
        self._move_end(max(self.state.next_offset, self.log.segments.last_txid + 1, 0))
        reader = await self.log.open_reader(start)
        self._tasks.start(self._follow(reader), "tail")
        notes = Forever("followed.notes", about=str(self.partition), pause_s_max=PAUSE_S)
        self._tasks.start(notes.run(self._follow_notes), "notes")
        await both(self.ask_leader(), self._catch_up())

    async def close(self) -> None:
        """Read on no more. Idempotent. Errors: none."""
        self.failure = self.failure or ErrorCode.NOT_LEADER_OR_FOLLOWER
        await self._tasks.close()
        self.tail.clear()
        self.waiters.wake_all()

    async def _catch_up(self) -> None:
        try:
            async with asyncio.timeout(CATCH_UP_S):
                await self._at_tail.wait()
        except TimeoutError:
            logger.info("follower_behind partition=%s end=%d", self.partition, self.high_watermark)

    async def _restore(self) -> DLSN:
        """Take the newest state that is in the log; return behind which place it was made.

        A record that cannot be read is as one that is not there. Errors: CoreError.
        """
        await self.log.refresh()
        for segment in reversed(list(self.log.segments)):
            lssn = segment.lssn
            if not segment.in_progress:
                state = await if_readable(self.log.read_end_snapshot(lssn), segment)
                if state is not None:
                    self.state.restore(state)
                    return DLSN(lssn + 1, 0, 0)
            state = await if_readable(self.log.read_snapshot(lssn), segment)
            if state is not None:
                self.state.restore(state)
                return DLSN(lssn, 0, 0)
        self.state.restore(None)
        return DLSN(0, 0, 0)

    # -- the tail ---------------------------------------------------------------------------------

    async def _follow(self, reader: LogReader) -> None:
        """Take what comes, whatever passes by itself; what does not ends it."""
        name = str(self.partition)
        tail = Forever(
            "followed.tail", about=name, expected=PASSING, pause_s_max=PAUSE_S, ends_after=1
        )
        try:
            await tail.run(partial(self._step, reader))
        except CoreError as error:
            self._fail(error)
        finally:
            await reader.close()

    async def _step(self, reader: LogReader) -> None:
        """Take what is there, or wait for more. Errors: CoreError; nothing is lost by PASSING."""
        entries = await reader.read_entries(READ_BYTES)
        for entry in entries:
            for first in range(0, len(entry.columns.txids), BATCHES_AT_ONCE):
                self._take(entry, first)
                await asyncio.sleep(0)
        if not entries:
            self._at_tail.set()
            await reader.wait_for_more()

    def _take(self, entry: EntryRecords, first: int) -> None:
        """Count some batches of an entry, and show them to consumers. Errors: CorruptData."""
        if entry.lssn != self.state.lssn:
            segment = self.log.segments.find(entry.lssn)
            ledger_id = LedgerId(-1) if segment is None else segment.ledger_id
            self.state.begin_segment(entry.lssn, ledger_id)
        self.state.now_ms = self._clock.now_ms()
        txids, payloads = entry.columns.txids, entry.columns.payloads
        size = 0
        for slot in range(first, min(first + BATCHES_AT_ONCE, len(txids))):
            txid, batch = txids[slot], payloads[slot]
            self._count(DLSN(entry.lssn, entry.entry_id, slot), LogRecord(txid, batch))
            size += len(batch)
            if self._at_tail.is_set():  # what comes before that is a backlog: the cache is for news
                self.tail.append(txid, memoryview(batch))
        self.batches_total += min(BATCHES_AT_ONCE, len(txids) - first)
        self.leader_epoch = max(self.leader_epoch, self.epochs.last)
        self._move_end(self.state.next_offset)
        self.waiters.on_bytes(size, self._unstable.confirm(self.high_watermark - 1, size))

    def _count(self, place: DLSN, record: LogRecord) -> None:
        """Count one batch, and the transaction that begins or ends with it. Errors: CorruptData."""
        batch, began = record.payload, None
        is_control = int.from_bytes(batch[_ATTRIBUTES], "big") & CONTROL
        self.state.replay(place, record)
        self._unstable.appended += len(batch)
        still_open = self.state.producers.open
        if is_control:
            began = self._began.pop(read_header(batch).producer_id, None)
            if began is not None and began not in still_open:
                self._unstable.end(began, record.txid)
            return
        base = _base_offset(batch)
        if base in still_open:
            self._began[still_open[base]] = base
            self._unstable.begin(base, len(batch))

    def _move_end(self, end: Offset) -> None:
        self.high_watermark = self.log_end_offset = max(end, self.high_watermark)

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            logger.warning("follower_failed partition=%s error=%r", self.partition, error)
            self.failure = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.waiters.wake_all()
            self.on_dead(self)

    @override
    def read_tail(
        self, offset: Offset, max_bytes: int, *, at_least_one: bool, committed: bool = False
    ) -> Found | None:
        """Return batches from memory, but none that may have been cleaned since."""
        if self.log.rewrites != self._rewrites:
            self._rewrites = self.log.rewrites
            newest = self.log.segments.last
            index = self.state.indexes.get(newest.lssn) if newest and newest.in_progress else None
            end = self.high_watermark if index is None else index.first_offset
            self.tail.drop_before(end)
        return super().read_tail(offset, max_bytes, at_least_one=at_least_one, committed=committed)

    # -- what is noted with the stream ------------------------------------------------------------

    async def _follow_notes(self) -> None:
        await self._noted.changed.wait()
        await self._read_notes()

    async def _read_notes(self) -> None:
        """Follow the log start, and hear of its next change. Errors: CoreError."""
        try:
            data = await self.log.get_data(self._noted.begin())
            notes = decode_notes(self.log.name, data)
        except BaseException:
            self._noted.failed()
            raise
        self.log_start_offset = max(self.log_start_offset, notes.log_start_offset)
        self.waiters.wake_all()
        self.segments.forget_missing()

    # -- the leader -------------------------------------------------------------------------------

    async def ask_leader(self) -> None:
        """Take over the epoch that the leader tells, and how far its log goes. Errors: none."""
        async with self._asking:
            await self._ask()

    @override
    async def is_there(self, offset: Offset) -> bool:
        """Return whether the leader has an offset that is not seen here; if in doubt, True.

        Cost: a question to the leader, at most one a second for all consumers.
        """
        async with self._asking:
            end = max(self._leader_end, self.high_watermark)
            if offset <= end or not self._may_ask() or not await self._ask():
                return True
            return offset <= self._leader_end

    @override
    def check_epoch(self, epoch: int) -> ErrorCode:
        """Compare a client's leader epoch; ask the leader about one that is not known here."""
        code = super().check_epoch(epoch)
        is_new = code is ErrorCode.UNKNOWN_LEADER_EPOCH
        if is_new and self.failure is None and self._may_ask() and not self._asking.locked():
            self._tasks.start(self.ask_leader(), "leader")
        return code

    def _may_ask(self) -> bool:
        return self._clock.monotonic_s() - self._asked_s >= ASK_PAUSE_S

    async def _ask(self) -> bool:
        self._asked_s = self._clock.monotonic_s()
        told = await self._leaders.ask(self.partition)
        if told is None:
            return False
        self.leader_epoch = max(self.leader_epoch, told.epoch)
        self._leader_end = max(self._leader_end, told.end)
        return True


def _base_offset(batch: Buffer) -> Offset:
    return Offset(int.from_bytes(batch[:8], "big"))


def _not_yet_heard(_followed: FollowedPartition) -> None:
    """Do nothing: nothing listens before it is open."""
