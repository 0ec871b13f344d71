"""Changing a ledger's metadata when others may change it too.

    1. Look at the metadata as it is known here.   2. Decide: nothing to do, or the new metadata.
    3. Write it, if the version is still the one seen.   4. If not: read it anew and go to 2.

Source: BookKeeper MetadataUpdateLoop.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.errors import (
    BadVersion,
    LedgerNotFound,
    MetadataConflict,
    NoNode,
    OverCapacity,
    Unavailable,
)
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger, encode_ledger
from tailrace.core.metadata.store import MetadataStore, Op, SetData, Watch
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 16
UNAVAILABLE_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Longer than a ZooKeeper session that moves to another server; then nobody waits any more."""

Decide: TypeAlias = Callable[[LedgerMetadata], LedgerMetadata | None]
"""Returns the new metadata, or None when what is there is right. Errors end the update."""


def _nothing() -> tuple[()]:
    return ()


class StoredLedger(NamedTuple):
    """A ledger's metadata as one read saw it."""

    ledger_id: LedgerId
    metadata: LedgerMetadata
    version: int


class LedgerNodes:
    """Ledger metadata in the store."""

    def __init__(
        self,
        store: MetadataStore,
        paths: LedgerPaths,
        attempts: int = ATTEMPTS_MAX,
        metrics: LedgerMetrics | None = None,
    ) -> None:
        self.metrics = metrics or LedgerMetrics()
        self.store = store
        self.paths = paths
        self._attempts = attempts

    async def read(self, ledger_id: LedgerId, watch: Watch | None = None) -> StoredLedger:
        """Return the metadata. Errors: LedgerNotFound, CorruptData.

        `watch`: fires once when it changes, as MetadataStore.get has it.
        """
        try:
            node = await self.store.get(self.paths.ledger(ledger_id), watch)
        except NoNode:
            raise LedgerNotFound(f"ledger {ledger_id}") from None
        return StoredLedger(ledger_id, decode_ledger(node.data), node.version)

    async def update(
        self, known: StoredLedger, decide: Decide, beside: Callable[[], Sequence[Op]] = _nothing
    ) -> StoredLedger:
        """Change the metadata by compare-and-set; return what is stored then.

        `beside`: what is to change with it, both or neither. Errors: what `decide` raises;
        LedgerNotFound; MetadataConflict after too many lost races, or when it is what is beside
        that cannot be changed. Cancel: the update may have happened.
        """
        path = self.paths.ledger(known.ledger_id)
        for _ in range(self._attempts):
            changed = decide(known.metadata)
            if changed is None:
                return known
            change = SetData(path, encode_ledger(changed), known.version)
            others = beside()
            try:
                version = await self._change(change, others)
            except (BadVersion, NoNode) as error:
                now = await self.read(known.ledger_id)
                if others and now.version == known.version:
                    raise MetadataConflict(f"ledger {known.ledger_id}: beside it {error}") from None
                self.metrics.update_races_total += 1
                logger.info("ledger_update_raced ledger=%d", known.ledger_id)
                known = now
            else:
                return StoredLedger(known.ledger_id, changed, version)
        raise MetadataConflict(f"ledger {known.ledger_id}: lost {self._attempts} races")

    async def _change(self, change: SetData, beside: Sequence[Op]) -> int:
        if not beside:
            return await self.store.set(change.path, change.data, change.version)
        return (await self.store.multi([change, *beside]))[0]

    async def insist(self, known: StoredLedger, decide: Decide) -> StoredLedger:
        """Update, and try again for a while when the store is away or has too much to do.

        What was tried before may have happened: `decide` must know its own work again.
        Errors: as `update`; Unavailable, OverCapacity when that takes too long.
        """
        for pause_s in UNAVAILABLE_PAUSES_S:
            try:
                return await self.update(known, decide)
            except (Unavailable, OverCapacity) as error:
                logger.warning("ledger_update_waits ledger=%d %s", known.ledger_id, error)
            await asyncio.sleep(pause_s)
        return await self.update(known, decide)
