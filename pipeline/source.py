"""A topic as a DataFrame, by Spark's own Kafka source."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tailrace.pipeline.offsets import EARLIEST, LATEST, Bound, source_options

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """Which records to read.

    `topics`: names joined by commas. `options` are further options of Spark's Kafka source
    (`minPartitions`, `maxOffsetsPerTrigger`, `failOnDataLoss`, `kafka.isolation.level`, ...) and
    win over what is set here.
    """

    bootstrap: str
    topics: str
    start: Bound = EARLIEST
    end: Bound = LATEST
    options: Mapping[str, str] = field(default_factory=dict)


def read_batch(spark: SparkSession, source: TopicSource) -> DataFrame:
    """Return the records from `start` to `end` as they are when the plan is made.

    Columns: key, value (binary), topic, partition, offset, timestamp, timestamp_type (0 create,
    1 append), headers (array of key and binary value, null if none).
    """
    reader = spark.read.format("kafka").options(
        **_options(source), **source_options(source.start, source.end)
    )
    return _renamed(reader.options(**source.options).load())


def read_stream(spark: SparkSession, source: TopicSource) -> DataFrame:
    """Return the records from `start` on, without end. Columns: as `read_batch`.

    A query that has a checkpoint goes on from there; `start` counts for its first run only.
    """
    reader = spark.readStream.format("kafka").options(
        **_options(source), **source_options(source.start, None)
    )
    return _renamed(reader.options(**source.options).load())


def _options(source: TopicSource) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topics,
        "includeHeaders": "true",
    }


def _renamed(records: DataFrame) -> DataFrame:
    return records.select(*(f.col(name) for name in _COLUMNS)).withColumnRenamed(
        "timestampType", "timestamp_type"
    )
