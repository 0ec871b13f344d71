"""Batches with a right CRC and wrong records: refused as by Kafka; librdkafka reads the rest."""

import struct
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from tailrace.protocol.compression import Codec
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.records.batch import LOG_APPEND_TIME, LOG_OVERHEAD, read_header, stamp_crc
from tailrace.protocol.records.record import Record, build_batch
from tests.cluster.raw import RawClient, batch, create_topic, fetch, produce
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


@pytest.mark.parametrize("said", [-1, 0, 1 << 62])
def test_a_look_up_by_time_goes_by_the_records(
    hostile: TailraceProcess, topic: str, said: int
) -> None:
    """Sarama before 1.45 leaves the header's max timestamp unset, others set a wrong one."""
    create_topic(hostile, topic)
    now_ms = time.time_ns() // 1_000_000
    made_ms = [now_ms - 3000, now_ms - 1000, now_ms - 2000]
    lies = build_batch([Record(at, made, value=b"v") for at, made in enumerate(made_ms)])
    struct.pack_into(">q", lies, 35, said)
    stamp_crc(lies)
    with RawClient(hostile) as client:
        assert produce(client, topic, lies).error_code == 0
        stored = fetch(client, topic).records
    assert stored is not None
    assert read_header(stored).max_timestamp == now_ms - 1000
    consumer = Consumer({"bootstrap.servers": hostile.bootstrap, "group.id": topic})
    try:
        asked = TopicPartition(topic, 0, now_ms - 2500)
        (found,) = consumer.offsets_for_times([asked], timeout=30)
    finally:
        consumer.close()
    assert found.offset == 1


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
@pytest.mark.parametrize("padding", [bytes(8), b"abc"])
def test_padding_behind_a_stream_is_taken(
    hostile: TailraceProcess, topic: str, codec: Codec, padding: bytes
) -> None:
    create_topic(hostile, topic)
    padded = batch(b"one", b"two", codec=codec) + padding
    struct.pack_into(">i", padded, 8, len(padded) - LOG_OVERHEAD)
    stamp_crc(padded)
    with RawClient(hostile) as client:
        assert produce(client, topic, padded).error_code == 0
        assert produce(client, topic, batch(b"three")).error_code == 0
    assert consumed(hostile, topic, 3) == [b"one", b"two", b"three"]


def test_the_brokers_time_is_for_the_broker_to_set(hostile: TailraceProcess, topic: str) -> None:
    create_topic(hostile, topic)
    now_ms = time.time_ns() // 1_000_000
    claims = build_batch([Record(0, now_ms, value=b"v")], attributes=LOG_APPEND_TIME)
    with RawClient(hostile) as client:
        assert produce(client, topic, claims).error_code == 0
        stored = fetch(client, topic).records
    assert stored is not None
    assert not read_header(stored).is_log_append_time


def test_a_batch_that_fits_no_segment(hostile: TailraceProcess, topic: str) -> None:
    limits = {"max.message.bytes": str(3 << 20), "segment.bytes": str(1 << 20)}
    create_topic(hostile, topic, **{name.replace(".", "_"): each for name, each in limits.items()})
    with RawClient(hostile) as client:
        refused = produce(client, topic, batch(bytes(1 << 20)))
        assert refused.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
        assert produce(client, topic, batch(bytes(1 << 19))).error_code == 0
