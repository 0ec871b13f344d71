"""A second opinion: the same range, by confluent-kafka, folded into digests in an SQLite file.

Nothing is shared with the first fold but the definition of the hash: another client, another
decoder, another rule for transactions, another sink. It ends by positions: a record at or behind
the end, or the news that the next offset to fetch is.
"""

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tailrace.compaction.restoring.checkpoint import Checkpoint
from tailrace.compaction.restoring.connection import librdkafka_settings
from tailrace.compaction.restoring.errors import LogTruncated, Refused, RestoreError, Unreachable
from tailrace.compaction.restoring.fold import Progress
from tailrace.compaction.restoring.records import Changes
from tailrace.compaction.restoring.report import Report, report_of
from tailrace.compaction.restoring.sinks.sqlite import DigestSink
from tailrace.core.runtime.clock import SystemClock

RECORDS = 10_000
"""Records that are fetched from the library, folded and saved together."""
_WAIT_S = 0.1
"""The library waits for that many records for so long, even at the end of the log."""


class Mismatch(RestoreError):
    """Two folds of the same range differ."""


def verify(
    report: Report,
    *,
    bootstrap: str,
    timeout_s: float,
    folder: Path | None = None,
    client_settings: Mapping[str, str] | Path | None = None,
) -> Report:
    """Fold the range of `report` again and return what was found.

    `folder`: where digests go, each live key and 20 bytes; None is the system's for temporary
    files. `client_settings`: as those of a restore. Errors: Mismatch, its message naming partitions
    and numbers; RestoreError. Cost: one read of the range.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tailrace-verify-", dir=folder) as own,
        closing(DigestSink(Path(own) / "digests.db")) as sink,
    ):
        second = _Second(report, sink)
        second.read(bootstrap, timeout_s, librdkafka_settings(client_settings))
        again = second.report()
    compare(report, again)
    return again


def compare(first: Report, second: Report) -> None:
    """Say where two reports differ in what is alive. Errors: Mismatch."""
    wrong = [
        f"{first.topic}-{one.partition}: {one.live_keys} keys {one.hash} of {one.records} records, "
        f"again {two.live_keys} keys {two.hash} of {two.records}"
        for one, two in zip(first.partitions, second.partitions, strict=True)
        if (one.hash, one.live_keys) != (two.hash, two.live_keys)
    ]
    if wrong:
        raise Mismatch(
            "; ".join(wrong),
            place=first.topic,
            remedy="fewer records the second time: the log was cleaned in between, restore again "
            "(`--fresh`); the same number of records: keep both logs and report it",
        )


class _Second:
    def __init__(self, report: Report, sink: DigestSink) -> None:
        self._sink = sink
        self._checkpoint = Checkpoint(
            topic=report.topic,
            topic_id=report.topic_id,
            partitions={
                each.partition: Progress(start=each.start, end=each.end, position=each.start)
                for each in report.partitions
            },
        )

    def read(self, bootstrap: str, timeout_s: float, settings: Mapping[str, Any]) -> None:
        """Read everything."""
        client = Consumer(
            {
                **settings,
                "bootstrap.servers": bootstrap,
                "group.id": "tailrace-restore-verify",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "check.crcs": True,
                "queued.max.messages.kbytes": 32 * 1024,
                "log_level": 0,
            }
        )
        clock = SystemClock()
        since_s = clock.monotonic_s()
        try:
            client.assign(
                [
                    TopicPartition(self._checkpoint.topic, partition, each.start)
                    for partition, each in self._checkpoint.partitions.items()
                    if not each.is_done
                ]
            )
            while not self._checkpoint.is_read:
                messages = client.consume(RECORDS, timeout=_WAIT_S)
                if messages:
                    since_s = clock.monotonic_s()
                    self._take(messages)
                elif clock.monotonic_s() - since_s >= timeout_s:
                    raise Unreachable(
                        f"nothing came for {timeout_s:g} s", place=bootstrap, remedy="try again"
                    )
        finally:
            client.close()

    def report(self) -> Report:
        """Return what was found."""
        return report_of(self._checkpoint, self._sink.finish(self._checkpoint))

    def _take(self, messages: Iterable[Any]) -> None:
        changes: dict[int, Changes] = {}
        for message in messages:
            progress = self._checkpoint.partitions.get(message.partition())
            if message.error() is not None:
                _check(message, progress)
            elif progress is not None and message.offset() < progress.end:
                _fold(progress, message, changes.setdefault(message.partition(), {}))
            if progress is not None and message.offset() is not None:
                at = message.offset() + (message.error() is None)
                progress.position = max(progress.position, at)
        self._sink.save(changes, self._checkpoint)


def _fold(progress: Progress, message: Any, changes: Changes) -> None:
    key, value = message.key(), message.value()
    progress.records += 1
    progress.bytes += len(key or b"") + len(value or b"")
    if key is None:
        progress.keyless += 1
        return
    progress.tombstones += value is None
    changes[key] = value


def _check(message: Any, progress: Progress | None) -> None:
    """Let the news of an end pass, and what the library tries again by itself."""
    error = message.error()
    place = f"{message.topic()}-{message.partition()}"
    if error.code() == KafkaError._PARTITION_EOF or (error.retriable() and not error.fatal()):
        return
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        position = "it" if progress is None else f"offset {progress.position}"
        raise LogTruncated(
            f"the log does not hold {position} any more", place=place, remedy="restore again"
        )
    raise Refused(error.str(), place=place)
