"""What an assignor is asked and what it answers, as plain values.

A topic is its id, 16 bytes; members and topics come sorted, so that every broker, and every replay,
computes the same. Source: Kafka ConsumerGroupPartitionAssignor, GroupSpec.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

TopicId: TypeAlias = bytes

Partitions: TypeAlias = Mapping[TopicId, frozenset[int]]
"""Partitions by topic; a topic without any is left out."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[TopicId]
    """What it subscribes to, as far as it exists."""
    target: Partitions
    """What it was to have until now."""


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    members: Sequence[MemberSpec]
    """At least one; sorted by member id."""
    partition_counts: Mapping[TopicId, int]
    """Of every topic that any member subscribes to; ids in rising order."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor: TypeAlias = Callable[[GroupSpec], dict[str, Partitions]]
"""Returns what each member is to have; a member may be left out if that is nothing."""
