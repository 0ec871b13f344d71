"""The door to ledgers: create, open, delete.

Flow: an ensemble from the bookies that are available, then the ledger's node (`ledger_nodes`). No
bookie hears of a ledger before its first entry.
"""

import logging
from random import Random

from tailrace.core.errors import DigestMismatch, NoNode, NotEmpty, UnauthorizedAccess
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.adv_writer import AdvLedgerWriter
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.durability import with_promise
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.entry_limit import with_entry_limit
from tailrace.core.ledger.ledger_creation import LedgerCreator
from tailrace.core.ledger.metadata_update import LedgerNodes, StoredLedger
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.recover import Recovered, fence_ledger, recover_ledger
from tailrace.core.ledger.replicas import Replicas
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)


class LedgerClient:
    """Ledgers of one cluster. It owns neither the store nor the registry."""

    def __init__(
        self,
        store: MetadataStore,
        bookies: BookieRegistry,
        config: LedgerClientConfig | None = None,
        rng: Random | None = None,
        ensembles: Ensembles | None = None,
    ) -> None:
        """`rng`: create tokens, and ensembles unless `ensembles` chooses; seeded by the system."""
        self._store = store
        self._bookies = bookies
        self._config = config or LedgerClientConfig()
        self._rng = rng or Random()
        self._paths = LedgerPaths(self._config.root)
        self.metrics = LedgerMetrics()
        self._nodes = LedgerNodes(
            store, self._paths, self._config.metadata_update_attempts, self.metrics
        )
        ensembles = ensembles or Ensembles(
            bookies,
            self._rng,
            placement=self._config.placement,
            quarantine=self._config.quarantine,
            store=store,
        )
        self._context = LedgerContext(self._nodes, bookies, ensembles)
        self._replicas = Replicas(bookies, self._config.read, ensembles, self._rng)
        self._creator = LedgerCreator(store, self._paths)

    def check(self, config: LedgerConfig) -> None:
        """Refuse quorums with which no ledger could ever be made. Errors: InvalidQuorums."""
        self._context.ensembles.check(_quorums(config), config.regions_min)

    async def create_ledger(
        self, config: LedgerConfig, listener: LedgerListener, *, ledger_id: LedgerId | None = None
    ) -> LedgerWriter:
        """Make a new ledger and return its writer; `ledger_id`: the caller's choice.

        Errors: InvalidQuorums; NotEnoughBookies; LedgerExists when the caller chose the id;
        Unavailable when the metadata store is. Cost: two metadata commits, one with a chosen id.
        Cancel: a ledger without entries may stay behind; nobody will ever write to it.
        """
        stored = await self._create(config, ledger_id)
        return LedgerWriter(stored, self._context, listener, config)

    async def create_ledger_adv(
        self, config: LedgerConfig, listener: LedgerListener, *, ledger_id: LedgerId | None = None
    ) -> AdvLedgerWriter:
        """Make a new ledger whose entry ids the caller chooses; as create_ledger."""
        stored = await self._create(config, ledger_id)
        return AdvLedgerWriter(stored, self._context, listener, config)

    async def open_ledger(
        self,
        ledger_id: LedgerId,
        *,
        recover: bool,
        password: bytes | None = None,
        digest: DigestType | None = None,
    ) -> LedgerReader:
        """Open a ledger for reading.

        `recover`: first stop its writer and fix its end, which takes a quorum of its bookies; a
        closed ledger is left alone. Without it, the reader of an open ledger knows the LAC of now.
        `password`, `digest`: None takes what the metadata says.
        Errors: LedgerNotFound; UnauthorizedAccess for another password than the ledger's, with
        nothing done to it; DigestMismatch, unless digest types are detected; BookieUnavailable,
        CorruptData when too few bookies answer.
        """
        stored = await self._nodes.read(ledger_id)
        self._check_access(stored, password, digest)
        await self._replicas.learn_places()
        if recover:
            stored = (await self._recover(stored)).stored
        reader = self._reader(stored)
        if not reader.is_closed:
            await reader.read_last_confirmed()
        return reader

    async def recover_ledger(self, ledger_id: LedgerId) -> tuple[LedgerReader, Entry | None]:
        """Recover a ledger as `open_ledger` does; return its last entry too, if it came by it.

        Errors: as there.
        """
        stored = await self._nodes.read(ledger_id)
        await self._replicas.learn_places()
        recovered = await self._recover(stored)
        return self._reader(recovered.stored), recovered.last_entry

    async def fence_ledger(self, ledger_id: LedgerId) -> None:
        """See to it that no writer is told of another entry of a ledger that is to be deleted.

        Errors: as `open_ledger` with `recover`.
        """
        await fence_ledger(await self._nodes.read(ledger_id), self._context)

    async def _recover(self, stored: StoredLedger) -> Recovered:
        return await recover_ledger(stored, self._context, self._config.recovery_read_batch)

    def _reader(self, stored: StoredLedger) -> LedgerReader:
        window, replicas = self._config.read_window, self._replicas
        return LedgerReader(stored, self._nodes, self._bookies, window, replicas=replicas)

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

    def _check_access(
        self, stored: StoredLedger, password: bytes | None, digest: DigestType | None
    ) -> None:
        metadata = stored.metadata
        if password is not None and password != metadata.password:
            raise UnauthorizedAccess(f"the password is not that of ledger {stored.ledger_id}")
        if digest not in (None, metadata.digest) and not self._config.digest_autodetection:
            raise DigestMismatch(
                f"ledger {stored.ledger_id} has {metadata.digest.name} digests, not {digest}"
            )

    async def _create(self, config: LedgerConfig, ledger_id: LedgerId | None) -> StoredLedger:
        promise = self._context.ensembles.promise(config.regions_min)
        ensemble = await self._choose(config, promise)
        metadata = LedgerMetadata(
            ensemble_size=len(ensemble),
            write_quorum=config.write_quorum,
            ack_quorum=config.ack_quorum,
            fragments=(Fragment(0, ensemble),),
            digest=config.digest,
            password=config.password,
            custom=with_entry_limit(with_promise(config.custom, promise), config.entry_bytes_max),
            ctoken=self._rng.getrandbits(63),
        )
        stored = await self._creator.create(metadata, ledger_id)
        logger.debug("ledger_created ledger=%d", stored.ledger_id)
        return stored

    async def _choose(self, config: LedgerConfig, promise: int) -> tuple[BookieId, ...]:
        ensembles = self._context.ensembles
        choose = ensembles.new_ensemble
        if config.opportunistic_striping:
            choose = ensembles.new_ensemble_up_to
        return await choose(_quorums(config), promise, entry_bytes=config.entry_bytes_max)


def _quorums(config: LedgerConfig) -> Quorums:
    return Quorums(config.ensemble_size, config.write_quorum, config.ack_quorum)
