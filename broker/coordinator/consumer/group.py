"""One KIP-848 group: its lasting state, and what is forgotten when it is loaded anew.

Every record is written before the answer that depends on it leaves. An answer that needs no record
of its own leaves at once, unless records of the group are under way: it may show what they say.
Source: Kafka ConsumerGroup; CoordinatorRuntime (deferred events).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tailrace.broker.coordinator.consumer.changes import put_deletion
from tailrace.broker.coordinator.consumer.member import ConsumerMember
from tailrace.broker.coordinator.consumer.replayed import ReplayedGroup
from tailrace.broker.coordinator.consumer.topics import KnownTopics
from tailrace.broker.coordinator.kinds import Committer, GroupType
from tailrace.broker.replicated.effects import NEVER, Effects, Now, Reply, StateRecord, Write
from tailrace.protocol.errors import ErrorCode

WRITE_BYTES_MAX = 500_000
"""Records of one group in one write; more go in several, in order. Each prefix of them is a state
that the next heartbeats mend: a target is complete only with its epoch, which comes last."""

OFFSET_COMMIT_SINCE = 9
"""OffsetCommit version that carries a member epoch."""


class ConsumerGroupState(StrEnum):
    """Where a group is, by the names that clients are shown."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(slots=True)
class MemberTimers:
    """What a member must do by when. Unit: monotonic ms; NEVER if nothing."""

    session_ms: int = NEVER
    """Give a sign of life."""
    revoke_ms: int = NEVER
    """Let go what it must, as long as it is in `revoke_epoch`."""
    revoke_epoch: int = -1
    join_ms: int = NEVER
    """Join again (classic protocol)."""
    sync_ms: int = NEVER
    """Ask for its assignment (classic protocol)."""

    def earliest_ms(self) -> int:
        """Return the first of them."""
        return min(self.session_ms, self.revoke_ms, self.join_ms, self.sync_ms)


class ConsumerGroupWritten(NamedTuple):
    """Records of a consumer group are on the stream."""

    group_id: str
    replies: list[Reply]
    """What waits for them; more may come until they are confirmed."""


class ConsumerGroup(ReplayedGroup):
    """One group. No clock, no socket, no task."""

    __slots__ = ("last_write", "stale_topics", "timers", "topics", "wake_at_ms")

    def __init__(self, group_id: str, topics: KnownTopics) -> None:
        super().__init__(group_id)
        self.topics = topics
        self.timers: dict[str, MemberTimers] = {}
        self.stale_topics: set[str] | None = None
        """Topics that changed since they were looked at; None: any may have."""
        self.last_write: ConsumerGroupWritten | None = None
        """The newest records under way."""
        self.wake_at_ms = NEVER

    # Questions that every kind of group is asked

    @property
    def kind(self) -> GroupType:
        """Return the protocol that its members speak."""
        return GroupType.CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        """Return where the group is. Cost: its members, if one is not where it should be."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """Return the state by the name that clients are shown."""
        return self.state.value

    @property
    def protocol_type(self) -> str | None:
        """Return what its members are."""
        return "consumer"

    @property
    def is_unused(self) -> bool:
        """Whether nobody is in it."""
        return not self.members

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Say whether a commit may be stored. Source: ConsumerGroup.validateOffsetCommit."""
        member_id, instance_id, epoch = committer[:3]
        is_from_outside = epoch < 0 and not self.members  # an admin client, or no group management
        names_nobody = (member_id, instance_id, epoch) == ("", None, -1)
        if is_from_outside or (names_nobody and committer.is_transactional):
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        is_too_old = committer.version < OFFSET_COMMIT_SINCE and not committer.is_transactional
        if is_too_old and member.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.epoch or (epoch < member.epoch and self._still_had(member, committer)):
            return ErrorCode.NONE
        return ErrorCode.ILLEGAL_GENERATION if committer.is_transactional else _stale(member)

    def _still_had(self, member: ConsumerMember, committer: Committer) -> bool:
        """Return whether a member has had all that it commits since the epoch that it says.

        So what it read is not lost to it when its epoch has just been raised. Source: KIP-1251.
        """
        for committed in committer.topics:
            topic = self.topics.get(committed.name)
            topic_id = b"" if topic is None else topic.topic_id
            since = {**member.revoking.get(topic_id, {}), **member.assigned.get(topic_id, {})}
            for partition in committed.partitions:
                if since.get(partition.partition_index, NEVER) > committer.epoch:
                    return False
        return True

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Say whether committed offsets may be read. Source: ConsumerGroup.validateOffsetFetch."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else _stale(member)

    def check_offset_delete(self) -> ErrorCode:
        """Say whether offsets may be deleted by hand: those of topics that nobody reads."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        """Say whether the group may be deleted: only without members."""
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def lapsing_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return from when on a committed offset counts its retention: from its commit."""
        return commit_timestamp_ms

    def on_commit(self, member_id: str, now: Now) -> None:
        """Take no notice: a commit is no sign of life of a member that sends heartbeats."""

    def tombstones(self) -> list[StateRecord]:
        """Return the records that delete the group, which it is no more then."""
        put_deletion(self)
        return self.take_pending()

    # Effects

    def take_effects(self, reply: Reply | None = None) -> Effects:
        """Return what came about since the last call, with the answer to who brought it about."""
        effects = Effects(key=self.group_id, wake_at_ms=self.wake_at_ms)
        replies = [] if reply is None else [reply]
        chunks = _chunks(self.take_pending())
        if chunks:
            self.last_write = ConsumerGroupWritten(self.group_id, replies)
            effects.writes += [Write(chunk) for chunk in chunks[:-1]]
            effects.writes.append(Write(chunks[-1], self.last_write))
        elif self.last_write is not None:
            self.last_write.replies.extend(replies)
        else:
            effects.replies += replies
        return effects

    def on_written(self, written: ConsumerGroupWritten) -> None:
        """Let answers leave at once again if nothing more is under way."""
        if self.last_write is written:
            self.last_write = None


def _stale(member: ConsumerMember) -> ErrorCode:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _chunks(records: list[StateRecord]) -> list[tuple[StateRecord, ...]]:
    chunks: list[list[StateRecord]] = []
    size = WRITE_BYTES_MAX
    for record in records:
        need = len(record.key) + len(record.value or b"")
        if size + need > WRITE_BYTES_MAX:
            chunks.append([])
            size = 0
        chunks[-1].append(record)
        size += need
    return [tuple(chunk) for chunk in chunks]
