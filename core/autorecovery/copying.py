"""Copies what a fragment is missing to other bookies; the metadata is not touched here.

    choose who takes the places over -> batch: read each entry once, write it to all who need it

Entries go as the bytes that they are, once the digest was found right. Why not packed anew, as
Java's worker does with the LAC of its handle: the same bytes are the same entry on every replica,
LAC and length as the writer knew them, nothing is computed twice, and no copy says more than what
was copied. Every add carries RECOVERY_ADD, which fenced ledgers take, and counts once it is synced.

A place fails for itself: an entry that no replica has fails those who need it, a bookie that
refuses an entry fails its place, and the others go on. Nothing here is remembered: what a failed
copy left on a bookie that the metadata never names is removed by that bookie.

Memory: one batch of `rereplicationEntryBatchSize` entries, fewer when they are large; one entry of
a ledger that may have entries above 5 MiB.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Final, NamedTuple

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.copy_pace import CopyPace
from tailrace.core.autorecovery.fragments import FragmentSpan, Replacement
from tailrace.core.autorecovery.ledger_check import CheckedFragment
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.errors import (
    CoreError,
    CorruptData,
    EntryNotFound,
    LedgerNotFound,
    MetadataConflict,
    NotEnoughBookies,
)
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.durability import promise_of
from tailrace.core.ledger.entry_limit import entry_limit_of, has_large_entries
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.outcomes import add_error_of, error_of, worse
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.protocol.bookkeeper.digest import Digest, ledger_master_key
from tailrace.protocol.bookkeeper.entry import read_entry
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import BookieId, Buffer, EntryId

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 4 * 1024 * 1024
"""What a batch aims to have in memory. One entry is copied first, to know how large they are."""
BUSY_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0)
"""Pauses before an entry is sent again to a bookie with too many requests; then it has failed."""


class LockLost(MetadataConflict):
    """Somebody else may work on the ledger by now: nothing more is done to it."""


class Copied(NamedTuple):
    """What a copy of a fragment came to."""

    replacements: dict[int, Replacement]
    """Who has all entries of a place now, synced."""
    repaired: tuple[int, ...]
    """Places whose own bookie has them again."""
    error: CoreError | None
    """Why not all; the first one."""


class FragmentCopier:
    """Copies fragments of any ledger."""

    def __init__(
        self, context: LedgerContext, config: AutoRecoveryConfig, metrics: ReplicationMetrics
    ) -> None:
        self._context = context
        self._batch_max = max(config.entry_batch_size, 1)
        self._pace = CopyPace(config.replication_bytes_per_s)
        self._metrics = metrics

    async def copy(
        self, stored: StoredLedger, checked: CheckedFragment, is_ours: Callable[[], bool]
    ) -> Copied:
        """Copy the entries of the missing places, all or as many of these as bookies can be found.

        `is_ours`: tells whether the ledger's lock is still held; asked before each batch.
        Errors: NotEnoughBookies when there is nobody to copy to; LockLost; ValueError for an open
        fragment. What else fails is told in the result. Cancel: nobody will know of the copies.
        Cost: each entry is read once and written and synced at each new place.
        """
        if checked.span.is_open:
            raise ValueError(f"an open fragment cannot be copied: {checked.span}")
        targets = await self._targets(stored, checked)
        copy = _Copy(stored, checked, targets, self._context, self._metrics)
        largest = BATCH_BYTES
        batch_max = 1 if has_large_entries(stored.metadata.custom) else self._batch_max
        entries = checked.span.entries_at(sorted(targets))
        while batch := list(islice(entries, _batch_size(largest, batch_max))):
            if not is_ours():
                raise LockLost(f"the lock of ledger {stored.ledger_id} went with its session")
            bodies = await copy.read(batch)
            await copy.write(bodies)
            if not copy.targets:
                break
            sizes = [len(body) for body in bodies.values()]
            largest = max([1, *sizes]) if largest == BATCH_BYTES else max([largest, *sizes])
            await self._wait(sum(sizes))
        return copy.outcome()

    async def _wait(self, count: int) -> None:
        pause_s = self._pace.on_copied(count, asyncio.get_running_loop().time())
        if pause_s > 0:
            await asyncio.sleep(pause_s)

    async def _targets(self, stored: StoredLedger, checked: CheckedFragment) -> dict[int, BookieId]:
        """Return who shall have the copies of each place.

        Another bookie, under the rules of placement and what the ledger was promised. Only where
        there is none, the bookie that stands there, if it takes entries: in a cluster of as many
        bookies as an ensemble has, one that lost entries gets them back.
        """
        metadata, span = stored.metadata, checked.span
        quorums = Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
        missing, promise = checked.missing, promise_of(metadata.custom)
        none: NotEnoughBookies | None = None
        ensemble = span.ensemble
        try:
            ensemble = await self._context.ensembles.replace(
                ensemble, missing, quorums, promise, entry_bytes=entry_limit_of(metadata.custom)
            )
        except NotEnoughBookies as error:
            none = error
        writable = await self._context.bookies.available()
        targets = {
            place: ensemble[place]
            for place, before in missing.items()
            if ensemble[place] != before or (place in checked.lacking and before in writable)
        }
        if none is not None and not targets:
            raise none
        return targets


def _batch_size(largest: int, batch_max: int) -> int:
    return min(max(BATCH_BYTES // largest, 1), batch_max)


class _Copy:
    """One copy on its way: who still has a chance, and what went wrong."""

    def __init__(
        self, stored: StoredLedger, checked: CheckedFragment, targets: Mapping[int, BookieId],
        context: LedgerContext, metrics: ReplicationMetrics,
    ) -> None:  # fmt: skip
        metadata = stored.metadata
        self.targets = dict(targets)
        self._wanted = checked.missing
        self._ledger_id = stored.ledger_id
        self._span: FragmentSpan = checked.span
        self._suspects = checked.gone | checked.lacking
        self._failures: dict[BookieId, int] = {}
        self._digest = Digest(metadata.digest, metadata.password)
        self._master_key = ledger_master_key(metadata.password)
        self._context = context
        self._metrics = metrics
        self._error: CoreError | None = None

    def outcome(self) -> Copied:
        """Return what it came to."""
        members = self._span.ensemble
        moved = {p: Replacement(members[p], b) for p, b in self.targets.items() if members[p] != b}
        stayed = tuple(sorted(p for p, bookie in self.targets.items() if members[p] == bookie))
        error = self._error
        if error is None and len(self.targets) < len(self._wanted):
            left = [b for p, b in self._wanted.items() if p not in self.targets]
            error = NotEnoughBookies(
                f"ledger {self._ledger_id}: too few other bookies to take the place of"
                f" {', '.join(left)}; start more, or bring these back"
            )
        return Copied(moved, stayed, error)

    # -- reading ---

    async def read(self, batch: list[EntryId]) -> dict[EntryId, Buffer]:
        """Return the bodies, verified; of an entry that nobody has there is none.

        Every replica is asked that may have it, the best first, and all entries at once.
        """
        found: dict[EntryId, Buffer] = {}
        errors: dict[EntryId, list[CoreError]] = {}
        batch = [e for e in batch if not self.targets.keys().isdisjoint(self._span.places_of(e))]
        sources = {entry_id: self._sources(entry_id) for entry_id in batch}
        while asked := [(e, b) for e in sources if e not in found for b in islice(sources[e], 1)]:
            answers = [
                ask(self._context.bookies.client(b), ReadRequest(self._ledger_id, e))
                for e, b in asked
            ]
            for (entry_id, bookie), answer in zip(asked, answers, strict=True):
                body = self._body(entry_id, bookie, await answer)
                if isinstance(body, CoreError):
                    self._on_read_failed(bookie, body)
                    errors.setdefault(entry_id, []).append(body)
                else:
                    found[entry_id] = body
        for entry_id in batch:
            if entry_id not in found:
                self._on_unreadable(entry_id, errors[entry_id])
        return found

    def _sources(self, entry_id: EntryId) -> Iterator[BookieId]:
        """Yield who may have an entry; last those who lack another one, or are said to be gone."""
        places = self._span.places_of(entry_id)
        members = self._span.ensemble
        order = sorted(
            places, key=lambda p: (p in self._suspects, self._failures.get(members[p], 0))
        )
        return iter([members[place] for place in order])

    def _body(self, entry_id: EntryId, bookie: BookieId, response: Response) -> Buffer | CoreError:
        if not isinstance(response, ReadResponse) or response.status is not StatusCode.EOK:
            return error_of(response.status, bookie)
        body = response.body or b""
        try:
            read_entry(body, self._ledger_id, entry_id, self._digest)
        except DecodeError as problem:
            return CorruptData(f"{bookie}: {problem}")
        return body

    def _on_read_failed(self, bookie: BookieId, error: CoreError) -> None:
        self._metrics.replicas_failed_total += 1
        self._failures[bookie] = self._failures.get(bookie, 0) + 1
        logger.debug("copy_read_failed ledger=%d %s", self._ledger_id, error)

    def _on_unreadable(self, entry_id: EntryId, errors: Sequence[CoreError]) -> None:
        """Fail all places that need an entry which nobody gave."""
        worst = reduce(worse, errors)
        what = f"entry {entry_id} of ledger {self._ledger_id} cannot be copied"
        said = "; ".join(map(str, errors))
        problem: CoreError
        if isinstance(worst, EntryNotFound | LedgerNotFound):
            problem = EntryNotFound(f"{what}, no replica has it: it is lost ({said})")
        else:
            problem = type(worst)(f"{what} until one of its replicas can be read ({said})")
        for place in self._span.places_of(entry_id):
            self._fail(place, problem)

    # -- writing ---

    async def write(self, bodies: Mapping[EntryId, Buffer]) -> None:
        """Have the entries synced at all places that need them and did not fail."""
        waiting = [
            (entry_id, place)
            for entry_id in bodies
            for place in self._span.places_of(entry_id)
            if place in self.targets
        ]
        for pause_s in (*BUSY_PAUSES_S, None):
            waiting = await self._send(waiting, bodies, is_last=pause_s is None)
            if not waiting or pause_s is None:
                return
            await asyncio.sleep(pause_s)

    async def _send(
        self, wanted: list[tuple[EntryId, int]], bodies: Mapping[EntryId, Buffer], *, is_last: bool
    ) -> list[tuple[EntryId, int]]:
        """Send entries to places; return those that a busy bookie is to be sent again."""
        again = []
        sent = [
            (entry_id, place, self.targets[place], self._add(entry_id, place, bodies[entry_id]))
            for entry_id, place in wanted
            if place in self.targets
        ]
        for entry_id, place, bookie, answer in sent:
            status = (await answer).status
            if status is StatusCode.EOK:
                self._metrics.entries_copied_total += 1
                self._metrics.bytes_copied_total += len(bodies[entry_id])
            elif status is StatusCode.ETOOMANYREQUESTS and not is_last:
                again.append((entry_id, place))
            else:
                what = f"copy entry {entry_id} of ledger {self._ledger_id} to bookie {bookie}"
                self._context.ensembles.report_failure(bookie, status)
                self._fail(place, add_error_of(status, what))
        return again

    def _add(self, entry_id: EntryId, place: int, body: Buffer) -> "asyncio.Future[Response]":
        request = AddRequest(self._ledger_id, entry_id, self._master_key, (body,), recovery=True)
        return ask(self._context.bookies.client(self.targets[place]), request)

    def _fail(self, place: int, error: CoreError) -> None:
        if self.targets.pop(place, None) is not None and self._error is None:
            self._error = error
