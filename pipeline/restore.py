"""The latest value per key of a topic into Parquet, on data larger than memory."""

from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from tailrace.pipeline.offsets import Bound
from tailrace.pipeline.source import TopicSource, read_batch
from tailrace.pipeline.stable_range import StableRange, bounds_json

_DIGEST_BITS = 128
_PIECE_BITS = 32
"""A sum of pieces this long fits a long for two thousand million keys of a partition."""
_PIECES = _DIGEST_BITS // _PIECE_BITS


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """What was restored of one partition. Shape: `end` is exclusive."""

    partition: int
    start: int
    end: int
    """The last stable offset when the restore began."""
    records: int
    """Committed records that were read."""
    tombstones: int
    keyless: int
    """Records without a key, which restore nothing."""
    absent: int
    """Offsets without a committed record: compacted, aborted, or a transaction's marker."""
    live_keys: int
    live_bytes: int
    hash: str
    """Of all live (key, value) pairs: sum modulo 2^128 of the first 16 bytes of SHA-256(u32 length
    of the key | key | value), big-endian, as `tailrace restore` shows it."""


def restore_topic(
    spark: SparkSession, source: TopicSource, ranges: dict[int, StableRange], output: Path
) -> list[RestoredPartition]:
    """Write `output/partition=N/*.parquet` with the columns key and value, and say what is there.

    `source` names one topic; its bounds are replaced by `ranges`, so one range is read whatever is
    written meanwhile. Aborted transactions are left out. Errors: Spark's, if `output` exists.
    Cost: one read of the topic, a sort by key that spills to disk, one local copy of the result.
    """
    bounded = TopicSource(
        bootstrap=source.bootstrap,
        topics=source.topics,
        start=Bound(offsets=bounds_json(source.topics, ranges, "start")),
        end=Bound(offsets=bounds_json(source.topics, ranges, "end")),
        options={"kafka.isolation.level": "read_committed", **source.options},
    )
    # Kept for the two actions below: read again, the log could have been cleaned in between.
    latest = _latest(read_batch(spark, bounded)).persist(StorageLevel.DISK_ONLY)
    try:
        alive = latest.where("key is not null and value is not null")
        rows = alive.select("key", "value", "partition").write.partitionBy("partition")
        rows.mode("error").parquet(str(output))
        found = {row.partition: row for row in _counts(latest).collect()}
    finally:
        latest.unpersist()
    return [_restored(partition, at, found.get(partition)) for partition, at in ranges.items()]


def _latest(records: DataFrame) -> DataFrame:
    """Return a row for each key: its last value, null if deleted, and what was read of it."""
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return records.groupBy("partition", "key").agg(
        f.max_by("value", "offset").alias("value"),
        f.count("*").alias("records"),
        f.count_if(f.col("value").isNull()).alias("nulls"),
        f.sum(size).alias("bytes"),
    )


def _counts(latest: DataFrame) -> DataFrame:
    """Return a row for each partition, its hash in pieces."""
    has_key = f.col("key").isNotNull()
    is_alive = has_key & f.col("value").isNotNull()
    pieces = [
        f.sum(f.when(is_alive, piece)).alias(f"piece{number}")
        for number, piece in enumerate(_pair_pieces())
    ]
    return latest.groupBy("partition").agg(
        f.sum("records").alias("records"),
        f.sum(f.when(has_key, f.col("nulls"))).alias("tombstones"),
        f.sum(f.when(~has_key, f.col("records"))).alias("keyless"),
        f.count_if(is_alive).alias("live_keys"),
        f.sum(f.when(is_alive, f.length("key") + f.length("value"))).alias("live_bytes"),
        *pieces,
    )


def _pair_pieces() -> list[Column]:
    """Return the digest of a row's pair as numbers of 32 bits, the highest first."""
    length = f.unhex(f.lpad(f.hex(f.length("key")), 8, "0"))
    digest = f.sha2(f.concat(length, "key", "value"), 256)
    digits = _PIECE_BITS // 4
    return [
        f.conv(f.substring(digest, 1 + digits * number, digits), 16, 10).cast("long")
        for number in range(_PIECES)
    ]


def _restored(partition: int, at: StableRange, row: Row | None) -> RestoredPartition:
    counted = {} if row is None else row.asDict()
    state = 0
    for number in range(_PIECES):
        state = (state << _PIECE_BITS) + (counted.get(f"piece{number}") or 0)
    records = counted.get("records") or 0
    return RestoredPartition(
        partition=partition,
        start=at.start,
        end=at.end,
        records=records,
        tombstones=counted.get("tombstones") or 0,
        keyless=counted.get("keyless") or 0,
        absent=at.end - at.start - records,
        live_keys=counted.get("live_keys") or 0,
        live_bytes=counted.get("live_bytes") or 0,
        hash=f"{state % (1 << _DIGEST_BITS):032x}",
    )
