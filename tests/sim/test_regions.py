"""Ledgers over regions as schedules: regions lost, slow, cut off, added, closed and removed."""

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from tailrace.core.errors import NotEnoughBookies
from tailrace.core.metadata.region_rules import RegionRules
from tests.sim.region_schedule import random_story
from tests.sim.regions import FIVE, THREE, Globe, RegionStage, regional
from tests.sim.script import WrittenLedger

TWO = Globe({"eu": 3, "us": 3}, (4, 4, 3), 2)
CROWDED = Globe({"eu": 4, "us": 4, "asia": 12}, (6, 6, 5), 2)
LOPSIDED = Globe({"eu": 6, "us": 2, "asia": 1}, (4, 4, 3), 2)
UNEVEN = Globe({"eu": 8, "us": 2, "asia": 1}, (6, 6, 4), 2)


async def keep_adding(ledger: WrittenLedger, seconds: float) -> None:
    for _ in range(int(seconds / 0.05)):
        ledger.add()
        await asyncio.sleep(0.05)


@regional(THREE)
async def test_copies_are_spread_evenly_and_begin_at_home(stage: RegionStage) -> None:
    for region in stage.globe.regions:
        ledger = await stage.ledger(stage.client(region))
        await ledger.add_confirmed(5)
        assert Counter(stage.spread(ledger)) == {"eu": 2, "us": 2, "asia": 2}
        assert stage.region_of(ledger.machines[0]) == region


@regional(THREE)
async def test_region_is_lost_under_load_and_used_again(stage: RegionStage) -> None:
    ledger = await stage.ledger(stage.client("eu"))
    await keep_adding(ledger, 2)
    stage.lose("asia")
    lost_at = ledger.model.confirmed
    await keep_adding(ledger, 20)
    await stage.until(lambda: ledger.model.confirmed == ledger.model.pushed)
    assert ledger.model.confirmed > lost_at + 300
    assert ledger.listener.error is None
    assert stage.spread(ledger) == ["eu"] * 3 + ["us"] * 3
    meanwhile = await stage.ledger(stage.client("us"))
    await meanwhile.add_confirmed(5)
    await stage.bring_back("asia")
    later = await stage.ledger(stage.client("us"))
    await later.add_confirmed(5)
    assert "asia" in stage.spread(later)
    reading = stage.client("asia")
    for written in (ledger, meanwhile, later):
        assert await stage.read_all(reading, written) == written.model.confirmed + 1


@regional(CROWDED)
async def test_lost_region_is_given_up_before_its_sessions_end(stage: RegionStage) -> None:
    """Its bookies stay registered for a minute; two by two, all of them would cost time-outs."""
    stage.world.metadata.session_timeout_s = 60
    ledger = await stage.ledger(stage.client("eu"))
    await ledger.add_confirmed(5)
    assert stage.spread(ledger).count("asia") == 2
    stage.lose("asia")
    ledger.add(5)
    await stage.until(lambda: "asia" not in stage.spread(ledger), 60)
    await stage.until(lambda: ledger.model.confirmed == ledger.model.pushed)
    assert stage.world.checker.ensemble_changes <= 5, "twelve without giving the region up"


@regional(FIVE, seeds=2)
async def test_any_two_of_five_regions_may_be_lost(stage: RegionStage) -> None:
    """minRegionsForDurability is 3: two are lost, nothing else is, and writing goes on."""
    for pair in combinations(stage.globe.regions, 2):
        rest = [region for region in stage.globe.regions if region not in pair]
        ledger = await stage.ledger(stage.client(rest[0]))
        ledger.add(30)
        await stage.until(lambda: ledger.model.confirmed >= 10)  # noqa: B023 - awaited here
        stage.lose(*pair)
        ended = await stage.recover(stage.client(rest[1]), ledger)
        assert ended >= 10
        await stage.gone(*pair)
        following = await stage.ledger(stage.client(rest[2]))
        await following.add_confirmed(5)
        assert set(stage.spread(following)) == set(rest)
        assert await stage.read_all(stage.client(rest[2]), ledger) == ended + 1
        await stage.bring_back(*pair)


@regional(THREE)
async def test_promise_goes_before_writing(stage: RegionStage) -> None:
    """With one region of three left nothing can be promised, so nothing is acknowledged."""
    writing = stage.client("eu")
    ledger = await stage.ledger(writing)
    await ledger.add_confirmed(5)
    stage.lose("asia", "us")
    ledger.add(3)
    await stage.until(lambda: ledger.listener.error is not None, 120)
    assert ledger.model.confirmed == 4
    await stage.gone("asia", "us")
    with pytest.raises(NotEnoughBookies, match=r"6 bookies are needed.*promised: 2 regions"):
        await stage.ledger(writing)
    await stage.bring_back("us")
    again = await stage.ledger(writing)
    await again.add_confirmed(5)
    assert await stage.read_all(stage.client("us"), ledger) >= 5


@regional(UNEVEN)
async def test_big_region_takes_no_more_than_the_promise_allows(stage: RegionStage) -> None:
    """A fourth copy in it would make an ack quorum; so a lost one elsewhere is not replaced."""
    ledger = await stage.ledger(stage.client("eu"))
    await ledger.add_confirmed(5)
    assert Counter(stage.spread(ledger)) == {"eu": 3, "us": 2, "asia": 1}
    stage.lose("asia")
    await keep_adding(ledger, 15)
    await stage.until(lambda: ledger.model.confirmed == ledger.model.pushed)
    assert Counter(stage.spread(ledger)) == {"eu": 3, "us": 2, "asia": 1}
    await stage.bring_back("asia")
    await ledger.client.process.run(ledger.writer.close(), "close")
    stage.lose("eu")
    assert await stage.read_all(stage.client("us"), ledger) == ledger.model.confirmed + 1


@regional(THREE)
async def test_local_reads_stay_local(stage: RegionStage) -> None:
    ledger = await stage.ledger(stage.client("eu"))
    await ledger.add_confirmed(50)
    await ledger.client.process.run(ledger.writer.close(), "close")
    for region in stage.globe.regions:
        reading = stage.client(region)
        opening = reading.ledgers.open_ledger(ledger.model.ledger_id, recover=False)
        reader = await reading.process.run(opening, "open")
        stage.crossings(region)
        for _ in range(4):
            entries = await reading.process.run(reader.read(0, 49), "read")
            assert len(entries) == 50
        assert stage.crossings(region) == 0


@regional(THREE)
async def test_slow_region_is_read_elsewhere_and_tried_again(stage: RegionStage) -> None:
    loop = asyncio.get_running_loop()
    ledger = await stage.ledger(stage.client("us"))
    await ledger.add_confirmed(20)
    await ledger.client.process.run(ledger.writer.close(), "close")
    reading = stage.client("eu")
    opening = reading.ledgers.open_ledger(ledger.model.ledger_id, recover=False)
    reader = await reading.process.run(opening, "open")

    async def read_s() -> float:
        before_s = loop.time()
        await reading.process.run(reader.read(0, 19), "read")
        return loop.time() - before_s

    assert await read_s() < 0.1
    stage.world.network.set_way("eu", "eu", 30.0)
    assert 1.0 < await read_s() < 3.0, "half a second at one rack, one at the other, then abroad"
    stage.crossings("eu")
    assert await read_s() < 0.5, "now the slow ones are not asked first"
    assert stage.crossings("eu") > 0
    stage.world.network.set_way("eu", "eu", 0.0005)
    await asyncio.sleep(62)
    await read_s()
    assert stage.crossings("eu") == 0


@regional(TWO)
async def test_regions_are_added_closed_and_removed_while_running(stage: RegionStage) -> None:
    writing = stage.client("eu")
    old = await stage.ledger(writing)
    await old.add_confirmed(5)
    assert set(stage.spread(old)) == {"eu", "us"}
    for region in ("eu", "us", "asia"):
        stage.world.network.set_way("asia", region, 0.05 if region != "asia" else 0.0005)
    for rack in (0, 1, 1):
        stage.world.add_machine({"preallocate_mb": 0, "page_cache_mb": -1}, f"/asia/{rack}")
    await stage.until(lambda: all(machine.up for machine in stage.machines("asia")))
    await stage.news()
    wider = await stage.ledger(writing)
    assert set(stage.spread(wider)) == {"eu", "us", "asia"}
    await stage.set_rules(RegionRules(disallowed=frozenset({"us"})))
    await stage.news()
    moved = await stage.ledger(writing)
    assert set(stage.spread(moved)) == {"eu", "asia"}
    await old.add_confirmed(5)  # it stays where it is until it ends
    assert "us" in stage.spread(old)
    stage.lose("us")
    await moved.add_confirmed(5)
    reading = stage.client("asia")
    assert await stage.read_all(reading, old) == 10
    assert await stage.read_all(reading, moved) == 5
    await stage.set_rules(RegionRules(to_write=("eu", "us")))
    await stage.bring_back("us")
    await stage.news()
    assert set(stage.spread(await stage.ledger(writing))) == {"eu", "us"}


@regional(THREE)
async def test_bookie_that_moves_is_taken_where_it_is(stage: RegionStage) -> None:
    writing = stage.client("eu")
    await stage.ledger(writing)
    moving = stage.machines("us")
    for machine in moving:
        machine.stopped = True
        machine.kill("moves", power=False)
        machine.config = replace(machine.config, network_location="/eu/2")
        stage.world.network.regions[machine.host] = "eu"
        stage.world.checker.regions[machine.config.identity] = "eu"  # type: ignore[index]
        machine.stopped = False
    await stage.until(lambda: all(machine.up for machine in moving))
    await stage.news()
    ledger = await stage.ledger(writing)
    await ledger.add_confirmed(5)
    assert stage.spread(ledger) == ["asia"] * 3 + ["eu"] * 3


@regional(THREE, seeds=5)
async def test_owner_in_the_minority_is_fenced_elsewhere(stage: RegionStage) -> None:
    """A region is cut off with the writer in it; who takes over is in another one."""
    writing, taking_over = stage.client("eu"), stage.client("us")
    ledger = await stage.ledger(writing)
    await ledger.add_confirmed(20)
    ledger.add(5)
    stage.part("eu")
    ledger.add(5)
    ended = await stage.recover(taking_over, ledger)
    assert ended >= 19
    confirmed = ledger.model.confirmed
    assert confirmed <= ended
    ledger.add(3)  # the old owner knows nothing yet, and nothing of it counts
    await asyncio.sleep(3)
    assert ledger.model.confirmed == confirmed
    following = await stage.ledger(taking_over)
    await following.add_confirmed(5)
    stage.heal()
    await stage.until(lambda: ledger.listener.error is not None, 120)
    assert ledger.model.confirmed <= ended
    for region in stage.globe.regions:
        assert await stage.read_all(stage.client(region), ledger) == ended + 1


test_three_regions_at_random = regional(THREE, seeds=3)(random_story)
test_five_regions_at_random = regional(FIVE, seeds=3)(random_story)
test_one_big_region_at_random = regional(LOPSIDED, seeds=4)(random_story)
