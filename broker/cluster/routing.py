"""Which broker owns a partition: the same answer everywhere, without a controller. Pure.

A partition belongs to the first live broker of its preference list (`assignments` of its topic).
One without a list, or with nobody of it alive, goes to a broker by rendezvous hashing: of those
that are there, the one with the highest weight for this partition that has not its share of the
topic yet. So a topic is spread evenly; a broker that comes or goes moves its own, and up to a tenth
of the others' to keep the shares equal.
What is computed here is a hint; the log's lock and fencing decide (ARCHITECTURE D9).
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

Assignments = Mapping[int, Sequence[int]]
"""Preference lists: brokers by partition, the preferred one first; those without have none."""

Racks = Mapping[str, Sequence[int]]
"""Live brokers by rack; no rack is empty."""


class Replicas(NamedTuple):
    """A partition's brokers as clients see them."""

    all: tuple[int, ...]
    live: tuple[int, ...]


def owners_of(
    topic_id: bytes, count: int, assignments: Assignments, live: Sequence[int]
) -> tuple[int, ...]:
    """Return the owner of each of a topic's `count` partitions; nothing while nobody is alive.

    Assignments do not count for the shares: to move one partition never moves another.
    Cost: 1.5 us for each partition and broker; nothing to speak of with one broker.
    """
    if not live:
        return ()
    spread = _spread(topic_id, count, live) if len(live) > 1 else [live[0]] * count
    for partition, preferred in assignments.items():
        if partition < count:
            first = next((each for each in preferred if each in live), spread[partition])
            spread[partition] = first
    return tuple(spread)


def replicas_of(owner: int, preferred: Sequence[int], live: Sequence[int]) -> Replicas:
    """Return what Metadata shows for a partition: its preference list, or its owner alone.

    The owner is always among them, also when nobody of the list is alive.
    """
    shown = tuple(preferred) if owner in preferred else (*preferred, owner)
    return Replicas(shown, tuple(each for each in shown if each in live))


def readers_of(
    topic_id: bytes, partition: int, preferred: Sequence[int], racks: Racks
) -> dict[str, int]:
    """Return the broker of each rack that reads a partition for the consumers there.

    `preferred`: the partition's preference list; the first of it in a rack reads. Else the one with
    the highest weight, so that the partitions of a topic are spread over the brokers of a rack.
    Cost: 1.5 us for each broker with a rack.
    """
    readers = {}
    for rack, brokers in racks.items():
        listed = [each for each in preferred if each in brokers]
        by_weight = max(brokers, key=lambda broker: (_weight(topic_id, partition, broker), broker))
        readers[rack] = listed[0] if listed else by_weight
    return readers


def _spread(topic_id: bytes, count: int, live: Sequence[int]) -> list[int]:
    """Share out the partitions in turn: nobody gets more than one more than another."""
    share, left_over = divmod(count, len(live))
    taken = dict.fromkeys(live, 0)
    owners = []
    for partition in range(count):
        owner = max(
            (each for each in live if taken[each] < share + (left_over > 0)),
            key=lambda broker: (_weight(topic_id, partition, broker), broker),
        )
        left_over -= taken[owner] == share
        taken[owner] += 1
        owners.append(owner)
    return owners


def _weight(topic_id: bytes, partition: int, broker: int) -> int:
    """All brokers of a cluster must agree on this: a change is one of the stored format."""
    key = topic_id + partition.to_bytes(4, "big") + broker.to_bytes(4, "big")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
