"""Who may join a group, and as whom: the table of JoinGroup.

A dynamic member gets its id first and joins with it (v4+), so that a lost answer leaves no ghost
member. A static member is known by its instance id: whoever comes with a known one and no member id
takes over its predecessor's place, and the predecessor is fenced.
Source: GroupMetadataManager.classicGroupJoin*; KIP-394 (ids), KIP-345 (static), KIP-814 (skip).
"""

from typing import NamedTuple

from tailrace.broker.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from tailrace.broker.coordinator.effects import Caller, StaticMemberWritten
from tailrace.broker.coordinator.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, GroupState
from tailrace.broker.coordinator.rebalance import (
    begin_rebalance,
    generation_response,
    members_for_leader,
    rebalance_or_complete,
    remove_member,
)
from tailrace.broker.coordinator.records import group_record
from tailrace.broker.coordinator.roster import Member
from tailrace.broker.coordinator.subscription import subscribed_topics
from tailrace.broker.replicated.effects import Now, Ticket, Write
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


class Join(NamedTuple):
    """One JoinGroup request and everything that belongs to it."""

    request: JoinGroupRequest
    caller: Caller
    ticket: Ticket
    new_member_id: str
    """The id to use if the request has none."""


def join(group: ClassicGroup, call: Join, now: Now) -> None:
    """Answer a JoinGroup or let it wait in the barrier."""
    error = _check(group, call.request, now)
    if error is not ErrorCode.NONE:
        is_member = error is not ErrorCode.GROUP_MAX_SIZE_REACHED
        _refuse(group, call, error, call.request.member_id if is_member else "")
    elif call.request.member_id:
        _join_known(group, call, now)
    elif call.request.group_instance_id is not None:
        _join_static(group, call, now)
    elif call.caller.version >= MEMBER_ID_REQUIRED_SINCE:
        _hand_out_id(group, call, now)
    else:
        _admit(group, call, call.new_member_id, now)


def _check(group: ClassicGroup, request: JoinGroupRequest, now: Now) -> ErrorCode:
    if not _has_room(group, request.member_id):
        remove_member(group, request.member_id)
        if group.state is GroupState.PREPARING:  # the others may have waited for this one
            rebalance_or_complete(group, now)
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not group.supports(request.protocol_type, [p.name for p in request.protocols]):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Source: GroupMetadataManager.acceptJoiningMember."""
    member = group.roster.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING:
        # Counted by who has joined: when the limit was lowered, the last to rejoin must go.
        is_waiting = member is not None and member.join_ticket is not None
        return is_waiting or group.roster.joined_count < group.config.group_size_max
    return member is not None or len(group.roster) < group.config.group_size_max


def _hand_out_id(group: ClassicGroup, call: Join, now: Now) -> None:
    deadline_ms = now.mono_ms + call.request.session_timeout_ms
    group.roster.pending[call.new_member_id] = deadline_ms
    group.wake_by(deadline_ms)
    _refuse(group, call, ErrorCode.MEMBER_ID_REQUIRED, call.new_member_id)


def _admit(group: ClassicGroup, call: Join, member_id: str, now: Now) -> None:
    request = call.request
    if group.state is GroupState.PREPARING:
        group.grew_in_delay = True
    if not len(group.roster):
        group.protocol_type = request.protocol_type
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=call.caller.client_id,
        client_host=call.caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(call),
        protocols=_protocols(request),
        join_ticket=call.ticket,
        is_new=True,
    )
    group.roster.add(member)
    # Until it is answered it cannot send heartbeats; but if its client gave up, it must go one day.
    group.restart_session(member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
    rebalance_or_complete(group, now)


def _join_known(group: ClassicGroup, call: Join, now: Now) -> None:
    request = call.request
    if request.member_id in group.roster.pending and request.group_instance_id is None:
        _admit(group, call, request.member_id, now)
        return
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        _refuse(group, call, error, request.member_id)
        return
    member = group.roster[request.member_id]
    if not member.is_new:
        group.restart_session(member, now)
    if _must_rebalance(group, member, request):
        _update(group, member, call)
        rebalance_or_complete(group, now)
    else:
        # The answer to its last JoinGroup was lost, or a follower only asks to be sure.
        group.reply(call.ticket, generation_response(group, member))


def _must_rebalance(group: ClassicGroup, member: Member, request: JoinGroupRequest) -> bool:
    if group.state is GroupState.PREPARING or member.protocols != _protocols(request):
        return True
    # A leader that rejoins has seen something that members cannot: new partitions of a topic.
    return group.state is GroupState.STABLE and member.member_id == group.roster.leader


def _join_static(group: ClassicGroup, call: Join, now: Now) -> None:
    instance_id = call.request.group_instance_id
    old_id = None if instance_id is None else group.roster.static_id(instance_id)
    if old_id is None:
        _admit(group, call, call.new_member_id, now)
        return
    member = group.roster[old_id]
    leader_before = group.roster.leader or ""
    metadata_before = member.metadata(group.protocol_name)
    group.refuse(member, ErrorCode.FENCED_INSTANCE_ID, old_id)
    group.roster.rename_static(member, call.new_member_id)
    member.is_new = False
    member.client_id, member.client_host = call.caller.client_id, call.caller.client_host
    _update(group, member, call)
    group.restart_session(member, now)
    if group.state is GroupState.PREPARING:
        rebalance_or_complete(group, now)
    elif group.state is GroupState.STABLE and _keeps_assignment(group, member, metadata_before):
        _store_takeover(group, call, leader_before)
    else:
        # In CompletingRebalance the leader may be assigning to the old id at this moment.
        begin_rebalance(group, now)


def _keeps_assignment(group: ClassicGroup, member: Member, metadata_before: bytes) -> bool:
    """Return whether the group would decide the same with the new incarnation in it.

    Kafka looks at the protocol's name only. Here a changed list of topics counts as well, or its
    new topics would stay unread; the rest of the metadata (owned partitions) differs by nature, and
    what is no subscription (Connect's, or nobody knows whose) is as opaque as it is to Kafka.
    """
    if group.roster.choose_protocol() != group.protocol_name:
        return False
    metadata = member.metadata(group.protocol_name)
    if metadata == metadata_before or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return True
    return subscribed_topics(metadata) == subscribed_topics(metadata_before)


def _store_takeover(group: ClassicGroup, call: Join, leader_before: str) -> None:
    then = StaticMemberWritten(
        group.group_id,
        call.new_member_id,
        group.generation,
        leader_before,
        may_skip_assignment=call.caller.version >= SKIP_ASSIGNMENT_SINCE,
    )
    group.write(Write((group_record(group.group_id, group.to_value()),), then))


def on_static_member_written(group: ClassicGroup, written: StaticMemberWritten, now: Now) -> None:
    """Let a static member go on in the current generation, with its predecessor's assignment.

    A leader must not assign anew: since v9 it is told so; before, it is not told that it leads.
    """
    member = group.roster.get(written.member_id)
    is_current = group.state is GroupState.STABLE and group.generation == written.generation
    if member is None or not is_current:
        return  # replaced in turn, or part of a rebalance that has begun and will answer it
    response = generation_response(group, member)
    response.members = ()
    if not written.may_skip_assignment:
        response.leader = written.leader_before
    elif group.roster.leader == member.member_id:
        response.members = members_for_leader(group)
        response.skip_assignment = True
    group.reply_join(member, response)
    group.restart_session(member, now)


def _update(group: ClassicGroup, member: Member, call: Join) -> None:
    """Take over what the member says of itself now, and let its request wait."""
    again = JoinGroupResponse(
        error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id
    )
    group.reply_join(member, again)  # an earlier one, given up by its client
    member.join_ticket = call.ticket
    member.session_timeout_ms = call.request.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(call)
    group.roster.set_protocols(member, _protocols(call.request))


def _rebalance_timeout_ms(call: Join) -> int:
    timeout_ms = call.request.rebalance_timeout_ms
    return timeout_ms if timeout_ms >= 0 else call.request.session_timeout_ms  # v0 has none


def _protocols(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)


def _refuse(group: ClassicGroup, call: Join, code: ErrorCode, member_id: str) -> None:
    group.reply(call.ticket, JoinGroupResponse(error_code=code, member_id=member_id))
