"""`tailrace broker` over three `tailrace bookie` processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.load import PARTITIONS, Load, create_topic
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path) as made:
        yield made


def test_clients_produce_and_consume_across_a_restart(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    assert f"bound {cluster.namespace} to the ledgers at {cluster.metadata}" in broker.output
    create_topic(broker.bootstrap)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(300)
    assert broker.stop() == 0
    broker.lines.clear()
    broker.restart()
    assert "bound" not in broker.output
    load.wait_for_progress(300)
    load.finish()
    load.check(broker.bootstrap)
    assert all(load.acknowledged[partition] for partition in range(PARTITIONS))
