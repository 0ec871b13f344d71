"""The classic protocol's events: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and time.

Each finds its group, lets it act, and returns the Effects.
"""

from collections.abc import Callable, Sequence

from tailrace.broker.coordinator import joining, membership
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.effects import AssignmentWritten, Caller, StaticMemberWritten
from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.broker.coordinator.groups import Groups
from tailrace.broker.coordinator.joining import Join
from tailrace.broker.coordinator.rebalance import begin_rebalance
from tailrace.broker.coordinator.records import GroupUpdate
from tailrace.broker.replicated.effects import Effects, Now, Reply, Ticket
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.kafka.messages.leave_group import (
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicProtocol:
    """The classic groups among the groups of one shard; ids come from `new_suffix`."""

    def __init__(self, config: GroupConfig, groups: Groups, new_suffix: Callable[[], str]) -> None:
        self._config = config
        self._groups = groups
        self._new_suffix = new_suffix

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Effects:
        """Handle JoinGroup."""
        code = ErrorCode.NONE
        if not self._config.allows_session_timeout(request.session_timeout_ms):
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif request.member_id and request.group_id not in self._groups:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            return Effects([Reply(ticket, _refused_join(request, code))])
        group = self._make(request.group_id)
        if group is None:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return Effects([Reply(ticket, _refused_join(request, code))])
        prefix = request.group_instance_id or caller.client_id
        new_id = "" if request.member_id else f"{prefix}-{self._new_suffix()}"
        joining.join(group, Join(request, caller, ticket, new_id), now)
        return group.take_effects()

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle SyncGroup."""
        group = self._groups.classic(request.group_id)
        if group is None:
            response = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return Effects([Reply(ticket, response)])
        membership.sync(group, request, ticket, now)
        return group.take_effects()

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle Heartbeat."""
        group = self._groups.classic(request.group_id)
        if group is None:
            response = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return Effects([Reply(ticket, response)])
        code = membership.heartbeat(group, request, now)
        group.reply(ticket, HeartbeatResponse(error_code=code))
        return group.take_effects()

    def leave(
        self, group_id: str, members: Sequence[MemberIdentity], ticket: Ticket, now: Now
    ) -> Effects:
        """Handle LeaveGroup, always in the form of v3+: each member has its own answer."""
        group = self._groups.classic(group_id)
        if group is None:
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
            return Effects([Reply(ticket, leave_response(members, codes))])
        size_before = len(group.roster)
        codes = [membership.leave(group, m.member_id, m.group_instance_id) for m in members]
        if len(group.roster) < size_before or group.state is GroupState.PREPARING:
            membership.after_leaving(group, now)
        effects = group.take_effects()
        effects.reply_last(Reply(ticket, leave_response(members, codes)))
        return effects

    def rebalance(self, group: ClassicGroup, ticket: Ticket, now: Now) -> Effects:
        """Have all members join again. Reply: ErrorCode; also one that is rebalancing is well."""
        if not len(group.roster):
            return Effects([Reply(ticket, ErrorCode.UNKNOWN_MEMBER_ID)])
        if group.state is not GroupState.PREPARING:
            begin_rebalance(group, now)
        group.reply(ticket, ErrorCode.NONE)
        return group.take_effects()

    # What the runtime reports

    def on_written(self, then: AssignmentWritten | StaticMemberWritten, now: Now) -> Effects:
        """Go on after a confirmed write of a group's record."""
        group = self._groups.classic(then.group_id)
        if group is None:
            return Effects()
        if isinstance(then, AssignmentWritten):
            membership.on_assignment_written(group, then, now)
        else:
            joining.on_static_member_written(group, then, now)
        return group.take_effects()

    def on_refused(self, then: AssignmentWritten | StaticMemberWritten, now: Now) -> Effects:
        """Go on after a group's record that is too large to be stored ever."""
        group = self._groups.classic(then.group_id)
        if group is None:
            return Effects()
        if isinstance(then, AssignmentWritten):
            membership.on_assignment_refused(group, then, now)
        else:
            begin_rebalance(group, now)
        return group.take_effects()

    def expire(self, group: ClassicGroup, now: Now) -> Effects:
        """Act on the deadlines of a group."""
        membership.expire(group, now)
        return group.take_effects()

    def release(self, group: ClassicGroup, code: ErrorCode) -> Effects:
        """Answer everybody who waits in a barrier of a group: the coordinator is about to stop."""
        for member in group.roster:
            group.refuse(member, code, member.member_id)
        return group.take_effects()

    # Loading

    def replay(self, update: GroupUpdate) -> None:
        """Take over what one record of the stream says; a deleted group may be of another kind."""
        if update.value is not None:
            self._groups[update.group_id] = ClassicGroup.restore(
                update.group_id, update.value, self._config
            )
        elif self._groups.classic(update.group_id) is not None:
            del self._groups[update.group_id]

    def on_loaded(self, group: ClassicGroup, now: Now) -> Effects:
        """Begin to act: sessions start anew."""
        membership.on_loaded(group, now)
        return group.take_effects()

    def _make(self, group_id: str) -> ClassicGroup | None:
        self._groups.make(group_id)
        return self._groups.classic(group_id)


def _refused_join(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


def leave_response(
    members: Sequence[MemberIdentity], codes: Sequence[ErrorCode]
) -> LeaveGroupResponse:
    """Return the answer to LeaveGroup, one code for each member."""
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=code,
            )
            for member, code in zip(members, codes, strict=True)
        ]
    )
