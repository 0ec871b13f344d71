"""The two barriers of a rebalance: all members join, then the leader's assignments go out.

Every barrier has a deadline. At the join barrier's, dynamic members that did not come are dropped
and the others go on; at the sync barrier's, those that never sent SyncGroup (the leader among them)
are dropped and a new rebalance begins. So nobody waits for ever.
Source: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin, expirePendingSync.
"""

from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.broker.coordinator.records import group_record
from tailrace.broker.coordinator.roster import Member
from tailrace.broker.replicated.effects import NEVER, Now, Write
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from tailrace.protocol.kafka.messages.sync_group import SyncGroupResponse

AWAY_WAIT_MS_MIN = 1_000
"""How long a barrier without anybody in it waits at least, whatever timeout its members asked."""


def begin_rebalance(group: ClassicGroup, now: Now) -> None:
    """Ask every member to join again: the barrier opens when all did, or when time is up."""
    release_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
    group.roster.pending_sync.clear()
    group.sync_deadline_ms = NEVER
    is_initial = group.state is GroupState.EMPTY
    group.enter(GroupState.PREPARING, now)
    timeout_ms = group.roster.rebalance_timeout_ms
    if is_initial:
        delay_ms = group.config.initial_rebalance_delay_ms
        group.grew_in_delay = False
        group.initial_left_ms = max(timeout_ms - delay_ms, 0)
        _open_barrier_at(group, now.mono_ms + delay_ms)
    elif group.roster.all_joined:
        complete_join(group, now)
    else:
        _open_barrier_at(group, now.mono_ms + timeout_ms)


def release_syncs(group: ClassicGroup, code: ErrorCode, now: Now) -> None:
    """Refuse everybody in the sync barrier; from now on they must send heartbeats again."""
    for member in group.roster:
        if member.sync_ticket is not None:
            group.reply_sync(member, SyncGroupResponse(error_code=code))
            group.restart_session(member, now)


def rebalance_or_complete(group: ClassicGroup, now: Now) -> None:
    """Begin a rebalance, or open the barrier of the one under way if all have joined.

    The initial delay is not cut short: it is there for members that nobody knows of yet.
    """
    if group.state is not GroupState.PREPARING:
        begin_rebalance(group, now)
    elif group.roster.all_joined and group.initial_left_ms == NEVER:
        complete_join(group, now)


def complete_join(group: ClassicGroup, now: Now) -> None:
    """Open the join barrier: a new generation of those that joined."""
    group.join_deadline_ms = NEVER
    group.initial_left_ms = NEVER
    for member in [m for m in group.roster if m.join_ticket is None and m.instance_id is None]:
        group.roster.remove(member.member_id)
    if len(group.roster) and not group.roster.elect_joined_leader():
        # Only static members that are away: wait on, until they come or their sessions end.
        wait_ms = max(group.roster.rebalance_timeout_ms, AWAY_WAIT_MS_MIN)
        _open_barrier_at(group, now.mono_ms + wait_ms)
        return
    _begin_generation(group, now)


def _begin_generation(group: ClassicGroup, now: Now) -> None:
    group.generation += 1
    has_members = len(group.roster) > 0
    group.protocol_name = group.roster.choose_protocol() if has_members else None
    group.topics = group.subscription()
    group.roster.pending_sync.clear()
    if not has_members:
        group.enter(GroupState.EMPTY, now)
        group.write(Write((group_record(group.group_id, group.to_value()),)))
        return
    group.enter(GroupState.COMPLETING, now)
    for member in group.roster:
        group.reply_join(member, generation_response(group, member))
        member.is_new = False
        group.restart_session(member, now)
        group.roster.pending_sync.add(member.member_id)
    group.sync_deadline_ms = now.mono_ms + group.roster.rebalance_timeout_ms
    group.wake_by(group.sync_deadline_ms)


def expire_join(group: ClassicGroup, now: Now) -> None:
    """Open the barrier, or extend the initial delay if members came during it.

    Source: GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule.
    """
    left_ms = group.initial_left_ms
    if left_ms != NEVER and left_ms > 0 and group.grew_in_delay:
        delay_ms = min(group.config.initial_rebalance_delay_ms, left_ms)
        group.grew_in_delay = False
        group.initial_left_ms = left_ms - delay_ms
        _open_barrier_at(group, now.mono_ms + delay_ms)
        return
    complete_join(group, now)


def expire_sync(group: ClassicGroup, now: Now) -> None:
    """Drop those that never sent SyncGroup and begin again without them."""
    group.sync_deadline_ms = NEVER
    absent = sorted(group.roster.pending_sync)
    if not absent:
        return
    for member_id in absent:
        remove_member(group, member_id)
    begin_rebalance(group, now)


def remove_member(group: ClassicGroup, member_id: str) -> None:
    """Let a member or a pending id go; what it waits for is answered, so that it can come back."""
    member = group.roster.remove(member_id)
    if member is not None:
        group.refuse(member, ErrorCode.UNKNOWN_MEMBER_ID)


def generation_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """Return the answer to a member's JoinGroup in the current generation."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.roster.leader or "",
        member_id=member.member_id,
        members=members_for_leader(group) if member.member_id == group.roster.leader else (),
    )


def members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Return what the leader needs to know of everybody to assign partitions."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.roster
    ]


def _open_barrier_at(group: ClassicGroup, deadline_ms: int) -> None:
    group.join_deadline_ms = deadline_ms
    group.wake_by(deadline_ms)
