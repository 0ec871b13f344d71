"""Which bookies a new ledger gets: E different ones, by chance, the same for the same seed."""

from collections.abc import Collection
from random import Random

from core.errors import NotEnoughBookies
from protocol.ids import BookieId


def choose_ensemble(
    available: Collection[BookieId], size: int, rng: Random
) -> tuple[BookieId, ...]:
    """Return an ensemble; its order is its striping order. Errors: NotEnoughBookies."""
    candidates = sorted(set(available))
    if len(candidates) < size:
        raise NotEnoughBookies(f"{size} bookies are needed, {len(candidates)} are available")
    return tuple(rng.sample(candidates, size))
