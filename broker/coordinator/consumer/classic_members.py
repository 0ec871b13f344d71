"""Members of a KIP-848 group that speak the classic protocol: an upgrade or downgrade under way.

Joining is their heartbeat with news, syncing fetches what joining came to, and a heartbeat tells
them to join again. There is no barrier and no leader: nobody waits for anybody.
Source: Kafka GroupMetadataManager.classicGroupJoinToConsumerGroup and the three beside it; KIP-848,
"Online Migration".
"""

from collections.abc import Sequence
from dataclasses import replace

from tailrace.broker.coordinator.consumer.admission import (
    check_fenced,
    check_size,
    check_storable,
    replace_member,
    successor,
    unknown_instance,
    unknown_member,
)
from tailrace.broker.coordinator.consumer.assigning import Surroundings
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.heartbeats import advance, subscribe
from tailrace.broker.coordinator.consumer.member import ConsumerMember, MemberState, new_member
from tailrace.broker.coordinator.consumer.timers import (
    await_join,
    await_sync,
    restart_session,
    timers_of,
)
from tailrace.broker.coordinator.consumer.topics import by_topic_id, by_topic_name
from tailrace.broker.coordinator.consumer_config import MigrationPolicy
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.errors import KafkaError
from tailrace.broker.replicated.effects import NEVER
from tailrace.protocol.errors import DecodeError, ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from tailrace.protocol.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_subscription,
    encode_assignment,
    version_of,
)
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_TYPE = "consumer"
MEMBER_ID_REQUIRED_SINCE = 4
"""JoinGroup version from which on a dynamic member first asks for its id."""


def check_join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    version: int,
    around: Surroundings,
) -> ConsumerProtocolSubscription:
    """Return what a classic member that may come in subscribes to.

    Errors: KafkaError; MEMBER_ID_REQUIRED for a dynamic member that must first be told its id.
    """
    check_size(group, member_id, around.config)
    if around.config.migration is MigrationPolicy.DISABLED:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because "
            "the group migration is disabled.",
        )
    names = {protocol.name for protocol in request.protocols}
    for other in group.classic_members():
        names &= {protocol.name for protocol in _classic(other).supported_protocols}
    if request.protocol_type != PROTOCOL_TYPE or not names:
        raise _not_supported(member_id)
    is_unknown = not request.member_id and request.group_instance_id is None
    if is_unknown and version >= MEMBER_ID_REQUIRED_SINCE:
        raise KafkaError(ErrorCode.MEMBER_ID_REQUIRED)
    try:
        return decode_subscription(request.protocols[0].metadata)
    except DecodeError as error:
        raise _not_supported(member_id) from error


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    member_id: str,
    caller: Caller,
    around: Surroundings,
) -> ConsumerMember:
    """Take a classic member in, or its news; return it one step nearer to its target.

    Errors: KafkaError, before anything has changed.
    """
    known = _find_joining(group, request, member_id)
    old = group.static_member(request.group_instance_id)
    member = _with_join(known, request, subscription, caller)
    if member != known:
        check_storable(member)
    if old is not None and not request.member_id:
        replace_member(group, old, known)
    has_new_topics = subscribe(group, known, member, around)
    owned = by_topic_id(subscription.owned_partitions, around.topics)
    return advance(group, member.member_id, owned, around, has_new_topics=has_new_topics)


def joined(group: ConsumerGroup, member: ConsumerMember, around: Surroundings) -> JoinGroupResponse:
    """Answer a JoinGroup, and give the member its time to sync."""
    restart_session(group, member, around)
    await_sync(group, member, around.now)
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=_classic(member).supported_protocols[0].name,
    )


def sync(
    group: ConsumerGroup, request: SyncGroupRequest, around: Surroundings
) -> SyncGroupResponse:
    """Handle SyncGroup of a classic member. Errors: KafkaError."""
    member = _find(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol = _classic(member).supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        protocol.name,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not the protocol it joined with")
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        await_join(group, member, around.now)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "join again to catch up")
    timers_of(group, member.member_id).sync_ms = NEVER
    restart_session(group, member, around)
    assigned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=by_topic_name(assigned, around.topics)
    )
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(assignment, version_of(protocol.metadata)),
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, around: Surroundings) -> ErrorCode:
    """Handle Heartbeat of a classic member: 27 if it should join again. Errors: KafkaError."""
    member = _find(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    restart_session(group, member, around)
    can_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member)
    is_behind = member.epoch < group.target_epoch
    if is_behind or can_go_on or member.state is MemberState.UNREVOKED_PARTITIONS:
        await_join(group, member, around.now)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    group: ConsumerGroup, identities: Sequence[MemberIdentity]
) -> tuple[list[str], list[ErrorCode]]:
    """Return the members that LeaveGroup names, of whatever protocol, and each one's answer."""
    leaving = []
    codes = []
    for identity in identities:
        try:
            leaving.append(_find_leaving(group, identity))
            codes.append(ErrorCode.NONE)
        except KafkaError as error:
            codes.append(error.code)
    return leaving, codes


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> str:
    instance_id = identity.group_instance_id
    if instance_id is not None and not identity.member_id:
        member = group.static_member(instance_id)
        if member is None:
            raise unknown_instance(instance_id)
        return member.member_id
    return _find_any(group, identity.member_id, instance_id).member_id


def _find_any(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        member = group.static_member(instance_id)
        if member is None:
            raise unknown_instance(instance_id)
        check_fenced(member, member_id)
        return member
    if member_id not in group.members:
        raise unknown_member(group, member_id)
    return group.members[member_id]


def _find(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    member = _find_any(group, member_id, instance_id)
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    return member


def _find_joining(
    group: ConsumerGroup, request: JoinGroupRequest, member_id: str
) -> ConsumerMember:
    instance_id = request.group_instance_id
    known = group.static_member(instance_id)
    if instance_id is None or (known is None and not request.member_id):
        return group.members.get(member_id) or new_member(member_id)
    if request.member_id:
        return _find_any(group, member_id, instance_id)
    assert known is not None
    return successor(known, member_id)


def _with_join(
    known: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    protocols = tuple(
        ClassicProtocol(name=protocol.name, metadata=bytes(protocol.metadata))
        for protocol in request.protocols
    )
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        known,
        instance_id=request.group_instance_id or known.instance_id,
        rack_id=subscription.rack_id or known.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms, supported_protocols=protocols
        ),
    )


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.epoch} of member {member.member_id}.",
        )


def _is_waiting(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether somebody still has what the member is to have."""
    return any(
        partition in group.owners.get(topic_id, {})
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions - member.assigned.get(topic_id, {}).keys()
    )


def _classic(member: ConsumerMember) -> ClassicMemberMetadata:
    assert member.classic is not None
    return member.classic


def _not_supported(member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
    )
