"""The consumer protocol's events on the groups of one shard, and the classic ones that reach them.

Each finds its group, lets it act, and returns the Effects. A refusal changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tailrace.broker.cluster.group_configs import GroupConfigs
from tailrace.broker.coordinator.classic import leave_response
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer import classic_members
from tailrace.broker.coordinator.consumer.assigning import Surroundings, note_topic
from tailrace.broker.coordinator.consumer.changes import put_deletion
from tailrace.broker.coordinator.consumer.conversion import can_downgrade, downgrade, upgrade
from tailrace.broker.coordinator.consumer.describing import described_consumer_group
from tailrace.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupWritten
from tailrace.broker.coordinator.consumer.heartbeats import heartbeat
from tailrace.broker.coordinator.consumer.leaving import (
    leave_for_a_while,
    leaving_member,
    remove_members,
)
from tailrace.broker.coordinator.consumer.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from tailrace.broker.coordinator.consumer.timers import overdue, start_timers
from tailrace.broker.coordinator.consumer.topics import KnownTopics
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.broker.coordinator.groups import Groups
from tailrace.broker.coordinator.rebalance import begin_rebalance
from tailrace.broker.coordinator.records import ConsumerGroupUpdate
from tailrace.broker.errors import KafkaError
from tailrace.broker.replicated.effects import Effects, Now, Reply, Ticket
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.kafka.messages.consumer_group_records import ConsumerGroupMetadataKey
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What all consumer groups of a coordinator share."""

    config: ConsumerGroupConfig
    topics: KnownTopics
    times_of: Callable[[str], GroupConfigs]
    """What holds for one group, by its id."""


class ConsumerProtocol:
    """The consumer groups among the groups of one shard; ids come from `new_id`."""

    def __init__(
        self,
        config: GroupConfig,
        settings: ConsumerSettings,
        groups: Groups,
        new_id: Callable[[], str],
    ) -> None:
        self._config = config
        self._settings = settings
        self._groups = groups
        self._new_id = new_id

    # The consumer protocol

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: Now
    ) -> Effects:
        """Handle ConsumerGroupHeartbeat; the request has been checked."""
        around = self._around(request.group_id, now)._replace(shows=caller.shows)
        try:
            if request.member_epoch < JOIN_EPOCH:
                return self._leave(request, ticket, around)
            group = self._find(request, around)
            if not request.member_id:
                request.member_id = self._new_id()
            response = heartbeat(group, request, caller, around)
        except KafkaError as error:
            response = ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.detail
            )
            return Effects([Reply(ticket, response)])
        effects = self._put(group)
        return _joined(effects, group.take_effects(Reply(ticket, response)))

    def _find(self, request: ConsumerGroupHeartbeatRequest, around: Surroundings) -> ConsumerGroup:
        """Return the group, or what becomes one when somebody joins. Errors: KafkaError."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOIN_EPOCH:
            raise _not_found(request.group_id)
        if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY:
            return upgrade(group, around)
        made = ConsumerGroup(request.group_id, self._settings.topics)
        if isinstance(group, ClassicGroup):
            made.pending += group.tombstones()
        return made

    def _put(self, group: ConsumerGroup) -> Effects:
        """Put a group in its place; members of a classic one that wait there have to join again."""
        before = self._groups.classic(group.group_id)
        self._groups[group.group_id] = group
        if before is None:
            return Effects()
        for member in before.roster:
            before.refuse(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        return before.take_effects()

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, around: Surroundings
    ) -> Effects:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_found(request.group_id)
        member = leaving_member(group, request)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        reply = Reply(ticket, response)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            leave_for_a_while(group, member)
            return group.take_effects(reply)
        return self._remove(group, [member.member_id], around, reply)

    def _remove(
        self,
        group: ConsumerGroup,
        member_ids: Sequence[str],
        around: Surroundings,
        reply: Reply | None = None,
    ) -> Effects:
        """Put members out; a group that only has classic members left becomes classic."""
        if can_downgrade(group, member_ids, around, self._config):
            return self._downgrade(group, member_ids, around, reply)
        if member_ids:
            remove_members(group, member_ids, around)
        return group.take_effects(reply)

    def _downgrade(
        self,
        group: ConsumerGroup,
        leaving: Sequence[str],
        around: Surroundings,
        reply: Reply | None,
    ) -> Effects:
        classic = downgrade(group, leaving, around, self._config)
        self._groups[group.group_id] = classic
        begin_rebalance(classic, around.now)
        return _joined(group.take_effects(reply), classic.take_effects())

    def describe(self, group_id: str, ticket: Ticket) -> Effects:
        """Handle ConsumerGroupDescribe for one group; answered when all that it shows is stored."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            settings = self._settings
            described = described_consumer_group(group, settings.config, settings.topics)
            return group.take_effects(Reply(ticket, described))
        why = "not found" if group is None else "is not a consumer group"
        described = DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {why}.",
        )
        return Effects([Reply(ticket, described)])

    # The classic protocol, of members of a consumer group

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle JoinGroup; nobody waits."""
        if not self._config.allows_session_timeout(request.session_timeout_ms):
            code = ErrorCode.INVALID_SESSION_TIMEOUT
            response = JoinGroupResponse(error_code=code, member_id=request.member_id)
            return Effects([Reply(ticket, response)])
        around = self._around(group.group_id, now)._replace(shows=caller.shows)
        member_id = request.member_id or self._new_id()
        try:
            subscription = classic_members.check_join(
                group, request, member_id, caller.version, around
            )
            member = classic_members.join(group, request, subscription, member_id, caller, around)
        except KafkaError as error:
            is_told = error.code is ErrorCode.MEMBER_ID_REQUIRED
            told = member_id if is_told else request.member_id
            response = JoinGroupResponse(error_code=error.code, member_id=told)
            return Effects([Reply(ticket, response)])
        reply = Reply(ticket, classic_members.joined(group, member, around))
        if can_downgrade(group, (), around, self._config):
            return self._downgrade(group, (), around, reply)
        return group.take_effects(reply)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now: Now
    ) -> Effects:
        """Handle SyncGroup; nobody waits."""
        try:
            response = classic_members.sync(group, request, self._around(group.group_id, now))
        except KafkaError as error:
            response = SyncGroupResponse(error_code=error.code)
        return group.take_effects(Reply(ticket, response))

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now: Now
    ) -> Effects:
        """Handle Heartbeat."""
        try:
            code = classic_members.heartbeat(group, request, self._around(group.group_id, now))
        except KafkaError as error:
            code = error.code
        return group.take_effects(Reply(ticket, HeartbeatResponse(error_code=code)))

    def leave(
        self, group: ConsumerGroup, members: Sequence[MemberIdentity], ticket: Ticket, now: Now
    ) -> Effects:
        """Handle LeaveGroup: also an operator's, of members of either protocol."""
        leaving, codes = classic_members.leave(group, members)
        reply = Reply(ticket, leave_response(members, codes))
        return self._remove(group, leaving, self._around(group.group_id, now), reply)

    def put_all_out(self, group: ConsumerGroup, ticket: Ticket, now: Now) -> Effects:
        """Put every member out, as if none had been heard of: all join again. Reply: ErrorCode."""
        around = self._around(group.group_id, now)
        if not group.members:
            return group.take_effects(Reply(ticket, ErrorCode.UNKNOWN_MEMBER_ID))
        return self._remove(group, list(group.members), around, Reply(ticket, ErrorCode.NONE))

    def give_up(self, group: ConsumerGroup) -> Effects:
        """Put an empty classic group in the place of one without members; its offsets stay."""
        put_deletion(group)
        del self._groups[group.group_id]
        self._groups.make(group.group_id)
        return group.take_effects()

    # What the runtime reports

    def on_written(self, written: ConsumerGroupWritten) -> Effects:
        """Let the answers go that waited for a group's records."""
        group = self._groups.get(written.group_id)
        if isinstance(group, ConsumerGroup):
            group.on_written(written)
        return Effects(list(written.replies))

    def on_refused(self, written: ConsumerGroupWritten) -> Effects:
        """Answer those who waited for records that are too large to be stored ever.

        The group goes on in memory; after a change of coordinator its members have to join again.
        """
        self.on_written(written)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return Effects([Reply(reply.ticket, code) for reply in written.replies])

    def expire(self, group: ConsumerGroup, now: Now) -> Effects:
        """Put members out that failed to do something in time."""
        late = overdue(group, now)
        return (
            self._remove(group, late, self._around(group.group_id, now))
            if late
            else (group.take_effects())
        )

    def note_topic(self, topic: str) -> None:
        """Have groups look at a topic that was created, deleted or enlarged."""
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                note_topic(group, topic)

    # Loading

    def replay(self, update: ConsumerGroupUpdate) -> None:
        """Take over what one record of the stream says; a deletion of what is not there is none."""
        group = self._groups.get(update.group_id)
        if not isinstance(group, ConsumerGroup):
            if update.value is None:
                return
            group = self._groups[update.group_id] = ConsumerGroup(
                update.group_id, self._settings.topics
            )
        group.apply(update.key, update.value)
        if update.value is None and isinstance(update.key, ConsumerGroupMetadataKey):
            del self._groups[update.group_id]

    def on_loaded(self, group: ConsumerGroup, now: Now) -> Effects:
        """Begin to act: sessions start anew."""
        start_timers(group, self._around(group.group_id, now))
        return group.take_effects()

    def _around(self, group_id: str, now: Now) -> Surroundings:
        settings = self._settings
        return Surroundings(settings.config, settings.times_of(group_id), settings.topics, now)


def _not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")


def _joined(first: Effects, second: Effects) -> Effects:
    """Return the effects of two steps on one group as one."""
    return Effects(
        first.replies + second.replies,
        first.writes + second.writes,
        first.commands + second.commands,
        second.key,
        min(first.wake_at_ms, second.wake_at_ms),
    )
