"""The latest value per key by Spark: the same hash as the restore in plain Python."""

import random
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from tailrace.restore import DictSink, restore
from tailrace.spark import TopicSource, restore_topic, stable_ranges
from tests.process import TailraceProcess


def test_it_holds_and_counts_what_the_plain_restore_does(
    broker: TailraceProcess, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    drawn = random.Random(7)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for commit in (True, False, True):
        producer.begin_transaction()
        for _ in range(200):
            key = drawn.choice([None, b"", drawn.randbytes(1)])
            value = drawn.choice([None, b"", drawn.randbytes(drawn.choice([1, 300]))])
            producer.produce(topic, value, key, drawn.randrange(2))  # the third stays empty
        assert producer.flush(30) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b"never seen", b"", 0)
    assert producer.flush(30) == 0

    ranges = stable_ranges(broker.bootstrap, topic, 30)
    source = TopicSource(bootstrap=broker.bootstrap, topics=topic)
    found = restore_topic(spark, source, ranges, tmp_path / "out")
    producer.abort_transaction(30)

    sink = DictSink()
    report = restore(topic, bootstrap=broker.bootstrap, sink=sink)
    for ours, plain in zip(found, report.partitions, strict=True):
        assert (ours.partition, ours.start, ours.hash) == (
            plain.partition,
            plain.start,
            plain.hash,
        )
        names = ("records", "tombstones", "keyless", "live_keys", "live_bytes")
        assert [getattr(ours, name) for name in names] == [getattr(plain, name) for name in names]
        assert ours.absent == ours.end - ours.start - ours.records
    assert found[2].hash == "0" * 32
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {(row.partition, bytes(row.key), bytes(row.value)) for row in rows} == {
        (partition, key, value)
        for partition, values in sink.values.items()
        for key, value in values.items()
    }
    assert len(rows) == sum(each.live_keys for each in found)
