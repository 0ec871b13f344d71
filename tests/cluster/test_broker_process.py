"""`tailrace broker` over three `tailrace bookie` processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.load import PARTITIONS, TOPIC, Load, create_topic
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path) as made:
        yield made


def test_clients_go_on_across_a_stop_and_a_kill(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    assert f"bound {cluster.namespace} to the ledgers at {cluster.metadata}" in broker.output
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(300)
    assert cluster.unfinished(TOPIC) == (PARTITIONS, PARTITIONS)
    assert broker.stop() == 0
    assert cluster.unfinished(TOPIC) == (0, 0)
    broker.lines.clear()
    broker.restart()
    assert "bound" not in broker.output
    load.wait_for_progress(300)
    broker.kill()
    assert cluster.unfinished(TOPIC)[0] == PARTITIONS
    broker.restart()
    load.wait_for_progress(300)
    load.finish()
    load.check(broker.bootstrap)
    assert all(load.acknowledged[partition] for partition in range(PARTITIONS))


def test_zookeeper_by_another_name_than_in_the_binding_is_said(cluster: ThreeBookies) -> None:
    cluster.broker().start().stop()
    cluster.metadata = cluster.metadata.replace("127.0.0.1", "localhost")
    broker = cluster.broker().start()
    broker.wait_for("namespace_bound_by_other_names")
    assert broker.stop() == 0
