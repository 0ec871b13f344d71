"""What groups need to know of the topics there are.

Source: Kafka CoordinatorMetadataImage; KIP-1101 (one hash over the topics of a group).
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Protocol

from tailrace.broker.coordinator.consumer.assignor import Partitions, TopicId
from tailrace.protocol.kafka.messages.consumer_protocol import TopicPartition


class KnownTopic(Protocol):
    """A topic that can be used; `broker.cluster.topics.Topic` is one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def topic_id(self) -> TopicId:
        """Its id: another topic of the same name has another."""

    @property
    def partition_count(self) -> int:
        """How many partitions it has."""


class KnownTopics(Protocol):
    """All topics; `broker.cluster.TopicRegistry` is one. Every call shows the state of now."""

    def get(self, name: str) -> KnownTopic | None:
        """Return a topic by name."""

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        """Return a topic by its id."""

    def all(self) -> Sequence[KnownTopic]:
        """Return all topics."""


def topic_ids(names: Iterable[str], topics: KnownTopics) -> frozenset[TopicId]:
    """Return the ids of those topics that exist."""
    found = (topics.get(name) for name in names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def metadata_hash(names: Iterable[str], topics: KnownTopics) -> int:
    """Return a number that changes when one of the topics does; 0 if none exists.

    Signed, 64 bits. Kafka's is an XXH3 of the same facts; only equality with the last one counts,
    so a Kafka that took over these records would rebalance the group once.
    """
    facts = blake2b(digest_size=8)
    some = False
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            some = True
            facts.update(topic.topic_id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(facts.digest(), "big", signed=True) if some else 0


def by_topic_id(owned: Iterable[TopicPartition], topics: KnownTopics) -> dict[TopicId, list[int]]:
    """Return named partitions by topic id; topics that are gone are left out."""
    found: dict[TopicId, list[int]] = {}
    for each in owned:
        topic = topics.get(each.topic)
        if topic is not None:
            found[topic.topic_id] = list(each.partitions)
    return found


def by_topic_name(partitions: Partitions, topics: KnownTopics) -> list[TopicPartition]:
    """Return partitions by topic name, in order; topics that are gone are left out."""
    found = ((topics.by_id(topic_id), numbers) for topic_id, numbers in partitions.items())
    named = {topic.name: sorted(numbers) for topic, numbers in found if topic is not None}
    return [TopicPartition(topic=name, partitions=named[name]) for name in sorted(named)]
