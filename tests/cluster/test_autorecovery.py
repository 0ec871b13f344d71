"""Bookies are lost for good, and every entry has all of its replicas again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.load import TOPIC, Load, create_topic
from tests.cluster.recovering import RecoveringCluster, number_of, stored_ledgers
from tests.cluster.several_brokers import until
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[RecoveringCluster]:
    with RecoveringCluster(zookeeper, tmp_path) as running:
        yield running


def test_a_bookie_lost_under_load(cluster: RecoveringCluster) -> None:
    """Its copies are made anew, and what it still has is given up when it comes back."""
    recovery = cluster.recovery("first").start()
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(300)
    lost, idle = [bookie for bookie in cluster.bookies if cluster.ledgers_of(bookie)][:2]
    lost.kill()
    load.wait_for_progress(300)
    cluster.wait_until_repaired(lost)
    load.wait_for_progress(300)
    load.finish()
    load.check(broker.bootstrap, "while a bookie was lost")
    assert number_of(recovery, "replication_worker_entries_copied_total") > 0

    assert broker.stop() == 0
    assert cluster.verify_replicas() > 3 * sum(map(len, load.acknowledged)) / 1000

    cluster.set_read_only(idle)  # it is there: nothing has to be copied
    kept = cluster.ledgers_of(idle)
    before = number_of(recovery, "replication_auditor_audits_total")
    output("autorecovery", "trigger-audit", "-m", cluster.metadata)
    until(lambda: number_of(recovery, "replication_auditor_audits_total") > before)
    assert cluster.status()["underreplicated"] == 0
    assert cluster.ledgers_of(idle) == kept

    assert stored_ledgers(lost)
    lost.start()
    until(lambda: stored_ledgers(lost) <= set(cluster.ledgers_of(lost)))
    cluster.verify_replicas()
    broker.start()
    load.check(broker.bootstrap, "after it came back")
    assert recovery.stop() == 0


def test_ledgers_of_an_idle_broker_are_closed_under_it(cluster: RecoveringCluster) -> None:
    """It adds nothing, so it replaces nobody; who writes next, or commits, sees nothing of it."""
    recovery = cluster.recovery("first").start()
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    names = {"bootstrap.servers": broker.bootstrap}
    plain = Producer({**names, "enable.idempotence": True})
    transactional = Producer({**names, "transactional.id": "idle"})
    transactional.init_transactions(60)
    offsets: list[int] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        offsets.append(message.offset())

    def write() -> None:
        plain.produce(TOPIC, b"plain", partition=0, on_delivery=on_delivery)
        assert plain.flush(60) == 0
        transactional.begin_transaction()
        transactional.produce(TOPIC, b"in a transaction", partition=1)
        transactional.commit_transaction(60)
        at = [TopicPartition(TOPIC, 0, offsets[-1] + 1)]
        group = Consumer({**names, "group.id": "idle"})
        group.commit(offsets=at, asynchronous=False)
        assert [each.offset for each in group.committed(at, timeout=60)] == [at[0].offset]
        group.close()

    write()
    for _ in range(2):
        lost = next(bookie for bookie in cluster.bookies if cluster.ledgers_of(bookie))
        lost.kill()
        cluster.wait_until_repaired(lost)
        write()
        write()
        lost.start()
    assert offsets == list(range(5))
    assert number_of(recovery, "replication_worker_ledgers_closed_total") > 0
    assert broker.stop() == 0
    assert cluster.verify_replicas() > 0


def test_an_operator_s_day(cluster: RecoveringCluster) -> None:
    """Auditors die, copying is switched off for a while, and a bookie is given up."""
    uri = cluster.metadata
    first, second = cluster.recovery("first").start(), cluster.recovery("second").start()
    cluster.add_bookie()
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=3)
    load = Load(broker.bootstrap)
    load.start()
    load.wait_for_progress(300)

    until(lambda: cluster.status()["auditor"] == "first")
    first.kill()
    until(lambda: cluster.status()["auditor"] == "second")
    second.pause()
    until(lambda: cluster.status()["auditor"] is None)  # its session is over
    second.resume()
    until(lambda: cluster.status()["auditor"] == "second")

    lost = next(bookie for bookie in cluster.bookies if cluster.ledgers_of(bookie))
    output("autorecovery", "disable", "-m", uri)
    assert "disabled" in refusal(Exit.FAILED, "autorecovery", "trigger-audit", "-m", uri)
    lost.kill()
    cluster.wait_until_gone_from(lost)
    load.wait_for_progress(300)
    assert cluster.ledgers_of(lost)
    assert cluster.status()["enabled"] is False
    assert parsed("autorecovery", "list", "-m", uri) == []
    output("autorecovery", "enable", "-m", uri)
    cluster.wait_until_repaired(lost)

    given_up = next(bookie for bookie in cluster.bookies if cluster.ledgers_of(bookie))
    name = given_up.bookie_id
    said = refusal(Exit.FAILED, "bookie", "decommission", name, "-m", uri)
    assert "is registered" in said
    assert given_up.stop() == 0
    output("bookie", "decommission", name, "-m", uri, "--timeout", "50")
    assert cluster.ledgers_of(given_up) == []
    assert name not in [row["bookie"] for row in parsed("bookie", "list", "-m", uri)]
    assert "holds data of bookie" in given_up.refused()
    said = refusal(Exit.FAILED, "bookie", "decommission", name, "-m", uri)
    assert "there is no bookie" in said

    load.finish()
    load.check(broker.bootstrap, "after all of it")
    assert broker.stop() == 0
    assert cluster.verify_replicas() > 0
    assert second.stop() == 0
