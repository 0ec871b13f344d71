"""DescribeLogDirs, Kafka API 35, v1-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Part of DescribeLogDirsRequest."""

    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Source: Kafka DescribeLogDirsRequest.json, v1-5."""

    topics: Sequence[DescribableLogDirTopic] | None = wire(
        array(DescribableLogDirTopic), nullable_since=0
    )


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsPartition:
    """Part of DescribeLogDirsResponse."""

    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsTopic:
    """Part of DescribeLogDirsResponse."""

    name: str = wire(STRING)
    partitions: Sequence[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition))


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResult:
    """Part of DescribeLogDirsResponse."""

    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: Sequence[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, since=4, default=-1)
    usable_bytes: int = wire(INT64, since=4, default=-1)
    is_cordoned: bool = wire(BOOL, since=5)


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """Source: Kafka DescribeLogDirsResponse.json, v1-5."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=3)
    results: Sequence[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult))
