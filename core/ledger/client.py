"""The door to ledgers: create, open, delete.

Flow: an id from BookKeeper's generator (an ephemeral sequential node), an ensemble from the bookies
that are available, then one `multi` that makes the ledger's node and takes the id's away. No bookie
hears of a ledger before its first entry.
"""

import contextlib
import logging
from random import Random
from typing import Final

from core.errors import MetadataConflict, NodeExists, NoNode, NotEmpty
from core.ledger.adder import LedgerListener
from core.ledger.bookie_registry import BookieRegistry
from core.ledger.config import LedgerClientConfig, LedgerConfig
from core.ledger.metadata_update import LedgerNodes, StoredLedger
from core.ledger.metrics import LedgerMetrics
from core.ledger.placement import choose_ensemble
from core.ledger.reader import LedgerReader
from core.ledger.recover import recover_ledger
from core.ledger.writer import LedgerWriter
from core.metadata.layout import SHORT_LEDGER_ID_MAX, LedgerPaths
from core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from core.metadata.store import Create, Delete, MetadataStore, Op
from protocol.ids import LedgerId

logger = logging.getLogger(__name__)

_CREATE_ATTEMPTS_MAX: Final = 16
_LONG_ID_LOW_BITS: Final = 32


class LedgerClient:
    """Ledgers of one cluster. It owns neither the store nor the registry."""

    def __init__(
        self,
        store: MetadataStore,
        bookies: BookieRegistry,
        config: LedgerClientConfig | None = None,
        rng: Random | None = None,
    ) -> None:
        """`rng`: chooses ensembles; seeded by the system unless given."""
        self._store = store
        self._bookies = bookies
        self._config = config or LedgerClientConfig()
        self._rng = rng or Random()
        self._paths = LedgerPaths(self._config.root)
        self.metrics = LedgerMetrics()
        self._nodes = LedgerNodes(
            store, self._paths, self._config.metadata_update_attempts, self.metrics
        )

    async def create_ledger(self, config: LedgerConfig, listener: LedgerListener) -> LedgerWriter:
        """Make a new ledger and return its writer.

        Errors: NotEnoughBookies. Cost: two metadata commits.
        Cancel: a ledger without entries may stay behind; nobody will ever write to it.
        """
        available = await self._bookies.available()
        metadata = LedgerMetadata(
            ensemble_size=config.ensemble_size,
            write_quorum=config.write_quorum,
            ack_quorum=config.ack_quorum,
            fragments=(Fragment(0, choose_ensemble(available, config.ensemble_size, self._rng)),),
            digest=config.digest,
            password=config.password,
            custom=config.custom,
            ctoken=self._rng.getrandbits(63),
        )
        stored = await self._create_node(metadata)
        logger.debug("ledger_created ledger=%d", stored.ledger_id)
        return LedgerWriter(stored, self._nodes, self._bookies, listener, config)

    async def open_ledger(self, ledger_id: LedgerId, *, recover: bool) -> LedgerReader:
        """Open a ledger for reading.

        `recover`: first stop its writer and fix its end, which takes a quorum of its bookies; a
        closed ledger is left alone. Without it, the reader of an open ledger knows the LAC of now.
        Errors: LedgerNotFound; BookieUnavailable, CorruptData when too few bookies answer.
        """
        stored = await self._nodes.read(ledger_id)
        if recover:
            batch = self._config.recovery_read_batch
            stored = await recover_ledger(stored, self._nodes, self._bookies, batch)
        reader = LedgerReader(stored, self._nodes, self._bookies, self._config.read_window)
        if not reader.is_closed:
            await reader.read_last_confirmed()
        return reader

    async def ledger_metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        """Return the stored metadata. Errors: LedgerNotFound, CorruptData."""
        return (await self._nodes.read(ledger_id)).metadata

    async def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Delete a ledger; bookies drop its entries later. One that is not there is fine."""
        path = self._paths.ledger(ledger_id)
        try:
            await self._store.delete(path)
            await self._prune(path)
        except NoNode:
            pass

    async def _prune(self, path: str) -> None:
        """Delete directories that became empty, so that a walk of all ledgers stays short."""
        directory = path.rpartition("/")[0]
        while directory != self._paths.root:
            try:
                await self._store.delete(directory)
            except NotEmpty:
                return
            directory = directory.rpartition("/")[0]

    async def _create_node(self, metadata: LedgerMetadata) -> StoredLedger:
        data = encode_ledger(metadata)
        for _ in range(_CREATE_ATTEMPTS_MAX):
            ledger_id, id_node = await self._next_id()
            try:
                await self._create_at(self._paths.ledger(ledger_id), data, id_node)
            except NodeExists:
                continue  # an id that somebody chose by hand; take the next one
            return StoredLedger(ledger_id, metadata, 0)
        raise MetadataConflict(f"{_CREATE_ATTEMPTS_MAX} ledger ids in a row are taken")

    async def _create_at(self, path: str, data: bytes, id_node: str) -> None:
        """Make the ledger's node and drop the id's, whole or not at all."""
        directory = path.rpartition("/")[0]
        ops: list[Op] = [Create(path, data), Delete(id_node)]
        for _ in range(_CREATE_ATTEMPTS_MAX):
            try:
                await self._store.multi(ops)
            except NoNode:
                await self._make_directory(directory)  # new, or pruned under our hands
            else:
                return
        raise MetadataConflict(f"{directory} vanished {_CREATE_ATTEMPTS_MAX} times")

    async def _make_directory(self, path: str) -> None:
        with contextlib.suppress(NodeExists):
            await self._store.create(path, parents=True)

    async def _next_id(self) -> tuple[LedgerId, str]:
        """Return an id that was never given before, and the node that reserves it."""
        node = await self._sequential(f"{self._paths.idgen}/ID-")
        number = int(node.rpartition("-")[2])
        if number <= SHORT_LEDGER_ID_MAX:
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
            node = await self._sequential(f"{root}/HOB-{high:010d}/ID-")
            low = int(node.rpartition("-")[2])
            if low < 2**31 - 1:
                return LedgerId(high << _LONG_ID_LOW_BITS | low), node
            await self._store.delete(node)
            high += 1

    async def _sequential(self, prefix: str) -> str:
        return await self._store.create(prefix, ephemeral=True, sequential=True, parents=True)
