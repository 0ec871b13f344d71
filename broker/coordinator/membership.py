"""The events of a member's life after it has joined: sync, heartbeat, commit, leave, expiry.

Source: GroupMetadataManager.classicGroupSync, classicGroupHeartbeat, classicGroupLeave,
expireClassicGroupMemberHeartbeat.
"""

from tailrace.broker.coordinator.effects import AssignmentWritten
from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.broker.coordinator.rebalance import (
    begin_rebalance,
    complete_join,
    expire_join,
    expire_sync,
    rebalance_or_complete,
    release_syncs,
    remove_member,
)
from tailrace.broker.coordinator.records import group_record
from tailrace.broker.coordinator.roster import Member
from tailrace.broker.coordinator.wakes import wake_ms
from tailrace.broker.replicated.effects import NEVER, Now, Ticket
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def on_loaded(group: ClassicGroup, now: Now) -> None:
    """Start every member's session anew: the group was just read from the stream."""
    for member in group.roster:
        group.restart_session(member, now)
    if len(group.roster) > group.config.group_size_max:  # the limit was lowered meanwhile
        begin_rebalance(group, now)


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, now: Now) -> ErrorCode:
    """Take a sign of life."""
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.restart_session(group.roster[request.member_id], now)
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def sync(group: ClassicGroup, request: SyncGroupRequest, ticket: Ticket, now: Now) -> None:
    """Give a member its assignment, now or when the leader has sent it."""
    error = _check_sync(group, request)
    if error is not ErrorCode.NONE:
        group.reply(ticket, SyncGroupResponse(error_code=error))
        return
    member = group.roster[request.member_id]
    group.roster.pending_sync.discard(member.member_id)
    if not group.roster.pending_sync:
        group.sync_deadline_ms = NEVER
    group.restart_session(member, now)
    # An earlier one was given up by its client.
    group.reply_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_ticket = ticket
    if group.state is GroupState.STABLE:
        _assign(group, member)
    elif group.roster.leader == member.member_id and group.awaited is None:
        _store_assignments(group, request)


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(
        request.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known


def _store_assignments(group: ClassicGroup, request: SyncGroupRequest) -> None:
    given = {a.member_id: bytes(a.assignment) for a in request.assignments}
    assignments = {member.member_id: given.get(member.member_id, b"") for member in group.roster}
    record = group_record(group.group_id, group.to_value(assignments))
    group.store(record, AssignmentWritten(group.group_id, assignments))


def on_assignment_written(group: ClassicGroup, written: AssignmentWritten, now: Now) -> None:
    """Hand out the assignments, unless the group has moved on since."""
    if group.awaited is not written:
        return
    group.enter(GroupState.STABLE, now)
    for member in group.roster:
        member.assignment = written.assignments.get(member.member_id, b"")
        if member.sync_ticket is not None:
            _assign(group, member)
            group.restart_session(member, now)


def on_assignment_refused(group: ClassicGroup, written: AssignmentWritten, now: Now) -> None:
    """Give up a generation whose record can never be stored, as it is too large."""
    if group.awaited is not written:
        return
    release_syncs(group, ErrorCode.UNKNOWN_SERVER_ERROR, now)
    begin_rebalance(group, now)


def _assign(group: ClassicGroup, member: Member) -> None:
    response = SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
    group.reply_sync(member, response)


def leave(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Let one member go. The caller ends a batch of these with `after_leaving`.

    An admin client names a static member by its instance id alone.
    """
    if not member_id:
        known = None if instance_id is None else group.roster.static_id(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id not in group.roster.pending:
        error = group.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
    remove_member(group, member_id)
    return ErrorCode.NONE


def after_leaving(group: ClassicGroup, now: Now) -> None:
    """Go on without those that left."""
    if group.state is not GroupState.EMPTY:
        rebalance_or_complete(group, now)


def expire(group: ClassicGroup, now: Now) -> None:
    """Act on every deadline that has passed, and ask to be woken at the next."""
    _expire_sessions(group, now)
    if group.sync_deadline_ms <= now.mono_ms:
        expire_sync(group, now)
    if group.join_deadline_ms <= now.mono_ms:
        expire_join(group, now)
    size = len(group.roster) + len(group.roster.pending)
    group.wake_by(wake_ms(group.next_deadline_ms(), size, now))


def _expire_sessions(group: ClassicGroup, now: Now) -> None:
    lapsed = [id_ for id_, at_ms in group.roster.pending.items() if at_ms <= now.mono_ms]
    failed = []
    for member in group.roster:
        if member.deadline_ms <= now.mono_ms:
            if member.needs_no_heartbeat:
                member.deadline_ms = NEVER  # its answer will start the session anew
            else:
                failed.append(member.member_id)
    for member_id in lapsed + failed:
        remove_member(group, member_id)
    if failed and group.state in (GroupState.STABLE, GroupState.COMPLETING):
        begin_rebalance(group, now)
    elif lapsed or failed:
        _open_barrier_if_all_joined(group, now)


def _open_barrier_if_all_joined(group: ClassicGroup, now: Now) -> None:
    if group.state is GroupState.PREPARING and group.roster.all_joined:
        complete_join(group, now)
