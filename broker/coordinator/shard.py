"""The groups and offsets of one partition of `__consumer_offsets`, as one state machine.

Two kinds of state, treated differently:
  - membership changes at once, and its records are written after (the barriers need the state of
    this moment); a generation becomes Stable only when its record is confirmed;
  - offsets change only when their records are confirmed.
So a failed write never has to be undone: the runtime drops the whole shard and replays the stream.

Every event returns Effects. `replay` is for loading; `on_written` for confirmed writes of ours.
"""

from collections.abc import Callable, Iterator, Sequence

from broker.coordinator import joining, membership
from broker.coordinator.config import GroupConfig
from broker.coordinator.effects import AssignmentWritten, Caller, OffsetsWritten, Then
from broker.coordinator.group import ClassicGroup, GroupState
from broker.coordinator.joining import Join
from broker.coordinator.offsets import (
    OffsetStore,
    expired_offsets,
    plan_commit,
    refuse_commit,
    refuse_stored,
)
from broker.coordinator.rebalance import begin_rebalance
from broker.coordinator.records import OffsetUpdate, Update, group_record, offset_record
from broker.replicated.effects import Effects, Now, Reply, Ticket, Write
from protocol.errors import ErrorCode
from protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.kafka.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

GROUP_NOT_FOUND_SINCE = 9
"""OffsetCommit version that can say that there is no such group."""

TOMBSTONES_AT_ONCE = 500
"""Deleted offsets in one write."""


class GroupShard:
    """All groups of one partition. No clock, no socket, no task; ids come from `new_suffix`."""

    def __init__(self, config: GroupConfig, new_suffix: Callable[[], str]) -> None:
        self.config = config
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = OffsetStore()
        self._new_suffix = new_suffix

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Effects:
        """Handle JoinGroup."""
        code = ErrorCode.NONE
        timeout_ms = request.session_timeout_ms
        if (
            not self.config.session_timeout_ms_min
            <= timeout_ms
            <= self.config.session_timeout_ms_max
        ):
            code = ErrorCode.INVALID_SESSION_TIMEOUT
        elif request.member_id and request.group_id not in self.groups:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            response = JoinGroupResponse(error_code=code, member_id=request.member_id)
            return Effects([Reply(ticket, response)])
        group = self._make_group(request.group_id)
        prefix = request.group_instance_id or caller.client_id
        new_id = "" if request.member_id else f"{prefix}-{self._new_suffix()}"
        joining.join(group, Join(request, caller, ticket, new_id), now)
        return group.take_effects()

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle SyncGroup."""
        group = self.groups.get(request.group_id)
        if group is None:
            response = SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return Effects([Reply(ticket, response)])
        membership.sync(group, request, ticket, now)
        return group.take_effects()

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle Heartbeat."""
        group = self.groups.get(request.group_id)
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
        group = self.groups.get(group_id)
        if group is None:
            codes = [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
            return Effects([Reply(ticket, _leave_response(members, codes))])
        size_before = len(group.roster)
        codes = [membership.leave(group, m.member_id, m.group_instance_id) for m in members]
        if len(group.roster) < size_before or group.state is GroupState.PREPARING:
            membership.after_leaving(group, now)
        effects = group.take_effects()
        _reply_after_writes(effects, Reply(ticket, _leave_response(members, codes)))
        return effects

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        partition_count: Callable[[str], int],
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle OffsetCommit; a commit from outside of group management makes a simple group."""
        code = self._check_commit(request, caller.version)
        if code is not ErrorCode.NONE:
            return Effects([Reply(ticket, refuse_commit(request, code))])
        group = self._make_group(request.group_id)
        membership.on_commit(group, request.member_id, now)
        updates, response = plan_commit(request, partition_count, self.config, now)
        if not updates:
            group.reply(ticket, response)
            return group.take_effects()
        records = tuple(offset_record(update) for update in updates)
        group.write(Write(records, OffsetsWritten(tuple(updates)), (Reply(ticket, response),)))
        return group.take_effects()

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        generation = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is not None:
            return group.check_commit(request.member_id, request.group_instance_id, generation)
        if generation < 0:
            return ErrorCode.NONE
        if version >= GROUP_NOT_FOUND_SINCE:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION

    # What the runtime reports

    def on_written(self, write: Write, now: Now) -> Effects:
        """Act on a confirmed write of this shard."""
        then: Then = write.then
        effects = Effects()
        if isinstance(then, OffsetsWritten):
            for update in then.updates:
                self.offsets.apply(update)
                if update.committed is not None:  # it was deleted as empty meanwhile
                    self._make_group(update.group_id)
        elif then is not None and (group := self.groups.get(then.group_id)) is not None:
            if isinstance(then, AssignmentWritten):
                membership.on_assignment_written(group, then, now)
            else:
                joining.on_static_member_written(group, then, now)
            effects = group.take_effects()
        effects.replies += write.replies
        return effects

    def on_refused(self, write: Write, now: Now) -> Effects:
        """Act on a write whose records are too large to be stored ever."""
        effects = Effects()
        then: Then = write.then
        if isinstance(then, OffsetsWritten):
            for reply in write.replies:
                if isinstance(reply.response, OffsetCommitResponse):
                    refuse_stored(reply.response, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        elif then is not None and (group := self.groups.get(then.group_id)) is not None:
            if isinstance(then, AssignmentWritten):
                membership.on_assignment_refused(group, then, now)
            else:
                begin_rebalance(group, now)
            effects = group.take_effects()
        effects.replies += write.replies
        return effects

    def expire(self, group_id: str, now: Now) -> Effects:
        """Act on the deadlines of a group."""
        group = self.groups.get(group_id)
        if group is None:
            return Effects()
        membership.expire(group, now)
        return group.take_effects()

    def release(self, code: ErrorCode) -> Iterator[Effects]:
        """Answer everybody who waits in a barrier: the coordinator is about to stop."""
        for group in self.groups.values():
            for member in group.roster:
                group.refuse(member, code, member.member_id)
            yield group.take_effects()

    # Loading

    def replay(self, update: Update) -> None:
        """Take over what one record of the stream says."""
        if isinstance(update, OffsetUpdate):
            self.offsets.apply(update)
        elif update.value is None:
            self.groups.pop(update.group_id, None)
        else:
            self.groups[update.group_id] = ClassicGroup.restore(
                update.group_id, update.value, self.config
            )

    def on_loaded(self, now: Now) -> Iterator[Effects]:
        """Begin to act: sessions start anew; offsets without a group are a simple group's."""
        for group_id in self.offsets:
            self._make_group(group_id)
        for group in list(self.groups.values()):
            membership.on_loaded(group, now)
            yield group.take_effects()

    # Upkeep

    def clean(self, now: Now) -> Effects:
        """Delete offsets that have lapsed, and empty groups that have none (left)."""
        lapsed: list[OffsetUpdate] = []
        gone: list[str] = []
        for group in self.groups.values():
            expired = expired_offsets(group, self.offsets, self.config.offsets_retention_ms, now)
            lapsed += expired
            kept = sum(map(len, self.offsets.of_group(group.group_id).values())) - len(expired)
            is_unused = group.state is GroupState.EMPTY and not group.roster.pending
            if is_unused and kept == 0:
                gone.append(group.group_id)
        effects = Effects(writes=_offset_writes(lapsed))
        for group_id in gone:
            del self.groups[group_id]
            effects.writes.append(Write((group_record(group_id, None),)))
        return effects

    def drop_topic(self, topic: str) -> Effects:
        """Delete every group's offsets of a topic that is gone."""
        updates = [
            OffsetUpdate(group_id, topic, partition, None)
            for group_id in self.offsets
            for partition in self.offsets.of_group(group_id).get(topic, ())
        ]
        return Effects(writes=_offset_writes(updates))

    def _make_group(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.config)
        return group


def _reply_after_writes(effects: Effects, reply: Reply) -> None:
    if effects.writes:
        last = effects.writes[-1]
        effects.writes[-1] = last._replace(replies=(*last.replies, reply))
    else:
        effects.replies.append(reply)


def _offset_writes(updates: list[OffsetUpdate]) -> list[Write]:
    writes = []
    for start in range(0, len(updates), TOMBSTONES_AT_ONCE):
        chunk = tuple(updates[start : start + TOMBSTONES_AT_ONCE])
        records = tuple(offset_record(update) for update in chunk)
        writes.append(Write(records, OffsetsWritten(chunk)))
    return writes


def _leave_response(
    members: Sequence[MemberIdentity], codes: Sequence[ErrorCode]
) -> LeaveGroupResponse:
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
