"""Streams of a namespace that are partitions of Kafka's topics: thin clients write none of them.

A partition's records are batches with offsets that its broker gives; a record of another kind among
them would be damage. So a proxy asks whether there is a topic that a stream is of: when a request
for it comes, and again once it has the stream's lock, before it writes or deletes anything. A topic
whose stream is there already is not made: `broker/cluster/topic_claims.py`. Either the topic's node
is there before the proxy asks, or the stream is there before the broker does.
"""

from typing import Final, NamedTuple

from tailrace.broker.cluster.names import INTERNAL_TOPICS, partition_of
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.topic_codec import decode_topic
from tailrace.core.errors import Unavailable
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock

KEPT_S: Final = 10.0
"""How long it is remembered that there is a topic, and how many partitions it has."""
KEPT_MAX: Final = 10_000


def log_of(stream: str) -> str:
    """Return the log that a reader's name means: `TOPIC-PARTITION` is that partition's.

    They differ where the topic's name begins with a dot, as no log's may.
    """
    escaped = f"%2E{stream[1:]}"
    return escaped if stream.startswith(".") and partition_of(escaped) else stream


class TopicStreams:
    """Knows which streams are partitions'. All calls come from the loop."""

    def __init__(
        self, store: MetadataStore, paths: ClusterPaths, logs: LogNamespace, clock: Clock
    ) -> None:
        """`paths`: of the Kafka cluster whose logs lie in the same namespace, `logs`."""
        self._store = store
        self._paths = paths
        self._logs = logs
        self._clock = clock
        self._kept: dict[str, _Topic] = {}
        """Topics that were there; those that go first come first."""

    async def reason(self, stream: str) -> str | None:
        """Return why no thin client may write a stream (ReservedStream).

        A stream behind a topic's last partition, where it may grow to, is not to be made, but one
        that is older than the topic stays its writers'.
        Errors: Unavailable, also while it is checked whether a topic may have the stream;
        CorruptData for a damaged topic. Cost: none for names that no partition has; else a read of
        the metadata store, in ten seconds one for each topic, and some for each request for a
        stream behind its last partition.
        """
        partition = partition_of(stream)
        if partition is None:
            return None
        topic, number = partition
        if topic not in INTERNAL_TOPICS:
            count = await self._partitions(topic, number)
            if count is None or (number >= count and await self._logs.log_exists(stream)):
                return None
        return f"{stream!r} is the name of a partition of {topic!r}: Kafka's clients write it"

    async def topic_of(self, stream: str) -> str:
        """Return the name by which a stream is authorized: its topic's, or its own without one.

        Errors: Unavailable, CorruptData, as `reason`. Cost: as `reason`.
        """
        stream = stream.removeprefix("/")  # readers may write it: it is the same log
        partition = partition_of(log_of(stream))
        if partition is None:
            return stream
        topic, number = partition
        if topic in INTERNAL_TOPICS:
            return topic
        count = await self._partitions(topic, number)
        if count is None or number >= count:  # a stream that is older than the topic, or none
            return stream
        return topic

    async def _partitions(self, topic: str, number: int) -> int | None:
        """Return how many partitions the topic has; None: the topic does not exist.

        Errors: Unavailable while it is open whether it has this one; CoreError.
        """
        now_s = self._clock.monotonic_s()
        kept = self._kept.get(topic)
        if kept is not None and kept.until_s > now_s and number < kept.partitions:
            return kept.partitions
        node = await self._store.exists(self._paths.topic(topic))
        if node is None:
            return None
        stored = decode_topic(topic, node.data)
        count = stored.ready if stored.state == "claiming" else stored.partitions
        if count <= number < stored.partitions:
            raise Unavailable(f"the topic {topic!r} is being made: ask again")
        self._keep(topic, _Topic(count, now_s + KEPT_S), now_s)
        return count

    def _keep(self, name: str, topic: "_Topic", now_s: float) -> None:
        self._kept.pop(name, None)
        self._kept[name] = topic
        while len(self._kept) > KEPT_MAX or next(iter(self._kept.values())).until_s <= now_s:
            del self._kept[next(iter(self._kept))]


class _Topic(NamedTuple):
    partitions: int
    until_s: float
