"""Our server-side assignors give what Kafka 4.3.1's own give, partition by partition."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tailrace.broker.coordinator.consumer.assignor import (
    Assignor,
    GroupSpec,
    MemberSpec,
    Partitions,
)
from tailrace.broker.coordinator.consumer.range_assignor import assign_range
from tailrace.broker.coordinator.consumer.uniform_assignor import assign_uniform
from tests.java.peers import LinePeer

pytestmark = pytest.mark.java

GROUPS = 60
STEPS = 6
ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


class AssignorPeer(LinePeer):
    """One JVM with Kafka's assignors; see kafka/AssignorPeer.java."""

    def __init__(self) -> None:
        super().__init__("kafka", "AssignorPeer")

    def assign(self, name: str, spec: GroupSpec) -> dict[str, dict[int, list[int]]]:
        """Return what Kafka gives each member, by topic."""
        asked = {"id": 0, "assignor": name, **_as_json(spec)}
        answer = json.loads(self.line(json.dumps(asked)))
        assert "error" not in answer, answer
        return {
            member: {int(topic): numbers for topic, numbers in topics.items()}
            for member, topics in answer["members"].items()
        }


@pytest.fixture(scope="module")
def peer() -> Iterator[AssignorPeer]:
    peer = AssignorPeer()
    yield peer
    peer.close()


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("alike", [True, False], ids=["same topics", "mixed topics"])
def test_groups_that_change_are_assigned_as_kafka_does(
    peer: AssignorPeer, name: str, alike: bool
) -> None:
    for seed in range(GROUPS):
        random = Random(seed)
        group = RandomGroup(random, alike=alike)
        for _ in range(STEPS):
            group.change()
            spec = group.spec()
            ours = ASSIGNORS[name](spec)
            assert _by_number(ours) == _without_empty(peer.assign(name, spec)), (seed, spec)
            group.targets = ours


class RandomGroup:
    """Members and topics that come, go and grow."""

    def __init__(self, random: Random, *, alike: bool) -> None:
        self.random = random
        self.alike = alike
        self.counts = {n: random.randint(1, 12) for n in range(1, random.randint(2, 6))}
        self.members: dict[str, set[int]] = {}
        self.targets: dict[str, Partitions] = {}
        self.names = iter(range(1_000))

    def change(self) -> None:
        random = self.random
        grown = random.choice(list(self.counts))
        self.counts[grown] += random.choice([0, 0, 1, 5])
        if self.alike and random.random() < 0.3:
            topics = self._some_topics()
            self.members = dict.fromkeys(self.members, topics)
        for _ in range(random.choice([0, 1, 1, 2])):
            if len(self.members) > 1:
                self.members.pop(random.choice(sorted(self.members)))
        for _ in range(random.choice([0, 1, 1, 3]) or not self.members):
            shared = next(iter(self.members.values()), None) if self.alike else None
            self.members[self._name()] = shared or self._some_topics()
        if not self.alike:
            self.members[random.choice(sorted(self.members))] = self._some_topics()

    def _name(self) -> str:
        return f"{self.random.choice('abc')}{next(self.names)}"

    def _some_topics(self) -> set[int]:
        return set(self.random.sample(list(self.counts), self.random.randint(1, len(self.counts))))

    def spec(self) -> GroupSpec:
        members = [
            MemberSpec(
                member_id,
                f"i{member_id[1:]}" if member_id[0] == "a" else None,
                frozenset(map(_topic_id, self.members[member_id])),
                self.targets.get(member_id, {}),
            )
            for member_id in sorted(self.members)
        ]
        read = sorted(frozenset().union(*self.members.values()))
        counts = {_topic_id(number): self.counts[number] for number in read}
        return GroupSpec(members, counts, self.alike)


def _topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def _by_number(targets: dict[str, Partitions]) -> dict[str, dict[int, list[int]]]:
    return _without_empty(
        {
            member: {int.from_bytes(t, "big"): sorted(n) for t, n in topics.items()}
            for member, topics in targets.items()
        }
    )


def _without_empty(targets: dict[str, dict[int, list[int]]]) -> dict[str, dict[int, list[int]]]:
    return {
        member: {topic: numbers for topic, numbers in topics.items() if numbers}
        for member, topics in targets.items()
    }


def _as_json(spec: GroupSpec) -> dict[str, Any]:
    return {
        "homogeneous": spec.is_homogeneous,
        "topics": {int.from_bytes(t, "big"): count for t, count in spec.partition_counts.items()},
        "members": [
            {
                "id": member.member_id,
                "instance": member.instance_id,
                "topics": [int.from_bytes(t, "big") for t in sorted(member.topic_ids)],
                "target": {
                    int.from_bytes(t, "big"): sorted(numbers)
                    for t, numbers in member.target.items()
                },
            }
            for member in spec.members
        ],
    }
