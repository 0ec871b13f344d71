"""Partitions that nobody has open here, as they lie there: how large, how old.

A look claims nothing, so that a broker with many partitions opens only those that clients use, and
takes none from another broker. What completed segments hold never changes: it is read once, from
the record at their end, and kept (100 bytes a segment).
"""

from typing import NamedTuple, Protocol

from tailrace.broker.cluster.assignments import broker_in_lock
from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.partition.notes import read_notes
from tailrace.broker.partition.offsets import Totals
from tailrace.broker.partition.segment_state import decode_index
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.stored_log import StoredLog
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.ids import LedgerId, Offset


class StoredSegment(NamedTuple):
    """One completed segment."""

    size_bytes: int
    """Of its batches; of its ledger, where it has no index record."""
    totals: Totals | None
    """None: it has no index record, and would have to be read through."""


class StoredPartition(NamedTuple):
    """What a look saw."""

    log_start: Offset
    segments: tuple[StoredSegment, ...]
    """The completed ones, oldest first."""
    in_progress: bool
    """Whether the last segment is not completed: somebody writes it, or was killed."""
    has_owner: bool
    """Whether another process has it, or this one is opening it."""
    is_being_purged: bool
    """Whether segments that it had wait to be deleted."""
    clean_end: Offset = 0
    """Up to where it was cleaned."""

    @property
    def size_bytes(self) -> int:
        """Bytes in completed segments: how much there is in one in progress is not known."""
        return sum(segment.size_bytes for segment in self.segments)


class TopicEvents(Protocol):
    """Who tells of topics that go."""

    def listen(self, listener: "StoredPartitions") -> None:
        """Tell `listener` about every later change."""


class StoredPartitions:
    """Looks at partitions without opening them. All calls come from the loop."""

    def __init__(self, namespace: LogNamespace, topics: TopicEvents) -> None:
        self._namespace = namespace
        self._known: dict[str, dict[LedgerId, StoredSegment]] = {}
        topics.listen(self)

    async def look(self, topic: str, partition: int) -> StoredPartition:
        """Return what lies of a partition. Errors: CoreError; LogNotFound if it is gone.

        Cost: three reads of metadata, and two reads for each segment that is new here.
        """
        stream = stream_name(topic, partition)
        log = self._namespace.stored_log(stream)
        segments = list(await log.segments())
        completed = [segment for segment in segments if not segment.in_progress]
        notes = await read_notes(log)
        return StoredPartition(
            log_start=notes.log_start_offset,
            segments=await self._read(stream, log, completed),
            in_progress=len(completed) < len(segments),
            has_owner=await log.has_owner(),
            is_being_purged=await log.is_being_purged(),
            clean_end=0 if notes.cleaned is None else notes.cleaned.first_dirty_offset,
        )

    async def holder(self, topic: str, partition: int) -> int | None:
        """Return the broker that has a partition now; None for nobody. Errors: CoreError.

        Cost: one read of metadata.
        """
        log = self._namespace.stored_log(stream_name(topic, partition))
        return broker_in_lock(await log.owner())

    def on_topic_changed(self, topic: Topic) -> None:
        """Hear of a topic that changed: its completed segments did not."""

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Forget a topic's segments."""
        for partition in range(topic.partition_count):
            self.forget(topic.name, partition)

    def forget(self, topic: str, partition: int) -> None:
        """Drop what is known of a partition."""
        self._known.pop(stream_name(topic, partition), None)

    async def _read(
        self, stream: str, log: StoredLog, segments: list[SegmentMetadata]
    ) -> tuple[StoredSegment, ...]:
        known = self._known.get(stream, {})
        found = {}
        for segment in segments:
            stored = known.get(segment.ledger_id)
            found[segment.ledger_id] = stored or await _read_segment(log, segment)
        if found:
            self._known[stream] = found
        else:
            self._known.pop(stream, None)
        return tuple(found.values())


async def _read_segment(log: StoredLog, segment: SegmentMetadata) -> StoredSegment:
    index, ledger_bytes = await log.index_of(segment)
    if index is None:
        return StoredSegment(ledger_bytes, None)
    totals = decode_index(index).totals
    return StoredSegment(totals.size_bytes, totals)
