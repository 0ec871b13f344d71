"""Ensembles change on bookies as they are run, with the metadata in a real ZooKeeper."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.core.ledger.writer import LedgerWriter
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import tailrace
from tests.cluster.test_bookie_process import (
    E3_QW3_QA2,
    ClusterUnderTest,
    Confirmed,
    check,
    client,
    payload,
    run,
)
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.crash, pytest.mark.timeout(240)]


@pytest.fixture
def five(own_zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ClusterUnderTest]:
    """A cluster of five bookies, and its ZooKeeper for this test alone."""
    made = ClusterUnderTest(own_zookeeper, "/ledgers", tmp_path, [])
    assert tailrace("cluster", "init", "--metadata", made.uri).returncode == 0
    try:
        for number in range(5):
            made.bookie(f"b{number}").start()
        yield made
    finally:
        for bookie in made.bookies:
            bookie.close()


async def add(writer: LedgerWriter, confirmed: Confirmed, count: int) -> None:
    """Add so many entries more, one behind the other, and wait until they are confirmed."""
    for _ in range(count):
        writer.add((payload(writer.last_add_pushed + 1),))
        if writer.last_add_pushed % 20 == 0:
            await confirmed.reach(writer.last_add_pushed - 10)
    await confirmed.reach(writer.last_add_pushed)


def member(cluster: ClusterUnderTest, writer: LedgerWriter, place: int) -> BookieUnderTest:
    name = writer.metadata.fragments[-1].ensemble[place]
    return next(bookie for bookie in cluster.bookies if bookie.bookie_id == name)


def test_killed_bookies_are_replaced_though_they_are_still_registered(
    five: ClusterUnderTest,
) -> None:
    """A dead spare may be chosen until its session is over; then it fails, and so on."""

    async def story() -> None:
        async with client(five) as at:
            confirmed = Confirmed()
            writer = await at.ledgers.create_ledger(E3_QW3_QA2, confirmed)
            await add(writer, confirmed, 50)
            members = writer.metadata.fragments[-1].ensemble
            spare = next(b for b in five.bookies if b.bookie_id not in members)
            victim = member(five, writer, 0)
            for bookie in (spare, victim):
                await asyncio.to_thread(bookie.kill)
            await add(writer, confirmed, 200)
            now = writer.metadata.fragments[-1].ensemble
            assert victim.bookie_id not in now
            await writer.close()
            assert confirmed.errors == []
            await asyncio.to_thread(victim.start)
            await asyncio.to_thread(member(five, writer, 1).kill)
        async with client(five) as at:
            await check(at.ledgers, writer.ledger_id, 250)

    run(story)


def test_change_waits_for_a_zookeeper_that_hangs(five: ClusterUnderTest) -> None:
    async def story() -> None:
        async with client(five) as at:
            confirmed = Confirmed()
            writer = await at.ledgers.create_ledger(E3_QW3_QA2, confirmed)
            await add(writer, confirmed, 50)
            victim = member(five, writer, 1)
            five.zookeeper.pause()
            await asyncio.to_thread(victim.kill)
            writing = asyncio.get_running_loop().create_task(add(writer, confirmed, 100))
            while at.ledgers.metrics.add_failures_total == 0:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            five.zookeeper.resume()
            await writing
            assert victim.bookie_id not in writer.metadata.fragments[-1].ensemble
            await writer.close()
            assert confirmed.errors == []
            await check(at.ledgers, writer.ledger_id, 150)

    run(story)


def test_forgotten_writer_is_recovered_with_two_of_five_bookies_gone(
    five: ClusterUnderTest,
) -> None:
    async def story() -> None:
        async with client(five) as at:
            confirmed = Confirmed()
            writer = await at.ledgers.create_ledger(E3_QW3_QA2, confirmed)
            await add(writer, confirmed, 50)
            await asyncio.to_thread(member(five, writer, 0).kill)
            await add(writer, confirmed, 50)
            await asyncio.to_thread(member(five, writer, 1).kill)
        async with client(five) as at:
            await check(at.ledgers, writer.ledger_id, 100)

    run(story)
