"""A broker on bookies of Apache BookKeeper, in a cluster that Apache's software began."""

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.core.log.config import RECORD_BYTES_MAX
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


def test_a_topic_with_batches_above_their_frames_is_refused(
    broker: ClusterBroker, java_bookies: list[JavaBookie]
) -> None:
    """They publish no limit, so BookKeeper's default counts."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    large = NewTopic("large", 1, 2, config={"max.message.bytes": str(RECORD_BYTES_MAX + 1)})
    named = f"{java_bookies[0].bookie_id} {RECORD_BYTES_MAX}"
    with pytest.raises(KafkaException, match=rf"INVALID_CONFIG.*{named}"):
        admin.create_topics([large])["large"].result(60)


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
