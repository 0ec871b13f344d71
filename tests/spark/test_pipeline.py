"""The pipeline's jobs: Spark's own Kafka source and sink against a broker from the command line."""

import json
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tailrace.spark import (
    LATEST,
    PartitionRange,
    TopicSource,
    ingest_batch,
    ingest_stream,
    parse_bound,
    read_batch,
    write_topic,
)
from tests.process import TailraceProcess


def _fill(
    broker: TailraceProcess,
    topic: str,
    first: int,
    count: int,
    *,
    partitions: int = 2,
    at_ms: int = 0,
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(
            topic,
            b"v%d" % number,
            key=b"k%d" % number,
            partition=number % partitions,
            headers=[("n", b"%d" % number), ("empty", None)],
            timestamp=at_ms + number if at_ms else 0,
        )
    assert producer.flush(60) == 0


def _create(broker: TailraceProcess, topic: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def test_a_batch_range_with_headers(
    broker: TailraceProcess, topic: str, spark: SparkSession
) -> None:
    _create(broker, topic)
    _fill(broker, topic, 0, 100)
    start = parse_bound(json.dumps({topic: {"0": 10, "1": 20}}))
    end = parse_bound(json.dumps({topic: {"0": 30, "1": 25}}))
    source = TopicSource(bootstrap=broker.bootstrap, topics=topic, start=start, end=end)
    rows = read_batch(spark, source).orderBy("partition", "offset").collect()
    assert [(r.partition, r.offset) for r in rows] == [
        *((0, o) for o in range(10, 30)),
        *((1, o) for o in range(20, 25)),
    ]
    first = rows[0]
    assert (bytes(first.key), bytes(first.value), first.timestamp_type) == (b"k20", b"v20", 0)
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == [
        ("n", b"20"),
        ("empty", None),
    ]


def test_offsets_by_timestamp(broker: TailraceProcess, topic: str, spark: SparkSession) -> None:
    _create(broker, topic)
    base = int(time.time() * 1000) - 1_000_000
    _fill(broker, topic, 0, 100, at_ms=base)
    source = TopicSource(
        bootstrap=broker.bootstrap,
        topics=topic,
        start=parse_bound(f"@{base + 40}"),
        end=parse_bound(f"@{base + 60}"),
    )
    values = {bytes(row.value) for row in read_batch(spark, source).collect()}
    assert values == {b"v%d" % n for n in range(40, 60)}
    late = TopicSource(
        bootstrap=broker.bootstrap, topics=topic, start=parse_bound(f"@{base + 10_000_000}")
    )
    assert read_batch(spark, late).count() == 0


def test_batch_ingest_says_what_it_wrote(
    broker: TailraceProcess, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    _create(broker, topic)
    _fill(broker, topic, 0, 101)
    source = TopicSource(bootstrap=broker.bootstrap, topics=topic)
    written = ingest_batch(spark, source, tmp_path / "out")
    assert written == [PartitionRange(topic, 0, 0, 50, 51), PartitionRange(topic, 1, 0, 49, 50)]
    stored = spark.read.parquet(str(tmp_path / "out"))
    assert stored.count() == 101
    assert {r.offset for r in stored.where("partition = 1").collect()} == set(range(50))


def test_a_stream_resumes_from_its_checkpoint(
    broker: TailraceProcess, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    _create(broker, topic)
    source = TopicSource(
        bootstrap=broker.bootstrap, topics=topic, options={"maxOffsetsPerTrigger": "60"}
    )
    output, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    _fill(broker, topic, 0, 100)
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    _fill(broker, topic, 100, 100)
    query = ingest_stream(spark, source, output, checkpoint, interval_s=0.1)
    query.processAllAvailable()
    _fill(broker, topic, 200, 100)
    query.stop()
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    rows = spark.read.parquet(str(output)).collect()
    assert sorted((r.partition, r.offset) for r in rows) == [
        (p, o) for p in range(2) for o in range(150)
    ]
    assert {bytes(r.value) for r in rows} == {b"v%d" % n for n in range(300)}


def test_a_stream_survives_the_brokers_death(
    broker: TailraceProcess, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    _create(broker, topic)
    source = TopicSource(bootstrap=broker.bootstrap, topics=topic)
    output, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    _fill(broker, topic, 0, 50)
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    broker.kill()
    broker.restart()
    _fill(broker, topic, 50, 50)
    ingest_stream(spark, source, output, checkpoint).awaitTermination(120)
    values = [bytes(r.value) for r in spark.read.parquet(str(output)).collect()]
    assert sorted(values) == sorted(b"v%d" % n for n in range(100))


def test_a_frame_goes_into_a_topic_and_comes_back(
    broker: TailraceProcess, topic: str, spark: SparkSession
) -> None:
    _create(broker, topic)
    frame = spark.createDataFrame(
        [(n, f"text {n}", n % 2) for n in range(500)], "key long, value string, partition int"
    )
    write_topic(frame, broker.bootstrap, topic)
    source = TopicSource(bootstrap=broker.bootstrap, topics=topic, end=LATEST)
    rows = read_batch(spark, source).collect()
    found = {(bytes(r.key), bytes(r.value), r.partition) for r in rows}
    assert found == {(b"%d" % n, b"text %d" % n, n % 2) for n in range(500)}
    assert len(rows) == 500
