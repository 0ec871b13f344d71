"""Batches with a right CRC and wrong records: refused as by Kafka; librdkafka reads the rest."""

import pytest
from confluent_kafka import Consumer

from protocol.errors import ErrorCode
from tests.cluster.raw import RawClient, batch, create_topic, produce
from tests.malformed import CASES
from tests.process import TailraceProcess

pytestmark = pytest.mark.interop


def consumed(broker: TailraceProcess, topic: str, count: int) -> list[bytes | None]:
    """Return what librdkafka, which checks CRCs here, reads of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=30)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * count
    return [message.value() for message in messages]


def test_librdkafka_reads_on_behind_what_was_refused(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    sent = []
    with RawClient(hostile) as client:
        for case in CASES:
            if case.is_taken:
                continue
            refused = produce(client, topic, case.batch)
            assert refused.error_code == ErrorCode.INVALID_RECORD, case.name
            assert refused.error_message
            assert produce(client, topic, batch(case.name.encode())).base_offset == len(sent)
            sent.append(case.name.encode())
    assert consumed(hostile, topic, len(sent)) == sent


def test_what_kafka_takes_is_taken(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        for case in CASES:
            if case.is_taken:
                assert produce(client, topic, case.batch).error_code == 0, case.name
