"""Which copies of a ledger's entries are not where its metadata says.

    gone      the bookie is not registered, neither as writable nor as read-only: it is not asked
    lacking   it is there, and says that it has not got an entry or that it is damaged (EIO), or
              what it has does not verify
    doubtful  it is there and gave no such answer (silent, busy, short of descriptors, ending):
              nothing is concluded

Why silence is not absence: a registered bookie that is slow for a minute would have its whole disk
copied by the others, which makes them slow. Its session ends if it is dead, and then it is gone.
Java's check takes every failure for a lost copy.

Of each replica the first and the last entry are read, and `ledger_verification_percentage` of those
between. The end of an open ledger: what some bookie tells to be confirmed, or its first entry if
anybody has that; with no entry anywhere it is empty, not lost. Source: BookKeeper LedgerChecker.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from random import Random
from typing import Final, NamedTuple

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.fragments import FragmentSpan, StoredEntries, fragments_of
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.entry_limit import has_large_entries
from tailrace.core.ledger.metadata_update import LedgerNodes, StoredLedger
from tailrace.core.ledger.outcomes import ABSENT
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import Entry, read_entry
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import BookieId, EntryId, LedgerId

PROBES_MAX: Final = 16
"""Entries that one check asks for at once."""
READS_MAX: Final = 64
"""Entries that all checks of this object ask for at once; with 5 MiB each, 320 MiB in memory."""
LARGE_READS_MAX: Final = 4
"""Entries of ledgers that may have larger ones: with 72 MiB each, 288 MiB."""


class Copy(Enum):
    """What an answer says of one copy."""

    HELD = "held"
    LACKING = "lacking"
    DOUBTFUL = "doubtful"


@dataclass(slots=True)
class CheckedFragment:
    """One fragment and the places at which something is wrong with it."""

    span: FragmentSpan
    gone: set[int] = field(default_factory=set)
    lacking: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)

    @property
    def missing(self) -> dict[int, BookieId]:
        """The places whose copies have to be made anew, and who should have them."""
        return {place: self.span.ensemble[place] for place in sorted(self.gone | self.lacking)}

    def bookies_at(self, places: Iterable[int]) -> list[BookieId]:
        """Return who stands at some places, in their order."""
        return [self.span.ensemble[place] for place in sorted(places)]


class _Probe(NamedTuple):
    fragment: CheckedFragment
    place: int
    entry_id: EntryId


class LedgerCheck:
    """Looks for copies that are missing. It changes nothing."""

    def __init__(
        self, nodes: LedgerNodes, bookies: BookieRegistry, config: AutoRecoveryConfig, rng: Random
    ) -> None:
        """`rng`: which entries between the first and the last are looked at."""
        self._nodes = nodes
        self._bookies = bookies
        self._turns = asyncio.Semaphore(READS_MAX)
        self._large_turns = asyncio.Semaphore(LARGE_READS_MAX)
        self._percentage = config.ledger_verification_percentage
        self._rng = rng

    async def missing_replicas(self, ledger_id: LedgerId) -> frozenset[BookieId]:
        """Return the bookies that have not got what a ledger's metadata says.

        Errors: LedgerNotFound, also when it is deleted meanwhile; CorruptData for metadata that
        cannot be read; Unavailable. Cost: two reads for each member of each fragment.
        """
        checked = await self.check(await self._nodes.read(ledger_id))
        missing = frozenset(bookie for one in checked for bookie in one.missing.values())
        if missing:  # bookies drop the entries of a ledger that was deleted
            await self._nodes.read(ledger_id)
        return missing

    async def check(self, stored: StoredLedger) -> list[CheckedFragment]:
        """Return all fragments, each with what is wrong with it. Errors: as above."""
        registered = frozenset(await self._bookies.registered())
        checked = [CheckedFragment(span) for span in fragments_of(stored.metadata)]
        for one in checked:
            members = enumerate(one.span.ensemble)
            one.gone = {place for place, bookie in members if bookie not in registered}
        if checked[-1].span.is_open:
            await self._find_end(stored, checked[-1])
        digest = Digest(stored.metadata.digest, stored.metadata.password)
        probes = self._probes(checked)
        probes_max = 1 if has_large_entries(stored.metadata.custom) else PROBES_MAX
        while window := list(islice(probes, probes_max)):
            answers = [await self._read(stored, probe) for probe in window]
            for probe, answer in zip(window, answers, strict=True):
                found = judge(await answer, stored.ledger_id, probe.entry_id, digest)
                _note(probe, found)
        return checked

    def _probes(self, checked: list[CheckedFragment]) -> Iterator[_Probe]:
        """Yield what to ask for; of a replica that is known to be bad nothing more."""
        for one in checked:
            for place in range(len(one.span.ensemble)):
                for entry_id in self._sample(one.span.stored_at(place)):
                    if place in one.gone or place in one.lacking or place in one.doubtful:
                        break
                    yield _Probe(one, place, entry_id)

    def _sample(self, entries: StoredEntries) -> Iterator[EntryId]:
        count = len(entries)
        if count == 0:
            return
        yield entries[0]
        if count > 1:
            yield entries[-1]
        between = count - 2
        wanted = between * self._percentage // 100 if between > 0 else 0
        for number in range(wanted):  # spread evenly, each by chance within its part
            low, high = between * number // wanted, between * (number + 1) // wanted
            yield entries[1 + self._rng.randrange(low, high)]

    async def _read(self, stored: StoredLedger, probe: _Probe) -> asyncio.Future[Response]:
        return await self._ask(probe.fragment.span.ensemble[probe.place], stored, probe.entry_id)

    async def _ask(
        self, bookie: BookieId, stored: StoredLedger, entry_id: EntryId
    ) -> asyncio.Future[Response]:
        """Ask when it is this read's turn; the answer ends the turn."""
        is_large = has_large_entries(stored.metadata.custom)
        turns = self._large_turns if is_large else self._turns
        await turns.acquire()
        answer = ask(self._bookies.client(bookie), ReadRequest(stored.ledger_id, entry_id))
        answer.add_done_callback(lambda _: turns.release())
        return answer

    async def _find_end(self, stored: StoredLedger, last: CheckedFragment) -> None:
        """Find out how far an open fragment is written for sure."""
        span = last.span
        digest = Digest(stored.metadata.digest, stored.metadata.password)
        answers = [
            await self._ask(bookie, stored, LAST_ENTRY)
            for place, bookie in enumerate(span.ensemble)
            if place not in last.gone
        ]
        for answer in answers:
            entry = _entry_of(await answer, stored.ledger_id, None, digest)
            if entry is not None and entry.entry_id >= span.first_entry_id:
                known = max(last.span.last_entry_id, entry.lac, span.first_entry_id)
                last.span = last.span._replace(last_entry_id=known)


def judge(response: Response, ledger_id: LedgerId, entry_id: EntryId, digest: Digest) -> Copy:
    """Return what a bookie's answer says of its copy of an entry."""
    if response.status in ABSENT or response.status is StatusCode.EIO:
        return Copy.LACKING
    if response.status is not StatusCode.EOK:
        return Copy.DOUBTFUL
    found = _entry_of(response, ledger_id, entry_id, digest)
    return Copy.LACKING if found is None else Copy.HELD


def _entry_of(
    response: Response, ledger_id: LedgerId, entry_id: EntryId | None, digest: Digest
) -> Entry | None:
    if not isinstance(response, ReadResponse) or response.status is not StatusCode.EOK:
        return None
    try:
        return read_entry(response.body or b"", ledger_id, entry_id, digest)
    except DecodeError:
        return None


def _note(probe: _Probe, found: Copy) -> None:
    fragment, place = probe.fragment, probe.place
    if found is Copy.LACKING:
        fragment.lacking.add(place)
        fragment.doubtful.discard(place)
    elif found is Copy.DOUBTFUL and place not in fragment.lacking:
        fragment.doubtful.add(place)
