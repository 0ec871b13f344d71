"""One audit: a walk over the metadata of all ledgers that marks those with lost members.

Memory: the ids of one directory (10,000) and the metadata of 128 ledgers, whatever a cluster holds.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from tailrace.core.autorecovery.audit_rules import Registrations, lost_members
from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import CorruptData, MetadataConflict
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import decode_ledger
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.node_reads import READS_AT_ONCE
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)

MARKS_AT_ONCE: Final = 64
"""Marks that are on their way together."""

Look = Callable[[], Awaitable[Registrations | None]]
"""Who is registered by now; None: to stop, because nothing may be marked."""


class _Ledger(NamedTuple):
    ledger_id: LedgerId
    ensembles: tuple[tuple[BookieId, ...], ...]


class Audit:
    """Audits of one cluster."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        marks: UnderreplicatedLedgers,
        metrics: AuditorMetrics,
    ) -> None:
        self._store = store
        self._root = root
        self._paths = LedgerPaths(root)
        self._marks = marks
        self._metrics = metrics

    async def run(self, begun: Registrations, look: Look) -> int | None:
        """Mark every ledger with a member that is registered neither in `begun` nor by now.

        Returns how many it marked; None if `look` stopped it. What is marked stays: it is right,
        and marking again changes nothing. Errors: Unavailable. Cost: a round trip for each 128
        ledgers, one or two more where some of them are marked.
        """
        count = 0
        async for ids in ledger_ranges(self._store, self._root):
            for at in range(0, len(ids), READS_AT_ONCE):
                ledgers = await self._read(ids[at : at + READS_AT_ONCE])
                if not any(lost_members(each.ensembles, begun.available) for each in ledgers):
                    continue
                now = await look()
                if now is None:
                    return None
                count += await self._mark_all(ledgers, begun, now)
        return count

    async def _read(self, ids: Sequence[LedgerId]) -> list[_Ledger]:
        nodes = await self._store.get_all([self._paths.ledger(each) for each in ids])
        found = []
        for ledger_id, node in zip(ids, nodes, strict=True):
            if node is None:
                continue  # deleted since the directory was read
            try:
                fragments = decode_ledger(node.data).fragments
            except CorruptData as error:
                self._metrics.unreadable_ledgers_total += 1
                logger.warning("ledger_not_audited ledger=%d %s", ledger_id, error)
            else:
                found.append(_Ledger(ledger_id, tuple(each.ensemble for each in fragments)))
        return found

    async def _mark_all(
        self, ledgers: Sequence[_Ledger], begun: Registrations, now: Registrations
    ) -> int:
        lacking = [
            (each.ledger_id, lost)
            for each in ledgers
            if (lost := lost_members(each.ensembles, begun.available, now.available))
        ]
        for at in range(0, len(lacking), MARKS_AT_ONCE):
            await together([self.mark(*each) for each in lacking[at : at + MARKS_AT_ONCE]])
        return len(lacking)

    async def mark(self, ledger_id: LedgerId, lost: Sequence[BookieId]) -> None:
        """Mark one ledger; if others change its mark all the time, leave that to them.

        Errors: Unavailable.
        """
        try:
            await self._marks.mark(ledger_id, lost)
        except MetadataConflict as error:
            self._metrics.mark_failures_total += 1
            logger.warning("ledger_not_marked ledger=%d error=%s", ledger_id, error)
        else:
            self._metrics.under_replicated_ledgers_total += 1
