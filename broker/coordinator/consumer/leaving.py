"""Members that go: those that say so, and those that are put out.

Source: Kafka GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMembers.
"""

from collections.abc import Collection
from dataclasses import replace

from tailrace.broker.coordinator.consumer.admission import (
    check_fenced,
    unknown_instance,
    unknown_member,
)
from tailrace.broker.coordinator.consumer.assigning import Surroundings, drop_unused_regexes
from tailrace.broker.coordinator.consumer.changes import put_current, put_epoch, put_removal
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from tailrace.broker.coordinator.consumer.topics import metadata_hash
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def leaving_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Return the member that wants to leave. Errors: KafkaError."""
    if request.instance_id is None:
        return known_member(group, request.member_id)
    member = group.static_member(request.instance_id)
    if member is None:
        raise unknown_instance(request.instance_id)
    check_fenced(member, request.member_id)
    return member


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return a member by its id. Errors: KafkaError."""
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group, member_id)
    return member


def leave_for_a_while(group: ConsumerGroup, member: ConsumerMember) -> None:
    """Let a static member go that means to come back: its partitions wait for it."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    put_current(group, replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={}))


def remove_members(group: ConsumerGroup, member_ids: Collection[str], around: Surroundings) -> None:
    """Put members out; the others share what they had with their next heartbeats."""
    for member_id in sorted(member_ids):
        put_removal(group, member_id)
        group.timers.pop(member_id, None)
    drop_unused_regexes(group)
    new_hash = metadata_hash(group.subscribed_topics(), around.topics)
    put_epoch(group, group.epoch + 1, new_hash)
