"""Committed offsets: what is stored, and when it lapses.

Offsets become visible when their records are confirmed, not before: a reader never sees a commit
that a crash could take back.
Source: Kafka OffsetMetadataManager; KIP-211 (expiry).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tailrace.broker.coordinator.kinds import Group
from tailrace.broker.coordinator.records import CommittedOffset, OffsetName, OffsetUpdate
from tailrace.broker.replicated.effects import Now

_NOTHING: Mapping[str, Mapping[int, CommittedOffset]] = MappingProxyType({})


class OffsetStore:
    """Committed offsets by group, topic and partition."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return everything that a group committed, by topic and partition."""
        return self._groups.get(group_id, _NOTHING)

    def names(self, group_id: str) -> list[OffsetName]:
        """Return what a group has committed."""
        return [
            OffsetName(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def of_topic(self, topic: str) -> list[OffsetName]:
        """Return what all groups have committed for a topic."""
        return [
            OffsetName(group_id, topic, partition)
            for group_id, topics in self._groups.items()
            for partition in topics.get(topic, ())
        ]

    def apply(self, update: OffsetUpdate) -> None:
        """Store or delete one offset; what becomes empty goes."""
        if update.committed is not None:
            topics = self._groups.setdefault(update.group_id, {})
            topics.setdefault(update.topic, {})[update.partition] = update.committed
            return
        topics = self._groups.get(update.group_id, {})
        partitions = topics.get(update.topic, {})
        partitions.pop(update.partition, None)
        if not partitions:
            topics.pop(update.topic, None)
        if not topics:
            self._groups.pop(update.group_id, None)


def expired_offsets(
    group: Group, store: OffsetStore, retention_ms: int, now: Now
) -> list[OffsetName]:
    """Return the offsets of a group that have lapsed, and that nobody reads.

    Source: OffsetMetadataManager.cleanupExpiredOffsets, OffsetExpirationConditionImpl.
    """
    return [
        OffsetName(group.group_id, topic, partition)
        for topic, partitions in store.of_group(group.group_id).items()
        if not group.is_subscribed(topic)
        for partition, committed in partitions.items()
        if _has_lapsed(committed, group, retention_ms, now)
    ]


def _has_lapsed(committed: CommittedOffset, group: Group, retention_ms: int, now: Now) -> bool:
    since_ms = group.lapsing_since_ms(committed.commit_timestamp_ms)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms >= 0:
        return now.wall_ms >= committed.expire_timestamp_ms
    return now.wall_ms - since_ms >= retention_ms
