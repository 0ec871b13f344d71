"""Which bookies a ledger gets, and which take the place of failed ones.

One object per client: it is told of failures, so that the next choice can avoid who failed lately.
"""

from collections.abc import Collection, Mapping
from random import Random

from core.errors import NotEnoughBookies
from core.ledger.bookie_registry import BookieRegistry
from core.ledger.placement import choose_ensemble
from protocol.ids import BookieId


class Ensembles:
    """Chooses bookies among those that are registered as writable."""

    def __init__(self, bookies: BookieRegistry, rng: Random | None = None) -> None:
        """`rng`: makes the choices; seeded by the system unless given."""
        self._bookies = bookies
        self._rng = rng or Random()

    async def new_ensemble(
        self, size: int, write_quorum: int, ack_quorum: int, *, exclude: Collection[BookieId] = ()
    ) -> tuple[BookieId, ...]:
        """Return `size` different bookies in their striping order, none of `exclude`.

        Errors: NotEnoughBookies.
        """
        available = await self._bookies.available()
        candidates = [bookie for bookie in available if bookie not in exclude]
        return choose_ensemble(candidates, size, self._rng)

    async def replace(
        self,
        ensemble: tuple[BookieId, ...],
        failed: Mapping[int, BookieId],
        write_quorum: int,
        ack_quorum: int,
    ) -> tuple[BookieId, ...]:
        """Return the ensemble with as many of the failed places as possible given to others.

        Shape: `failed` maps places (indices of `ensemble`) to the bookies that failed there. No
        place is given to a member of the ensemble, failed or not.
        Errors: NotEnoughBookies when not one place could be given.
        """
        available = await self._bookies.available()
        candidates = [bookie for bookie in available if bookie not in ensemble]
        places = sorted(failed)
        chosen = self._rng.sample(candidates, min(len(candidates), len(places)))
        if places and not chosen:
            raise NotEnoughBookies(
                f"{len(places)} of {len(ensemble)} bookies failed, and of the {len(available)}"
                " available ones none is outside the ensemble"
            )
        changed = list(ensemble)
        for place, bookie in zip(places, chosen, strict=False):
            changed[place] = bookie
        return tuple(changed)

    def report_failure(self, bookie: BookieId) -> None:
        """Take note that a bookie failed an add or a read."""
