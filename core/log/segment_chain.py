"""One segment after the other: starting the next, taking it into use, completing the last.

Invariant: a new segment gets its first entry only when every record of the one before is confirmed,
and records wait from the moment its first txid is fixed. So confirmations keep their order, first
txids never fall, and a snapshot never knows of a record that could still be lost. While the
metadata store is away a roll that has not begun is put off, and one that has begun waits for it.
Flow: `advance` from the writer -> ledger, multi, switch (the writer hears `on_switched`) -> index
record, close and multi for the old segment in the background.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from tailrace.core.errors import CoreError, NotEnoughBookies, OwnershipLost, Unavailable
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.allocation import Allocator
from tailrace.core.log.config import RECORD_BYTES_MAX, entry_bytes_for, record_bytes_in
from tailrace.core.log.context import LogContext
from tailrace.core.log.owner import SegmentState
from tailrace.core.log.owner_records import SegmentIndex, pack_index, pack_snapshot
from tailrace.core.log.rolling import (
    COMPLETE_ATTEMPTS,
    FIRST_RETRY_S,
    START_ATTEMPTS,
    STEP_RETRY_S,
    Roll,
)
from tailrace.core.log.segment_nodes import SegmentNodes
from tailrace.core.log.segment_writer import SegmentListener, SegmentWriter
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.truncation import plan_open_truncation
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import TxId

logger = logging.getLogger(__name__)


class SegmentBook(Protocol):
    """Where the segments of a log are known to everybody in this process (the `Log`)."""

    @property
    def segments(self) -> SegmentList:
        """All segments."""

    def segment_started(self, segment: SegmentWriter) -> None:
        """Hear of a segment that is in the metadata; its writer knows how far it may be read."""

    def segment_marked(self, metadata: SegmentMetadata) -> None:
        """Hear that a part of a segment in progress was given up."""

    def segment_completed(self, metadata: SegmentMetadata) -> None:
        """Hear that a segment has its final form."""


class ChainUser(SegmentListener, Protocol):
    """The log writer, as its chain sees it."""

    def on_switched(self, *, is_first_entry_free: bool) -> None:
        """Send records to `current` from now on; it is still empty if `is_first_entry_free`."""

    def can_refuse(self) -> bool:
        """Tell whether records can be refused while there is no ledger for the first segment."""

    def largest_waiting(self) -> int:
        """Return the bytes of the largest record that waits for the next segment; 0 for none."""

    def on_roll_ended(self) -> None:
        """Hear that a roll is over, and did not fail."""

    def on_chain_failed(self, error: CoreError) -> None:
        """Hear that the chain cannot go on."""


class SegmentChain:
    """The segments that one owner writes. Made by recovery, with the state restored."""

    def __init__(
        self,
        book: SegmentBook,
        nodes: SegmentNodes,
        state: SegmentState,
        context: LogContext,
        allocator: Allocator,
    ) -> None:
        self._book = book
        self._nodes = nodes
        self._changing = asyncio.Lock()
        """Held while the metadata of a segment in progress changes."""
        self._allocator = allocator
        self._state = state
        self._context = context
        self._tasks = Tasks("log.segments")
        self._advancing: asyncio.Task[None] | None = None
        self._confirmed: asyncio.Future[None] | None = None
        self._hurry: asyncio.Future[None] | None = None
        self._is_finishing = False
        self._user: ChainUser
        self._failed = False
        self._refusal: CoreError | None = None
        self._retry_s = 0.0
        self._given_up_for: type[CoreError] | None = None
        """Why there was no ledger the last time, since there was one."""
        self._entry_bytes = MAX_ENTRY_BYTES
        """What every ledger from the next on must take; it never falls, so that what was appended
        to one segment fits into the next."""
        self._first_entry_bytes = 0
        """What the first segment's ledger takes while there is no segment yet; 0: none is made."""
        self.roll = Roll()
        self.current: SegmentWriter | None = None
        self.writable: SegmentWriter | None = None
        """The current segment while it takes records; None while they must wait."""
        self.records_before = 0
        """User records that this owner put into segments before the current one."""
        self.next_lssn = book.segments.next_lssn(nodes.lssn_counter, context.config.first_lssn)

    def bind(self, user: ChainUser) -> None:
        """Tell who uses the chain; once, before anything else."""
        self._user = user

    @property
    def lssn(self) -> int:
        """The current segment's LSSN, or the one that the first will have."""
        return self.next_lssn if self.current is None else self.current.metadata.lssn

    @property
    def record_bytes_max(self) -> int:
        """The largest record that fits into the segment that the next one is sent to."""
        if self.current is not None:
            return self.current.record_bytes_max
        return record_bytes_in(self._first_entry_bytes or self._entry_bytes)

    def want_records(self, bytes_max: int) -> None:
        """Have every ledger from now on take records of this size."""
        self._entry_bytes = max(self._entry_bytes, entry_bytes_for(bytes_max))

    @property
    def refusal(self) -> CoreError | None:
        """Why the first segment cannot be started now; None: it may be tried."""
        if self._refusal is not None and self._context.clock.monotonic_s() >= self._retry_s:
            self._refusal = None
        return self._refusal

    def advance(self, first_txid: TxId, *, must_be_larger: bool = False) -> None:
        """Begin to start the next segment; `first_txid` counts if no record was written before.

        `must_be_larger`: it is of use only if its ledger takes larger entries than the current one.
        """
        self.roll.begin()
        self._advancing = self._tasks.spawn(self._advance(first_txid, must_be_larger), "advance")

    async def settled(self) -> None:
        """Wait until no roll is under way, however it ended."""
        while self._advancing is not None and not self._advancing.done():
            await asyncio.wait([self._advancing])

    def on_all_confirmed(self) -> None:
        """Hear that the current segment has nothing on its way."""
        if self._confirmed is not None and not self._confirmed.done():
            self._confirmed.set_result(None)

    def hurry(self) -> None:
        """Wait for the metadata store no more: a roll that does tries once more, then fails."""
        self._is_finishing = True
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)

    async def truncate(self, before: DLSN) -> None:
        """Give up what lies before a position in the current segment and is confirmed. Idempotent.

        Errors: OwnershipLost; Unavailable: it may have happened.
        """
        async with self._changing:  # the segment neither ends nor is followed meanwhile
            segment = self.current
            if segment is None or self._failed or segment.metadata.lssn > before.lssn:
                return
            marked = plan_open_truncation(segment.metadata, before, segment.lac)
            if marked is not None:
                await self._nodes.mark(marked)
                segment.metadata = marked
                self._book.segment_marked(marked)

    async def finish(self) -> None:
        """Complete the current segment; nothing is on its way. Errors: CoreError."""
        await self.settled()
        segment = self.current
        if segment is not None and not self._failed:
            self._add_index(segment, self._state.snapshot())
            await self._complete(segment)
            self.current = self.writable = None
        await self._allocator.give_back()

    async def stop(self) -> None:
        """End the work in the background, wherever it is."""
        self._failed = True
        await self._tasks.close()
        self._allocator.abandon()
        if self.current is not None:
            self.current.abort()

    def fail(self) -> None:
        """Do nothing more: the writer has failed."""
        self._failed = True
        self.on_all_confirmed()

    async def _advance(self, first_txid: TxId, must_be_larger: bool) -> None:  # noqa: FBT001
        try:
            await self._replace_current(first_txid, must_be_larger)
        except CoreError as error:
            self._user.on_chain_failed(error)
        except Exception as error:  # our bug: it must not leave the log waiting for this roll
            self._user.on_chain_failed(Unavailable(f"a roll failed: {error!r}"))
            raise
        else:
            if not self._failed:
                self._user.on_roll_ended()

    async def _replace_current(self, first_txid: TxId, must_be_larger: bool) -> None:  # noqa: FBT001
        old, new = self.current, SegmentWriter(self._user, self._state, self._context)
        ledger = await self._allocate(new, must_be_larger=must_be_larger)
        if ledger is None or self._has_failed():
            return
        self.roll.freeze()
        self.writable = None
        await self._start(new, ledger, first_txid if old is None else old.last_txid)
        if old is not None:
            await self._all_confirmed(old)
        if self._has_failed():
            return
        self._switch(old, new)
        if old is not None:
            await self._complete(old)
        self.roll.done()

    def _has_failed(self) -> bool:
        return self._failed

    async def _make_ledger(self, new: SegmentWriter, *, must_be_larger: bool) -> LedgerWriter:
        """Make a ledger for as large entries as are wanted, or for smaller ones if there is none.

        Then the log goes on with what fits into those. Errors: as Allocator.allocate.
        """
        wanted = self._entry_bytes
        self._first_entry_bytes = wanted if self.current is None else 0
        try:
            return await self._allocator.allocate(new, wanted)
        except NotEnoughBookies as error:
            if must_be_larger or self._needed_record_bytes() > RECORD_BYTES_MAX:
                raise
            if wanted <= MAX_ENTRY_BYTES:
                raise
            logger.warning(
                "segment_for_smaller_records log=%s lssn=%d wanted=%d error=%s",
                self._nodes.log, self.lssn, record_bytes_in(wanted), error,
            )  # fmt: skip
            self._first_entry_bytes = MAX_ENTRY_BYTES if self.current is None else 0
            return await self._allocator.allocate(new, MAX_ENTRY_BYTES)

    def _needed_record_bytes(self) -> int:
        """Return the largest record that the next segment must take: what was appended goes on."""
        here = 0 if self.current is None else self.current.record_bytes_max
        return max(here, self._user.largest_waiting())

    async def _allocate(self, new: SegmentWriter, *, must_be_larger: bool) -> LedgerWriter | None:
        """Return a ledger; None when there is none to be had now and the log goes on without."""
        try:
            return await self._make_ledger(new, must_be_larger=must_be_larger)
        except CoreError as error:
            self._first_entry_bytes = 0
            is_first = self.current is None
            if not error.retriable or isinstance(error, OwnershipLost):
                raise
            if is_first and not self._user.can_refuse():
                raise
            clock = self._context.clock
            self._context.metrics.rolls_given_up_total += 1
            if type(error) is not self._given_up_for:  # a full disk stays so for many attempts
                self._given_up_for = type(error)
                logger.warning(
                    "roll_given_up log=%s lssn=%d error=%r", self._nodes.log, self.lssn, error
                )
            self.roll.give_up(clock.now_ms())
            if is_first:
                self._refusal, self._retry_s = error, clock.monotonic_s() + FIRST_RETRY_S
            return None

    async def _start(self, new: SegmentWriter, ledger: LedgerWriter, first_txid: TxId) -> None:
        config = self._context.config
        metadata = SegmentMetadata(
            lssn=self.next_lssn,
            ledger_id=ledger.ledger_id,
            first_txid=first_txid,
            region_id=config.region_id if config.encodes_region else 0,
        )
        handover = self._allocator.hand_over()
        async with self._changing:
            await self._insist(lambda: self._nodes.start(metadata, handover), START_ATTEMPTS)
        self._allocator.handed_over()
        self.next_lssn += 1
        new.attach(ledger, metadata, self._context.clock.now_ms())
        self._context.metrics.segments_started_total += 1
        self._book.segment_started(new)

    async def _all_confirmed(self, segment: SegmentWriter) -> None:
        if not segment.is_confirmed and not self._failed:
            self._confirmed = asyncio.get_running_loop().create_future()
            await self._confirmed
            self._confirmed = None

    def _switch(self, old: SegmentWriter | None, new: SegmentWriter) -> None:
        snapshot = self._state.snapshot()
        if old is not None:
            self._add_index(old, snapshot)
            self.records_before += old.records
        metadata = new.metadata
        self._state.begin_segment(metadata.lssn, metadata.ledger_id)
        parts = pack_snapshot(snapshot)
        for part in parts:
            new.add_control(part)
        self.current = self.writable = new
        self._given_up_for = None
        self.roll.switch()
        logger.info(
            "segment_started log=%s lssn=%d ledger=%d",
            self._nodes.log,
            metadata.lssn,
            metadata.ledger_id,
        )
        self._user.on_switched(is_first_entry_free=not parts)

    def _add_index(self, segment: SegmentWriter, snapshot: bytes) -> None:
        for part in pack_index(SegmentIndex(snapshot, self._state.index())):
            segment.add_control(part)

    async def _complete(self, segment: SegmentWriter) -> None:
        await self._insist(segment.close_ledger, COMPLETE_ATTEMPTS)
        if self._has_failed():
            raise Unavailable("the log writer has failed")
        async with self._changing:
            completed = self._book.segments.completed(
                segment.metadata, segment.end, self._context.clock.now_ms()
            )
            await self._insist(lambda: self._nodes.complete(completed), COMPLETE_ATTEMPTS)
        self._context.metrics.segments_completed_total += 1
        self._book.segment_completed(completed)
        logger.info(
            "segment_completed log=%s lssn=%d records=%d",
            self._nodes.log,
            completed.lssn,
            segment.records,
        )

    async def _insist(self, step: Callable[[], Awaitable[None]], attempts: int) -> None:
        """Do a step until the metadata store answers; the versions in it make that harmless.

        Errors: the last attempt's; what no waiting mends, at once.
        """
        for attempt in range(1, attempts + 1):
            try:
                await step()
            except Unavailable as error:
                if self._failed or self._is_finishing or attempt == attempts:
                    raise
                self._context.metrics.roll_retries_total += 1
                logger.warning(
                    "roll_waits log=%s lssn=%d attempt=%d error=%r",
                    self._nodes.log, self.lssn, attempt, error,
                )  # fmt: skip
                self._hurry = asyncio.get_running_loop().create_future()
                await asyncio.wait([self._hurry], timeout=STEP_RETRY_S)
            else:
                return
