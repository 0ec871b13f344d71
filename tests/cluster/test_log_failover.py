"""The owner of a log dies (kill -9): another process goes on without a record lost or doubled.

How long it takes is measured by `python -m tests.bench --suite failover`, not asserted here.
"""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.uri import ledgers_root, open_store
from tests.cluster.three_bookies import ThreeBookies
from tests.failover import RECORDS_FIRST, Failover, fail_over
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java


def test_the_next_in_line_goes_on(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        seen = asyncio.run(_story(cluster))
    assert seen.confirmed >= RECORDS_FIRST
    assert seen.found >= seen.confirmed, "a confirmed record was lost"


async def _story(cluster: ThreeBookies) -> Failover:
    store = await open_store(cluster.metadata)
    binding = BKDLConfig(
        bk_zk_servers=cluster.zookeeper.hosts, bk_ledgers_path=ledgers_root(cluster.metadata)
    )
    path = "/" + cluster.namespace.partition("://")[2].partition("/")[2]
    await bind_namespace(store, path, binding)
    await store.close()
    async with asyncio.timeout(60):
        return await fail_over(cluster.namespace, "failing")
