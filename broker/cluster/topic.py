"""One topic as everybody sees it, and who wants to hear of topics. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tailrace.broker.cluster.quorums import Quorums
from tailrace.broker.cluster.settings import TopicSettings


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as everybody sees it; replaced, never changed."""

    name: str
    topic_id: bytes
    """16 bytes."""
    partition_count: int
    configs: Mapping[str, str]
    """Overrides, in canonical text."""
    settings: TopicSettings
    replication_factor: int
    quorums: Quorums
    """How the ledgers of its logs are made."""
    internal: bool
    created_ms: int
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Preference lists of brokers, by partition; see `routing`."""


class TopicListener(Protocol):
    """Who wants to know what becomes of topics."""

    def on_topic_changed(self, topic: Topic) -> None:
        """Hear of a topic that was created, or has new partitions or settings."""

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Close the partitions of a topic that left `get()`, before their streams go."""
