"""The `range` assignor: of each topic, every member gets one run of neighbouring partitions.

The same members get the same runs of topics with equally many partitions, so such topics can be
joined partition by partition. Static members come first, by instance id. Not sticky by itself: it
is as long as nobody comes or goes.
Source: Kafka RangeAssignor.
"""

from tailrace.broker.coordinator.consumer.assignor import GroupSpec, MemberSpec, Partitions, TopicId


def assign_range(spec: GroupSpec) -> dict[str, Partitions]:
    """Return the target of each member. Cost: members x topics + partitions."""
    members = sorted(spec.members, key=_order)
    runs = {
        topic_id: _runs(count, sum(topic_id in member.topic_ids for member in members))
        for topic_id, count in spec.partition_counts.items()
    }
    return {member.member_id: _next_runs(member, runs) for member in members}


def _order(member: MemberSpec) -> tuple[bool, str]:
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member.member_id


def _runs(count: int, subscribers: int) -> list[range]:
    """Cut a topic into one run for each subscriber, the longer ones first; in reverse order."""
    if not subscribers:
        return []
    quota, longer = divmod(count, subscribers)
    runs = []
    start = 0
    for index in range(subscribers):
        stop = start + quota + (index < longer)
        runs.append(range(start, stop))
        start = stop
    return runs[::-1]


def _next_runs(member: MemberSpec, runs: dict[TopicId, list[range]]) -> Partitions:
    taken = {topic_id: runs[topic_id].pop() for topic_id in sorted(member.topic_ids)}
    return {topic_id: frozenset(run) for topic_id, run in taken.items() if run}
