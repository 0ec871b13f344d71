"""Reads everything that this bookie keeps, slowly, and mends what does not verify any more.

A round takes most of `localScrubInterval`, whatever is stored: entries are read in batches, and the
pauses between them are such that the last one is read at its end (65 million entries a day: 940 in
a second). A batch is small, waits while others read, and is one job of the reading thread.

A disk forgets silently; the ledger's digest tells. What is damaged is read from another replica and
stored again beside the damaged copy, which nobody is shown from then on. Without another replica it
is reported: by a line in the log and by `damaged_entries`, until a later round finds it well.
BookKeeper's local scrub only reports.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from tailrace.bookie.entry_judge import EntryJudge
from tailrace.core.errors import CoreError
from tailrace.core.runtime.config import setting
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.protocol.bookkeeper.availability import decode_availability
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    BatchReadRequest,
    BatchReadResponse,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadRequest,
    Request,
    StatusCode,
)
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubConfig:
    """The scrub, by BookKeeper's property names."""

    interval_s: int = setting(
        "localScrubInterval",
        86_400,
        "How often everything that is stored is read and verified. Unit: s. 0: never.",
    )
    rate_limit: float = setting(
        "localScrubRateLimit",
        0.0,
        "Entries that the scrub reads in a second at most. 0: as many as a round within the "
        "interval needs.",
    )

    def __post_init__(self) -> None:
        if self.interval_s < 0 or self.rate_limit < 0:
            raise ValueError("localScrubInterval and localScrubRateLimit are at least 0")


@dataclass(slots=True)
class ScrubMetrics:
    """What the scrub found."""

    rounds_total: int = counter("rounds over everything that is stored")
    entries_total: int = counter("entries read and verified")
    damaged_entries: int = gauge(
        "entries, and indexes of ledgers, that the last round left damaged"
    )
    repaired_entries_total: int = counter("damaged entries replaced by another replica's copy")


BATCH_ENTRIES = 64
BATCH_BYTES = 256 * 1024
"""What is read at once: about a millisecond of the reading thread."""
SHARE_OF_INTERVAL = 0.8
"""Of the interval, how much a round is spread over; the rest is for what it did not foresee."""
YIELD_S = 0.005
YIELDS_MAX = 20
"""How often a batch makes room for other reads that wait, before it takes its turn."""


class Pace:
    """When the next batch is read: a plain function of what is done and what time it is."""

    def __init__(self, entries: int, duration_s: float, rate_limit: float) -> None:
        """`entries` in `duration_s`, and no more than `rate_limit` in a second (0: no limit)."""
        shortest_s = entries / rate_limit if rate_limit else 0.0
        self._entry_s = max(duration_s, shortest_s) / max(entries, 1)
        self.is_late = shortest_s > duration_s > 0

    def pause_s(self, done: int, elapsed_s: float) -> float:
        """Return how long to wait before more than `done` entries are read."""
        return max(0.0, done * self._entry_s - elapsed_s)


class Replica(NamedTuple):
    """An entry as another bookie has it."""

    master_key: bytes
    body: tuple[Buffer, ...]


FetchReplica = Callable[[LedgerId, EntryId], Awaitable[Replica | None]]
"""Reads a verified copy elsewhere; None if there is no other replica. Errors: CoreError."""


class ScrubbedBookie(Protocol):
    """What the scrub asks of a bookie."""

    def submit(self, request: Request, reply: Callable[[Any], Any]) -> None:
        """Do what is asked and reply once."""

    async def ledger_ids(self) -> Iterable[LedgerId]:
        """Return all ledgers that are stored. Errors: OSError."""

    async def entries_max(self, ledger_ids: Sequence[LedgerId]) -> list[int]:
        """Return how many entries each ledger has at most. Errors: OSError."""

    @property
    def pending_reads(self) -> int:
        """How many reads wait now."""


class Scrub:
    """The scrub of one bookie. One round at a time."""

    def __init__(self, bookie: ScrubbedBookie, judge: EntryJudge, config: ScrubConfig) -> None:
        self._bookie = bookie
        self._judge = judge
        self._config = config
        self._pace = Pace(0, 0.0, 0.0)
        self._pause_s = config.interval_s * (1 - SHARE_OF_INTERVAL)
        self._began_s = 0.0
        self._done = 0
        """Entries of this round, as they were counted before it."""
        self.fetch: FetchReplica | None = None
        """Where other replicas are read; None: damage is only reported."""
        self.metrics = ScrubMetrics()
        self._forever = Forever("bookie.scrub", expected=(CoreError, OSError))

    async def run(self) -> None:
        """Do a round every interval, until cancelled."""
        if self._config.interval_s:
            await self._forever.run(self._round_later)

    async def _round_later(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._pause_s = self._config.interval_s * (1 - SHARE_OF_INTERVAL)
        began_s = asyncio.get_running_loop().time()
        await self.round()
        took_s = asyncio.get_running_loop().time() - began_s
        self._pause_s = max(self._config.interval_s - took_s, 0.0)

    async def round(self) -> None:
        """Verify every entry that is stored now and mend what can be mended. Errors: OSError.

        Cancel: what was mended is mended.
        """
        ledger_ids = sorted(await self._bookie.ledger_ids())
        counts = await self._bookie.entries_max(ledger_ids)
        self._begin(sum(counts))
        left = 0
        for ledger_id, count in zip(ledger_ids, counts, strict=True):
            before = self._done
            with self._forever.item(f"ledger {ledger_id}"):
                left += await self._damaged_of(ledger_id)
            self._done = before + count
        self.metrics.damaged_entries = left
        self.metrics.rounds_total += 1

    async def _damaged_of(self, ledger_id: LedgerId) -> int:
        """Verify one ledger and mend it; return how much stays damaged."""
        entry_ids = await self._entry_ids(ledger_id)
        if entry_ids is None:
            logger.error("ledger_damaged ledger=%d why=its index cannot be read", ledger_id)
            return 1
        left = 0
        for first, count in _runs(entry_ids):
            at, end = first, first + count
            while at < end:
                await self._wait()
                well = await self._well_from(ledger_id, at, end - at)
                if not well:
                    left += not await self._is_well_or_mended(ledger_id, at)
                at += max(well, 1)
                self._done += max(well, 1)
                self.metrics.entries_total += max(well, 1)
        return left

    def _begin(self, entries: int) -> None:
        """Find out how fast this round has to be."""
        config = self._config
        self._pace = Pace(entries, config.interval_s * SHARE_OF_INTERVAL, config.rate_limit)
        if self._pace.is_late:
            logger.warning(
                "scrub_slower_than_wanted entries=%d localScrubRateLimit=%s localScrubInterval=%s",
                entries,
                config.rate_limit,
                config.interval_s,
            )
        self._began_s, self._done = asyncio.get_running_loop().time(), 0

    async def _wait(self) -> None:
        """Wait until it is time for the next batch, and a little longer while others read."""
        elapsed_s = asyncio.get_running_loop().time() - self._began_s
        await asyncio.sleep(self._pace.pause_s(self._done, elapsed_s))
        for _ in range(YIELDS_MAX):
            if not self._bookie.pending_reads:
                return
            await asyncio.sleep(YIELD_S)

    async def _well_from(self, ledger_id: LedgerId, first: EntryId, count: int) -> int:
        """Return how many entries from `first` on are well, as far as one batch tells."""
        found = await self._ask(BatchReadRequest(ledger_id, first, count, BATCH_BYTES))
        if not isinstance(found, BatchReadResponse) or found.status is not StatusCode.EOK:
            return 0
        for number, body in enumerate(found.bodies):
            if await self._judge.damage_of(ledger_id, body) is not None:
                return number
        return len(found.bodies)

    async def _is_well_or_mended(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        if await self._is_well(ledger_id, entry_id):
            return True
        return await self._mended(ledger_id, entry_id)

    async def _entry_ids(self, ledger_id: LedgerId) -> Iterable[EntryId] | None:
        """Return the ids of a ledger's entries, None if they cannot be read."""
        listed = await self._ask(ListEntriesRequest(ledger_id))
        if listed.status is StatusCode.EIO:
            return None
        if listed.status is StatusCode.ETOOMANYREQUESTS:
            logger.warning("ledger_not_scrubbed ledger=%d why=the bookie is busy", ledger_id)
        if not isinstance(listed, ListEntriesResponse) or not listed.availability:
            return ()  # removed meanwhile
        groups = decode_availability(listed.availability)
        return chain.from_iterable(group.entry_ids() for group in groups)

    async def _is_well(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        found = await self._ask(ReadRequest(ledger_id, entry_id))
        if found.status is not StatusCode.EOK:
            return found.status is not StatusCode.EIO  # removed meanwhile, or too busy
        return await self._judge.damage_of(ledger_id, found.body) is None

    async def _mended(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Store another replica's copy; say so if that cannot be."""
        try:
            replica = await self.fetch(ledger_id, entry_id) if self.fetch else None
        except CoreError as error:
            self._report(ledger_id, entry_id, f"no replica could be read: {error}")
            return False
        if replica is None:
            self._report(ledger_id, entry_id, "there is no other replica")
            return False
        add = AddRequest(
            ledger_id, entry_id, replica.master_key, replica.body,
            recovery=True, priority=HIGH_PRIORITY,
        )  # fmt: skip
        answer = await self._ask(add)
        if answer.status is not StatusCode.EOK:
            self._report(ledger_id, entry_id, f"storing it again: {answer.status.name}")
            return False
        logger.warning("entry_repaired ledger=%d entry=%d", ledger_id, entry_id)
        self.metrics.repaired_entries_total += 1
        return True

    def _report(self, ledger_id: LedgerId, entry_id: EntryId, why: str) -> None:
        logger.error("entry_damaged ledger=%d entry=%d why=%s", ledger_id, entry_id, why)

    async def _ask(self, request: Request) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reply(response: Any) -> None:
            if not answered.done():
                answered.set_result(response)

        self._bookie.submit(request, reply)
        return await answered


def _runs(entry_ids: Iterable[EntryId]) -> Iterator[tuple[EntryId, int]]:
    """Yield (first, count) of entries that follow each other, at most one batch each."""
    first, count = -1, 0
    for entry_id in entry_ids:
        if count and entry_id == first + count and count < BATCH_ENTRIES:
            count += 1
            continue
        if count:
            yield first, count
        first, count = entry_id, 1
    if count:
        yield first, count
