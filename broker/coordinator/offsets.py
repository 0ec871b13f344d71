"""Committed offsets: what a commit may store, what is stored, when it lapses.

Offsets become visible when their records are confirmed, not before: a reader never sees a commit
that a crash could take back.
Source: Kafka OffsetMetadataManager; KIP-211 (expiry).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from broker.coordinator.config import GroupConfig
from broker.coordinator.kinds import Group
from broker.coordinator.records import CommittedOffset, OffsetName, OffsetUpdate
from broker.replicated.effects import Now
from protocol.errors import ErrorCode
from protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = MappingProxyType({})


class OffsetStore:
    """Committed offsets by group, topic and partition."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return everything that a group committed, by topic and partition."""
        return self._groups.get(group_id, _NOTHING)

    def names(self, group_id: str) -> list[OffsetName]:
        """Return what a group has committed."""
        return [
            OffsetName(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def apply(self, update: OffsetUpdate) -> None:
        """Store or delete one offset; what becomes empty goes."""
        if update.committed is not None:
            topics = self._groups.setdefault(update.group_id, {})
            topics.setdefault(update.topic, {})[update.partition] = update.committed
            return
        topics = self._groups.get(update.group_id, {})
        partitions = topics.get(update.topic, {})
        partitions.pop(update.partition, None)
        if not partitions:
            topics.pop(update.topic, None)
        if not topics:
            self._groups.pop(update.group_id, None)


def plan_commit(
    request: OffsetCommitRequest,
    partition_count: Callable[[str], int],
    config: GroupConfig,
    now: Now,
) -> tuple[list[OffsetUpdate], OffsetCommitResponse]:
    """Return what an allowed commit would store, and its answer.

    `partition_count` says how many partitions a topic has, 0 if there is no such topic.
    """
    expires_at_ms = -1
    if request.retention_time_ms >= 0:
        expires_at_ms = now.wall_ms + request.retention_time_ms
    updates = []
    topics = []
    for topic in request.topics:
        known = range(partition_count(topic.name))
        answers = []
        for partition in topic.partitions:
            code = _check_partition(partition, known, config)
            answers.append((partition.partition_index, code))
            if code is ErrorCode.NONE:
                committed = _committed(partition, now, expires_at_ms)
                index = partition.partition_index
                updates.append(OffsetUpdate(request.group_id, topic.name, index, committed))
        topics.append(_answer_topic(topic.name, answers))
    return updates, OffsetCommitResponse(topics=topics)


def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return the answer that says `code` for every partition: there is no other place for it."""
    return OffsetCommitResponse(
        topics=[
            _answer_topic(topic.name, [(p.partition_index, code) for p in topic.partitions])
            for topic in request.topics
        ]
    )


def refuse_stored(response: OffsetCommitResponse, code: ErrorCode) -> None:
    """Say `code` for what was to be stored, and leave what was refused before."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = code


def _check_partition(
    partition: OffsetCommitRequestPartition, known: range, config: GroupConfig
) -> ErrorCode:
    if partition.partition_index not in known:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(partition.committed_metadata or "") > config.offset_metadata_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(
    partition: OffsetCommitRequestPartition, now: Now, expires_at_ms: int
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now.wall_ms,
        expires_at_ms,
    )


def _answer_topic(name: str, answers: list[tuple[int, ErrorCode]]) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in answers
    ]
    return OffsetCommitResponseTopic(name=name, partitions=partitions)


def plan_delete(
    request: OffsetDeleteRequest, partition_count: Callable[[str], int], group: Group | None
) -> tuple[list[OffsetName], OffsetDeleteResponse]:
    """Return what OffsetDelete may delete, and its answer: what members read stays.

    A group that is not there reads nothing.
    """
    names = []
    topics = []
    for topic in request.topics:
        known = range(partition_count(topic.name))
        is_read = group is not None and group.is_subscribed(topic.name)
        partitions = []
        for index in [partition.partition_index for partition in topic.partitions]:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            if index not in known:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code is ErrorCode.NONE:
                names.append(OffsetName(request.group_id, topic.name, index))
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return names, OffsetDeleteResponse(topics=topics)


def expired_offsets(
    group: Group, store: OffsetStore, retention_ms: int, now: Now
) -> list[OffsetName]:
    """Return the offsets of a group that have lapsed, and that nobody reads.

    Source: OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl.
    """
    return [
        OffsetName(group.group_id, topic, partition)
        for topic, partitions in store.of_group(group.group_id).items()
        if not group.is_subscribed(topic)
        for partition, committed in partitions.items()
        if _has_lapsed(committed, group, retention_ms, now)
    ]


def _has_lapsed(committed: CommittedOffset, group: Group, retention_ms: int, now: Now) -> bool:
    since_ms = group.lapsing_since_ms(committed.commit_timestamp_ms)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        return now.wall_ms >= committed.expire_timestamp_ms
    return now.wall_ms - since_ms >= retention_ms
