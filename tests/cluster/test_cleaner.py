"""The log cleaner in `tailrace start`, as real clients and people at a terminal meet it."""

import random
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.cli import output, parsed, refusal
from tests.cluster.three_bookies import ThreeBookies
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.crash

TOPIC = "table"
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0",
}
"""With a ratio above 0 the little that a kill left in a segment of its own may stay dirty."""
_WITHIN_S = 60
_KILLS = 3
Factory = Callable[..., TailraceProcess]


def started(factory: Factory, *settings: str, copies: int = 1) -> tuple[TailraceProcess, str]:
    """Return a broker whose cleaner looks ten times a second, and its HTTP port."""
    admin = f"127.0.0.1:{free_port()}"
    given = [
        "admin.http.enable=true",
        f"admin.http.port={admin.rpartition(':')[2]}",
        "log.cleaner.backoff.ms=100",
        *settings,
    ]
    broker = factory(*(part for each in given for part in ("--set", each))).start()
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic(TOPIC, 1, copies, config=CONFIGS)])[TOPIC].result(30)
    return broker, admin


class Table:
    """A client's table, kept in a compacted topic."""

    def __init__(self, broker: TailraceProcess) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self._broker = broker
        self._random = random.Random(7)
        self._number = 0

    def change(self, count: int) -> None:
        """Change rows and return once all of it is acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "batch.num.messages": 50,
                "linger.ms": 5,
            }
        )
        for _ in range(count):
            self._number += 1
            key = b"key-%d" % self._random.randrange(100)
            value = b"value-%d" % self._number if self._random.random() < 0.9 else None
            self.rows[key] = value
            producer.produce(TOPIC, key=key, value=value)
            producer.poll(0)
        assert producer.flush(60) == 0

    def check(self) -> int:
        """Read the topic from its start, compare, and return how many records there were."""
        found: dict[bytes, bytes | None] = {}
        offsets = []
        for message in read(self._broker.bootstrap, TOPIC):
            found[message.key()] = message.value()
            offsets.append(message.offset())
        assert offsets == sorted(set(offsets))
        assert found == self.rows
        return len(offsets)


def read(bootstrap: str, topic: str) -> list[Any]:
    """Return what a reader from the start gets up to the end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while True:
            message = consumer.poll(_WITHIN_S)
            assert message is not None, "neither a record nor the end"
            if message.error():
                return found
            found.append(message)
    finally:
        consumer.close()


def wait_until(what: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def planned(admin: str, log: str) -> dict[str, Any]:
    (found,) = (row for row in parsed("cleaner", "plan", "-a", admin) if row["name"] == log)
    return dict(found)


def test_a_compacted_topic_is_cleaned_while_clients_use_it(broker_factory: Factory) -> None:
    broker, admin = started(broker_factory)
    table = Table(broker)
    for _ in range(3):
        table.change(2000)
        assert table.check() <= 6000
    wait_until(lambda: planned(admin, f"{TOPIC}-0")["cleanable_bytes"] == 0)
    assert table.check() < 3000
    (stats,) = parsed("topic", "stats", TOPIC, "-a", admin)["partitions"]
    assert stats["records"] == table.check()
    assert stats["bound"] is None
    assert stats["live_keys"] == sum(value is not None for value in table.rows.values())
    assert stats["saved_bytes"] > 0
    assert stats["head_bytes"] + stats["tail_bytes"] == stats["size_bytes"]
    key, value = next((k, v) for k, v in table.rows.items() if v is not None)
    (latest,) = parsed("topic", "latest", TOPIC, "--key", key.decode(), "-a", admin)["partitions"]
    assert [each["value"] for each in latest["keys"]] == [value.decode()]
    everything = parsed("topic", "latest", TOPIC, "-a", admin)["partitions"][0]
    assert everything["is_whole"]
    assert {each["key"].encode() for each in everything["keys"]} == table.rows.keys()
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
        metrics = answer.read().decode()
    assert "log_cleaner_manager_uncleanable_partitions_count 0.0" in metrics
    assert broker.stop() == 0


def test_people_pause_run_and_resume_the_cleaner(broker_factory: Factory) -> None:
    broker, admin = started(broker_factory, "log.cleaner.threads=2")
    output("cleaner", "pause", "-a", admin)
    table = Table(broker)
    table.change(3000)
    log = f"{TOPIC}-0"
    assert planned(admin, log)["state"] == "paused"
    assert parsed("cleaner", "status", "-a", admin)["passes"] == 0
    output("cleaner", "resume", "-a", admin)
    output("cleaner", "run", log.replace("-", "/"), "-a", admin)  # as `where` and `log` take it
    wait_until(lambda: parsed("cleaner", "status", "-a", admin)["passes"])
    table.check()
    assert b"workers" in output("cleaner", "status", "-a", admin)
    assert log.encode() in output("cleaner", "plan", "-a", admin)
    assert "not compacted here: nobody-0" in refusal(1, "cleaner", "run", "nobody-0", "-a", admin)
    assert "no topic nobody" in refusal(1, "topic", "stats", "nobody", "-a", admin)
    broker.stop()
    assert "admin.http.enable" in refusal(3, "cleaner", "status", "-a", admin)


def test_a_killed_cleaner_leaves_the_old_or_the_new(broker_factory: Factory) -> None:
    """Slow enough that kills hit passes; the groups' own topic is cleaned beside it."""
    broker, admin = started(broker_factory, "log.cleaner.io.max.bytes.per.second=200000")
    table = Table(broker)
    moments = random.Random(3)
    for number in range(_KILLS):
        table.change(3000)
        commit(broker, number + 1)
        time.sleep(moments.random() * 0.5)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
        table.check()
        assert committed(broker) == number + 1
    wait_until(lambda: planned(admin, f"{TOPIC}-0")["cleanable_bytes"] == 0)
    assert table.check() < 3000
    wait_until(lambda: cleaned(admin, "__consumer_offsets"))
    assert parsed("cleaner", "status", "-a", admin)["uncleanable"] == []
    broker.kill()
    broker.restart()
    table.check()
    assert committed(broker) == _KILLS


def group(broker: TailraceProcess) -> Consumer:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
    return Consumer(settings | {"enable.auto.commit": False})


def commit(broker: TailraceProcess, offset: int) -> None:
    consumer = group(broker)
    for at in range(offset + 1):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, at)], asynchronous=False)
    consumer.close()


def committed(broker: TailraceProcess) -> int:
    consumer = group(broker)
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
    consumer.close()
    return int(found.offset)


@pytest.mark.java
def test_a_broker_of_a_cluster_cleans_what_it_owns(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        broker, admin = started(cluster.broker, copies=3)
        table = Table(broker)
        for _ in range(2):
            table.change(2000)
            broker.kill()
            broker.restart()
            table.check()
        wait_until(lambda: planned(admin, f"{TOPIC}-0")["cleanable_bytes"] == 0)
        assert table.check() < 2000
        broker.kill()
        broker.restart()
        table.check()
        assert parsed("cleaner", "status", "-a", admin)["uncleanable"] == []


def test_transactional_ids_are_the_same_after_their_topic_was_cleaned(
    broker_factory: Factory,
) -> None:
    broker, admin = started(broker_factory)
    for number in range(3):  # two changes of the same id in each: most of them are superseded
        transact(broker, number)
    before = described(broker)
    assert before["state"] == "CompleteCommit"
    broker.kill()
    broker.restart()  # which ends the segment, so that it can be cleaned
    assert described(broker) == before
    wait_until(lambda: cleaned(admin, "__transaction_state"))
    (log,) = cleaned(admin, "__transaction_state")
    broker.kill()
    broker.restart()
    assert described(broker) == before
    transact(broker, 3)
    assert described(broker)["producer_epoch"] > before["producer_epoch"]
    stats = parsed("topic", "stats", "__transaction_state", "-a", admin)["partitions"]
    (row,) = (each for each in stats if f"__transaction_state-{each['partition']}" == log)
    assert (row["live_keys"], row["saved_bytes"] > 0) == (1, True)


def transact(broker: TailraceProcess, number: int) -> None:
    """Commit a transaction in a new life of one producer."""
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": "teller"}
    producer = Producer(settings)
    producer.init_transactions(_WITHIN_S)
    producer.begin_transaction()
    producer.produce(TOPIC, key=b"account", value=b"%d" % number)
    producer.commit_transaction(_WITHIN_S)


def described(broker: TailraceProcess) -> dict[str, Any]:
    """Return the transactional id once its transaction is over."""
    found: list[dict[str, Any]] = []

    def is_over() -> bool:
        found[:] = parsed("txn", "describe", "teller", bootstrap=broker.bootstrap)
        return bool(found[0]["state"] == "CompleteCommit")

    wait_until(is_over)
    return found[0]


def cleaned(admin: str, topic: str) -> list[str]:
    """Return the partitions of a topic that were cleaned at least once."""
    rows = parsed("cleaner", "plan", "-a", admin)
    return [row["name"] for row in rows if row["name"].startswith(topic) and row["first_dirty"]]
