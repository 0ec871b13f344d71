import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.errors import NotEnoughBookies
from core.ledger.bookie_registry import LocalBookies
from core.ledger.ensembles import Ensembles
from core.ledger.placement_config import PlacementConfig, PolicyName, QuarantineConfig
from core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation
from protocol.bookkeeper.messages import StatusCode
from protocol.ids import BookieId
from tests.unit.core.ledger.fake_bookie import FakeBookie
from tests.unit.core.ledger.world import World, run_world

B0, B1, B2, B3 = BOOKIES = tuple(BookieId(f"b{i}") for i in range(4))
RACKS = ("b0=/x/1", "b1=/x/1", "b2=/x/2", "b3=/y/1")


def ensembles(count: int = 4, **settings: Any) -> Ensembles:
    return Ensembles(
        LocalBookies([FakeBookie(f"b{i}") for i in range(count)]),
        Random(7),
        placement=PlacementConfig(**settings),
        quarantine=QuarantineConfig(enabled=True, errors_max=2, quarantine_s=1000, avoid_s=1000),
    )


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story(), debug=True)


def test_new_ensemble_leaves_out_the_excluded() -> None:
    async def story() -> None:
        chosen = await ensembles().new_ensemble(3, 2, 2, exclude=[B1])
        assert sorted(chosen) == [B0, B2, B3]
        with pytest.raises(NotEnoughBookies, match="4 bookies are needed; writable: 4; in use"):
            await ensembles().new_ensemble(4, 2, 2, exclude=[B1])

    run(story)


def test_choice_is_by_chance_and_repeatable() -> None:
    async def story() -> None:
        chosen = ensembles()
        seen = {await chosen.new_ensemble(2, 2, 2) for _ in range(100)}
        assert len(seen) == 12
        again = [ensembles() for _ in range(2)]
        assert await again[0].new_ensemble(3, 3, 2) == await again[1].new_ensemble(3, 3, 2)

    run(story)


def test_replacement_is_neither_a_member_nor_a_failed_one() -> None:
    async def story() -> None:
        assert await ensembles().replace((B0, B1, B2), {1: B1}, 3, 2) == (B0, B3, B2)

    run(story)


def test_as_many_places_as_possible_are_given() -> None:
    async def story() -> None:
        changed = await ensembles().replace((B0, B1, B2), {0: B0, 1: B1}, 3, 2)
        assert changed in {(B3, B1, B2), (B0, B3, B2)}
        with pytest.raises(NotEnoughBookies, match="1 of 3 bookies are to be replaced"):
            await ensembles(3).replace((B0, B1, B2), {0: B0}, 3, 2)

    run(story)


def test_ensemble_shrinks_to_what_is_there() -> None:
    async def story() -> None:
        assert len(await ensembles().new_ensemble_up_to(6, 3, 2)) == 4
        with pytest.raises(NotEnoughBookies):
            await ensembles(2).new_ensemble_up_to(6, 3, 2)

    run(story)


def test_failed_bookies_are_avoided_while_others_do() -> None:
    async def story() -> None:
        chosen = ensembles()
        chosen.report_failure(B2, StatusCode.LOCAL_UNAVAILABLE)
        chosen.report_failure(B3, StatusCode.ENOENTRY)
        for _ in range(20):
            assert B2 not in await chosen.new_ensemble(3, 3, 2)
        assert B2 in await chosen.new_ensemble(4, 3, 2)

    run(story)


def test_quarantined_bookies_are_the_last_resort() -> None:
    async def story() -> None:
        chosen = ensembles()
        for _ in range(2):
            chosen.report_failure(B2, StatusCode.LOCAL_TIMEOUT)
        chosen.report_failure(B3)
        for _ in range(20):
            assert B2 not in await chosen.new_ensemble(3, 3, 2)
        assert set(await chosen.new_ensemble(4, 3, 2)) == set(BOOKIES)
        with pytest.raises(NotEnoughBookies, match="quarantined: b2; failed lately: b3"):
            await chosen.new_ensemble(5, 3, 2)

    run(story)


def test_racks_of_the_configuration_are_kept() -> None:
    async def story() -> None:
        chosen = ensembles(locations=RACKS, enforce_racks=True, racks_min=3)
        for _ in range(20):
            ensemble = await chosen.new_ensemble(3, 3, 2)
            assert {B2, B3} < set(ensemble)
        with pytest.raises(NotEnoughBookies, match="racks: /x/1, /x/2, /y/1"):
            await chosen.new_ensemble(4, 4, 2, exclude=[B3])

    run(story)


def test_regions_that_cannot_be_promised() -> None:
    async def story() -> None:
        policy = PolicyName.REGION_AWARE
        chosen = ensembles(policy=policy, locations=RACKS, regions_min=2, own_location="/y/1")
        with pytest.raises(NotEnoughBookies, match=r"RegionAware.*: an ack quorum of 2 of 4"):
            await chosen.new_ensemble(4, 4, 2)
        assert (await chosen.new_ensemble(2, 2, 2))[0] == B3

    run(story)


def test_acks_of_one_rack_do_not_suffice_when_that_is_asked_for() -> None:
    async def story() -> None:
        assert ensembles().ack_rule(2) is None
        rule = ensembles(locations=RACKS, enforce_fault_domains=True).ack_rule(2)
        assert rule is not None
        assert rule({B0, B2})
        assert not rule({B0, B1})

    run(story)


def test_bookies_without_free_disk_come_last() -> None:
    async def story() -> None:
        bookies = [FakeBookie(f"b{i}") for i in range(4)]
        for bookie in bookies:
            bookie.free_disk = 0 if bookie.bookie_id == B1 else 100
        chosen = Ensembles(
            LocalBookies(bookies), Random(7), placement=PlacementConfig(weighted=True)
        )
        await chosen.new_ensemble(3, 3, 2)
        await asyncio.sleep(0)
        for _ in range(20):
            assert B1 not in await chosen.new_ensemble(3, 3, 2)
        assert sum(len(bookie.requests) for bookie in bookies) == 4

    run(story)


def test_rack_mapping_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        chosen = Ensembles(LocalBookies(world.bookies), Random(7), store=world.store)
        await chosen.new_ensemble(1, 1, 1)
        assert chosen.location(B0) == DEFAULT_LOCATION
        await world.store.create("/bookies", b'{"default": {"b0": {"rack": "/x/1"}}}')
        await chosen.new_ensemble(1, 1, 1)
        assert chosen.location(B0) == NetworkLocation("x", "/x/1")
        await world.store.set("/bookies", b"not JSON")
        await chosen.new_ensemble(1, 1, 1)
        assert chosen.location(B0) == NetworkLocation("x", "/x/1")
        await world.store.delete("/bookies")
        await chosen.new_ensemble(1, 1, 1)
        assert chosen.location(B0) == DEFAULT_LOCATION

    run_world(tmp_path, story)


def test_operators_word_wins_over_the_mapping_and_that_over_the_bookies_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        bookies = LocalBookies(world.bookies)
        bookies.location = lambda _: NetworkLocation("own", "/own/1")  # type: ignore[method-assign]
        placement = PlacementConfig(locations=("b0=/x/1",))
        chosen = Ensembles(bookies, Random(7), placement=placement, store=world.store)
        racks = b'{"default": {"b0": {"rack": "/y/1"}, "b1": {"rack": "/y/1"}}}'
        await world.store.create("/bookies", racks)
        await chosen.new_ensemble(1, 1, 1)
        assert [chosen.location(b).region for b in (B0, B1, B2)] == ["x", "y", "own"]

    run_world(tmp_path, story)
