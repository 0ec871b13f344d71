"""A restore from Apache Kafka 4.3.1: a topic that its own cleaner has cleaned."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.compaction.restoring.digest import live_state
from tailrace.restore import DictSink, Report, restore, verify
from tests.bench.brokers import KafkaNode, await_port, free_port, kafka_command, running

pytestmark = [pytest.mark.interop, pytest.mark.java]

_CLEANED_S = 60
_CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "100",
    "delete.retention.ms": "0",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[str]:
    """One node whose cleaner looks for work ten times a second."""
    port = free_port()
    node = KafkaNode(0, port, (free_port(),), "cZ1PqW3uR0qk9o2b7mVxXw")
    command = kafka_command(node, tmp_path, tmp_path / "data", fsync=False, quick=True)
    with (tmp_path / "server.properties").open("a") as properties:
        properties.write("log.cleaner.backoff.ms=100\nlog.cleaner.dedupe.buffer.size=16777216\n")
    with running(command, tmp_path / "out") as child:
        await_port(child, port, tmp_path / "out")
        yield f"127.0.0.1:{port}"


def cleaned(bootstrap: str, topic: str, end: int) -> tuple[DictSink, Report]:
    """Restore until the last marker is there and the cleaner has taken something out."""
    deadline = time.monotonic() + _CLEANED_S
    while True:
        sink = DictSink()
        report = restore(topic, bootstrap=bootstrap, sink=sink)
        if report.partitions[0].gaps and report.partitions[0].end == end:
            return sink, report
        assert time.monotonic() < deadline, report


def test_what_its_cleaner_has_left(kafka: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1, 1, config=_CONFIG)])[topic].result(60)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(60)
    values: dict[bytes, bytes] = {}
    for turn in range(6):
        producer.begin_transaction()
        is_committed = turn != 3
        for number in range(50):
            key = b"key-%d" % (number % 20)
            value = None if number % 20 == 7 else b"value-%d-%d" % (turn, number)
            producer.produce(topic, value, key)
            if is_committed:
                values.pop(key, None)
                if value is not None:
                    values[key] = value
        assert producer.flush(60) == 0
        (producer.commit_transaction if is_committed else producer.abort_transaction)(60)
        assert restore(topic, bootstrap=kafka, sink=DictSink()).partitions[0].end <= 51 * (turn + 1)
    sink, report = cleaned(kafka, topic, 6 * 51)
    (only,) = report.partitions
    assert sink.values == {0: values}
    assert only.hash == live_state(values.items()).hash
    assert only.end - only.start == only.records + only.aborted + only.markers + only.gaps
    assert verify(report, bootstrap=kafka, timeout_s=30).hash == report.hash
