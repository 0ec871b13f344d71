"""Reads records for `tailrace consume`: chosen partitions between two positions, or as a group."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tailrace.tools.clients.librdkafka import Target, consumer, failure
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.output import note, progress
from tailrace.tools.records.offset_spec import (
    AtEnd,
    AtOffset,
    AtStart,
    AtTime,
    FromEnd,
    OffsetSpec,
    Stored,
)
from tailrace.tools.records.record_format import Render, Row

BATCH = 1000
"""Records fetched from the library at once; also what is written between two flushes."""

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}
At = tuple[str, int]
"""Topic and partition."""
Chosen = Sequence[TopicPartition]


class Limits(NamedTuple):
    """When to stop, and whether to talk."""

    records: int | None
    exit_at_end: bool
    quiet: bool


class Reader:
    """Prints what a consumer delivers until a limit is reached."""

    def __init__(
        self, client: Any, to: Target, limits: Limits, render: Render, out: BinaryIO
    ) -> None:
        self.ends: dict[At, int] = {}
        """Stop offset of each partition, exclusive; what is missing has none."""
        self.open: set[At] | None = None
        """Partitions not yet read to their end; None while they are not known."""
        self._client = client
        self._to = to
        self._limits = limits
        self._render = render
        self._out = out
        self._printed = 0

    def run(self, store: Callable[[Any], None] | None = None) -> int:
        """Print until a limit is reached; return how many. `store`: told what was printed."""
        total = self._limits.records
        # A bar helps nobody who sees the records go by.
        quiet = self._limits.quiet or sys.stdout.isatty()
        with progress("consume", "records", quiet=quiet) as step:
            while not self._done():
                room = BATCH if total is None else min(BATCH, total - self._printed)
                messages = self._client.consume(room, timeout=0.2)
                for message in messages:
                    self._take(message, store)
                self._out.flush()
                step(self._printed, total)
        return self._printed

    def _done(self) -> bool:
        if self._limits.records is not None and self._printed >= self._limits.records:
            return True
        bounded = self._limits.exit_at_end or bool(self.ends)
        return bounded and self.open is not None and not self.open

    def _take(self, message: Any, store: Callable[[Any], None] | None) -> None:
        at = (message.topic(), message.partition())
        error = message.error()
        if error is not None:
            self._on_error(error, at, message.offset())
            return
        end = self.ends.get(at)
        if end is not None and message.offset() >= end:
            self._close(at)
            return
        self._out.write(self._render(_row(message)))
        self._printed += 1
        if store is not None:
            store(message)
        if end is not None and message.offset() + 1 >= end:
            self._close(at)

    def _on_error(self, error: Any, at: At, offset: int | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            end = self.ends.get(at)
            if self._limits.exit_at_end or (end is not None and (offset or 0) >= end):
                self._close(at)
        elif error.fatal() or not error.retriable():
            raise failure(KafkaException(error), f"read {at[0]}/{at[1]}", self._to)

    def _close(self, at: At) -> None:
        if self.open is not None:
            self.open.discard(at)


def read_partitions(
    to: Target,
    topics: Sequence[str],
    partitions: Sequence[int] | None,
    bounds: tuple[OffsetSpec, OffsetSpec | None],
    limits: Limits,
    render: Render,
) -> None:
    """Print records of chosen partitions from one position to another. Errors: CliError."""
    client = consumer(
        to,
        group_id="tailrace-consume",
        enable_auto_commit=False,
        enable_partition_eof=True,
        auto_offset_reset="earliest",
    )
    try:
        chosen = _choose(client, to, topics, partitions)
        starts = _starts(client, to, chosen, bounds[0])
        reader = Reader(client, to, limits, render, sys.stdout.buffer)
        if bounds[1] is not None:
            reader.ends = _ends(client, to, chosen, bounds[1])
        reader.open = {
            (p.topic, p.partition)
            for p in starts
            if p.offset < reader.ends.get((p.topic, p.partition), p.offset + 1)
        }
        client.assign([p for p in starts if (p.topic, p.partition) in reader.open])
        _say(reader.run(), limits)
    except KafkaException as error:
        raise failure(error, f"consume {', '.join(topics)}", to) from error
    finally:
        client.close()


def read_group(
    to: Target,
    topics: Sequence[str],
    group: str,
    start: OffsetSpec,
    limits: Limits,
    render: Render,
) -> None:
    """Print records as a member of a group; what was printed is committed. Errors: CliError."""
    reset = _reset(start)
    client = consumer(
        to,
        group_id=group,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset=reset,
    )
    reader = Reader(client, to, limits, render, sys.stdout.buffer)

    def assigned(_client: Any, now: Sequence[TopicPartition]) -> None:
        reader.open = {(p.topic, p.partition) for p in now}
        if not limits.quiet:
            names = ", ".join(f"{p.topic}/{p.partition}" for p in now)
            note(f"group {group}: reads {names or 'nothing'}")

    try:
        _choose(client, to, topics, None)
        client.subscribe(list(topics), on_assign=assigned)
        _say(reader.run(lambda message: client.store_offsets(message=message)), limits)
    except KafkaException as error:
        raise failure(error, f"consume {', '.join(topics)}", to) from error
    finally:
        client.close()


def _reset(start: OffsetSpec) -> str:
    """Return where a group starts that has no commit; other positions are for partitions."""
    match start:
        case AtStart() | Stored():
            return "earliest"
        case AtEnd():
            return "latest"
        case _:
            raise CliError(
                "a group starts where it committed",
                place="--offset",
                remedy="start or end, for a group without commits",
                code=Exit.USAGE,
            )


def _choose(
    client: Any, to: Target, topics: Sequence[str], partitions: Sequence[int] | None
) -> list[TopicPartition]:
    chosen = []
    for topic in topics:
        found = client.list_topics(topic, timeout=to.timeout_s).topics[topic]
        if found.error is not None:
            raise failure(KafkaException(found.error), f"consume {topic}", to)
        for partition in sorted(found.partitions) if partitions is None else partitions:
            if partition not in found.partitions:
                raise CliError(
                    f"topic {topic} has no partition {partition}",
                    place="--partition",
                    remedy=f"0 to {len(found.partitions) - 1}",
                )
            chosen.append(TopicPartition(topic, partition))
    return chosen


def _starts(client: Any, to: Target, chosen: Chosen, spec: OffsetSpec) -> list[TopicPartition]:
    """Return where to begin in each partition. Errors: CliError for an offset behind the end."""
    if isinstance(spec, AtTime):
        return _at_time(client, to, chosen, spec)
    found = []
    for at in chosen:
        low, high = client.get_watermark_offsets(at, timeout=to.timeout_s)
        match spec:
            case AtEnd():
                offset = high
            case FromEnd(records):
                offset = max(low, high - records)
            case AtOffset(number) if number > high:
                raise CliError(
                    f"{at.topic}/{at.partition} ends at {high}, before offset {number}",
                    place="--offset",
                    remedy="end waits for what comes next",
                )
            case AtOffset(number):
                offset = max(low, number)
            case _:
                offset = low
        found.append(TopicPartition(at.topic, at.partition, offset))
    return found


def _ends(client: Any, to: Target, chosen: Chosen, spec: OffsetSpec) -> dict[At, int]:
    """Return where to stop in each partition. Shape: exclusive; may lie in the future."""
    if isinstance(spec, AtOffset):
        return {(p.topic, p.partition): spec.offset for p in chosen}
    return {(p.topic, p.partition): p.offset for p in _starts(client, to, chosen, spec)}


def _at_time(client: Any, to: Target, chosen: Chosen, spec: AtTime) -> list[TopicPartition]:
    asked = [TopicPartition(p.topic, p.partition, spec.timestamp_ms) for p in chosen]
    found = client.offsets_for_times(asked, timeout=to.timeout_s)
    late = [p for p in found if p.offset < 0]  # nothing at or after that time yet
    behind = {(p.topic, p.partition): p for p in _starts(client, to, late, AtEnd())}
    return [behind.get((p.topic, p.partition), p) for p in found]


def _row(message: Any) -> Row:
    kind, timestamp_ms = message.timestamp()
    return Row(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms if kind in _TIMESTAMP_TYPES else -1,
        _TIMESTAMP_TYPES.get(kind, "none"),
        message.key(),
        message.value(),
        message.headers() or (),
    )


def _say(printed: int, limits: Limits) -> None:
    if not limits.quiet and (limits.exit_at_end or limits.records is not None):
        note(f"{printed} records")
