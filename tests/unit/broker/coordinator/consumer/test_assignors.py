"""Properties of the server-side assignors; tests/java holds them equal to Kafka's own."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.coordinator.consumer.assignor import (
    Assignor,
    GroupSpec,
    MemberSpec,
    Partitions,
    TopicId,
)
from tailrace.broker.coordinator.consumer.range_assignor import assign_range
from tailrace.broker.coordinator.consumer.uniform_assignor import assign_uniform

TOPICS = [bytes([0] * 15 + [number]) for number in range(1, 5)]
COUNTS = st.fixed_dictionaries({topic: st.integers(0, 12) for topic in TOPICS})
SUBSCRIPTION = st.frozensets(st.sampled_from(TOPICS), min_size=1)
MEMBERS = st.dictionaries(st.integers(0, 20), SUBSCRIPTION, min_size=1, max_size=8)
ASSIGNORS = pytest.mark.parametrize("assign", [assign_uniform, assign_range])
some = settings(max_examples=60)


def spec(
    members: dict[int, frozenset[TopicId]],
    counts: dict[TopicId, int],
    targets: dict[str, Partitions] | None = None,
) -> GroupSpec:
    made = [
        MemberSpec(f"m{n:02}", None, topics, (targets or {}).get(f"m{n:02}", {}))
        for n, topics in sorted(members.items())
    ]
    read = frozenset().union(*members.values())
    return GroupSpec(made, {t: counts[t] for t in sorted(read)}, len(set(members.values())) == 1)


def pairs(targets: dict[str, Partitions]) -> Counter[tuple[TopicId, int]]:
    return Counter(
        (topic, partition)
        for topics in targets.values()
        for topic, partitions in topics.items()
        for partition in partitions
    )


def sizes(targets: dict[str, Partitions], group: GroupSpec) -> list[int]:
    return [sum(map(len, targets.get(member.member_id, {}).values())) for member in group.members]


@ASSIGNORS
@some
@given(members=MEMBERS, before=MEMBERS, counts=COUNTS)
def test_every_partition_has_one_owner_who_reads_it(
    assign: Assignor,
    members: dict[int, frozenset[TopicId]],
    before: dict[int, frozenset[TopicId]],
    counts: dict[TopicId, int],
) -> None:
    group = spec(members, counts, assign(spec(before, counts)))
    targets = assign(group)
    assert pairs(targets) == Counter(
        (topic, partition)
        for topic, count in group.partition_counts.items()
        for partition in range(count)
    )
    for member in group.members:
        assert targets.get(member.member_id, {}).keys() <= member.topic_ids


@some
@given(size=st.integers(1, 9), before=st.integers(1, 9), counts=COUNTS)
def test_uniform_is_level_and_moves_no_more_than_it_must(
    size: int, before: int, counts: dict[TopicId, int]
) -> None:
    everything = frozenset(TOPICS)
    had = assign_uniform(spec(dict.fromkeys(range(before), everything), counts))
    group = spec(dict.fromkeys(range(size), everything), counts, had)
    targets = assign_uniform(group)
    found = sizes(targets, group)
    assert max(found) - min(found) <= 1
    kept = sum(
        len(targets[name].get(topic, frozenset()) & partitions)
        for name, topics in had.items()
        if name in targets
        for topic, partitions in topics.items()
    )
    assert kept == sum(map(min, sizes(had, group), _largest(found, sizes(had, group))))


def _largest(found: list[int], had: list[int]) -> list[int]:
    """Give the larger shares to those that had most: the most that can be kept."""
    order = sorted(range(len(found)), key=lambda index: -had[index])
    shares = sorted(found, reverse=True)
    by_member = dict(zip(order, shares, strict=True))
    return [by_member[index] for index in range(len(found))]


@some
@given(members=MEMBERS, counts=COUNTS)
def test_nothing_moves_when_nothing_changed(
    members: dict[int, frozenset[TopicId]], counts: dict[TopicId, int]
) -> None:
    first = assign_uniform(spec(members, counts))
    again = assign_uniform(spec(members, counts, first))
    assert pairs(first) == pairs(again)
    group = spec(members, counts, first)
    assert sizes(again, group) == sizes(first, group)


@some
@given(members=MEMBERS, counts=COUNTS)
def test_range_gives_runs_that_differ_by_one(
    members: dict[int, frozenset[TopicId]], counts: dict[TopicId, int]
) -> None:
    group = spec(members, counts)
    targets = assign_range(group)
    for topic in group.partition_counts:
        runs = [
            sorted(targets[member.member_id].get(topic, ()))
            for member in group.members
            if topic in member.topic_ids
        ]
        assert [p for run in runs for p in run] == list(range(counts[topic]))
        assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_topics_of_equal_size_are_cut_alike() -> None:
    group = spec(dict.fromkeys(range(3), frozenset(TOPICS[:2])), dict.fromkeys(TOPICS, 7))
    targets = assign_range(group)
    assert all(len(set(topics.values())) == 1 for topics in targets.values())


def test_static_members_come_first_by_instance_id() -> None:
    topics = frozenset(TOPICS[:1])
    members = [
        MemberSpec("a", None, topics, {}),
        MemberSpec("b", "2", topics, {}),
        MemberSpec("c", "1", topics, {}),
    ]
    targets = assign_range(GroupSpec(members, {TOPICS[0]: 3}, is_homogeneous=True))
    assert [targets[name][TOPICS[0]] for name in "cba"] == [{0}, {1}, {2}]
