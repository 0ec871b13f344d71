"""Sends records for `tailrace produce` and counts what became of them."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from tailrace.tools.clients.librdkafka import Target, failure, producer
from tailrace.tools.errors import CliError
from tailrace.tools.output import Step, note, progress, show_json
from tailrace.tools.records.record_framing import Framing, RecordTooLong, key_value, split

CHUNK_BYTES = 1024 * 1024
FLUSH_S = 0.2
BAR_EVERY = 1000

__all__ = ["Framing", "Stamp", "send"]


class Stamp(NamedTuple):
    """What every record gets."""

    partition: int
    """-1 leaves it to the client's partitioner."""
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int
    """0 is now."""


class Sender:
    """One producer and what it was told about its records."""

    def __init__(self, to: Target, topic: str, stamp: Stamp) -> None:
        self.acknowledged: dict[int, int] = {}
        """Records by partition."""
        self.refused = 0
        self._first: Any = None
        self._to = to
        self._topic = topic
        self._stamp = stamp
        self._headers = list(stamp.headers)
        self._client = producer(
            to,
            linger_ms=5,
            message_timeout_ms=int(to.timeout_s * 1000),
            # A partition behind the first is one of a topic that is there, with enough of them.
            allow_auto_create_topics=stamp.partition <= 0,
        )
        if stamp.partition > 0:
            self._check_partition(stamp.partition)

    def _check_partition(self, partition: int) -> None:
        """Errors: CliError if the topic, or the partition, is not there."""
        topic = self._topic
        try:
            found = self._client.list_topics(topic, timeout=self._to.timeout_s).topics[topic]
        except KafkaException as error:
            raise failure(error, f"produce to {topic}", self._to) from error
        if found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            remedy = f"tailrace topic create {topic} --partitions {partition + 1}"
            raise CliError(f"there is no topic {topic}", place=self._to.bootstrap, remedy=remedy)
        if found.error is None and partition >= len(found.partitions):
            raise CliError(
                f"topic {topic} has no partition {partition}",
                place="--partition",
                remedy=f"0 to {len(found.partitions) - 1}",
            )

    def send(self, key: bytes | None, value: bytes | None) -> None:
        """Hand over one record; waits while the client's queue is full."""
        while True:
            try:
                self._client.produce(
                    self._topic,
                    value=value,
                    key=self._stamp.key if key is None else key,
                    partition=self._stamp.partition,
                    on_delivery=self._told,
                    timestamp=self._stamp.timestamp_ms,
                    headers=self._headers,
                )
            except BufferError:
                self._client.poll(FLUSH_S)
            else:
                self._client.poll(0)
                return

    def flush(self, step: Step) -> None:
        """Wait until the fate of every record is known."""
        while self._client.flush(FLUSH_S):
            step(self.count())

    def finish(self, step: Step) -> None:
        """Wait for the fate of every record. Errors: CliError with the first refusal."""
        self.flush(step)
        if self._first is not None:
            error = failure(KafkaException(self._first), f"produce to {self._topic}", self._to)
            error.cause += f"; {self.refused} records refused, {self.count()} acknowledged"
            raise error

    def count(self) -> int:
        """Return how many records were acknowledged."""
        return sum(self.acknowledged.values())

    def refuse(self, error: Any) -> None:
        """Count a record that will not be written."""
        self.refused += 1
        if self._first is None:
            self._first = error

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.refuse(error)
            return
        partition = message.partition()
        self.acknowledged[partition] = self.acknowledged.get(partition, 0) + 1


def send(
    to: Target,
    topic: str,
    files: Sequence[Path],
    how: tuple[Framing, Stamp],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Send everything and say what was acknowledged. Errors: CliError."""
    framing, stamp = how
    sender = Sender(to, topic, stamp)
    typing = not files and sys.stdin.isatty()
    with progress(f"produce to {topic}", "records", quiet=quiet or typing) as step:
        try:
            for number, data in enumerate(_records(files, framing)):
                sender.send(*key_value(data, framing))
                if number % BAR_EVERY == 0:
                    step(sender.count())
        except KeyboardInterrupt:
            sender.flush(step)
            raise
        except KafkaException as error:  # refused at once, as a broker would a moment later
            sender.refuse(error.args[0])
        sender.finish(step)
    if as_json:
        partitions = {str(p): n for p, n in sorted(sender.acknowledged.items())}
        show_json({"topic": topic, "records": sender.count(), "partitions": partitions})
    elif not quiet:
        note(f"{sender.count()} records to {topic}")


def _records(files: Sequence[Path], framing: Framing) -> Iterator[bytes]:
    if not files:
        yield from _split(sys.stdin.buffer, "standard input", framing)
    for path in files:
        try:
            with path.open("rb") as file:
                yield from _split(file, str(path), framing)
        except OSError as error:
            raise CliError(f"cannot read: {error.strerror}", place=str(path)) from error


def _split(file: BinaryIO, name: str, framing: Framing) -> Iterator[bytes]:
    try:
        yield from split(_chunks(file), framing)
    except RecordTooLong as error:
        raise CliError(str(error), place=name, remedy="--delimiter ends a record") from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what is there: a person's line at once, a file in large pieces."""
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK_BYTES):
        yield chunk
