"""An idempotent producer that goes on while things are killed under it, and what it must find."""

import threading
import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS: Final = 3
TOPIC: Final = "load"
_PROGRESS_WITHIN_S: Final = 90
_AT_ONCE: Final = 5
"""Records to one partition before it is the next one's turn."""
_PAUSE_S: Final = 0.003
"""Between turns. A request takes longer, so some are always under way when something is killed; as
many as can be would keep both cores busy, and prove nothing more."""


class Load:
    """An idempotent producer that goes on through restarts, and what was acknowledged to it.

    It never waits for answers: what it has for a broker that is away comes all at once.
    """

    def __init__(self, bootstrap: str, *, heavy_bytes: int = 0) -> None:
        """`heavy_bytes`: what every second record brings along, compressed: much to check."""
        self._padding = [("padding", bytes(heavy_bytes))] if heavy_bytes else None
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        self.failed: list[str] = []
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
                "queue.buffering.max.messages": 100 if heavy_bytes else 2000,
                "compression.type": "zstd" if heavy_bytes else "none",
            }
        )
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Stop sending, and wait until the fate of every record is known."""
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0

    def wait_for_progress(self, records: int) -> None:
        """Return once each partition got its part of so many more: every life has a result."""
        targets = [len(found) + records // PARTITIONS for found in self.acknowledged]
        deadline = time.monotonic() + _PROGRESS_WITHIN_S
        while any(
            len(found) < target for found, target in zip(self.acknowledged, targets, strict=True)
        ):
            assert time.monotonic() < deadline, f"no progress; failed: {self.failed[:3]}"
            time.sleep(0.005)

    def check(self, bootstrap: str, what: str = "") -> None:
        """Read everything: nothing acknowledged is lost, nothing is twice or out of order.

        Values below zero are others', written in between.
        """
        assert self.failed == [], what
        for partition, acknowledged in enumerate(self.acknowledged):
            stored = read_all(bootstrap, partition)
            assert [offset for offset, _ in stored] == list(range(len(stored))), f"{what}: dense"
            values = [value for _, value in stored if value >= 0]
            assert values == sorted(set(values)), f"{what}: once and in order"
            there = dict(stored)
            lost = {o: v for o, v in acknowledged.items() if there.get(o) != v}
            assert lost == {}, f"{what}, partition {partition}"

    def _send(self) -> None:
        number = 0
        while not self._stop.is_set():
            partition = number // _AT_ONCE % PARTITIONS
            try:
                self._producer.produce(
                    TOPIC,
                    b"%d" % number,
                    partition=partition,
                    headers=self._padding if number % 2 else None,
                    on_delivery=self._on_delivery,
                )
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)
            if number % _AT_ONCE == 0:
                self._stop.wait(_PAUSE_S)

    def _on_delivery(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(f"{message.value()!r}: {error}")
        else:
            offset, partition = message.offset(), message.partition()
            assert offset is not None
            assert partition is not None
            self.acknowledged[partition][offset] = int(message.value() or b"")


def create_topic(
    bootstrap: str, name: str = TOPIC, replication_factor: int = 1, **configs: str
) -> None:
    """Create a topic with the partitions of a load; underscores in `configs` stand for dots."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, PARTITIONS, replication_factor, config=settings)
    admin.create_topics([topic])[name].result(30)


def read_all(bootstrap: str, partition: int) -> list[tuple[int, int]]:
    """Return offset and value of every record of a partition of the load."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "all"})
    at = TopicPartition(TOPIC, partition, 0)
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
