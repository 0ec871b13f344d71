import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.errors import InvalidQuorums, NotEnoughBookies
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.placement_config import PlacementConfig, PolicyName, QuarantineConfig
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.core.metadata.network_location import DEFAULT_LOCATION, NetworkLocation
from tailrace.core.metadata.region_rules import RegionRules, encode_region_rules
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId
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
        chosen = await ensembles().new_ensemble(Quorums(3, 2, 2), exclude=[B1])
        assert sorted(chosen) == [B0, B2, B3]
        with pytest.raises(NotEnoughBookies, match="4 bookies are needed; writable: 4; in use"):
            await ensembles().new_ensemble(Quorums(4, 2, 2), exclude=[B1])

    run(story)


def test_choice_is_by_chance_and_repeatable() -> None:
    async def story() -> None:
        chosen = ensembles()
        seen = {await chosen.new_ensemble(Quorums(2, 2, 2)) for _ in range(100)}
        assert len(seen) == 12
        again = [ensembles() for _ in range(2)]
        assert await again[0].new_ensemble(Quorums(3, 3, 2)) == await again[1].new_ensemble(
            Quorums(3, 3, 2)
        )

    run(story)


def test_replacement_is_neither_a_member_nor_a_failed_one() -> None:
    async def story() -> None:
        assert await ensembles().replace((B0, B1, B2), {1: B1}, Quorums(3, 3, 2)) == (B0, B3, B2)

    run(story)


def test_as_many_places_as_possible_are_given() -> None:
    async def story() -> None:
        changed = await ensembles().replace((B0, B1, B2), {0: B0, 1: B1}, Quorums(3, 3, 2))
        assert changed in {(B3, B1, B2), (B0, B3, B2)}
        with pytest.raises(NotEnoughBookies, match="1 of 3 bookies are to be replaced"):
            await ensembles(3).replace((B0, B1, B2), {0: B0}, Quorums(3, 3, 2))

    run(story)


def test_ensemble_shrinks_to_what_is_there() -> None:
    async def story() -> None:
        assert len(await ensembles().new_ensemble_up_to(Quorums(6, 3, 2))) == 4
        with pytest.raises(NotEnoughBookies):
            await ensembles(2).new_ensemble_up_to(Quorums(6, 3, 2))

    run(story)


def test_failed_bookies_are_avoided_while_others_do() -> None:
    async def story() -> None:
        chosen = ensembles()
        chosen.report_failure(B2, StatusCode.LOCAL_UNAVAILABLE)
        chosen.report_failure(B3, StatusCode.ENOENTRY)
        for _ in range(20):
            assert B2 not in await chosen.new_ensemble(Quorums(3, 3, 2))
        assert B2 in await chosen.new_ensemble(Quorums(4, 3, 2))

    run(story)


def test_quarantined_bookies_are_the_last_resort() -> None:
    async def story() -> None:
        chosen = ensembles()
        for _ in range(2):
            chosen.report_failure(B2, StatusCode.LOCAL_TIMEOUT)
        chosen.report_failure(B3)
        for _ in range(20):
            assert B2 not in await chosen.new_ensemble(Quorums(3, 3, 2))
        assert set(await chosen.new_ensemble(Quorums(4, 3, 2))) == set(BOOKIES)
        with pytest.raises(NotEnoughBookies, match="quarantined: b2; failed lately: b3"):
            await chosen.new_ensemble(Quorums(5, 3, 2))

    run(story)


def test_racks_of_the_configuration_are_kept() -> None:
    async def story() -> None:
        chosen = ensembles(locations=RACKS, enforce_racks=True, racks_min=3)
        for _ in range(20):
            ensemble = await chosen.new_ensemble(Quorums(3, 3, 2))
            assert {B2, B3} < set(ensemble)
        with pytest.raises(NotEnoughBookies, match="racks: /x/1, /x/2, /y/1"):
            await chosen.new_ensemble(Quorums(4, 4, 2), exclude=[B3])

    run(story)


def test_regions_that_cannot_be_promised() -> None:
    async def story() -> None:
        policy = PolicyName.REGION_AWARE
        chosen = ensembles(policy=policy, locations=RACKS, regions_min=2, own_location="/y/1")
        with pytest.raises(InvalidQuorums, match=r"RegionAware.*: an ack quorum of 2 of 4"):
            await chosen.new_ensemble(Quorums(4, 4, 2))
        assert (await chosen.new_ensemble(Quorums(2, 2, 2)))[0] == B3

    run(story)


REGIONAL = ("b0=/x/1", "b1=/x/2", "b2=/y/1", "b3=/y/2", "b4=/z/1", "b5=/z/2")


def test_a_ledgers_promise_is_kept_whatever_the_policy_of_the_client() -> None:
    async def story() -> None:
        chosen = ensembles(6, locations=REGIONAL)
        assert [chosen.promise(n) for n in (None, 0, 2)] == [0, 0, 2]
        quorums = Quorums(4, 4, 3)
        for _ in range(20):
            found = await chosen.new_ensemble(quorums, 2)
            regions = [chosen.location(b).region for b in found]
            assert max(regions.count(region) for region in regions) <= 2
        with pytest.raises(InvalidQuorums, match="an ack quorum of 2 of 4 can be had without one"):
            await chosen.new_ensemble(Quorums(4, 4, 2), 2)
        with pytest.raises(InvalidQuorums):
            chosen.check(Quorums(4, 4, 2), 2)
        chosen.check(Quorums(4, 4, 2), None)

    run(story)


@pytest.mark.parametrize(
    ("promised", "enforced", "is_replaced"),
    [(2, True, False), (2, False, True), (None, True, True)],
    ids=["promised", "not enforced", "not recorded"],
)
def test_replacement_keeps_the_promise(
    promised: int | None, enforced: bool, is_replaced: bool
) -> None:
    async def story() -> None:
        chosen = ensembles(
            3,
            locations=("b0=/x/1", "b1=/y/1", "b2=/x/2"),
            policy=PolicyName.REGION_AWARE,
            regions_min=2,
            enforce_in_replace=enforced,
        )
        work = chosen.replace((B0, B1), {1: B1}, Quorums(2, 2, 2), promised)
        if is_replaced:
            assert await work == (B0, B2)
        else:
            with pytest.raises(NotEnoughBookies, match="1 of 2 bookies are to be replaced"):
                await work

    run(story)


def test_members_that_are_gone_stood_where_they_said_or_anywhere() -> None:
    """b1 said that it stands in y; b9 never said anything: it may stand in x, too."""

    async def story() -> None:
        chosen = ensembles(3, locations=("b0=/x/1", "b1=/y/1", "b2=/x/2"))
        quorums = Quorums(3, 3, 3)
        assert await chosen.replace((B1, BookieId("b8"), B0), {1: BookieId("b8")}, quorums, 2)
        with pytest.raises(NotEnoughBookies):
            await chosen.replace((B0, BookieId("b9"), B1), {2: B1}, quorums, 2)

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
        await chosen.new_ensemble(Quorums(3, 3, 2))
        await asyncio.sleep(0)
        for _ in range(20):
            assert B1 not in await chosen.new_ensemble(Quorums(3, 3, 2))
        assert sum(len(bookie.requests) for bookie in bookies) == 4

    run(story)


def test_rack_mapping_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        chosen = Ensembles(LocalBookies(world.bookies), Random(7), store=world.store)
        await chosen.new_ensemble(Quorums(1, 1, 1))
        assert chosen.location(B0) == DEFAULT_LOCATION
        await world.store.create("/bookies", b'{"default": {"b0": {"rack": "/x/1"}}}')
        await chosen.new_ensemble(Quorums(1, 1, 1))
        assert chosen.location(B0) == NetworkLocation("x", "/x/1")
        await world.store.set("/bookies", b"not JSON")
        await chosen.new_ensemble(Quorums(1, 1, 1))
        assert chosen.location(B0) == NetworkLocation("x", "/x/1")
        await world.store.delete("/bookies")
        await chosen.new_ensemble(Quorums(1, 1, 1))
        assert chosen.location(B0) == DEFAULT_LOCATION

    run_world(tmp_path, story)


def test_regions_are_opened_and_closed_while_running(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        bookies = LocalBookies([FakeBookie(f"b{i}") for i in range(6)])
        placement = PlacementConfig(
            policy=PolicyName.REGION_AWARE, locations=REGIONAL, regions=("x", "y")
        )
        chosen = Ensembles(bookies, Random(7), placement=placement, store=world.store)

        async def regions() -> set[str]:
            found = [await chosen.new_ensemble(Quorums(2, 2, 2)) for _ in range(20)]
            return {chosen.location(b).region for ensemble in found for b in ensemble}

        assert await regions() == {"x", "y"}
        path = "/tailrace/regions"
        opened = RegionRules(to_write=("x", "y", "z"))
        await world.store.create(path, encode_region_rules(opened), parents=True)
        assert await regions() == {"x", "y", "z"}
        closed = RegionRules(to_write=("x", "y", "z"), disallowed=frozenset({"x"}))
        await world.store.set(path, encode_region_rules(closed))
        assert await regions() == {"y", "z"}
        with pytest.raises(NotEnoughBookies, match="refused by RegionAware: b0, b1"):
            await chosen.new_ensemble(Quorums(5, 5, 4))
        await world.store.set(path, b'{"disallow": 7}')
        assert await regions() == {"y", "z"}, "what cannot be read changes nothing"
        await world.store.set(path, encode_region_rules(RegionRules(to_write=("x",))))
        with pytest.raises(InvalidQuorums, match="2 regions for durability, 1 may be written"):
            await chosen.new_ensemble(Quorums(2, 2, 2))
        await world.store.delete(path)
        assert await regions() == {"x", "y"}

    run_world(tmp_path, story)


def test_operators_word_wins_over_the_mapping_and_that_over_the_bookies_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        bookies = LocalBookies(world.bookies)
        bookies.location = lambda _: NetworkLocation("own", "/own/1")  # type: ignore[method-assign]
        placement = PlacementConfig(locations=("b0=/x/1",))
        chosen = Ensembles(bookies, Random(7), placement=placement, store=world.store)
        racks = b'{"default": {"b0": {"rack": "/y/1"}, "b1": {"rack": "/y/1"}}}'
        await world.store.create("/bookies", racks)
        await chosen.new_ensemble(Quorums(1, 1, 1))
        assert [chosen.location(b).region for b in (B0, B1, B2)] == ["x", "y", "own"]

    run_world(tmp_path, story)
