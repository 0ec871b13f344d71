"""One member of a KIP-848 group: what it asked for, and how far it has come with its assignment.

    STABLE --- new target ---> UNREVOKED_PARTITIONS --- revocation acknowledged ---+
      ^  ^-------------------- UNRELEASED_PARTITIONS <-- others still own some ----+
      +-------------------------------- all are free -------------------------------

A member in UNREVOKED_PARTITIONS stays in its epoch until it has let go; in UNRELEASED_PARTITIONS it
has the target's epoch, and gets the rest when others have let go.
Source: Kafka ConsumerGroupMember, MemberState; KIP-848.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, TypeAlias

from tailrace.broker.coordinator.consumer.assignor import TopicId
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

LEAVE_EPOCH: Final = -1
"""In a request: the member leaves. In a record: it is about to be removed."""
STATIC_LEAVE_EPOCH: Final = -2
"""The static member left for a while: its partitions stay with its instance id."""
JOIN_EPOCH: Final = 0

PartitionEpochs: TypeAlias = Mapping[TopicId, Mapping[int, int]]
"""Partitions by topic, each with the epoch in which it was assigned; never an empty topic."""

Owned: TypeAlias = Mapping[TopicId, Collection[int]]
"""What a member says it owns."""


class MemberState(IntEnum):
    """How far a member is from its target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Written by a newer release: the member has to join anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member; replaced, never changed."""

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    """The one before, which a member whose last answer was lost still says."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    assigned: PartitionEpochs
    revoking: PartitionEpochs
    """What it must let go before it gets more."""
    classic: ClassicMemberMetadata | None = None
    """Set if it speaks the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether it has all of the target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    # As it is stored

    def to_metadata(self) -> ConsumerGroupMemberMetadataValue:
        """Return the record of what it asked for."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def to_current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the record of how far it has come."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_to_stored(self.assigned),
            partitions_pending_revocation=_to_stored(self.revoking),
        )


def new_member(member_id: str) -> ConsumerMember:
    """Return a member that has nothing yet."""
    return ConsumerMember(member_id=member_id, assigned={}, revoking={})


def with_metadata(
    member: ConsumerMember, value: ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    """Return the member with what a record says it asked for."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_current(
    member: ConsumerMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    """Return the member as far as a record says that it has come."""
    known = value.state in (0, 1, 2)
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if known else MemberState.UNKNOWN,
        assigned=_from_stored(value.assigned_partitions, value.member_epoch),
        revoking=_from_stored(value.partitions_pending_revocation, value.member_epoch),
    )


def _from_stored(stored: Collection[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Return partitions with their epochs; records before Kafka 4.2 say only the member's."""
    default = max(member_epoch, 0)
    return {
        topic.topic_id: dict(zip(topic.partitions, _epochs(topic, default), strict=True))
        for topic in stored
        if topic.partitions
    }


def _epochs(topic: TopicPartitions, default: int) -> Collection[int]:
    epochs = topic.assignment_epochs
    if epochs is None or len(epochs) != len(topic.partitions):
        return [default] * len(topic.partitions)
    return epochs


def _to_stored(partitions: PartitionEpochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic_id, epochs in sorted(partitions.items())
    ]
