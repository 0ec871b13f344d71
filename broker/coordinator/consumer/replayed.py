"""What the records of one KIP-848 group come to: all that lasts of it.

It is changed by `put` alone, which takes a record over as a replay does and keeps it to be written:
so the state of a live group is that of a replayed one by construction.

Three epochs: the group's rises with every change that needs another assignment; the target's is
the group epoch that the target assignment was computed for; a member's is the target epoch that it
has come to. Invariant: a partition has at most one owner, who is the last member that was given it.
Source: Kafka ConsumerGroup, ModernGroup; GroupMetadataManager.replay.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from tailrace.broker.coordinator.consumer.assignor import Partitions, TopicId
from tailrace.broker.coordinator.consumer.member import (
    LEAVE_EPOCH,
    ConsumerMember,
    new_member,
    with_current,
    with_metadata,
)
from tailrace.broker.replicated.effects import StateRecord
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupKey,
    GroupValue,
    encode_group_key,
    encode_group_value,
)

FIRST_EPOCH = 1
"""Epoch of a group that has no record yet; its first member makes it 2."""


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression came to."""

    topics: frozenset[str]
    version: int
    """Kafka's version of the metadata; here the wall clock's ms."""
    timestamp_ms: int


class ReplayedGroup:
    """The lasting state of one group. No clock, no socket, no task."""

    __slots__ = (
        "epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "name_counts",
        "owners",
        "pending",
        "regex_counts",
        "resolved",
        "static_ids",
        "target_epoch",
        "target_time_ms",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_time_ms = 0
        """When the target was computed; 0 if never. Unit: wall ms."""
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.static_ids: dict[str, str] = {}
        """Member id of each instance id."""
        self.owners: dict[TopicId, dict[int, str]] = {}
        """Who has a partition, or has not yet let it go."""
        self.name_counts: Counter[str] = Counter()
        """How many members subscribe to a topic by name."""
        self.regex_counts: Counter[str] = Counter()
        """How many members subscribe by an expression."""
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether a record of Kafka before 4.1 is there to be deleted."""
        self.pending: list[StateRecord] = []
        """Records that were taken over and are to be written."""

    # Questions

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the member that has an instance id."""
        if instance_id is None or instance_id not in self.static_ids:
            return None
        return self.members[self.static_ids[instance_id]]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, by name or expression."""
        resolved = self.resolved.get(member.topic_regex) if member.topic_regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def subscribed_topics(self) -> set[str]:
        """Return the names of all topics that members subscribe to."""
        topics = set(self.name_counts)
        for resolved in self.resolved.values():
            topics |= resolved.topics
        return topics

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads the topic."""
        return topic in self.name_counts or any(
            topic in resolved.topics for resolved in self.resolved.values()
        )

    def is_owned_by_other(self, member_id: str, topic_id: TopicId, partition: int) -> bool:
        """Return whether somebody else still has a partition."""
        return self.owners.get(topic_id, {}).get(partition, member_id) != member_id

    def classic_members(self) -> Iterator[ConsumerMember]:
        """Yield the members that speak the classic protocol."""
        return (member for member in self.members.values() if member.classic is not None)

    # Records

    def put(self, key: GroupKey, value: GroupValue | None) -> None:
        """Change the group as a record says, and keep the record to be written."""
        self.apply(key, value)
        encoded = None if value is None else encode_group_value(value)
        self.pending.append(StateRecord(encode_group_key(key), encoded))

    def apply(self, key: GroupKey, value: GroupValue | None) -> None:
        """Change the group as a record says. None: the record deletes its key."""
        _APPLY[type(key)](self, key, value)

    def take_pending(self) -> list[StateRecord]:
        """Return the records that are to be written, and forget them."""
        records, self.pending = self.pending, []
        return records

    # What records do

    def _apply_epoch(
        self, _key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        self.epoch = FIRST_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _apply_partition_metadata(
        self,
        _key: ConsumerGroupPartitionMetadataKey,
        value: ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _apply_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            self._replace(old, with_metadata(old or new_member(key.member_id), value))
        elif old is not None:
            self._replace(old, None)

    def _apply_target_epoch(
        self,
        _key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
        self.target_time_ms = 0 if value is None else value.assignment_timestamp

    def _apply_target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
            return
        self.targets[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions)
            for topic in value.topic_partitions
            if topic.partitions
        }

    def _apply_current(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            self._replace(old, with_current(old or new_member(key.member_id), value))
        elif old is not None:
            leaving = replace(
                old, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, revoking={}
            )
            self._replace(old, leaving)

    def _apply_regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.resolved.pop(key.regular_expression, None)
            return
        self.resolved[key.regular_expression] = ResolvedRegex(
            frozenset(value.topics), value.version, value.timestamp
        )

    def _replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Put one member in another's place, in all that is derived from members."""
        if old is not None:
            self._forget(old)
        if new is None:
            return
        self.members[new.member_id] = new
        if new.instance_id is not None:
            self.static_ids[new.instance_id] = new.member_id
        self.name_counts.update(new.topic_names)
        if new.topic_regex:
            self.regex_counts[new.topic_regex] += 1
        for topic_id, partition in _pairs(new):
            self.owners.setdefault(topic_id, {})[partition] = new.member_id

    def _forget(self, old: ConsumerMember) -> None:
        del self.members[old.member_id]
        if old.instance_id is not None and self.static_ids.get(old.instance_id) == old.member_id:
            del self.static_ids[old.instance_id]
        _discount(self.name_counts, old.topic_names)
        if old.topic_regex:
            _discount(self.regex_counts, (old.topic_regex,))
        for topic_id, partition in _pairs(old):
            owners = self.owners.get(topic_id, {})
            if owners.get(partition) == old.member_id:
                del owners[partition]
                if not owners:
                    del self.owners[topic_id]


_APPLY: Final[dict[type[Any], Callable[[ReplayedGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: ReplayedGroup._apply_epoch,
    ConsumerGroupPartitionMetadataKey: ReplayedGroup._apply_partition_metadata,
    ConsumerGroupMemberMetadataKey: ReplayedGroup._apply_member,
    ConsumerGroupTargetAssignmentMetadataKey: ReplayedGroup._apply_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: ReplayedGroup._apply_target,
    ConsumerGroupCurrentMemberAssignmentKey: ReplayedGroup._apply_current,
    ConsumerGroupRegularExpressionKey: ReplayedGroup._apply_regex,
}


def _pairs(member: ConsumerMember) -> Iterator[tuple[TopicId, int]]:
    for held in (member.assigned, member.revoking):
        for topic_id, epochs in held.items():
            for partition in epochs:
                yield topic_id, partition


def _discount(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
