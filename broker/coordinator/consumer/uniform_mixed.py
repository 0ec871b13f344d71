"""The `uniform` assignor for members that subscribe to different topics.

First everybody keeps what it had; then free partitions go to the least loaded subscriber, topics
with the most partitions for a subscriber first; then, topic by topic, partitions move from the most
to the least loaded subscriber until no topic has anything left to move. A topic cannot always be
levelled at once, because its subscribers' loads come from other topics too: hence rounds, which
are bounded. Source: Kafka UniformHeterogeneousAssignmentBuilder; results are held equal to Java's.
"""

from heapq import heapreplace
from struct import Struct

from tailrace.broker.coordinator.consumer.assignor import GroupSpec, Partitions, TopicId

ROUNDS_MAX = 16
NOBODY = -1

_ID = Struct(">qq")  # Kafka compares the two halves of a UUID as signed numbers


def assign_mixed(spec: GroupSpec) -> dict[str, Partitions]:
    """Return the target of each member. Cost: rounds x (members and partitions of each topic)."""
    work = _MixedTopics(spec)
    work.keep()
    work.hand_out()
    work.balance()
    return work.targets()


class _MixedTopics:
    """One computation: the owner of each partition and the load of each member, by member index."""

    def __init__(self, spec: GroupSpec) -> None:
        self.members = spec.members
        self.counts = spec.partition_counts
        self.subscribers: dict[TopicId, list[int]] = {}
        for index, member in enumerate(spec.members):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
        self.topics = sorted(self.subscribers, key=self._rank)
        self.owners = {topic_id: [NOBODY] * self.counts[topic_id] for topic_id in self.topics}
        self.loads = [0] * len(spec.members)

    def _rank(self, topic_id: TopicId) -> tuple[float, int, tuple[int, ...]]:
        subscribers = len(self.subscribers[topic_id])
        return -self.counts[topic_id] / subscribers, subscribers, _ID.unpack(topic_id)

    def keep(self) -> None:
        """Leave everybody what it had and still subscribes to."""
        for index, member in enumerate(self.members):
            for topic_id in member.topic_ids & member.target.keys():
                for partition in member.target[topic_id]:
                    self.owners[topic_id][partition] = index
                    self.loads[index] += 1

    def hand_out(self) -> None:
        """Give every free partition to the subscriber that has the least."""
        for topic_id in self.topics:
            owners = self.owners[topic_id]
            by_load = sorted(
                self.subscribers[topic_id], key=lambda index: (self.loads[index], index)
            )
            heap = [(self.loads[index], place, index) for place, index in enumerate(by_load)]
            for partition, owner in enumerate(owners):
                if owner == NOBODY:
                    load, place, index = heap[0]
                    owners[partition] = index
                    self.loads[index] = load + 1
                    heapreplace(heap, (load + 1, place, index))

    def balance(self) -> None:
        """Level one topic after the other until a whole round moved nothing."""
        shared = [topic_id for topic_id in self.topics if len(self.subscribers[topic_id]) > 1]
        last_moved = None
        for _ in range(ROUNDS_MAX):
            for topic_id in shared:
                if topic_id == last_moved:
                    return
                if self._level(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _level(self, topic_id: TopicId) -> int:
        """Move partitions of one topic from the fullest to the emptiest; return how many."""
        levels = _Levels(self.loads, self.subscribers[topic_id])
        if levels.imbalance <= 1:
            return 0
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not levels.are_level():
            giver = levels.next_fullest(owned)
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = levels.next_emptiest()
            if levels.are_level():
                break
            owners[partition] = taker
            self.loads[giver] -= 1
            self.loads[taker] += 1
            moved += 1
        return moved

    def targets(self) -> dict[str, Partitions]:
        """Return the result by member."""
        found: list[dict[TopicId, list[int]]] = [{} for _ in self.members]
        for topic_id in sorted(self.topics):
            for partition, owner in enumerate(self.owners[topic_id]):
                found[owner].setdefault(topic_id, []).append(partition)
        return {
            member.member_id: {topic_id: frozenset(mine) for topic_id, mine in topics.items()}
            for member, topics in zip(self.members, found, strict=True)
        }


class _Levels:
    """Subscribers of one topic in a row by load: a low tide rises over it, a high tide falls.

    Those within a tide have the same load; each is asked once before the tide moves on by one.
    """

    def __init__(self, loads: list[int], subscribers: list[int]) -> None:
        self.loads = loads
        self.row = sorted(subscribers, key=lambda index: (loads[index], index))
        self.low = loads[self.row[0]] - 1
        self.high = loads[self.row[-1]] + 1
        self.imbalance = loads[self.row[-1]] - loads[self.row[0]]
        self._low_end = 0
        self._low_at = 0
        self._high_start = self._high_end = len(self.row)
        self._high_at = len(self.row) - 1

    def are_level(self) -> bool:
        """Whether nothing more can be gained."""
        return self.high - self.low <= 1

    def next_emptiest(self) -> int:
        """Return the next one that may have more."""
        if self._low_at >= self._low_end:
            self.low += 1
            while self._low_end < len(self.row) and self._load(self._low_end) == self.low:
                self._low_end += 1
            self._low_at = 0
        self._low_at += 1
        return self.row[self._low_at - 1]

    def next_fullest(self, owned: dict[int, list[int]]) -> int | None:
        """Return the next one that can give a partition of this topic, None if nobody can."""
        while (index := self._next_high()) is not None:
            if owned.get(index):
                return index
            self._leave_out(self._high_at + 1)
        return None

    def _next_high(self) -> int | None:
        if self._high_at < self._high_start:
            self._fall()
        if self._high_at < 0:
            return None
        self._high_at -= 1
        return self.row[self._high_at + 1]

    def _fall(self) -> None:
        is_empty = self._high_end <= self._high_start
        if is_empty and self._high_start > 0:
            self.high = self._load(self._high_start - 1)
        else:
            self.high -= 1
        while self._high_start > 0 and self._load(self._high_start - 1) == self.high:
            self._high_start -= 1
        self._high_at = self._high_end - 1

    def _leave_out(self, place: int) -> None:
        """Never ask the one at `place` again; it keeps what it has of other topics."""
        last = self._high_end - 1
        self.row[place], self.row[last] = self.row[last], self.row[place]
        self._high_end = last

    def _load(self, place: int) -> int:
        return self.loads[self.row[place]]
