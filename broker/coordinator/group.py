"""One classic consumer group: what it is made of, what may be asked of it, how it is stored.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
      ^            |    ^                   |               |
      +------------+    +-------------------+---------------+

The machine is spread over four modules that all work on this class: joining.py (who may come in),
rebalance.py (the two barriers), membership.py (the other events of a member's life) and this one.
Events come with the time at which they happen; what they bring about is collected in `effects`.

Invariants: the generation rises with every completed join barrier; in Stable every member has the
assignment that its leader gave (perhaps an empty one); every parked request is answered at the
latest when a deadline passes.
Source: Kafka ClassicGroup, GroupMetadataManager (classic part); KIP-62, 134, 345, 394, 814.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.effects import AssignmentWritten
from tailrace.broker.coordinator.kinds import Committer, GroupType
from tailrace.broker.coordinator.records import group_record
from tailrace.broker.coordinator.roster import Member, Roster
from tailrace.broker.coordinator.subscription import subscribed_topics
from tailrace.broker.replicated.effects import (
    NEVER,
    Effects,
    Now,
    Reply,
    StateRecord,
    Ticket,
    Write,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.coordinator_records import GroupMetadataValue, MemberMetadata
from tailrace.protocol.kafka.messages.join_group import JoinGroupResponse
from tailrace.protocol.kafka.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(StrEnum):
    """Where a classic group is, by the names that DescribeGroups and ListGroups use."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    """Only ever said of a group that is not there."""


class ClassicGroup:
    """The state of one group. No clock, no socket, no task."""

    __slots__ = (
        "_effects",
        "awaited",
        "config",
        "generation",
        "grew_in_delay",
        "group_id",
        "initial_left_ms",
        "join_deadline_ms",
        "protocol_name",
        "protocol_type",
        "roster",
        "state",
        "state_since_ms",
        "sync_deadline_ms",
        "topics",
    )

    def __init__(self, group_id: str, config: GroupConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.state = GroupState.EMPTY
        self.state_since_ms = -1
        """When the state was entered. Unit: wall ms; -1 if it never was or is not known."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.roster = Roster()
        self.topics: frozenset[str] | None = None
        """What a consumer group subscribes to; None if that is not known."""
        self.initial_left_ms = NEVER
        """How far the initial delay may still be extended; NEVER outside of it."""
        self.grew_in_delay = False
        self.join_deadline_ms = NEVER
        self.sync_deadline_ms = NEVER
        self.awaited: AssignmentWritten | None = None
        """The assignments that make the group Stable when they are confirmed."""
        self._effects = Effects(key=group_id)

    # As it is stored

    @classmethod
    def restore(
        cls, group_id: str, value: GroupMetadataValue, config: GroupConfig
    ) -> "ClassicGroup":
        """Return the group that a record describes; its sessions start when loading is over."""
        group = cls(group_id, config)
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.state_since_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        for member in value.members:
            group.roster.add(_restore_member(member, value.protocol))
        if value.leader is not None and value.leader in group.roster:
            group.roster.leader = value.leader
        group.topics = group.subscription()
        return group

    def to_value(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """Return the record value of the group, with the given assignments or its members' own."""
        if assignments is None:
            assignments = {member.member_id: member.assignment for member in self.roster}
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.roster.leader,
            current_state_timestamp=self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.roster
            ],
        )

    # Questions

    @property
    def kind(self) -> GroupType:
        """Return the protocol that its members speak."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """Return the state by the name that clients are shown."""
        return self.state.value

    @property
    def is_unused(self) -> bool:
        """Whether nobody is in it, or on the way into it."""
        return self.state is GroupState.EMPTY and not self.roster.pending

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols fits the members that are there."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and self.roster.supports_any(names)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Say whether these ids are a current member's. Source: ClassicGroup.validateMember."""
        if instance_id is not None:
            known = self.roster.static_id(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.roster else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Say whether a commit may be stored. Source: ClassicGroup.validateOffsetCommit.

        A transaction's commit need not name a member (it could not before v3), and may come while
        the group assigns.
        """
        member_id, instance_id, generation = committer[:3]
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # an admin client, or a consumer outside of group management
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE if committer.is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        is_assigning = self.state is GroupState.COMPLETING and not committer.is_transactional
        if error is ErrorCode.NONE and is_assigning:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Say whether offsets may be read: by anybody."""
        del member_id, epoch
        return ErrorCode.NONE

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads the topic; an unreadable subscription counts as yes."""
        if self.topics is not None:
            return topic in self.topics
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def subscription(self) -> frozenset[str] | None:
        """Return the topics that the members subscribe to, None if that cannot be known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in self.roster:
            subscribed = subscribed_topics(member.metadata(self.protocol_name))
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def check_offset_delete(self) -> ErrorCode:
        """Say whether offsets may be deleted by hand: of others than consumers, only without them.

        Source: ClassicGroup.validateOffsetDelete.
        """
        if self.state is GroupState.EMPTY or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def check_delete(self) -> ErrorCode:
        """Say whether the group may be deleted: only without members."""
        is_empty = self.state is GroupState.EMPTY
        return ErrorCode.NONE if is_empty else ErrorCode.NON_EMPTY_GROUP

    def lapsing_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return from when on a committed offset counts its retention; None: it does not lapse.

        While there are members: its commit, if the group is Stable and what they read is known.
        After the last one went: when it went. Without membership at all: its commit.
        Source: ClassicGroup.offsetExpirationCondition.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            return self.state_since_ms if self.state_since_ms >= 0 else commit_timestamp_ms
        is_known = self.state is GroupState.STABLE and self.topics is not None
        return commit_timestamp_ms if is_known else None

    def tombstones(self) -> tuple[StateRecord, ...]:
        """Return the record that deletes the group."""
        return (group_record(self.group_id, None),)

    # Effects

    def take_effects(self) -> Effects:
        """Return what came about since the last call."""
        effects, self._effects = self._effects, Effects(key=self.group_id)
        return effects

    def enter(self, state: GroupState, now: Now) -> None:
        """Change the state."""
        self.state = state
        self.awaited = None
        self.state_since_ms = now.wall_ms

    def write(self, write: Write) -> None:
        """Have records appended."""
        self._effects.writes.append(write)

    def store(self, record: StateRecord, then: AssignmentWritten) -> None:
        """Have the assignments appended that make the group Stable."""
        self.awaited = then
        self.write(Write((record,), then))

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer a request that waits."""
        self._effects.replies.append(Reply(ticket, response))

    def reply_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup if one waits."""
        ticket, member.join_ticket = member.join_ticket, None
        if ticket is not None:
            self.reply(ticket, response)

    def reply_sync(self, member: Member, response: SyncGroupResponse) -> None:
        """Answer the member's SyncGroup if one waits."""
        ticket, member.sync_ticket = member.sync_ticket, None
        if ticket is not None:
            self.reply(ticket, response)

    def refuse(self, member: Member, code: ErrorCode, member_id: str = "") -> None:
        """Answer whatever the member waits for with an error."""
        self.reply_join(member, JoinGroupResponse(error_code=code, member_id=member_id))
        self.reply_sync(member, SyncGroupResponse(error_code=code))

    # Deadlines

    def on_commit(self, member_id: str, now: Now) -> None:
        """Take a member's commit as a sign of life."""
        member = self.roster.get(member_id)
        if member is not None and self.state in (GroupState.STABLE, GroupState.PREPARING):
            self.restart_session(member, now)

    def restart_session(self, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        """Count the member's session timeout, or another time, from now."""
        if timeout_ms is None:
            timeout_ms = member.session_timeout_ms
        member.deadline_ms = now.mono_ms + timeout_ms
        self.wake_by(member.deadline_ms)

    def wake_by(self, deadline_ms: int) -> None:
        """Ask to be woken at a deadline, or before it."""
        self._effects.wake_at_ms = min(self._effects.wake_at_ms, deadline_ms)

    def next_deadline_ms(self) -> int:
        """Return the earliest deadline of the group."""
        sessions = min((member.deadline_ms for member in self.roster), default=NEVER)
        pending = min(self.roster.pending.values(), default=NEVER)
        return min(sessions, pending, self.join_deadline_ms, self.sync_deadline_ms)


def _restore_member(stored: MemberMetadata, protocol: str | None) -> Member:
    rebalance_timeout_ms = stored.rebalance_timeout
    if rebalance_timeout_ms < 0:  # JoinGroup v0 had only the one
        rebalance_timeout_ms = stored.session_timeout
    return Member(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocols=((protocol or "", bytes(stored.subscription)),),
        assignment=bytes(stored.assignment),
    )
