"""A broker on bookies of Apache BookKeeper, in a cluster that Apache's software began."""

from collections.abc import Iterator

import pytest

from tests.cluster.load import Load, create_topic
from tests.cluster.three_bookies import ClusterBroker
from tests.interop.bookkeeper.java import JavaBookie
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture
def broker(uri: str, zookeeper: ZooKeeperServer) -> Iterator[ClusterBroker]:
    namespace = f"distributedlog://{zookeeper.hosts}/messaging/broker-on-java"
    with ClusterBroker(uri, namespace) as running:
        yield running


def test_both_are_killed_under_load(broker: ClusterBroker, java_bookies: list[JavaBookie]) -> None:
    create_topic(broker.bootstrap, replication_factor=2)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(300)
    broker.kill()
    broker.restart()
    load.wait_for_progress(300)
    java_bookies[1].kill()
    java_bookies[1].start()
    load.wait_for_progress(300)
    load.finish()
    load.check(broker.bootstrap)
    assert broker.stop() == 0
