"""The bookies of a log's world without room, for tests."""

from random import Random

from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.metadata.store import MetadataStore
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.ledger.full_bookie import full
from tests.unit.core.log.world import World


class Disk:
    """The room of a world's bookies."""

    def __init__(self, world: World) -> None:
        self._is_full = False
        self._world = world
        world.ledgers = self._ledgers  # type: ignore[method-assign]

    def fill(self) -> None:
        """No ledger is to be had, and no entry is taken that is not held."""
        self._is_full = True
        for bookie in self._world.bookies:
            bookie.fault = full(bookie)

    def free(self) -> None:
        """Take everything again."""
        self._is_full = False
        for bookie in self._world.bookies:
            bookie.fault = no_fault

    def _ledgers(self, store: MetadataStore | None = None) -> LedgerClient:
        bookies = LocalBookies(self._world.bookies, lambda _: not self._is_full)
        return LedgerClient(store or self._world.store, bookies, None, Random(7))
