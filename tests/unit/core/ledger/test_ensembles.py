import asyncio
from random import Random

import pytest

from core.errors import NotEnoughBookies
from core.ledger.bookie_registry import LocalBookies
from core.ledger.ensembles import Ensembles
from protocol.ids import BookieId
from tests.unit.core.ledger.fake_bookie import FakeBookie

B0, B1, B2, B3 = (BookieId(f"b{i}") for i in range(4))


def ensembles(count: int) -> Ensembles:
    return Ensembles(LocalBookies([FakeBookie(f"b{i}") for i in range(count)]), Random(7))


def test_new_ensemble_leaves_out_the_excluded() -> None:
    chosen = asyncio.run(ensembles(4).new_ensemble(3, 2, 2, exclude=[B1]))
    assert sorted(chosen) == [B0, B2, B3]
    with pytest.raises(NotEnoughBookies):
        asyncio.run(ensembles(4).new_ensemble(4, 2, 2, exclude=[B1]))


def test_replacement_is_neither_a_member_nor_a_failed_one() -> None:
    assert asyncio.run(ensembles(4).replace((B0, B1, B2), {1: B1}, 3, 2)) == (B0, B3, B2)


def test_as_many_places_as_possible_are_given() -> None:
    changed = asyncio.run(ensembles(4).replace((B0, B1, B2), {0: B0, 1: B1}, 3, 2))
    assert changed == (B3, B1, B2)
    with pytest.raises(NotEnoughBookies):
        asyncio.run(ensembles(3).replace((B0, B1, B2), {0: B0}, 3, 2))
