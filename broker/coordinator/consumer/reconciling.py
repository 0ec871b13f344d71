"""How a member moves from what it has to what it is to have: first let go, then get.

A partition is given to a member only when nobody else has it, and counts as had until its owner
said that it let go. So no partition has two owners, whatever answers are lost on the way.

A member's word counts, as in Kafka: Java's client says that it owns nothing while it looks up the
names of the topics that it was given, and takes those all the same. What it is asked to give back
just then has two readers, until it reconciles once more. To wait for such a member would be no
better: it need not say again what it has said, and would be put out.
Source: Kafka CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tailrace.broker.coordinator.consumer.assignor import Partitions, TopicId
from tailrace.broker.coordinator.consumer.member import (
    ConsumerMember,
    MemberState,
    Owned,
    PartitionEpochs,
)
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode


class Target(NamedTuple):
    """Where a member is to go."""

    epoch: int
    partitions: Partitions
    topic_ids: frozenset[TopicId]
    """What it subscribes to by now; the target may be older than that."""
    is_owned_by_other: Callable[[str, TopicId, int], bool]
    """Whether somebody other than the member still has a partition."""


@dataclass(slots=True)
class _Split:
    """What a member has and is to have, sorted out."""

    kept: dict[TopicId, dict[int, int]] = field(default_factory=dict)
    surplus: dict[TopicId, dict[int, int]] = field(default_factory=dict)
    free: dict[TopicId, list[int]] = field(default_factory=dict)
    """What it can have at once."""
    is_waiting: bool = False
    """Whether somebody else still has something of it."""


def reconcile(
    member: ConsumerMember, target: Target, owned: Owned | None, *, has_new_topics: bool
) -> ConsumerMember:
    """Return the member one step nearer to the target, or as it is if it must act first.

    `owned`: what it said it owns; None if it said nothing. `has_new_topics`: its subscription has
    just changed. Errors: KafkaError FENCED_MEMBER_EPOCH for a state that a newer release wrote.
    """
    if member.state is MemberState.UNKNOWN:
        if owned is None or any(owned.values()):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all "
                "its partitions and rejoin.",
            )
        return _next(replace(member, epoch=target.epoch), target, owned)
    is_held_up = member.state is MemberState.UNREVOKED_PARTITIONS and _has_any(
        owned, member.revoking
    )
    if member.is_reconciled_to(target.epoch) or is_held_up:
        return _without_unsubscribed(member, target, owned) if has_new_topics else member
    return _next(member, target, owned)


def _next(member: ConsumerMember, target: Target, owned: Owned | None) -> ConsumerMember:
    split = _split(member, target)
    if split.surplus and _has_any(owned, split.surplus):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=split.kept,
            revoking=split.surplus,
        )
    for topic_id, partitions in split.free.items():
        given = split.kept.setdefault(topic_id, {})
        given.update(dict.fromkeys(partitions, target.epoch))
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if split.is_waiting else MemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=target.epoch,
        assigned=split.kept,
        revoking={},
    )


def _split(member: ConsumerMember, target: Target) -> _Split:
    split = _Split()
    for topic_id in sorted(target.partitions.keys() | member.assigned.keys()):
        wanted = target.partitions.get(topic_id, frozenset())
        if topic_id not in target.topic_ids:
            wanted = frozenset()
        has = member.assigned.get(topic_id, {})
        kept = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        surplus = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        missing = sorted(wanted - has.keys())
        free = [
            partition
            for partition in missing
            if not target.is_owned_by_other(member.member_id, topic_id, partition)
        ]
        split.is_waiting |= len(free) < len(missing)
        for found, place in ((kept, split.kept), (surplus, split.surplus)):
            if found:
                place[topic_id] = found
        if free:
            split.free[topic_id] = free
    return split


def _without_unsubscribed(
    member: ConsumerMember, target: Target, owned: Owned | None
) -> ConsumerMember:
    """Take away what the member does not subscribe to any more, before there is a new target."""
    kept = {t: epochs for t, epochs in member.assigned.items() if t in target.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    revoking = {topic_id: dict(epochs) for topic_id, epochs in member.revoking.items()}
    for topic_id in member.assigned.keys() - kept.keys():
        revoking.setdefault(topic_id, {}).update(member.assigned[topic_id])
    changed = replace(member, previous_epoch=member.epoch, assigned=kept)
    if _has_any(owned, revoking):
        return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return changed


def _has_any(owned: Owned | None, partitions: PartitionEpochs) -> bool:
    """Return whether a member still owns any of these; one that does not say may."""
    if owned is None:
        return True
    return any(
        not partitions.get(topic_id, {}).keys().isdisjoint(held) for topic_id, held in owned.items()
    )
