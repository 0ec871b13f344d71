"""When a group needs another target assignment, and computing it.

Source: Kafka GroupMetadataManager.updateSubscriptionMetadata, maybeUpdateRegularExpressions,
maybeUpdateTargetAssignment; KIP-1263 (the least interval between two assignments).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.broker.cluster.group_configs import GroupConfigs
from tailrace.broker.coordinator.consumer.assignor import Assignor, GroupSpec, MemberSpec
from tailrace.broker.coordinator.consumer.changes import (
    put_epoch,
    put_regex,
    put_target,
    put_target_epoch,
)
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.range_assignor import assign_range
from tailrace.broker.coordinator.consumer.replayed import ResolvedRegex
from tailrace.broker.coordinator.consumer.topic_regex import matching
from tailrace.broker.coordinator.consumer.topics import KnownTopics, metadata_hash, topic_ids
from tailrace.broker.coordinator.consumer.uniform_assignor import assign_uniform
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.broker.replicated.effects import Now
from tailrace.protocol.kafka.messages.consumer_group_records import (
    ConsumerGroupPartitionMetadataKey,
)

_ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)

STALE_TOPICS_MAX: Final = 1_000
"""Changed topics that a group remembers by name; beyond it all are looked at again."""


class Surroundings(NamedTuple):
    """What a group acts in."""

    config: ConsumerGroupConfig
    times: GroupConfigs
    """Of this group."""
    topics: KnownTopics
    now: Now
    shows: Callable[[str], bool] | None = None
    """Returns whether the client may know of a topic; None: it may know of all."""


def note_topic(group: ConsumerGroup, topic: str) -> None:
    """Have a topic that was created, deleted or enlarged looked at with the next heartbeat."""
    if group.stale_topics is None or not (group.resolved or group.is_subscribed(topic)):
        return
    group.stale_topics.add(topic)
    if len(group.stale_topics) > STALE_TOPICS_MAX:
        group.stale_topics = None


def refresh(group: ConsumerGroup, around: Surroundings, *, must_bump: bool) -> None:
    """Look at expressions and topics that changed; raise the group epoch if that matters."""
    if not must_bump and group.stale_topics is not None and not group.stale_topics:
        return
    must_bump |= _refresh_regexes(group, around)
    group.stale_topics = set()
    new_hash = metadata_hash(group.subscribed_topics(), around.topics)
    if must_bump or new_hash != group.metadata_hash:
        put_epoch(group, group.epoch + 1, new_hash)
    if group.has_partition_metadata:
        group.put(ConsumerGroupPartitionMetadataKey(group_id=group.group_id), None)


def drop_unused_regexes(group: ConsumerGroup) -> None:
    """Forget what expressions came to that nobody subscribes by any more."""
    for regex in sorted(group.resolved.keys() - group.regex_counts.keys()):
        put_regex(group, regex, None)


def _refresh_regexes(group: ConsumerGroup, around: Surroundings) -> bool:
    """Resolve new expressions, and all of them over topics that changed; return if any changed."""
    has_changed = False
    for regex in sorted(group.regex_counts):
        known = group.resolved.get(regex)
        if known is None or group.stale_topics is None:
            topics = _matching(regex, (topic.name for topic in around.topics.all()), around)
        else:
            there = [name for name in group.stale_topics if around.topics.get(name) is not None]
            topics = known.topics.difference(group.stale_topics)
            topics |= _matching(regex, there, around)
        if known is None or topics != known.topics:
            wall_ms = around.now.wall_ms
            put_regex(group, regex, ResolvedRegex(topics, wall_ms, wall_ms))
            has_changed = True
    return has_changed


def _matching(regex: str, names: Iterable[str], around: Surroundings) -> frozenset[str]:
    """Return the topics that match, and that the member may know of whose request it is."""
    found = matching(regex, names)
    return found if around.shows is None else frozenset(filter(around.shows, found))


def update_target(group: ConsumerGroup, around: Surroundings) -> None:
    """Compute a target assignment for the group's epoch, unless the last one is too fresh."""
    if group.target_epoch >= group.epoch:
        return
    since_ms = around.now.wall_ms - group.target_time_ms
    if group.target_time_ms and 0 <= since_ms < around.times.assignment_interval_ms:
        return
    spec = group_spec(group, around.topics)
    targets = _ASSIGNORS[preferred_assignor(group, around.config)](spec)
    for member in spec.members:
        target = targets.get(member.member_id, {})
        if target != group.targets.get(member.member_id):
            put_target(group, member.member_id, target)
    put_target_epoch(group, group.epoch, around.now)


def group_spec(group: ConsumerGroup, topics: KnownTopics) -> GroupSpec:
    """Return the group as an assignor sees it."""
    ids_of = {
        names: topic_ids(names, topics)
        for names in {group.topics_of(member) for member in group.members.values()}
    }
    members = [
        MemberSpec(
            member_id,
            group.members[member_id].instance_id,
            ids_of[group.topics_of(group.members[member_id])],
            group.targets.get(member_id, {}),
        )
        for member_id in sorted(group.members)
    ]
    found = (topics.by_id(topic_id) for topic_id in sorted(frozenset().union(*ids_of.values())))
    counts = {topic.topic_id: topic.partition_count for topic in found if topic is not None}
    return GroupSpec(members, counts, _is_homogeneous(group))


def _is_homogeneous(group: ConsumerGroup) -> bool:
    """Return whether all subscribe alike. Source: ConsumerGroup.subscriptionType."""
    size = len(group.members)
    if not group.regex_counts:
        return all(count == size for count in group.name_counts.values())
    return list(group.regex_counts.values()) == [size] and not group.name_counts


def preferred_assignor(group: ConsumerGroup, config: ConsumerGroupConfig) -> str:
    """Return the assignor that most members ask for, the default if none does."""
    default = config.assignor_names[0]
    votes = Counter(member.assignor for member in group.members.values() if member.assignor)
    known = [name for name in votes if name in config.assignor_names]
    return min(known, key=lambda name: (-votes[name], name), default=default)
