"""A group with members that changes its protocol: classic to consumer, and back.

Each way it keeps its generation as epoch, its members, and what they own; committed offsets are not
touched. The records of the one kind are deleted in the same write that has those of the other.
Source: Kafka GroupMetadataManager.validateOnlineUpgrade, convertToConsumerGroup,
validateOnlineDowngrade*, convertToClassicGroup; ConsumerGroup.fromClassicGroup;
ClassicGroup.fromConsumerGroup.
"""

from collections.abc import Collection
from dataclasses import replace

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer.assigning import Surroundings
from tailrace.broker.coordinator.consumer.changes import (
    put_current,
    put_deletion,
    put_epoch,
    put_member,
    put_target,
    put_target_epoch,
)
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.member import ConsumerMember, new_member
from tailrace.broker.coordinator.consumer.timers import start_timers
from tailrace.broker.coordinator.consumer.topics import by_topic_id, by_topic_name, metadata_hash
from tailrace.broker.coordinator.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState
from tailrace.broker.coordinator.records import group_record
from tailrace.broker.coordinator.roster import Member
from tailrace.broker.errors import KafkaError
from tailrace.broker.replicated.effects import Now
from tailrace.protocol.errors import DecodeError, ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from tailrace.protocol.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)


def upgrade(classic: ClassicGroup, around: Surroundings) -> ConsumerGroup:
    """Return the consumer group that a classic group becomes, its records put.

    Errors: KafkaError GROUP_ID_NOT_FOUND if it may not, before anything has changed.
    """
    reason = _why_not_upgrade(classic, around)
    if reason is not None:
        raise _no_upgrade(classic, reason)
    try:
        members = [_to_consumer(member, classic, around) for member in classic.roster]
    except DecodeError as error:
        raise _no_upgrade(classic, "the embedded consumer protocol is malformed") from error
    group = ConsumerGroup(classic.group_id, around.topics)
    group.pending += classic.tombstones()
    names = frozenset[str]().union(*(member.topic_names for member in members))
    put_epoch(group, classic.generation, metadata_hash(names, around.topics))  # first: it stays
    for member in members:
        put_member(group, member)
    for member in members:
        target = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
        put_target(group, member.member_id, target)
    put_target_epoch(group, classic.generation, Now(0, 0))
    for member in members:
        put_current(group, member)
    start_timers(group, around)
    return group


def _why_not_upgrade(classic: ClassicGroup, around: Surroundings) -> str | None:
    if not around.config.migration.may_upgrade:
        return "online upgrade is disabled"
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(classic.roster) > around.config.group_size_max:
        return "the group size exceeds the consumer group maximum size"
    return None


def _no_upgrade(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _to_consumer(member: Member, classic: ClassicGroup, around: Surroundings) -> ConsumerMember:
    protocol = classic.protocol_name or member.protocols[0][0]
    subscription = decode_subscription(member.metadata(protocol))
    assigned: dict[bytes, dict[int, int]] = {}
    if member.assignment:
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise _no_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade",
            )
        owned = by_topic_id(assignment.assigned_partitions, around.topics)
        assigned = {t: dict.fromkeys(own, classic.generation) for t, own in owned.items() if own}
    return replace(
        new_member(member.member_id),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
            ),
        ),
    )


def can_downgrade(
    group: ConsumerGroup, leaving: Collection[str], around: Surroundings, config: GroupConfig
) -> bool:
    """Return whether the group becomes classic when these members leave, or are replaced."""
    staying = [member for id_, member in group.members.items() if id_ not in leaving]
    return (
        bool(staying)
        and all(member.classic is not None for member in staying)
        and around.config.migration.may_downgrade
        and len(staying) <= config.group_size_max
    )


def downgrade(
    group: ConsumerGroup,
    leaving: Collection[str],
    around: Surroundings,
    config: GroupConfig,
) -> ClassicGroup:
    """Return the classic group that the members who stay form; its record is put with the rest.

    Its generation is Stable with the assignment that was the target.
    """
    classic = ClassicGroup(group.group_id, config)
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.enter(GroupState.STABLE, around.now)
    for member_id in sorted(group.members.keys() - set(leaving)):
        classic.roster.add(_to_classic(group.members[member_id]))
    classic.protocol_name = classic.roster.choose_protocol()
    classic.topics = classic.subscription()
    for member in classic.roster:
        version = version_of(member.metadata(classic.protocol_name))
        partitions = by_topic_name(group.targets.get(member.member_id, {}), around.topics)
        assignment = ConsumerProtocolAssignment(assigned_partitions=partitions)
        member.assignment = encode_assignment(assignment, version)
    put_deletion(group)
    group.pending.append(group_record(group.group_id, classic.to_value()))
    for member in classic.roster:
        classic.restart_session(member, around.now)
    return classic


def _to_classic(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(
            (protocol.name, bytes(protocol.metadata))
            for protocol in member.classic.supported_protocols
        ),
    )
