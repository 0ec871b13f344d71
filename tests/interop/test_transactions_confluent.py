"""Transactions of confluent-kafka (librdkafka) against a broker from the command line."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

TIMEOUT_S = 30


def producer(broker: TailraceProcess, transactional_id: str, **options: Any) -> Producer:
    """Make a producer that has its id, and fences who had it before."""
    made = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, **options}
    )
    made.init_transactions(TIMEOUT_S)
    return made


def transact(on: Producer, work: Callable[[Producer], None], *, abort: bool = False) -> None:
    """Do some work in a transaction of its own."""
    on.begin_transaction()
    work(on)
    if abort:
        assert on.flush(TIMEOUT_S) == 0  # an abort would drop what was not sent yet
        on.abort_transaction(TIMEOUT_S)
    else:
        on.commit_transaction(TIMEOUT_S)


def read(
    broker: TailraceProcess, topic: str, count: int, isolation: str = "read_committed"
) -> list[str]:
    """Return the values of a partition up to its end, which has to come after as many."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[str] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, values
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            break
        values.append(message.value().decode())
    consumer.close()
    assert len(values) == count, values
    return values


def test_committed_and_aborted(broker: TailraceProcess, topic: str) -> None:
    made = producer(broker, topic)
    for number in range(6):
        transact(
            made,
            lambda p: p.produce(topic, f"v{number}"),  # noqa: B023 - called at once
            abort=number % 2 == 1,
        )
    assert read(broker, topic, 3) == ["v0", "v2", "v4"]
    assert len(read(broker, topic, 6, "read_uncommitted")) == 6


def test_a_read_process_write_loop_moves_each_record_once(
    broker: TailraceProcess, topic: str
) -> None:
    source, sink = f"{topic}-in", f"{topic}-out"
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        plain.produce(source, f"v{number}")
    assert plain.flush(TIMEOUT_S) == 0
    moved = 0
    for attempt in range(6):  # every second one gives up, and the next begins where it began
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "heartbeat.interval.ms": 300,
            }
        )
        consumer.subscribe([source])
        batch = consumer.consume(min(7, 20 - moved), timeout=TIMEOUT_S)
        made = producer(broker, topic)

        def work(on: Producer) -> None:
            for message in batch:  # noqa: B023 - called at once
                on.produce(sink, message.value())
            next_ = [TopicPartition(source, 0, batch[-1].offset() + 1)]  # noqa: B023
            on.send_offsets_to_transaction(next_, consumer.consumer_group_metadata())  # noqa: B023

        transact(made, work, abort=attempt % 2 == 0)
        moved += len(batch) if attempt % 2 else 0
        consumer.close()
    assert moved == 20
    assert read(broker, sink, 20) == [f"v{number}" for number in range(20)]


def test_a_zombie_is_fenced_and_its_transaction_is_aborted(
    broker: TailraceProcess, topic: str
) -> None:
    zombie = producer(broker, topic)
    zombie.begin_transaction()
    zombie.produce(topic, "lost")
    assert zombie.flush(TIMEOUT_S) == 0
    transact(producer(broker, topic), lambda p: p.produce(topic, "kept"))
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()
    assert fenced.value.args[0].code() == KafkaError._FENCED
    assert read(broker, topic, 1) == ["kept"]


def test_a_transaction_that_nobody_ends_is_aborted_at_its_timeout(
    broker: TailraceProcess, topic: str
) -> None:
    silent = producer(broker, topic, **{"transaction.timeout.ms": 1000})
    silent.begin_transaction()
    silent.produce(topic, "lost")
    assert silent.flush(TIMEOUT_S) == 0
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, "plain")
    assert plain.flush(TIMEOUT_S) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT_S)  # comes once the broker has aborted: it was behind it
    assert message is not None
    assert message.value() == b"plain"
    consumer.close()
