"""The groups and offsets of one partition of `__consumer_offsets`, as one state machine.

Two kinds of state, treated differently:
  - membership changes at once, and its records are written after (the barriers need the state of
    this moment); a generation becomes Stable only when its record is confirmed;
  - offsets change only when their records are confirmed.
So a failed write never has to be undone: the runtime drops the whole shard and replays the stream.

Every event returns Effects. `replay` is for loading; `on_written` for confirmed writes of ours.
Here is only who handles what: classic.py the classic protocol, consumer/ KIP-848 groups, commits.py
offsets of all groups.
"""

from collections.abc import Callable, Iterator, Sequence

from tailrace.broker.coordinator.classic import ClassicProtocol
from tailrace.broker.coordinator.commits import Commits
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer.group import ConsumerGroup, ConsumerGroupWritten
from tailrace.broker.coordinator.consumer.protocol import ConsumerProtocol, ConsumerSettings
from tailrace.broker.coordinator.effects import AssignmentWritten, Caller, StaticMemberWritten
from tailrace.broker.coordinator.group import ClassicGroup
from tailrace.broker.coordinator.groups import Groups
from tailrace.broker.coordinator.plans import PartitionCount
from tailrace.broker.coordinator.records import ConsumerGroupUpdate, OffsetUpdate, Update
from tailrace.broker.replicated.effects import Effects, EndOfTransaction, Now, Reply, Ticket, Write
from tailrace.broker.replicated.record_log import Pending
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.kafka.messages.offset_delete import OffsetDeleteRequest
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest
from tailrace.protocol.kafka.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupShard:
    """All groups of one partition. No clock, no socket, no task; ids come from `new_suffix`."""

    def __init__(
        self, config: GroupConfig, new_suffix: Callable[[], str], consumers: ConsumerSettings
    ) -> None:
        self.groups = Groups(config)
        self.commits = Commits(config, self.groups)
        self._classic = ClassicProtocol(config, self.groups, new_suffix)
        self._consumer = ConsumerProtocol(config, consumers, self.groups, new_suffix)
        self._topics = consumers.topics

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Effects:
        """Handle JoinGroup; an empty group takes the protocol of whoever comes."""
        group = self.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self._classic.join(request, caller, ticket, now)
        if group.members:
            return self._consumer.join(group, request, caller, ticket, now)
        given_up = self._consumer.give_up(group)
        effects = self._classic.join(request, caller, ticket, now)
        effects.writes[:0] = given_up.writes
        return effects

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle SyncGroup."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.sync(group, request, ticket, now)
        return self._classic.sync(request, ticket, now)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Effects:
        """Handle Heartbeat."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.classic_heartbeat(group, request, ticket, now)
        return self._classic.heartbeat(request, ticket, now)

    def leave(
        self, group_id: str, members: Sequence[MemberIdentity], ticket: Ticket, now: Now
    ) -> Effects:
        """Handle LeaveGroup, always in the form of v3+: each member has its own answer."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.leave(group, members, ticket, now)
        return self._classic.leave(group_id, members, ticket, now)

    def rebalance(self, group_id: str, ticket: Ticket, now: Now) -> Effects:
        """Have all members join again; those of a consumer group are put out. Reply: ErrorCode."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self._consumer.put_all_out(group, ticket, now)
        if isinstance(group, ClassicGroup):
            return self._classic.rebalance(group, ticket, now)
        return Effects([Reply(ticket, ErrorCode.GROUP_ID_NOT_FOUND)])

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: Now
    ) -> Effects:
        """Handle ConsumerGroupHeartbeat."""
        return self._consumer.heartbeat(request, caller, ticket, now)

    def describe_consumer_group(self, group_id: str, ticket: Ticket) -> Effects:
        """Handle ConsumerGroupDescribe for one group."""
        return self._consumer.describe(group_id, ticket)

    def commit(
        self,
        request: OffsetCommitRequest,
        caller: Caller,
        partition_count: PartitionCount,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle OffsetCommit of a group of any kind."""
        return self.commits.commit(request, caller, partition_count, ticket, now)

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        caller: Caller,
        partition_count: PartitionCount,
        guard: int,
        ticket: Ticket,
        now: Now,
    ) -> Effects:
        """Handle TxnOffsetCommit of a group of any kind."""
        return self.commits.commit_in_transaction(
            request, caller, partition_count, guard, ticket, now
        )

    def end_transaction(self, end: EndOfTransaction, ticket: Ticket) -> Effects:
        """Write the end of a transaction; answers with an ErrorCode."""
        return self.commits.end_transaction(end, ticket)

    def delete_offsets(
        self, request: OffsetDeleteRequest, partition_count: PartitionCount, ticket: Ticket
    ) -> Effects:
        """Handle OffsetDelete of a group of any kind."""
        return self.commits.delete_offsets(request, partition_count, ticket)

    def delete_group(self, group_id: str, ticket: Ticket) -> Effects:
        """Handle DeleteGroups for one group of any kind; answers with an ErrorCode."""
        return self.commits.delete_group(group_id, ticket)

    # What the runtime reports

    def on_written(self, write: Write, now: Now) -> Effects:
        """Act on a confirmed write of this shard."""
        effects = Effects()
        if isinstance(write.then, AssignmentWritten | StaticMemberWritten):
            effects = self._classic.on_written(write.then, now)
        elif isinstance(write.then, ConsumerGroupWritten):
            effects = self._consumer.on_written(write.then)
        elif write.then is not None:
            self.commits.on_written(write.then)
        effects.replies += write.replies
        return effects

    def on_refused(self, write: Write, now: Now) -> Effects:
        """Act on a write that is not stored: too large, or refused by the log."""
        effects = Effects()
        if isinstance(write.then, AssignmentWritten | StaticMemberWritten):
            effects = self._classic.on_refused(write.then, now)
        elif isinstance(write.then, ConsumerGroupWritten):
            effects = self._consumer.on_refused(write.then)
        elif write.then is not None:
            self.commits.on_refused(write, write.then)
        effects.replies += write.replies
        return effects

    def expire(self, group_id: str, now: Now) -> Effects:
        """Act on the deadlines of a group."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self._classic.expire(group, now)
        if isinstance(group, ConsumerGroup):
            return self._consumer.expire(group, now)
        return Effects()

    def release(self, code: ErrorCode) -> Iterator[Effects]:
        """Answer everybody who waits in a barrier: the coordinator is about to stop."""
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                yield self._classic.release(group, code)

    # Loading

    def replay(self, update: Update | Pending[Update]) -> None:
        """Take over what one record of the stream says."""
        if isinstance(update, Pending):
            if isinstance(update.update, OffsetUpdate):  # groups are never part of a transaction
                self.commits.pending.add(update.producer_id, update.update)
        elif isinstance(update, OffsetUpdate):
            self.commits.replay(update)
        elif isinstance(update, ConsumerGroupUpdate):
            self._consumer.replay(update)
        else:
            self._classic.replay(update)

    def on_loaded(self, now: Now) -> Iterator[Effects]:
        """Begin to act, once everything is replayed."""
        self.commits.on_loaded()
        yield self.commits.drop_gone(lambda topic: self._topics.get(topic) is not None)
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                yield self._classic.on_loaded(group, now)
            elif isinstance(group, ConsumerGroup):
                yield self._consumer.on_loaded(group, now)

    # Upkeep

    def clean(self, now: Now) -> Effects:
        """Delete offsets that have lapsed, and unused groups that have none (left)."""
        return self.commits.clean(now)

    def drop_topic(self, topic: str) -> Effects:
        """Delete every group's offsets of a topic that is gone."""
        self._consumer.note_topic(topic)
        return self.commits.drop_topic(topic)

    def note_topic(self, topic: str) -> None:
        """Have groups look at a topic that was created or enlarged."""
        self._consumer.note_topic(topic)
