"""What a request about offsets would change, and what its answer is, once the group allows it.

Source: Kafka OffsetMetadataManager, KafkaApis.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.kinds import CommitPartition, CommitTopic, Group
from tailrace.broker.coordinator.records import CommittedOffset, OffsetName, OffsetUpdate
from tailrace.broker.replicated.effects import Now
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PartitionCount: TypeAlias = Callable[[str], int]
"""Says how many partitions a topic has, 0 if there is no such topic."""

Codes: TypeAlias = list[tuple[str, list[tuple[int, ErrorCode]]]]
"""The answer to each partition of each topic."""


LAST_MS: Final = 2**63 - 1
"""The latest time that a record can hold; Kafka's own sum overflows and expires at once."""


class Commit(NamedTuple):
    """What OffsetCommit and TxnOffsetCommit have in common."""

    group_id: str
    topics: Sequence[CommitTopic]
    retention_ms: int = -1
    """How long the committer wants it kept; -1 for the broker's own time."""


def plan_commit(
    commit: Commit, partition_count: PartitionCount, config: GroupConfig, now: Now
) -> tuple[list[OffsetUpdate], Codes]:
    """Return what an allowed commit would store, and its answer."""
    expires_at_ms = (
        min(now.wall_ms + commit.retention_ms, LAST_MS) if commit.retention_ms >= 0 else -1
    )
    updates: list[OffsetUpdate] = []
    codes: Codes = []
    for topic in commit.topics:
        known = range(partition_count(topic.name))
        answers = [(p.partition_index, _check(p, known, config)) for p in topic.partitions]
        codes.append((topic.name, answers))
        updates += [
            OffsetUpdate(
                commit.group_id,
                topic.name,
                partition.partition_index,
                _committed(partition, now, expires_at_ms),
            )
            for partition, (_, code) in zip(topic.partitions, answers, strict=True)
            if code is ErrorCode.NONE
        ]
    return updates, codes


def refuse_commit(
    topics: Sequence[CommitTopic], code: ErrorCode, partition_count: PartitionCount
) -> Codes:
    """Return the answer of a group that refuses: there is no other place than each partition.

    What is not there says so whatever the group says.
    """
    codes: Codes = []
    for topic in topics:
        known = range(partition_count(topic.name))
        indexes = [partition.partition_index for partition in topic.partitions]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes.append(
            (topic.name, [(index, code if index in known else unknown) for index in indexes])
        )
    return codes


def names_any(topics: Sequence[CommitTopic], partition_count: PartitionCount) -> bool:
    """Return whether any partition is there: else the group is not even asked."""
    return any(
        partition.partition_index in range(partition_count(topic.name))
        for topic in topics
        for partition in topic.partitions
    )


def commit_response(codes: Codes) -> OffsetCommitResponse:
    """Return the answer to OffsetCommit."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions
                ],
            )
            for name, partitions in codes
        ]
    )


def transactional_response(codes: Codes) -> TxnOffsetCommitResponse:
    """Return the answer to TxnOffsetCommit."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
                    for index, code in partitions
                ],
            )
            for name, partitions in codes
        ]
    )


def refuse_stored(
    response: OffsetCommitResponse | TxnOffsetCommitResponse, code: ErrorCode
) -> None:
    """Say `code` for what was to be stored, and leave what was refused before."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = code


def _check(partition: CommitPartition, known: range, config: GroupConfig) -> ErrorCode:
    if partition.partition_index not in known:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(partition.committed_metadata or "") > config.offset_metadata_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(partition: CommitPartition, now: Now, expires_at_ms: int) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now.wall_ms,
        expires_at_ms,
    )


def plan_delete(
    request: OffsetDeleteRequest, partition_count: PartitionCount, group: Group | None
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
