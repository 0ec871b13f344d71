"""Restore a topic's latest value per key: a changelog into a dict, a file, or a callback.

    from tailrace.restore import SqliteSink, restore

    report = restore("users", bootstrap="127.0.0.1:9092", sink=SqliteSink(Path("users.db")))
    print(report.hash, [each.live_keys for each in report.partitions])
    verify(report, bootstrap="127.0.0.1:9092", timeout_s=30)

It always ends: the range of each partition, from the log's start to its last stable offset, is
fixed once at the beginning, and the ends of batches lead through it, so neither a record that
compaction removed nor a transaction's marker is waited for. It goes on from where it was after a
crash at any point, and its hash can be computed by anybody (`compaction/restoring/digest.py`).

Works with Tailrace and Apache Kafka 2.1 or later; `Options.client_settings` are for TLS and
SASL. A call blocks; from asyncio use `await asyncio.to_thread(restore, ...)`.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.compaction.restoring.checkpoint import Checkpoint, check_checkpoint
from tailrace.compaction.restoring.cluster import Topic, bounds, find_topic, parse_bootstrap
from tailrace.compaction.restoring.connection import way_in
from tailrace.compaction.restoring.digest import Live
from tailrace.compaction.restoring.errors import (
    CorruptBatch,
    LogTruncated,
    Refused,
    RestoreError,
    TopicGone,
    Unreachable,
    WrongCheckpoint,
)
from tailrace.compaction.restoring.fetcher import Sizes
from tailrace.compaction.restoring.fold import Progress
from tailrace.compaction.restoring.folding import Folding, Limits, Step
from tailrace.compaction.restoring.patience import Patience
from tailrace.compaction.restoring.report import PartitionReport, Report, report_of
from tailrace.compaction.restoring.sinks.memory import DictSink
from tailrace.compaction.restoring.sinks.sink import Sink
from tailrace.compaction.restoring.sinks.sqlite import CallbackSink, SqliteSink
from tailrace.compaction.restoring.verify import Mismatch, verify
from tailrace.core.runtime.clock import SystemClock

__all__ = [
    "CallbackSink",
    "Checkpoint",
    "CorruptBatch",
    "DictSink",
    "Live",
    "LogTruncated",
    "Mismatch",
    "Options",
    "PartitionReport",
    "Progress",
    "Refused",
    "Report",
    "RestoreError",
    "Sink",
    "SqliteSink",
    "Step",
    "TopicGone",
    "Unreachable",
    "WrongCheckpoint",
    "parquet_sink",
    "restore",
    "verify",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits of a restore, and how it gets in."""

    timeout_s: float = 30.0
    """Seconds without any progress after which it gives up; also for one answer."""
    save_bytes: int = 64 * 1024 * 1024
    """Memory for records that are not saved yet, all partitions together. Unit: bytes."""
    answer_bytes: int = 16 * 1024 * 1024
    """Most that one answer of a broker may hold, if no single batch is larger; up to three and
    one for each further broker are in memory. Unit: bytes."""
    fresh: bool = False
    """Forget what the sink holds and start over, instead of going on from its checkpoint."""
    client_settings: Mapping[str, str] | Path | None = field(default=None, repr=False)
    """For TLS and SASL, by Kafka's names (`security.protocol`, `sasl.jaas.config`,
    `ssl.truststore.location`, ...) or librdkafka's; or a file of them."""


def restore(
    topic: str,
    *,
    bootstrap: str,
    sink: Sink,
    partitions: Iterable[int] | None = None,
    options: Options | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Report:
    """Bring the latest value of each key into `sink`, and say what was found.

    `partitions`: None is all. `watch` is told how far it is, after every answer. A sink that
    holds a checkpoint of the same topic and partitions goes on in the range that was fixed then;
    one that is finished reports again without reading. The sink stays open.

    A cleaner that runs meanwhile removes what is superseded behind the range's end too: such a
    key may be missing, or have its value from before. Aborted transactions are left out, tombstones
    delete, headers are ignored.

    Errors: RestoreError, with cause, place and remedy; the sink stays as it was saved, and a
    further call goes on. Memory: `Options`. Cost: one read of the range; CPU of one core,
    about 1 us a record and as much for each live pair.
    """
    options = options or Options()
    patience = Patience(SystemClock(), time.sleep, options.timeout_s)
    brokers = parse_bootstrap(bootstrap, way_in(options.client_settings))
    found = patience.retry(lambda: find_topic(brokers, topic, options.timeout_s))
    chosen = _chosen(found, partitions)
    if options.fresh:
        sink.clear()
    checkpoint = sink.load()
    if checkpoint is None:
        checkpoint = _begin(found, chosen, patience)
        sink.save({}, checkpoint)
    else:
        check_checkpoint(checkpoint, topic, found.id.hex(), chosen, sink.place)
    folding = Folding(brokers, found, checkpoint, sink, patience)
    folding.run(_limits(options), watch or _nobody)
    live = sink.finish(checkpoint)
    return report_of(checkpoint, live)


def parquet_sink(folder: Path) -> Sink:
    """Return a sink that writes `folder/partition=N/latest.parquet`, for data larger than memory.

    Errors: ImportError without pyarrow (the extra `parquet`); WrongCheckpoint if another restore
    writes there.
    """
    from tailrace.compaction.restoring.sinks.parquet import ParquetSink

    return ParquetSink(folder)


def _chosen(topic: Topic, partitions: Iterable[int] | None) -> list[int]:
    there = sorted(topic.leaders)
    if partitions is None:
        return there
    chosen = sorted(set(partitions))
    missing = [each for each in chosen if each not in topic.leaders]
    if missing or not chosen:
        raise TopicGone(
            f"the topic has no partition {', '.join(map(str, missing)) or 'of none'}",
            place=topic.name,
            remedy=f"it has {there[0]} to {there[-1]}",
        )
    return chosen


def _begin(topic: Topic, partitions: Sequence[int], patience: Patience) -> Checkpoint:
    """Fix the range."""
    range_of = patience.retry(lambda: bounds(topic, partitions, patience.timeout_s))
    return Checkpoint(
        topic=topic.name,
        topic_id=topic.id.hex(),
        partitions={
            partition: Progress(start=each.start, end=each.end, position=each.start)
            for partition, each in range_of.items()
        },
    )


def _limits(options: Options) -> Limits:
    sizes = Sizes(answer_bytes=options.answer_bytes, partition_bytes=options.answer_bytes // 4)
    return Limits(sizes, options.save_bytes)


def _nobody(_: Step) -> None:
    """Watch nothing."""
