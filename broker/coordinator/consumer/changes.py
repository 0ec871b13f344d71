"""The records that change a KIP-848 group; each is taken over at once (see `ReplayedGroup.put`).

Source: Kafka GroupCoordinatorRecordHelpers.
"""

from tailrace.broker.coordinator.consumer.assignor import Partitions
from tailrace.broker.coordinator.consumer.member import ConsumerMember
from tailrace.broker.coordinator.consumer.replayed import ReplayedGroup, ResolvedRegex
from tailrace.broker.replicated.effects import Now
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)


def put_member(group: ReplayedGroup, member: ConsumerMember) -> None:
    """Write what a member asked for."""
    key = ConsumerGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id)
    group.put(key, member.to_metadata())


def put_current(group: ReplayedGroup, member: ConsumerMember) -> None:
    """Write how far a member has come."""
    key = ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group.group_id, member_id=member.member_id
    )
    group.put(key, member.to_current())


def put_target(group: ReplayedGroup, member_id: str, partitions: Partitions) -> None:
    """Write what a member is to have."""
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group.group_id, member_id=member_id)
    group.put(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def put_target_epoch(group: ReplayedGroup, epoch: int, now: Now) -> None:
    """Write for which epoch the target assignment was computed."""
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id)
    group.put(
        key,
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=now.wall_ms
        ),
    )


def put_epoch(group: ReplayedGroup, epoch: int, metadata_hash: int) -> None:
    """Write the group's epoch."""
    key = ConsumerGroupMetadataKey(group_id=group.group_id)
    group.put(key, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def put_regex(group: ReplayedGroup, regex: str, resolved: ResolvedRegex | None) -> None:
    """Write what an expression came to; None deletes it."""
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.timestamp_ms,
        )
    key = ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=regex)
    group.put(key, value)


def put_removal(group: ReplayedGroup, member_id: str) -> None:
    """Delete all of a member."""
    ids = {"group_id": group.group_id, "member_id": member_id}
    group.put(ConsumerGroupCurrentMemberAssignmentKey(**ids), None)
    group.put(ConsumerGroupTargetAssignmentMemberKey(**ids), None)
    group.put(ConsumerGroupMemberMetadataKey(**ids), None)


def put_deletion(group: ReplayedGroup) -> None:
    """Delete all of the group."""
    for member_id in sorted(group.members):
        put_removal(group, member_id)
    for regex in sorted(group.resolved):
        put_regex(group, regex, None)
    group.put(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), None)
    group.put(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None)
    group.put(ConsumerGroupMetadataKey(group_id=group.group_id), None)
