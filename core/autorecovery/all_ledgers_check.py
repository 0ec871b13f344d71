"""The check of all ledgers: asks bookies for entries, and marks ledgers that lack some.

Finds what no registration tells: a bookie that is there and lost a part of its disk.
Source: BookKeeper AuditorCheckAllLedgersTask.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Protocol

from tailrace.core.autorecovery.audit import Audit
from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.errors import CoreError, LedgerNotFound, Unavailable
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)

Excused = Callable[[], Awaitable[Collection[BookieId] | None]]
"""Lost bookies that are given time to come back; None: to stop, nothing may be marked."""


class ReplicaCheck(Protocol):
    """Asks for the replicas of one ledger."""

    async def missing_replicas(self, ledger_id: LedgerId) -> frozenset[BookieId]:
        """Return the bookies that lack what they should have.

        Errors: LedgerNotFound; Unavailable: the metadata is away; others: only this ledger fails.
        """


class AllLedgersCheck:
    """Checks of all ledgers of one cluster."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        check: ReplicaCheck,
        audit: Audit,
        metrics: AuditorMetrics,
    ) -> None:
        self._store = store
        self._root = root
        self._check = check
        self._audit = audit
        self._metrics = metrics

    async def run(self, at_once: int, excused: Excused) -> bool:
        """Check every ledger, so many at once. Returns False if `excused` stopped it.

        A ledger that cannot be checked is counted, and left to the next check. Errors: Unavailable:
        the metadata is away.
        """
        ids = self._ids()
        turn = asyncio.Lock()
        stopped = asyncio.Event()

        async def check_some() -> None:
            while not stopped.is_set():
                async with turn:
                    ledger_id = await anext(ids, None)
                if ledger_id is None:
                    return
                if not await self._check_one(ledger_id, excused):
                    stopped.set()

        await together([check_some() for _ in range(at_once)])
        return not stopped.is_set()

    async def _ids(self) -> AsyncIterator[LedgerId]:
        async for ids in ledger_ranges(self._store, self._root):
            for ledger_id in ids:
                yield ledger_id

    async def _check_one(self, ledger_id: LedgerId, excused: Excused) -> bool:
        try:
            missing = await self._check.missing_replicas(ledger_id)
        except Unavailable:
            raise
        except LedgerNotFound:
            return True  # deleted since the directory was read
        except CoreError as error:
            self._metrics.check_failures_total += 1
            logger.warning("ledger_not_checked ledger=%d error=%s", ledger_id, error)
            return True
        self._metrics.num_ledgers_checked_total += 1
        if missing:
            patience = await excused()
            if patience is None:
                return False
            if lacking := sorted(missing.difference(patience)):
                await self._audit.mark(ledger_id, lacking)
        return True
