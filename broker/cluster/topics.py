"""The topics of the cluster: one metadata node each, and one log stream per partition.

Invariant: `get()` shows a topic only when all its streams exist. A topic is created node first
(which claims the name), then streams, then the node's `ready` count; it is deleted mark first, then
streams, then node. So whatever a crash or a cancelled request leaves behind says what is missing,
and `start()`, or the next request for that name, finishes it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from tailrace.broker.cluster.admin import check_new_partitions
from tailrace.broker.cluster.alterations import Changes
from tailrace.broker.cluster.config_def import InvalidConfig
from tailrace.broker.cluster.names import CLUSTER_METADATA_TOPIC, collision_key, name_fault
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.quorums import check_quorums, check_same_quorums, quorums_of
from tailrace.broker.cluster.settings import TopicDefaults, alter, check_overrides
from tailrace.broker.cluster.shown_topics import ShownTopics
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topic_claims import TopicClaims, collision, no_growth
from tailrace.broker.cluster.topic_codec import (
    StoredTopic,
    decode_topic,
    encode_assignments,
    id_bytes,
    id_text,
)
from tailrace.broker.cluster.topic_locks import TopicLocks
from tailrace.broker.cluster.topic_nodes import TopicNodes
from tailrace.broker.cluster.topic_streams import TopicStreams, create_streams, delete_streams
from tailrace.broker.errors import KafkaError
from tailrace.core.errors import (
    BadVersion,
    LogNotFound,
    MetadataConflict,
    NodeExists,
    OwnershipLost,
)
from tailrace.core.metadata.store import MetadataStore, Node
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


class TopicRegistry(ShownTopics):
    """Reads are plain look-ups; changes of one topic happen one after the other (`TopicLocks`).

    Locks, not an owner task: a change is a few metadata writes that may stop anywhere, because
    the next request, or the next start, continues it.
    Cancel: the change may be half done; see the invariant above.
    """

    def __init__(
        self,
        store: MetadataStore,
        streams: TopicStreams,
        *,
        defaults: TopicDefaults,
        clock: Clock,
        random: Random,
        paths: ClusterPaths | None = None,
    ) -> None:
        super().__init__(defaults)
        self._nodes = TopicNodes(store, paths or ClusterPaths())
        self._streams = streams
        self._claims = TopicClaims(self._nodes, streams)
        self._clock = clock
        self._random = random
        self._locks = TopicLocks()

    async def start(self) -> None:
        """Load all topics and finish what a crash left half done. Errors: CorruptData."""
        for name, node in await self._nodes.read_all():
            await self._adopt(name, node)
            try:
                await self._finish(name)
            except (MetadataConflict, OwnershipLost) as error:  # another broker is at it
                logger.warning("topic left half done topic=%s error=%r", name, error)

    def check_create(
        self, name: str, configs: Mapping[str, str | None], replication_factor: int | None = None
    ) -> dict[str, str]:
        """Return the overrides that a new topic would get. Errors: KafkaError.

        `replication_factor`: None while it is not known; then nothing is held against it.
        """
        fault = name_fault(name)
        if fault:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
        if name == CLUSTER_METADATA_TOPIC:
            message = f"Creation of internal topic {name} is prohibited."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if name in self._topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        others = self._colliding.get(collision_key(name))
        if others:
            message = f"Topic '{name}' collides with existing topic: {min(others)}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
        return _or_kafka_error(lambda: self._checked(configs, replication_factor))

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] | None = None,
        replication_factor: int = 1,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """Create a topic and its streams. Errors: KafkaError; CoreError leaves it half done.

        `assignments`: brokers by partition, where the caller wants certain ones.
        """
        async with self._locks.changing(name, partitions):
            await self._settle(name)
            overrides = self.check_create(name, configs or {}, replication_factor)
            check_new_partitions(partitions)
            stored = StoredTopic(
                topic_id=self._new_id(),
                partitions=partitions,
                ready=0,
                state="claiming",
                created_ms=self._clock.now_ms(),
                configs=overrides,
                replication_factor=replication_factor,
                assignments=encode_assignments(assignments or {}),
            )
            try:
                await self._nodes.create(name, stored)
            except NodeExists:
                message = f"Topic '{name}' already exists."
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, message) from None
            taken = await self._finish(name)
            if taken is not None:
                raise collision(name, taken)
            logger.info(
                "topic created topic=%s id=%s partitions=%d", name, stored.topic_id, partitions
            )
            return self._topics[name]

    async def delete(self, name: str, topic_id: bytes | None = None) -> None:
        """Delete a topic and its streams. Errors: KafkaError; CoreError leaves it half done.

        `topic_id`: only if that is the name's topic; another broker may have made a new one.
        """
        async with self._locks.changing(name, self._partitions(name)):
            await self._settle(name)
            known = self._nodes.known(name)
            if known is None:
                raise _unknown()
            if topic_id is not None and self._topics[name].topic_id != topic_id:
                message = "This server does not host this topic ID."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, message)
            await self._nodes.replace(name, state="deleting")
            await self._finish(name)
            logger.info("topic deleted topic=%s id=%s", name, known.topic_id)

    def check_add_partitions(self, name: str, count: int) -> Topic:
        """Return the topic that may grow to `count` partitions. Errors: KafkaError."""
        topic = self._topics.get(name)
        if topic is None:
            raise _unknown()
        if count == topic.partition_count:
            message = f"Topic already has {count} partition(s)."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        if count < topic.partition_count:
            message = (
                f"The topic {name} currently has {topic.partition_count} partition(s); "
                f"{count} would not be an increase."
            )
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        check_new_partitions(count - topic.partition_count)
        return topic

    async def add_partitions(
        self, name: str, count: int, assignments: Mapping[int, Sequence[int]] | None = None
    ) -> Topic:
        """Grow a topic to `count` partitions. Errors: KafkaError; CoreError leaves it half done."""
        async with self._locks.changing(name, count - self._partitions(name)):
            await self._settle(name)
            topic = self.check_add_partitions(name, count)
            assigned = encode_assignments({**topic.assignments, **(assignments or {})})
            await self._nodes.replace(
                name, state="claiming", partitions=count, assignments=assigned
            )
            taken = await self._finish(name)
            if taken is not None:
                raise no_growth(name, taken)
            logger.info("topic grown topic=%s partitions=%d", name, count)
            return self._topics[name]

    async def assign(self, name: str, changes: Mapping[int, Sequence[int]]) -> Topic:
        """Prefer other brokers for some partitions, all or none. Errors: KafkaError, CoreError.

        One versioned write; who owns what follows from it.
        """
        async with self._locks.changing(name):
            await self._settle(name)
            topic = self._topics.get(name)
            if topic is None or max(changes) >= topic.partition_count:
                raise _unknown()
            assignments = encode_assignments({**topic.assignments, **changes})
            topic = self._show(name, await self._nodes.replace(name, assignments=assignments))
            logger.info("topic assigned topic=%s brokers=%s", name, dict(changes))
            return topic

    def check_alter(self, name: str, changes: Changes) -> dict[str, str]:
        """Return the overrides that the changes would leave. Errors: KafkaError."""
        topic = self._topics.get(name)
        if topic is None:
            fault = name_fault(name)
            if fault:
                raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, fault)
            message = f"The topic '{name}' does not exist."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        return _or_kafka_error(lambda: self._altered(topic, changes))

    async def alter_configs(self, name: str, changes: Changes) -> Topic:
        """Change a topic's overrides, all or none. Errors: KafkaError."""
        async with self._locks.changing(name):
            await self._settle(name)
            configs = self.check_alter(name, changes)
            topic = self._show(name, await self._nodes.replace(name, configs=configs))
            logger.info("topic altered topic=%s configs=%s", name, configs)
            return topic

    def _checked(
        self, configs: Mapping[str, str | None], replication_factor: int | None
    ) -> dict[str, str]:
        overrides = check_overrides(configs, self.defaults)
        if replication_factor is not None:
            settings = self.defaults.resolve(overrides)
            check_quorums(replication_factor, overrides, settings)
            self._streams.check_settings(quorums_of(replication_factor, settings).as_settings())
        return overrides

    def _altered(self, topic: Topic, changes: Changes) -> dict[str, str]:
        overrides = alter(topic.configs, changes, self.defaults)
        settings = self.defaults.resolve(overrides)
        check_same_quorums(topic.settings, settings)
        check_quorums(topic.replication_factor, overrides, settings)
        return overrides

    async def note(self, name: str) -> None:
        """Take over what another broker did to a topic. Errors: CoreError.

        What is half done is left alone: whoever does it is at it.
        """
        async with self._locks.of(name):
            await self._take(name)

    async def catch_up(self) -> None:
        """Know all topics that there are by now, before the watch tells. Errors: CoreError.

        What this broker itself is making or deleting is left to that: its node is known.
        Cost: the list of their names, and a read for each that came, went or is half done.
        """
        names = await self._nodes.names()
        for name in sorted(self._topics.keys() ^ set(names)):
            if not self._locks.is_held(name) or self._nodes.known(name) is None:
                async with self._locks.of(name):
                    await self._take(name)

    def _partitions(self, name: str) -> int:
        """Return how many partitions a topic has, as far as is known here."""
        stored = self._nodes.known(name)
        return 0 if stored is None else stored.partitions

    async def _settle(self, name: str) -> None:
        """Read a topic's node and finish what a crash or a cancelled change left half done."""
        await self._take(name)
        await self._finish(name)

    async def _take(self, name: str) -> None:
        """Read a topic's node, and show what it says: another broker may have changed it."""
        await self._adopt(name, await self._nodes.read(name))

    async def _adopt(self, name: str, node: Node | None) -> None:
        """Show what a topic's node says."""
        known = self._nodes.known(name)
        if node is None:
            self._nodes.forget(name)
            await self._withdraw(name)
            return
        stored = decode_topic(name, node.data)
        if stored == known:
            self._nodes.keep(name, stored, node.version)
            return
        if stored.state == "deleting" or (known and known.topic_id != stored.topic_id):
            await self._withdraw(name)
        self._nodes.keep(name, stored, node.version)
        if stored.state != "deleting" and stored.ready:
            self._show(name, stored)

    async def _finish(self, name: str) -> str | None:
        """Bring a topic to the state that its node announces, if it has one.

        Returns the stream for which it was not made, or did not grow; None: it did.
        """
        stored = self._nodes.known(name)
        if stored is not None and stored.state == "claiming":
            taken = await self._claims.claim(name, stored, self._take)
            if taken is not None:
                return taken
            stored = self._nodes.known(name)
        if stored is None:
            return None
        if stored.state == "deleting":
            await self._remove(name, stored)
        elif stored.ready < stored.partitions:
            await self._complete(name, stored)
        return None

    async def _complete(self, name: str, stored: StoredTopic) -> None:
        missing = range(stored.ready, stored.partitions)
        settings = self.defaults.resolve(stored.configs)
        quorums = quorums_of(stored.replication_factor, settings)
        await create_streams(self._streams, name, missing, quorums.as_settings())
        try:
            stored = await self._nodes.replace(name, ready=stored.partitions)
        except BadVersion:
            await self._take(name)  # another broker that was asked for the name has finished it?
            found = self._topics.get(name)
            if (
                found is None
                or found.topic_id != id_bytes(stored.topic_id, name)
                or found.partition_count < stored.partitions
            ):
                raise
            return
        self._show(name, stored)

    async def _remove(self, name: str, stored: StoredTopic) -> None:
        await self._withdraw(name)

        async def check_may() -> None:
            if await self._nodes.current(name) is None:
                raise LogNotFound(f"topic {name} was deleted by another broker")

        await delete_streams(self._streams, name, range(stored.partitions), check_may)
        await self._nodes.delete(name)

    def _new_id(self) -> str:
        """Return a version 4 UUID; tools take an id with a leading dash for an option."""
        while True:
            raw = bytearray(self._random.randbytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            text = id_text(bytes(raw))
            if not text.startswith("-") and bytes(raw) not in self._by_id:
                return text


def _unknown() -> KafkaError:
    message = "This server does not host this topic-partition."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _or_kafka_error(check: Callable[[], dict[str, str]]) -> dict[str, str]:
    try:
        return check()
    except InvalidConfig as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
