from random import Random

import pytest

from core.errors import NotEnoughBookies
from core.ledger.placement import choose_ensemble
from protocol.ids import BookieId

BOOKIES = [BookieId(f"b{i}") for i in range(5)]


def test_ensembles_are_different_bookies_and_repeat_for_a_seed() -> None:
    for seed in range(20):
        ensemble = choose_ensemble(BOOKIES, 3, Random(seed))
        assert len(set(ensemble)) == 3
        assert ensemble == choose_ensemble(reversed(BOOKIES), 3, Random(seed))  # type: ignore[arg-type]
    assert len({choose_ensemble(BOOKIES, 3, Random(seed)) for seed in range(50)}) > 20


def test_too_few() -> None:
    with pytest.raises(NotEnoughBookies, match="3 bookies are needed, 2"):
        choose_ensemble(BOOKIES[:2] * 2, 3, Random(0))
