"""Streams of a namespace that are partitions of Kafka's topics: thin clients write none of them.

A partition's records are batches with offsets that its broker gives; a record of another kind among
them would be damage. So a proxy asks, before it claims a stream, whether there is a topic that the
stream is of. A topic that is made later, over a stream that a proxy owns, is not prevented.
"""

from typing import Final

from tailrace.broker.cluster.names import INTERNAL_TOPICS, topic_of
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock

KEPT_S: Final = 10.0
"""How long it is remembered that there is a topic."""
KEPT_MAX: Final = 10_000


def log_of(stream: str) -> str:
    """Return the log that a reader's name means: `TOPIC-PARTITION` is that partition's.

    They differ where the topic's name begins with a dot, as no log's may.
    """
    escaped = f"%2E{stream[1:]}"
    return escaped if stream.startswith(".") and topic_of(escaped) else stream


class TopicStreams:
    """Knows which streams are partitions'. All calls come from the loop."""

    def __init__(self, store: MetadataStore, paths: ClusterPaths, clock: Clock) -> None:
        """`paths`: of the Kafka cluster whose logs lie in the same namespace."""
        self._store = store
        self._paths = paths
        self._clock = clock
        self._kept: dict[str, float] = {}
        """Topics that were there, until when; those that go first come first."""

    async def reason(self, stream: str) -> str | None:
        """Return why no thin client may write a stream (ReservedStream).

        Errors: Unavailable. Cost: none for names that no partition has; else a read of the metadata
        store, in ten seconds one for each topic.
        """
        topic = topic_of(stream)
        if topic is None:
            return None
        if topic not in INTERNAL_TOPICS and not self._is_kept(topic):
            if await self._store.exists(self._paths.topic(topic)) is None:
                return None
            self._keep(topic)
        return f"{stream!r} is a partition of the topic {topic!r}: Kafka's clients write it"

    def _is_kept(self, topic: str) -> bool:
        return self._kept.get(topic, 0) > self._clock.monotonic_s()

    def _keep(self, topic: str) -> None:
        now_s = self._clock.monotonic_s()
        self._kept.pop(topic, None)
        self._kept[topic] = now_s + KEPT_S
        while len(self._kept) > KEPT_MAX or next(iter(self._kept.values())) <= now_s:
            del self._kept[next(iter(self._kept))]
