"""The `uniform` assignor: everybody gets as many partitions as anybody, and keeps what it can.

Counts of two members differ by one at most if all subscribe to the same topics; otherwise as little
as the subscriptions allow (see uniform_mixed.py). Source: Kafka UniformAssignor,
UniformHomogeneousAssignmentBuilder.
"""

from tailrace.broker.coordinator.consumer.assignor import GroupSpec, MemberSpec, Partitions, TopicId
from tailrace.broker.coordinator.consumer.uniform_mixed import assign_mixed


def assign_uniform(spec: GroupSpec) -> dict[str, Partitions]:
    """Return the target of each member. Cost: members + partitions, sorted."""
    return _SameTopics(spec).assign() if spec.is_homogeneous else assign_mixed(spec)


class _SameTopics:
    """One computation for a group whose members all subscribe to the same topics."""

    def __init__(self, spec: GroupSpec) -> None:
        self.members = spec.members
        self.counts = {
            topic_id: spec.partition_counts[topic_id]
            for topic_id in sorted(spec.members[0].topic_ids)
        }
        total = sum(self.counts.values())
        self.quota, self.extra_left = divmod(total, len(spec.members))
        self.free = self._unassigned()
        self.targets: dict[str, dict[TopicId, frozenset[int]]] = {}
        self.wanting: list[tuple[str, int]] = []
        """Members that may have more, and how many."""

    def assign(self) -> dict[str, Partitions]:
        for index, member in enumerate(self.members):
            self._keep(member, len(self.members) - index)
        self._hand_out()
        return dict(self.targets)

    def _unassigned(self) -> list[tuple[TopicId, int]]:
        assigned: dict[TopicId, set[int]] = {topic_id: set() for topic_id in self.counts}
        for member in self.members:
            for topic_id, partitions in member.target.items():
                if topic_id in assigned:
                    assigned[topic_id] |= partitions
        return [
            (topic_id, partition)
            for topic_id, count in self.counts.items()
            for partition in range(count)
            if partition not in assigned[topic_id]
        ]

    def _keep(self, member: MemberSpec, members_left: int) -> None:
        """Let a member keep what its quota allows, and note what it may still have."""
        takes_extra = self.extra_left > 0
        quota = self.quota + takes_extra
        kept: dict[TopicId, frozenset[int]] = {}
        for topic_id in sorted(member.target):
            if topic_id not in self.counts:
                continue
            ordered = sorted(member.target[topic_id])
            if quota:
                kept[topic_id] = frozenset(ordered[:quota])
            self.free += [(topic_id, partition) for partition in ordered[quota:]]
            quota -= min(quota, len(ordered))
        if quota and takes_extra and members_left > self.extra_left:
            quota -= 1  # a later member that has one more than its share may keep it
            takes_extra = False
        self.extra_left -= takes_extra
        self.targets[member.member_id] = kept
        if quota:
            self.wanting.append((member.member_id, quota))

    def _hand_out(self) -> None:
        free = iter(self.free)
        for member_id, quota in self.wanting:
            more: dict[TopicId, list[int]] = {}
            for _, (topic_id, partition) in zip(range(quota), free, strict=False):
                more.setdefault(topic_id, []).append(partition)
            target = self.targets[member_id]
            for topic_id, partitions in more.items():
                target[topic_id] = target.get(topic_id, frozenset()).union(partitions)
