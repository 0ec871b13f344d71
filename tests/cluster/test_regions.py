"""A promise of regions on bookies as they are run, which say where they stand."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.durability import promise_of
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.network_location import parse_location
from tailrace.protocol.ids import BookieId
from tailrace.tools.errors import Exit
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.test_bookie_process import (
    ClusterUnderTest,
    Confirmed,
    check,
    client,
    cluster,
    payload,
    run,
)
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.crash, pytest.mark.timeout(240)]

TWO_REGIONS = LedgerConfig(ensemble_size=4, write_quorum=4, ack_quorum=3, regions_min=2)

__all__ = ["cluster"]


def located(cluster: ClusterUnderTest, name: str, place: str) -> BookieUnderTest:
    """Start a bookie that says where it stands."""
    bookie = cluster.bookie(name)
    bookie.arguments += ("--set", f"networkLocation={place}")
    return bookie.start()


def spread(writer: LedgerWriter, registry: RegisteredBookies) -> Counter[str]:
    """Return how many members of the present ensemble each region has."""
    places = [registry.location(b) for b in writer.metadata.fragments[-1].ensemble]
    return Counter(place.region for place in places if place is not None)


def test_region_is_killed_and_the_promise_is_kept(cluster: ClusterUnderTest) -> None:
    regions = {
        region: [located(cluster, f"{region}{rack}", f"/{region}/{rack}") for rack in (1, 2)]
        for region in ("eu", "us", "asia")
    }

    async def story() -> None:
        async with client(cluster) as at:
            confirmed = Confirmed()
            writer = await at.ledgers.create_ledger(TWO_REGIONS, confirmed)
            assert promise_of(writer.metadata.custom) == 2
            assert max(spread(writer, at.registry).values()) == 2
            lost = next(iter(spread(writer, at.registry)))
            for n in range(50):
                writer.add((payload(n),))
            await confirmed.reach(49)
            for bookie in regions[lost]:
                await asyncio.to_thread(bookie.kill)
            while lost in spread(writer, at.registry):
                writer.add((payload(writer.last_add_pushed + 1),))
                await confirmed.reach(writer.last_add_pushed)
            assert set(spread(writer, at.registry).values()) == {2}
            count = writer.last_add_pushed + 1
            await writer.close()
            assert confirmed.errors == []
        async with client(cluster) as at:
            await check(at.ledgers, writer.ledger_id, count)

    run(story)


def test_bookie_moves_while_a_client_runs(cluster: ClusterUnderTest) -> None:
    moving = located(cluster, "b1", "/us/1")
    name = BookieId(moving.bookie_id)

    async def story() -> None:
        async with client(cluster) as at:
            await at.registry.available()
            assert at.registry.location(name) == parse_location("/us/1")
            await asyncio.to_thread(moving.stop)
            moving.arguments = (*moving.arguments[:-1], "networkLocation=/asia/3")
            await asyncio.to_thread(moving.start)
            async with asyncio.timeout(60):
                while at.registry.location(name) != parse_location("/asia/3"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    run(story)


def test_broker_refuses_copies_that_cannot_be_in_two_regions(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """Two of three copies may be one region's; three of four, in two regions evenly, may not."""
    made = ThreeBookies(zookeeper, tmp_path)
    made.bookies.append(BookieUnderTest(made.metadata, tmp_path / "bookie-3"))
    for n, bookie in enumerate(made.bookies):
        bookie.arguments += ("--set", f"networkLocation=/{'eu' if n % 2 else 'us'}/r{n}")
    with made as cluster:
        policy = "ensemblePlacementPolicy=RegionAwareEnsemblePlacementPolicy"
        promise = "reppMinimumRegionsForDurability=2"
        near = "clientNetworkLocation=/eu/r1"
        settings = [word for each in (policy, promise, near) for word in ("--set", each)]
        broker = cluster.broker(*settings).start()
        create = ("topic", "create", "orders", "--replication-factor")
        said = refusal(Exit.FAILED, *create, "3", bootstrap=broker.bootstrap)
        assert "an ack quorum of 2 of 3 can be had without one of 2 regions" in said
        output(*create, "4", bootstrap=broker.bootstrap)
        output("produce", "orders", stdin=b"one\ntwo\n", bootstrap=broker.bootstrap)
        ledgers = parsed("ledger", "list", "-m", cluster.metadata)
        assert {ledger["quorums"] for ledger in ledgers} == {"4/4/3"}
