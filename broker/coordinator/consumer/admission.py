"""Who asks: a member, a new one, or somebody who may not.

Source: Kafka GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerGroupMember and
getOrMaybeSubscribeStaticConsumerGroupMember.
"""

from dataclasses import replace

from tailrace.broker.coordinator.consumer.changes import (
    put_current,
    put_member,
    put_removal,
    put_target,
)
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Owned,
    new_member,
)
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.kafka.messages.consumer_group_records import encode_group_value

MEMBER_BYTES_MAX = 900_000
"""Largest record of a member: with its key, of 64 KiB at most, it fits into a batch."""


def check_size(group: ConsumerGroup, member_id: str, config: ConsumerGroupConfig) -> None:
    """Refuse one member too many. Errors: KafkaError."""
    if len(group.members) >= config.group_size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {config.group_size_max} "
            "members.",
        )


def check_storable(member: ConsumerMember) -> None:
    """Refuse a member whose record would be too large. Errors: KafkaError."""
    size = len(encode_group_value(member.to_metadata()))
    if size > MEMBER_BYTES_MAX:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Member {member.member_id} would take {size} bytes to store, more than "
            f"{MEMBER_BYTES_MAX}. It must subscribe to fewer topics, or say less.",
        )


def find_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
) -> ConsumerMember:
    """Return the member that asks, a new one if it joins. Errors: KafkaError if it may not."""
    if request.instance_id is not None:
        return _find_static_member(group, request, owned)
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != JOIN_EPOCH:
            raise unknown_member(group, request.member_id)
        return new_member(request.member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def _find_static_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
) -> ConsumerMember:
    known = group.static_member(request.instance_id)
    if request.member_epoch == JOIN_EPOCH:
        if known is None:
            return group.members.get(request.member_id) or new_member(request.member_id)
        if known.classic is None and known.epoch != STATIC_LEAVE_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance_id} cannot "
                f"join the group because the instance id is owned by {known.member_id} member.",
            )
        return successor(known, request.member_id)
    if known is None:
        raise unknown_instance(request.instance_id)
    check_fenced(known, request.member_id)
    _check_epoch(known, request.member_epoch, owned)
    return known


def successor(known: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return the member that takes the place of one with the same instance id."""
    return replace(known, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)


def unknown_member(group: ConsumerGroup, member_id: str) -> KafkaError:
    """Return what somebody is told who is no member."""
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def unknown_instance(instance_id: str | None) -> KafkaError:
    """Return what somebody is told whose instance id nobody has."""
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def check_fenced(known: ConsumerMember, member_id: str) -> None:
    """Refuse another member than the one that has the instance id. Errors: KafkaError."""
    if known.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {known.instance_id} was fenced by member "
            f"{known.member_id}.",
        )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Refuse a member of another epoch, unless the answer that told it of this one was lost."""
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    size = "greater" if epoch > member.epoch else "smaller"
    if size == "smaller" and epoch == member.previous_epoch and _is_part(owned, member):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_part(owned: Owned | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(
        set(partitions) <= member.assigned.get(topic_id, {}).keys()
        for topic_id, partitions in owned.items()
    )


def replace_member(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> None:
    """Write one member in another's place, with its target and its partitions."""
    target = group.targets.get(old.member_id, {})
    put_removal(group, old.member_id)
    group.timers.pop(old.member_id, None)
    put_member(group, new)
    put_target(group, new.member_id, target)
    put_current(group, new)
