"""One place in a stream that is read from the bookies, for all readers that come by.

    cursors ask -> the pump reads, encodes one message, appends it to the ring -> cursors are woken

Invariants: it reads only while a reader waits at the ring's end, so it is as fast as the fastest of
them and idle when none asks; each waiting reader gets the message itself, so that it gets on
whatever the ring's limits are; what fails is answered to those that wait, and the next
that asks has the same read tried again.
"""

import asyncio
import logging
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from tailrace.core.errors import CoreError
from tailrace.core.log.log import Log
from tailrace.core.log.resume import BEGINNING, Place, Resume
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.loop_turns import LoopTurns
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.ids import TxId
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.codes import Failure, failure_of, is_retried
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.message import MESSAGE_BYTES_MAX, Message, take_message
from tailrace.proxy.reading.metrics import ReadMetrics
from tailrace.proxy.reading.ring import Ring, RingBudget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.core.log.entries import EntryRecords
    from tailrace.core.log.reader import LogReader

logger = logging.getLogger(__name__)

READ_BYTES: Final = 256 * 1024
"""Asked of core at once: records that a feed holds and has not encoded; one entry may be larger."""

ALL_READ_BYTES: Final = 64 * 1024 * 1024
"""The same of all feeds: where they are many each asks for less, down to one message."""

WAKE_SLICE: Final = 64
"""Readers that are woken in one turn of the loop; each has some 0.1 ms to do, with gRPC."""


class Signal(Enum):
    """What a reader hears instead of a message."""

    AT_TAIL = "it has all records"
    GONE = "go on in another feed"


Found: TypeAlias = Message | Signal | Failure


class Position(NamedTuple):
    """Where a reader goes on."""

    place: Place
    given: Resume | None = None
    """What it has had; None: it begins here."""
    txid: TxId | None = None
    """The place is where this was found: what cannot be read before it does not matter."""


class FeedContext(NamedTuple):
    """What all feeds of a process share."""

    config: ReadConfig
    clock: Clock
    metrics: ReadMetrics
    budget: RingBudget
    turns: LoopTurns


class FeedHome(Protocol):
    """The stream of a feed."""

    @property
    def log(self) -> Log:
        """What is read."""

    def is_elsewhere(self, feed: "Feed") -> bool:
        """Tell whether what comes next is read by another feed, which is to go on alone."""

    def on_idle(self, feed: "Feed") -> None:
        """Close a feed that no reader has asked for some time."""


class Feed:
    """One place. All calls come from the loop."""

    def __init__(self, home: FeedHome, start: Position, context: FeedContext) -> None:
        self.ring = Ring(start.place, context.budget)
        self.is_closed = False
        self.is_pumping = False
        """Whether a reader waits for what comes next."""
        self.is_following = False
        """Whether all that could be read was read, and it waits for what comes."""
        self.used_s = 0.0
        """When a reader last used it, by the clock."""
        self._home = home
        self._start = start
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks("proxy.feed", self._on_failure)
        self._reader: LogReader | None = None
        self._pending: deque[EntryRecords] = deque()
        self._given = start.given or BEGINNING
        self._attempts = 0
        self._is_woken = False
        """Whether the reader was told of what is new, and so asks no bookie for it."""
        self._waiting: dict[asyncio.Future[Found], None] = {}
        self._untold: dict[asyncio.Future[Found], None] = {}
        """Those of them that get AT_TAIL when it is at the tail."""
        self._ending: dict[asyncio.Future[Found], None] = {}
        """Those of them that end at the tail; a read that begins after they asked answers them."""
        self._telling: Iterable[asyncio.Future[Found]] = ()
        self._poke: asyncio.Future[None] | None = None
        self._linger_s = context.config.feed_linger_ms / 1000
        self._timer: asyncio.TimerHandle | None = None
        self.touch()

    def touch(self) -> None:
        """Take note that a reader uses it."""
        self.used_s = self._context.clock.monotonic_s()
        if self._timer is None and not self.is_closed:
            self._timer = self._loop.call_later(self._linger_s, self._on_timer)

    def find(self, at: Position) -> int | None:
        """Return the number of the message at which a reader goes on here; None: not here."""
        left_out = self._start.txid if self.ring.next_number == 0 else None
        if left_out is not None and (at.txid is None or at.txid < left_out):
            return None  # lower txids, which may be left out here, are wanted
        return self.ring.find(at.place)

    def ask(self, *, is_told: bool, ends: bool) -> "asyncio.Future[Found]":
        """Return what comes at the end of the ring, once it is there.

        The caller awaits it, and says `forget` then in any case. `is_told`: the reader knows that
        it is at the tail. `ends`: it wants to know whether it is, and not to wait there.
        Errors: none.
        """
        waiter: asyncio.Future[Found] = self._loop.create_future()
        if self.is_following and not (ends or is_told):
            waiter.set_result(Signal.AT_TAIL)
            return waiter
        self._waiting[waiter] = None
        if ends:
            self._ending[waiter] = None
            self._interrupt()
        elif not is_told:
            self._untold[waiter] = None
        if not self.is_pumping:
            self.is_pumping = True
            self._tasks.start(self._pump(), "pump")
        return waiter

    def forget(self, waiter: "asyncio.Future[Found]") -> None:
        """Give a reader nothing that has gone. Idempotent."""
        if self._waiting.pop(waiter, self) is None:
            self._untold.pop(waiter, None)
            self._ending.pop(waiter, None)
            if not self._waiting:
                self._interrupt()

    async def close(self) -> None:
        """End it; readers go on elsewhere. Idempotent. Cancel: it ends anyway."""
        self._end(Signal.GONE)
        try:
            await self._tasks.close()
        finally:
            if self._reader is not None:
                await self._reader.close()

    # ------------------------------------------------------------------ the pump

    async def _pump(self) -> None:
        try:
            while self._waiting:
                if self._pending or await self._read():
                    await self._give_next()
        finally:
            self.is_pumping = self.is_following = False

    async def _give_next(self) -> None:
        """Encode the next message and give it to all that wait."""
        reader = self._reader
        assert reader is not None, "the pending entries came from it"
        message = take_message(
            self._pending,
            self._home.log.segments,
            self._given,
            is_caught_up=reader.is_caught_up,
        )
        self._given = message.given
        if self._start.txid is not None and self.ring.next_number == 0:
            self.ring.start = Place(message.first, message.ledger_id)
        self.ring.append(message)
        metrics = self._context.metrics
        metrics.cached_bytes = self._context.budget.used_bytes
        metrics.encoded_records_total += message.count
        metrics.encoded_bytes_total += len(message.data)
        await self._tell_all(message)

    async def _read(self) -> bool:
        """Have entries pending; False: those that wait got something else, or wait on."""
        if self._home.is_elsewhere(self):
            self._context.metrics.merged_feeds_total += 1
            await self._tell_all(Signal.GONE)
            return False
        ending, self._ending = self._ending, {}
        was_woken, self._is_woken = self._is_woken, False
        try:
            reader = self._reader or await self._open()
            share = ALL_READ_BYTES // max(self._context.metrics.feeds, 1)
            asked_bytes = min(READ_BYTES, max(share, MESSAGE_BYTES_MAX))
            self._pending.extend(await reader.read_entries(asked_bytes))
        except CoreError as error:
            self._ending = ending | self._ending
            await self._on_error(error)
            return False
        self._attempts = 0
        if self._pending:
            self.is_following = False
            return True
        if ending and was_woken:
            self._ending = ending | self._ending  # bookies were not asked: the next read asks them
            return False
        if not self.is_following:
            self.is_following = True
            ending |= self._untold
            self._untold = {}
        for waiter in ending:
            self._waiting.pop(waiter, None)
        await self._tell(list(ending), Signal.AT_TAIL)
        if self._waiting and not self._ending:
            await self._hear(reader)
        return False

    async def _hear(self, reader: "LogReader") -> None:
        """Wait until there may be more, no reader waits, or one asks whether there is more."""
        self._poke = poke = self._loop.create_future()
        hearing = self._tasks.spawn(reader.wait_for_more(), "wait")
        try:
            await asyncio.wait([hearing, poke], return_when=asyncio.FIRST_COMPLETED)
            self._is_woken = hearing.done()
        finally:
            self._poke = None
            hearing.cancel()
        await asyncio.wait([hearing])

    async def _open(self) -> "LogReader":
        """Open the reader where the feed begins. Errors: as Log.open_reader."""
        log, (place, given, txid) = self._home.log, self._start
        if given is not None:
            reader = await log.reopen_reader(place, given)
        elif txid is not None:
            reader = await log.open_reader(txid, place)
        else:
            reader = await log.open_reader(place.dlsn)
        self._reader = reader
        return reader

    async def _tell_all(self, found: Found) -> None:
        waiting = list(self._waiting)
        self._waiting.clear()
        self._untold.clear()
        self._ending.clear()
        await self._tell(waiting, found)

    async def _tell(self, waiters: list["asyncio.Future[Found]"], found: Found) -> None:
        """Wake readers in slices, and let the last of them come back before it returns."""
        self._telling = waiters
        for at in range(0, len(waiters), WAKE_SLICE):
            for waiter in waiters[at : at + WAKE_SLICE]:
                if not waiter.done():
                    waiter.set_result(found)
            await self._context.turns.next()
        self._telling = ()

    async def _on_error(self, error: CoreError) -> None:
        config = self._context.config
        if is_retried(error) and self._attempts < config.retries:
            pause_s = config.retry_pause_s(self._attempts)
            self._attempts += 1
            self._context.metrics.retries_total += 1
            logger.info("read_retried log=%s error=%r", self._home.log.name, error)
            await asyncio.sleep(pause_s)
            return
        self._attempts = 0
        self.is_following = False
        await self._tell_all(failure_of(error))

    # ------------------------------------------------------------------ the end

    def _interrupt(self) -> None:
        if self._poke is not None and not self._poke.done():
            self._poke.set_result(None)

    def _end(self, found: Found) -> None:
        """Answer all readers that wait; from now on none does."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in (*self._telling, *self._waiting):
            if not waiter.done():
                waiter.set_result(found)
        self._waiting.clear()
        self.ring.clear()
        self._pending.clear()

    def _on_failure(self, error: Exception) -> None:
        """End after a fault of ours."""
        self._end(Failure(StatusCode.UNEXPECTED, f"the read proxy failed: {type(error).__name__}"))
        self._home.on_idle(self)

    def _on_timer(self) -> None:
        self._timer = None
        left_s = self.used_s + self._linger_s - self._context.clock.monotonic_s()
        if not self.is_pumping and left_s <= 0:
            self._home.on_idle(self)
        else:
            pause_s = self._linger_s if self.is_pumping else left_s
            self._timer = self._loop.call_later(pause_s, self._on_timer)
