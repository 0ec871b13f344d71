"""Kill the broker of a cluster, and each bookie under it: nothing that was acknowledged goes."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.load import Load, create_topic
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.crash, pytest.mark.java, pytest.mark.timeout(300)]

_BROKER_KILLS = 5


@pytest.fixture
def cluster(own_zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(own_zookeeper, tmp_path) as made:
        yield made


def test_a_broker_that_is_killed_again_and_again(cluster: ThreeBookies) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    for _ in range(_BROKER_KILLS):
        load.wait_for_progress(200)
        time.sleep(moments.random() * 0.15)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
    load.finish()
    load.check(broker.bootstrap, f"seed {seed}")


def test_each_bookie_is_killed_in_turn_and_comes_back(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    for bookie in [*cluster.bookies, cluster.bookies[0]]:
        load.wait_for_progress(200)
        bookie.kill()
        load.wait_for_progress(200)
        bookie.start()
    load.wait_for_progress(200)
    load.finish()
    load.check(broker.bootstrap)
    assert broker.stop() == 0


def test_a_bookie_and_the_broker_are_killed_together(cluster: ThreeBookies) -> None:
    cluster.add_bookie()  # a new segment needs three that live, and the next owner begins one
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(200)
    cluster.bookies[1].kill()
    broker.kill()
    broker.restart()
    load.wait_for_progress(200)
    cluster.bookies[1].start()
    load.wait_for_progress(200)
    load.finish()
    load.check(broker.bootstrap)


def test_producing_goes_on_while_zookeeper_is_away(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(200)
    cluster.zookeeper.pause()
    load.wait_for_progress(500)
    cluster.zookeeper.resume()
    load.wait_for_progress(200)
    load.finish()
    load.check(broker.bootstrap)


def test_a_broker_can_be_stopped_while_zookeeper_is_away(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(200)
    cluster.zookeeper.pause()
    assert broker.stop() == 0
    cluster.zookeeper.resume()
    broker.restart()
    load.wait_for_progress(200)
    load.finish()
    load.check(broker.bootstrap)


def test_a_broker_can_be_stopped_when_everything_below_it_is_gone(cluster: ThreeBookies) -> None:
    broker = cluster.broker("--set", "shutdown.drain.ms=1000").start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(200)
    for bookie in cluster.bookies:
        bookie.kill()
    cluster.zookeeper.kill()
    assert broker.stop() == 0
    cluster.zookeeper.start()
    for bookie in cluster.bookies:
        bookie.start()
    broker.restart()
    load.wait_for_progress(200)
    load.finish()
    load.check(broker.bootstrap)


def test_a_session_that_ended_stops_no_broker(cluster: ThreeBookies) -> None:
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(200)
    broker.pause()
    cluster.wait_until_gone()
    broker.resume()
    load.wait_for_progress(500)
    load.finish()
    load.check(broker.bootstrap)
    assert broker.stop() == 0
