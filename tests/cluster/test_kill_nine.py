"""Pull the plug at random moments, start again, and find everything that was acknowledged."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.process import TailraceProcess

pytestmark = pytest.mark.crash

_PARTITIONS = 3
_KILLS = 20


class Load:
    """An idempotent producer that goes on through restarts, and what was acknowledged to it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(_PARTITIONS)]
        self.failed: list[str] = []
        self._topic = topic
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 4096,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "queue.buffering.max.messages": 2000,
            }
        )
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Stop sending, and wait until the fate of every record is known."""
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0

    def acknowledged_count(self) -> int:
        return sum(len(found) for found in self.acknowledged)

    def _send(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number % _PARTITIONS
            try:
                self._producer.produce(
                    self._topic,
                    b"%d" % number,
                    partition=partition,
                    on_delivery=self._on_delivery,
                )
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def _on_delivery(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(f"{message.value()!r}: {error}")
        else:
            offset, partition = message.offset(), message.partition()
            assert offset is not None
            assert partition is not None
            self.acknowledged[partition][offset] = int(message.value() or b"")


def test_nothing_acknowledged_is_lost_or_doubled(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = broker_factory().start()
    _create(broker, "load")
    load = Load(broker.bootstrap, "load")
    load.start()
    commits = Commits()
    for _ in range(_KILLS):
        _wait_for_progress(load, 200)
        commits.commit(broker, load)
        time.sleep(moments.random() * 0.15)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
        commits.check(broker)
    load.finish()
    assert load.failed == [], f"seed {seed}"
    _check(broker, load, seed)


class Commits:
    """Offsets that a group committed, and that must still be committed."""

    def __init__(self) -> None:
        self._offset: int | None = None

    def commit(self, broker: TailraceProcess, load: Load) -> None:
        offset = max(load.acknowledged[0], default=0)
        with _Group(broker) as consumer:
            consumer.commit(offsets=[TopicPartition("load", 0, offset)], asynchronous=False)
        self._offset = offset

    def check(self, broker: TailraceProcess) -> None:
        with _Group(broker) as consumer:
            found = consumer.committed([TopicPartition("load", 0)], timeout=60)
        assert found[0].offset == self._offset


class _Group:
    def __init__(self, broker: TailraceProcess) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 20,
                "retry.backoff.ms": 20,
            }
        )

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _wait_for_progress(load: Load, records: int) -> None:
    """Every life of the broker must have acknowledged something before it ends."""
    target = load.acknowledged_count() + records
    deadline = time.monotonic() + 90
    while load.acknowledged_count() < target:
        assert time.monotonic() < deadline, f"no progress; failed: {load.failed[:3]}"
        time.sleep(0.005)


def _create(broker: TailraceProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic].result(30)


def _check(broker: TailraceProcess, load: Load, seed: int) -> None:
    for partition, acknowledged in enumerate(load.acknowledged):
        stored = _read_all(broker, partition)
        assert [offset for offset, _ in stored] == list(range(len(stored))), f"seed {seed}: dense"
        values = [value for _, value in stored]
        assert values == sorted(set(values)), f"seed {seed}: once and in order"
        there = dict(stored)
        lost = {o: v for o, v in acknowledged.items() if there.get(o) != v}
        assert lost == {}, f"seed {seed}, partition {partition}"


def _read_all(broker: TailraceProcess, partition: int) -> list[tuple[int, int]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "all"})
    at = TopicPartition("load", partition, 0)
    _, end = consumer.get_watermark_offsets(at, timeout=30)
    consumer.assign([at])
    stored: list[tuple[int, int]] = []
    while len(stored) < end:
        for message in consumer.consume(min(1000, end - len(stored)), timeout=30):
            if message.error():
                raise KafkaException(message.error())
            offset = message.offset()
            assert offset is not None
            stored.append((offset, int(message.value() or b"")))
    consumer.close()
    return stored


@pytest.mark.parametrize("damage", ["torn", "zeroed"])
def test_a_damaged_tail_costs_nothing_that_was_acknowledged(
    broker_factory: Callable[..., TailraceProcess], damage: str
) -> None:
    broker = broker_factory().start()
    _create(broker, "load")
    for _ in range(3):
        load = Load(broker.bootstrap, "load")
        load.start()
        _wait_for_progress(load, 300)
        broker.kill()
        _append_unfinished_write(broker.data, damage)
        broker.restart()
        load.finish()
        assert load.failed == []
    stored = {p: _read_all(broker, p) for p in range(_PARTITIONS)}
    for partition, acknowledged in enumerate(load.acknowledged):
        there = dict(stored[partition])
        assert {o: v for o, v in acknowledged.items() if there.get(o) != v} == {}
        assert [o for o, _ in stored[partition]] == list(range(len(stored[partition])))


def _append_unfinished_write(data: Path, damage: str) -> None:
    """Leave what a power cut leaves of a group that was being written and never acknowledged.

    The start of an earlier group is written again behind the last whole one: cut short, or with its
    last 512-byte block zeroed.
    """
    for pattern in ("*.log", "*.txn"):
        files = sorted(data.rglob(pattern), key=lambda path: path.stat().st_mtime)
        if not files:
            continue
        newest = files[-1]
        content = newest.read_bytes()
        header = 1024 if pattern == "*.log" else 512
        again = content[header : header + 4096 + 300]
        if damage == "torn":
            again = again[: max(1, len(again) - 137)]
        else:
            again = again[:-512] + bytes(512)
        with newest.open("ab") as file:
            file.write(again)
