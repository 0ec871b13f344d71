"""Reading a range by batches, where one bookie has all of it and reads batches.

It brings what comes in a row and is right. What is missing then is for the caller to read entry by
entry: only that tells why, and asks the other replicas.
"""

import asyncio
import logging
from collections import deque
from typing import Final, NamedTuple

from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.range_read import ReadContext
from tailrace.core.ledger.schedule import Schedules
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import MAX_FRAME_BYTES, Entry, read_entry
from tailrace.protocol.bookkeeper.messages import BatchReadRequest, BatchReadResponse, Response
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 1024 * 1024
"""What one answer should hold: more saves nothing, and keeps who decodes it waiting."""

BATCH_ENTRIES: Final = 64
"""How many of them at most. A bookie may have to seek for each (10 ms), and one that works on them
for the time of a speculative read (2 s) would count as silent."""

AT_ONCE: Final = 4
"""Batches of one range that are on their way: the bookie reads while answers are decoded."""


def is_on_each_bookie(schedules: Schedules, first: EntryId, last: EntryId) -> bool:
    """Tell whether every bookie that holds an entry of a range holds all of them."""
    schedule = schedules.of(first)
    is_striped = schedule.write_quorum < len(schedule.ensemble)
    return not is_striped and schedules.of(last) is schedule


class BatchRead:
    """One range from the bookie that is to be asked first; made anew for each."""

    def __init__(
        self,
        context: ReadContext,
        first: EntryId,
        last: EntryId,
        entry_bytes: int,
        answers_max: int | None = None,
    ) -> None:
        """`entry_bytes`: how large an entry probably is; 0: nobody knows.

        `answers_max`: answers that are taken at most; None: as many as bring the range.
        """
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        context.replicas.refresh(self._start_s)
        self._bookie, *others = context.order(first)
        self._client = context.replicas.client(self._bookie)
        self._silence_s = (context.replicas.speculation.first_s or None) if others else None
        self._following = first
        self._last = last
        fitting = -(-BATCH_BYTES // entry_bytes) if entry_bytes > 0 else BATCH_ENTRIES
        self._count_max = min(fitting, BATCH_ENTRIES)
        self._answers_left = answers_max
        self._asked: deque[_Asked] = deque()

    async def run(self) -> list[Entry]:
        """Return the entries up to the last, or to the first that did not come right.

        [] if the bookie reads no batches. One that is silent for the time of a speculative read is
        given up, and counts as slow. Errors: none. Cancel: answers that still come are dropped.
        Cost: a round trip for `AT_ONCE` answers, each of `BATCH_BYTES` if the guess is right and of
        `MAX_FRAME_BYTES` at most, or of one entry that is larger.
        """
        entries: list[Entry] = []
        if self._client.reads_batches:
            self._ask_ahead()
        while self._asked:
            asked = self._asked.popleft()
            if not await self._is_answered(asked.answer):
                break
            if not entries:
                elapsed_s = self._loop.time() - self._start_s
                self._context.replicas.on_latency(self._bookie, elapsed_s)
            news = _entries_of(asked, self._context.ledger_id, self._context.digest)
            if not news:
                break
            entries += news
            missing = asked.entry_count - len(news)
            if self._answers_left == 0:
                break
            if missing:
                self._asked.appendleft(self._ask(asked.first + len(news), missing))
            self._ask_ahead()
        return entries

    def _ask_ahead(self) -> None:
        while self._following <= self._last and len(self._asked) < AT_ONCE:
            if self._answers_left is not None:
                if not self._answers_left:
                    return
                self._answers_left -= 1
            count = min(self._count_max, self._last - self._following + 1)
            self._asked.append(self._ask(self._following, count))
            self._following += count

    def _ask(self, first: EntryId, count: int) -> "_Asked":
        request = BatchReadRequest(self._context.ledger_id, first, count, MAX_FRAME_BYTES)
        return _Asked(first, count, ask(self._client, request))

    async def _is_answered(self, answer: "asyncio.Future[Response]") -> bool:
        await asyncio.wait([answer], timeout=self._silence_s)
        if not answer.done():
            self._context.metrics.speculative_reads_total += 1
            self._context.replicas.on_slow(self._bookie)
        return answer.done()


class _Asked(NamedTuple):
    first: EntryId
    entry_count: int
    answer: "asyncio.Future[Response]"


def _entries_of(asked: _Asked, ledger_id: LedgerId, digest: Digest) -> list[Entry]:
    response = asked.answer.result()
    entries: list[Entry] = []
    if isinstance(response, BatchReadResponse):
        try:
            for entry_id, body in enumerate(response.bodies[: asked.entry_count], asked.first):
                entries.append(read_entry(body, ledger_id, entry_id, digest))
        except DecodeError as error:
            logger.warning("entry_corrupt in a batch %s", error)
    return entries
