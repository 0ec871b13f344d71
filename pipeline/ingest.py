"""Records of a topic into Parquet: once as a batch, or for ever as a stream with a checkpoint."""

from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from tailrace.pipeline.source import TopicSource, read_batch, read_stream


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """What was written of one partition. Shape: both offsets are inclusive."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int


def ingest_batch(spark: SparkSession, source: TopicSource, output: Path) -> list[PartitionRange]:
    """Append the records of `source` to the Parquet files below `output` and say what was written.

    Files are partitioned by topic and partition. The records are kept on Spark's local disk while
    the job runs: a second look at the source would see a later end, so written and reported ranges
    could differ. Cost: one read of the source, one local copy.
    """
    records = read_batch(spark, source).persist(StorageLevel.DISK_ONLY)
    try:
        found = ranges(records)
        records.write.partitionBy("topic", "partition").mode("append").parquet(str(output))
    finally:
        records.unpersist()
    return found


def ingest_stream(
    spark: SparkSession,
    source: TopicSource,
    output: Path,
    checkpoint: Path,
    *,
    interval_s: float | None = None,
) -> StreamingQuery:
    """Start a query that appends to Parquet below `output`, each record exactly once.

    The checkpoint holds the offsets and `output/_spark_metadata` the files of finished batches: a
    query that was stopped or killed goes on where it was. With `interval_s` it runs for ever,
    without it until everything that was there at its start is written. The caller awaits or stops
    the query.
    """
    writer = (
        read_stream(spark, source)
        .writeStream.format("parquet")
        .partitionBy("topic", "partition")
        .option("path", str(output))
        .option("checkpointLocation", str(checkpoint))
    )
    if interval_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{interval_s} seconds").start()


def ranges(records: DataFrame) -> list[PartitionRange]:
    """Return first and last offset and the count for each partition, sorted."""
    rows = (
        records.groupBy("topic", "partition")
        .agg(f.min("offset"), f.max("offset"), f.count("*"))
        .orderBy("topic", "partition")
        .collect()
    )
    return [PartitionRange(*row) for row in rows]
