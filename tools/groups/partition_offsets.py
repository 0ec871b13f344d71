"""Where partitions begin and end, and what a position means in them: ListOffsets of each leader."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Offset, TopicPartition
from tailrace.protocol.kafka.apis import LIST_OFFSETS
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.tools.clients.own_requests import Brokers, check
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.records.offset_spec import (
    OFFSET_HELP,
    AtEnd,
    AtOffset,
    AtStart,
    AtTime,
    FromEnd,
    OffsetSpec,
)

EARLIEST: Final = -2
LATEST: Final = -1

T = TypeVar("T")


class Range(NamedTuple):
    """What a partition holds, its end exclusive."""

    start: Offset
    end: Offset


class PartitionOffsets:
    """Partitions of one cluster. Errors: CliError from every method."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    def named(self, names: Iterable[tuple[str, int | None]]) -> list[TopicPartition]:
        """Return the partitions of topics (None: all) and single ones, each once."""
        wanted = list(names)
        known = self._leaders({topic for topic, _ in wanted})
        found: set[TopicPartition] = set()
        for topic, partition in wanted:
            mine = {at for at in known if at.topic == topic and partition in (None, at.partition)}
            if not mine:
                raise CliError(f"topic {topic} has no partition {partition}", code=Exit.USAGE)
            found |= mine
        return sorted(found)

    def positions(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec
    ) -> dict[TopicPartition, Offset]:
        """Return the offset that a position means in each partition."""
        leaders = self._leaders({at.topic for at in partitions})
        ranges = self._ranges(partitions, leaders)
        if isinstance(spec, AtTime):
            found = self._offsets(partitions, spec.timestamp_ms, leaders)
            return {at: ranges[at].end if found[at] < 0 else found[at] for at in partitions}
        return {at: _position(at, ranges[at], spec) for at in partitions}

    def known_ranges(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Range]:
        """Return what partitions hold; nothing of one that was deleted or that nobody leads."""
        leaders = self._leaders({at.topic for at in partitions}, missing_is_fine=True)
        return self._ranges([at for at in partitions if leaders.get(at, -1) >= 0], leaders)

    def _ranges(
        self, partitions: Collection[TopicPartition], leaders: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Range]:
        starts = self._offsets(partitions, EARLIEST, leaders)
        ends = self._offsets(partitions, LATEST, leaders)
        return {at: Range(starts[at], ends[at]) for at in partitions}

    def _leaders(
        self, topics: Collection[str], *, missing_is_fine: bool = False
    ) -> dict[TopicPartition, int]:
        leaders = {}
        for topic in self._brokers.topics(sorted(topics)).topics if topics else ():
            if missing_is_fine and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(topic.error_code, f"topic {topic.name}")
            for each in topic.partitions:
                leaders[TopicPartition(topic.name or "", each.partition_index)] = each.leader_id
        return leaders

    def _offsets(
        self,
        partitions: Collection[TopicPartition],
        timestamp_ms: int,
        leaders: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, Offset]:
        found = {}
        for node_id, mine in _grouped(partitions, lambda at: leaders.get(at, -1)).items():
            if node_id < 0:
                raise CliError(f"nobody leads {mine[0]}", remedy="try again when it has a leader")
            topics = [
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=at.partition, timestamp=timestamp_ms)
                        for at in each
                    ],
                )
                for topic, each in by_topic(mine).items()
            ]
            request = ListOffsetsRequest(replica_id=-1, topics=topics)
            for answer in self._brokers.to(node_id).ask(LIST_OFFSETS, request).topics:
                for one in answer.partitions:
                    at = TopicPartition(answer.name, one.partition_index)
                    check(one.error_code, f"offsets of {at}")
                    found[at] = one.offset
        return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Return partitions in order, by their topics."""
    return _grouped(partitions, lambda at: at.topic)


def _grouped(
    partitions: Iterable[TopicPartition], key: Callable[[TopicPartition], T]
) -> dict[T, list[TopicPartition]]:
    groups: dict[T, list[TopicPartition]] = defaultdict(list)
    for at in sorted(partitions):
        groups[key(at)].append(at)
    return groups


def _position(at: TopicPartition, span: Range, spec: OffsetSpec) -> Offset:
    match spec:
        case AtStart():
            return span.start
        case AtEnd():
            return span.end
        case FromEnd(records):
            return max(span.start, span.end - records)
        case AtOffset(offset) if span.start <= offset <= span.end:
            return offset
        case AtOffset(offset):
            raise CliError(f"{at} has offsets {span.start} to {span.end}, not {offset}")
    raise CliError(f"{spec} is no place to go to", place="--to", remedy=OFFSET_HELP)
