"""Spark's own Kafka source over topics that our cleaner has cleaned.

`failOnDataLoss` is at its default, true: a query that misses an offset which it thinks it ought to
find fails. None of these may.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import Row, SparkSession

from tailrace.spark import TopicSource, ingest_stream, parse_bound, read_batch
from tests.cleaned import CleanedTopics
from tests.process import TailraceProcess

PARTITIONS = 2
Record = tuple[int, int, bytes, bytes | None]
"""Partition, offset, key, value."""


@pytest.fixture
def topics(broker_factory: Callable[..., TailraceProcess]) -> CleanedTopics:
    return CleanedTopics(broker_factory)


def change(topics: CleanedTopics, topic: str, first: int, count: int) -> None:
    """Write rows of few keys, every tenth a delete, in batches of a few records."""
    settings = {"bootstrap.servers": topics.broker.bootstrap, "batch.num.messages": 20}
    producer = Producer(settings)
    for number in range(first, first + count):
        value = None if number % 10 == 3 else b"value-%d" % number * 5
        producer.produce(topic, value, b"key-%d" % (number % 50), partition=number % PARTITIONS)
        if number % 500 == 499:
            assert producer.flush(60) == 0  # a full segment ends before the next portion comes


def left(topics: CleanedTopics, topic: str) -> list[Record]:
    """Return what another client reads, from start to end."""
    return sorted(_read(topics.broker.bootstrap, topic))


def _read(bootstrap: str, topic: str) -> Iterator[Record]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "r", "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    try:
        ended = 0
        while ended < PARTITIONS:
            message = consumer.poll(60)
            assert message is not None, "neither a record nor the end"
            if message.error():
                ended += 1
            else:
                yield _record(message)
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    return message.partition(), message.offset(), message.key(), message.value()


def rows_of(spark: SparkSession, source: TopicSource) -> list[Record]:
    """Return what a batch query reads."""
    return _records(read_batch(spark, source).collect())


def _records(rows: list[Row]) -> list[Record]:
    return sorted(
        (row.partition, row.offset, bytes(row.key), None if row.value is None else bytes(row.value))
        for row in rows
    )


def test_a_batch_query_reads_what_is_left(
    topics: CleanedTopics, topic: str, spark: SparkSession
) -> None:
    topics.create(topic, PARTITIONS)
    change(topics, topic, 0, 2000)
    topics.clean(topic)
    records = left(topics, topic)
    assert len(records) < 1000
    source = TopicSource(bootstrap=topics.broker.bootstrap, topics=topic)
    assert rows_of(spark, source) == records
    # Bounds within gaps: after the first record that is left, and before it.
    first = next(offset for partition, offset, *_ in records if partition == 0)
    assert first > 10
    for start, end in ((3, first + 1), (5, 7)):
        bounds = [json.dumps({topic: {"0": at, "1": 0}}) for at in (start, end)]
        part = TopicSource(
            bootstrap=topics.broker.bootstrap,
            topics=topic,
            start=parse_bound(bounds[0]),
            end=parse_bound(bounds[1]),
        )
        wanted = [each for each in records if each[0] == 0 and start <= each[1] < end]
        assert rows_of(spark, part) == wanted


def test_a_streaming_query_goes_through_gaps(
    topics: CleanedTopics, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Micro-batches of 400 offsets: some have no record at all, and the log is cleaned between."""
    topics.create(topic, PARTITIONS)
    change(topics, topic, 0, 2000)
    topics.clean(topic)
    source = TopicSource(
        bootstrap=topics.broker.bootstrap, topics=topic, options={"maxOffsetsPerTrigger": "400"}
    )
    output, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    before = left(topics, topic)
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    assert _records(spark.read.parquet(str(output)).collect()) == before
    change(topics, topic, 2000, 2000)
    topics.clean(topic)  # where it goes on from lies in a gap by now
    after = left(topics, topic)
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    found = _records(spark.read.parquet(str(output)).collect())
    ends = {index: max(each[1] for each in before if each[0] == index) for index in (0, 1)}
    assert found == sorted(before + [each for each in after if each[1] > ends[each[0]]])
