"""Reads everything that this bookie keeps, slowly, and mends what does not verify any more.

A disk forgets silently; the ledger's digest tells. What is damaged is read from another replica and
stored again beside the damaged copy, which nobody is shown from then on. Without another replica it
is reported: by a line in the log and by `damaged_entries`, until a later round finds it well.
BookKeeper's local scrub only reports.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from bookie.entry_judge import EntryJudge
from core.errors import CoreError
from core.runtime.config import setting
from core.runtime.forever import Forever
from core.runtime.metrics import counter, gauge
from protocol.bookkeeper.availability import decode_availability
from protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadRequest,
    Request,
    StatusCode,
)
from protocol.ids import Buffer, EntryId, LedgerId

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
        "localScrubRateLimit", 60.0, "Entries that the scrub reads in a second."
    )

    def __post_init__(self) -> None:
        if self.interval_s < 0 or self.rate_limit <= 0:
            raise ValueError("localScrubInterval is at least 0, localScrubRateLimit above 0")


@dataclass(slots=True)
class ScrubMetrics:
    """What the scrub found."""

    rounds_total: int = counter("rounds over everything that is stored")
    entries_total: int = counter("entries read and verified")
    damaged_entries: int = gauge(
        "entries, and indexes of ledgers, that the last round left damaged"
    )
    repaired_entries_total: int = counter("damaged entries replaced by another replica's copy")


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


class Scrub:
    """The scrub of one bookie. One round at a time."""

    def __init__(self, bookie: ScrubbedBookie, judge: EntryJudge, config: ScrubConfig) -> None:
        self._bookie = bookie
        self._judge = judge
        self._config = config
        self.fetch: FetchReplica | None = None
        """Where other replicas are read; None: damage is only reported."""
        self.metrics = ScrubMetrics()
        self._forever = Forever("bookie.scrub", expected=(CoreError, OSError))

    async def run(self) -> None:
        """Do a round every interval, until cancelled."""
        if self._config.interval_s:
            await self._forever.run(self._round_later)

    async def _round_later(self) -> None:
        await asyncio.sleep(self._config.interval_s)
        await self.round()

    async def round(self) -> None:
        """Verify every entry that is stored now and mend what can be mended. Errors: OSError.

        Cancel: what was mended is mended.
        """
        left = 0
        for ledger_id in sorted(await self._bookie.ledger_ids()):
            with self._forever.item(f"ledger {ledger_id}"):
                left += await self._damaged_of(ledger_id)
        self.metrics.damaged_entries = left
        self.metrics.rounds_total += 1

    async def _damaged_of(self, ledger_id: LedgerId) -> int:
        """Verify one ledger and mend it; return how much stays damaged."""
        entry_ids = await self._entry_ids(ledger_id)
        if entry_ids is None:
            logger.error("ledger_damaged ledger=%d why=its index cannot be read", ledger_id)
            return 1
        left = 0
        for entry_id in entry_ids:
            await asyncio.sleep(1 / self._config.rate_limit)
            self.metrics.entries_total += 1
            if not await self._is_well(ledger_id, entry_id):
                left += not await self._mended(ledger_id, entry_id)
        return left

    async def _entry_ids(self, ledger_id: LedgerId) -> Iterable[EntryId] | None:
        """Return the ids of a ledger's entries, None if they cannot be read."""
        listed = await self._ask(ListEntriesRequest(ledger_id))
        if listed.status is StatusCode.EIO:
            return None
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
