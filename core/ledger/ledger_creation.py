"""Makes the node of a new ledger, under an id of BookKeeper's generator or of the caller's choice.

Flow: an id (the number of an ephemeral sequential node), then one `multi` that makes the ledger's
node and takes the id's away. A create whose answer was lost is tried again; if the node is there
then, its cToken says whose it is.
Source: BookKeeper ZkLedgerIdGenerator, LongZkLedgerIdGenerator, AbstractZkLedgerManager.
"""

import asyncio
import contextlib
import logging
from typing import Final

from tailrace.core.errors import (
    CorruptData,
    LedgerExists,
    MetadataConflict,
    NodeExists,
    NoNode,
    Unavailable,
)
from tailrace.core.ledger.metadata_update import UNAVAILABLE_PAUSES_S, StoredLedger
from tailrace.core.metadata.layout import SHORT_LEDGER_ID_MAX, LedgerPaths
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger, encode_ledger
from tailrace.core.metadata.store import Create, Delete, MetadataStore, Op
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 16
_LONG_ID_LOW_BITS: Final = 32
_PAUSES_S: Final = UNAVAILABLE_PAUSES_S[:5]
"""How long a lost answer is asked for; the caller may call again, so less long than for writers."""


class LedgerCreator:
    """Creates ledgers of one cluster."""

    def __init__(self, store: MetadataStore, paths: LedgerPaths) -> None:
        self._store = store
        self._paths = paths

    async def create(self, metadata: LedgerMetadata, ledger_id: LedgerId | None) -> StoredLedger:
        """Store the metadata of a new ledger and return it with its id.

        Errors: LedgerExists for an id that the caller chose; MetadataConflict; Unavailable: the
        ledger may be there, without an entry.
        """
        if ledger_id is not None:
            if not await self._create_at(ledger_id, metadata, None):
                raise LedgerExists(f"ledger {ledger_id} is there already")
            return StoredLedger(ledger_id, metadata, 0)
        for _ in range(_ATTEMPTS_MAX):
            ledger_id, id_node = await self._next_id()
            if await self._create_at(ledger_id, metadata, id_node):
                return StoredLedger(ledger_id, metadata, 0)
            with contextlib.suppress(NoNode):  # somebody chose this id by hand; take the next one
                await self._store.delete(id_node)
        raise MetadataConflict(f"{_ATTEMPTS_MAX} ledger ids in a row are taken")

    async def _create_at(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, id_node: str | None
    ) -> bool:
        """Make the ledger's node; False: another ledger has it.

        A lost answer is asked for again until the store's patience ends.
        """
        path = self._paths.ledger(ledger_id)
        for pause_s in _PAUSES_S:
            try:
                return await self._try_create(path, metadata, id_node)
            except Unavailable as error:
                logger.warning("ledger_create_waits ledger=%d %s", ledger_id, error)
            await asyncio.sleep(pause_s)
        return await self._try_create(path, metadata, id_node)

    async def _try_create(self, path: str, metadata: LedgerMetadata, id_node: str | None) -> bool:
        """Make the ledger's node and drop the id's, whole or not at all."""
        directory = path.rpartition("/")[0]
        ops: list[Op] = [Create(path, encode_ledger(metadata))]
        if id_node is not None:
            ops.append(Delete(id_node))
        for _ in range(_ATTEMPTS_MAX):
            try:
                await self._store.multi(ops)
            except NodeExists:
                return await self._is_ours(path, metadata.ctoken)
            except NoNode:
                if id_node is not None and await self._store.exists(id_node) is None:
                    # It went with the session, or with a multi whose answer was lost.
                    if await self._is_ours(path, metadata.ctoken):
                        return True
                    ops = ops[:1]
                await self._make_directory(directory)  # new, or pruned under our hands
            else:
                return True
        raise MetadataConflict(f"{directory} vanished {_ATTEMPTS_MAX} times")

    async def _is_ours(self, path: str, ctoken: int) -> bool:
        """Tell whether the ledger that is there is the one that we made, without knowing it."""
        node = await self._store.exists(path)
        try:
            return node is not None and decode_ledger(node.data).ctoken == ctoken
        except CorruptData:
            return False

    async def _make_directory(self, path: str) -> None:
        with contextlib.suppress(NodeExists):
            await self._store.create(path, parents=True)

    async def _next_id(self) -> tuple[LedgerId, str]:
        """Return an id that was never given before, and the node that reserves it."""
        number, node = await self._sequential(self._paths.idgen)
        if 0 <= number <= SHORT_LEDGER_ID_MAX:
            return LedgerId(number), node
        await self._store.delete(node)
        return await self._next_long_id()

    async def _next_long_id(self) -> tuple[LedgerId, str]:
        """BookKeeper's generator for ids beyond 31 bits: directory number, then sequence."""
        root = self._paths.idgen_long
        try:
            directories = await self._store.children(root)
        except NoNode:
            directories = []
        high = max((int(name.removeprefix("HOB-")) for name in directories), default=1)
        while True:
            low, node = await self._sequential(f"{root}/HOB-{high:010d}")
            if 0 <= low < 2**31 - 1:
                return LedgerId(high << _LONG_ID_LOW_BITS | low), node
            await self._store.delete(node)
            high += 1

    async def _sequential(self, parent: str) -> tuple[int, str]:
        """Return the next number below `parent` and its node; negative once 31 bits are used up."""
        prefix = f"{parent}/ID-"
        node = await self._store.create(prefix, ephemeral=True, sequential=True, parents=True)
        return int(node.removeprefix(prefix)), node
