"""The topics that can be used: look-ups without waiting, and who hears of what becomes of them.

What is shown is made of what is stored and of the broker's defaults. Nothing here reads or writes.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace

from tailrace.broker.cluster.config_def import InvalidConfig
from tailrace.broker.cluster.names import INTERNAL_TOPICS, collision_key
from tailrace.broker.cluster.quorums import quorums_of
from tailrace.broker.cluster.settings import TopicDefaults, TopicSettings, check_overrides
from tailrace.broker.cluster.topic import Topic, TopicListener
from tailrace.broker.cluster.topic_codec import StoredTopic, decode_assignments, id_bytes
from tailrace.core.runtime.listeners import tell

logger = logging.getLogger(__name__)


class ShownTopics:
    """Topics by name and by id; changed by `TopicRegistry` alone."""

    def __init__(self, defaults: TopicDefaults) -> None:
        self.defaults = defaults
        self._listeners: list[TopicListener] = []
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._colliding: dict[str, set[str]] = {}
        """Names by their form in metrics; of more than one only where two brokers raced."""

    def listen(self, listener: TopicListener) -> None:
        """Tell `listener` about every later change."""
        self._listeners.append(listener)

    def use_defaults(self, defaults: TopicDefaults) -> None:
        """Have topics follow other defaults of the broker, and tell who listens."""
        self.defaults = defaults
        for former in list(self._topics.values()):
            settings = self._settings(former.name, former.configs)
            if settings != former.settings:
                quorums = quorums_of(former.replication_factor, settings)
                self._put(replace(former, settings=settings, quorums=quorums))

    def get(self, name: str) -> Topic | None:
        """Return a topic that can be used."""
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return a topic by its 16 bytes."""
        return self._by_id.get(topic_id)

    def all(self) -> list[Topic]:
        """Return all topics that can be used, by name."""
        return [self._topics[name] for name in sorted(self._topics)]

    def _show(self, name: str, stored: StoredTopic) -> Topic:
        """Show a topic as it is stored, and tell who listens."""
        settings = self._settings(name, stored.configs)
        topic = Topic(
            name=name,
            topic_id=id_bytes(stored.topic_id, name),
            partition_count=stored.ready,
            configs=stored.configs,
            settings=settings,
            replication_factor=stored.replication_factor,
            quorums=quorums_of(stored.replication_factor, settings),
            internal=name in INTERNAL_TOPICS,
            created_ms=stored.created_ms,
            assignments=decode_assignments(stored),
        )
        self._colliding.setdefault(collision_key(name), set()).add(name)
        self._put(topic)
        return topic

    async def _withdraw(self, name: str) -> None:
        """Show a topic no more, and have its partitions closed."""
        topic = self._topics.pop(name, None)
        if topic is not None:
            del self._by_id[topic.topic_id]
            self._forget_key(name)
            for listener in self._listeners:
                await listener.on_topic_deleting(topic)

    def _put(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        for listener in self._listeners:
            tell("topics", listener.on_topic_changed, topic)

    def _forget_key(self, name: str) -> None:
        names = self._colliding[collision_key(name)]
        names.remove(name)
        if not names:
            del self._colliding[collision_key(name)]

    def _settings(self, name: str, configs: Mapping[str, str]) -> TopicSettings:
        """Resolve stored overrides; one that another release wrote may mean nothing to this one."""
        usable = {}
        for key, value in configs.items():
            try:
                usable.update(check_overrides({key: value}, self.defaults))
            except InvalidConfig as error:
                logger.warning("topic config not in force topic=%s reason=%s", name, error)
        return self.defaults.resolve(usable)
