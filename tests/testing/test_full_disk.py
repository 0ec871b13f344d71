"""A disk that is full, as real clients see it: what is there is read, until there is room again."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tailrace.testing import Broker
from tests.testing.clients import TIMEOUT_S, outcome, settings, values

PLACE = TopicPartition("full", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def write_and_commit(broker: Broker) -> None:
    """Three records, the last in a transaction; group `g` is at the second."""
    producer = Producer(settings(broker, enable_idempotence=True))
    assert outcome(producer, "full", b"0") is None
    assert outcome(producer, "full", b"1") is None
    consumer = Consumer(settings(broker, group_id="g"))
    consumer.commit(offsets=[TopicPartition("full", 0, 1)], asynchronous=False)
    consumer.close()
    producer = Producer(settings(broker, transactional_id="t"))
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    assert outcome(producer, "full", b"2") is None
    producer.commit_transaction(TIMEOUT_S)
    check_read(broker)  # the transaction's marker is there, too


def check_read(broker: Broker) -> None:
    """Hold every answer that needs no writing against what was written."""
    for isolation in ("read_uncommitted", "read_committed"):
        read = values(broker, "full", 3, isolation_level=isolation, enable_auto_commit=False)
        assert read == [b"0", b"1", b"2"]
    consumer = Consumer(settings(broker, group_id="g", enable_auto_commit=False))
    assert consumer.get_watermark_offsets(PLACE, TIMEOUT_S) == (0, 4)
    assert [each.offset for each in consumer.committed([PLACE], TIMEOUT_S)] == [1]
    consumer.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_reads_go_on_at_a_full_disk_and_writes_when_it_is_free(
    broker: Broker, *, is_killed: bool
) -> None:
    """`is_killed`: and started again, so that everything is opened while the disk is full."""
    write_and_commit(broker)
    if is_killed:
        broker.kill()
        broker.start()
        # A journal reserves room with its first record; without any a bookie ends (its DESIGN.md).
        assert outcome(Producer(settings(broker)), "other") is None
    broker.fill_disk()
    check_read(broker)
    delivered: list[KafkaError | None] = []
    producer = Producer(settings(broker, enable_idempotence=True))
    for value in (b"3", b"4"):
        producer.produce("full", value, partition=0, on_delivery=lambda e, _: delivered.append(e))
    deadline_s = time.monotonic() + TIMEOUT_S
    while "roll_given_up" not in broker.log:  # it was tried without room, and goes on being tried
        producer.poll(0.02)
        assert time.monotonic() < deadline_s
    check_read(broker)
    assert delivered == []
    broker.free_disk()
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == [None, None]
    assert values(broker, "full", 5) == [b"0", b"1", b"2", b"3", b"4"]
