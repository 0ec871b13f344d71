"""Topics and Parquet files in jobs on Spark: the functions behind `tailrace pipeline`.

    spark = build_session("ingest")
    source = TopicSource(bootstrap="127.0.0.1:9092", topics="orders")
    ingest_batch(spark, source, Path("orders.parquet"))

Records come and go by Spark's own Kafka source and sink, so they are read at least once in a batch
and exactly once in a stream with a checkpoint. Needs pyspark 4.2 (the extra `spark`), Java 17, and
Maven once, for the connector's jars. Importing this module imports pyspark.
"""

from tailrace.pipeline.client_options import kafka_options
from tailrace.pipeline.ingest import PartitionRange, ingest_batch, ingest_stream
from tailrace.pipeline.jars import ConnectorUnavailable, connector_jars
from tailrace.pipeline.offsets import EARLIEST, LATEST, BadOffsets, Bound, parse_bound
from tailrace.pipeline.restore import RestoredPartition, restore_topic
from tailrace.pipeline.session import build_session
from tailrace.pipeline.sink import NoValueColumn, write_topic
from tailrace.pipeline.source import TopicSource, read_batch, read_stream
from tailrace.pipeline.stable_range import NoTopic, StableRange, stable_ranges

__all__ = [
    "EARLIEST",
    "LATEST",
    "BadOffsets",
    "Bound",
    "ConnectorUnavailable",
    "NoTopic",
    "NoValueColumn",
    "PartitionRange",
    "RestoredPartition",
    "StableRange",
    "TopicSource",
    "build_session",
    "connector_jars",
    "ingest_batch",
    "ingest_stream",
    "kafka_options",
    "parse_bound",
    "read_batch",
    "read_stream",
    "restore_topic",
    "stable_ranges",
    "write_topic",
]
