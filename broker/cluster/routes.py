"""Who owns what now: the live brokers and the topics' assignments, kept together.

A watch on the registrations keeps `live` true; `routing` decides. This broker itself always counts
as alive: cut off from the metadata store it goes on with what it owns (ARCHITECTURE D9), and the
others are believed to be what they were last. When its session has ended meanwhile, theirs may have
ended too: who is missing then is waited for, instead of being fenced while it serves.
Whoever gives up or takes over partitions listens.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers, live_broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.registration import decode_broker
from tailrace.broker.cluster.routing import Replicas, owners_of, readers_of, replicas_of
from tailrace.broker.cluster.topic import Topic, TopicListener
from tailrace.broker.listeners import Endpoint
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

ABSENCE_S: Final = 9.0
"""How long a broker may be missing after this one's session ended: broker.session.timeout.ms."""
PAUSE_S: Final = 1.0
"""Between attempts to read who is there when that is over."""


class RoutedTopics(Protocol):
    """What is needed of the topics; `broker.cluster.TopicRegistry` is one."""

    def get(self, name: str) -> Topic | None:
        """Return a topic that can be used."""

    def listen(self, listener: TopicListener) -> None:
        """Tell `listener` about every later change."""


class Routes:
    """Finds the owner of each partition. Look-ups are plain calls; all come from the loop."""

    def __init__(self, topics: RoutedTopics, node_id: int, *, serves_racks: bool = False) -> None:
        """`serves_racks`: brokers read for the consumers of their racks what others own."""
        self.node_id = node_id
        self._serves_racks = serves_racks
        self.live = LiveBrokers([LiveBroker(node_id, {}, Endpoint(host="", port=0), None)])
        self._topics = topics
        self._listeners: list[Callable[[], None]] = []
        self._owners: dict[str, tuple[Topic, LiveBrokers, tuple[int, ...]]] = {}
        """What was computed, and of what: perhaps of a topic that has changed since."""
        self._readers: dict[str, tuple[Topic, LiveBrokers, dict[int, Mapping[str, int]]]] = {}
        """The same of the brokers that read in each rack, by partition."""
        self._told: dict[str, Topic] = {}
        """Topics as whoever listens knows them."""
        self._registrations: _Registrations | None = None
        topics.listen(self)

    # -- look-ups ---------------------------------------------------------------------------------

    def owner(self, topic: str, partition: int) -> int | None:
        """Return the live broker that owns a partition; None: it does not exist."""
        known = self._topics.get(topic)
        if known is None or not 0 <= partition < known.partition_count:
            return None
        return self.owners(known)[partition]

    def is_mine(self, topic: str, partition: int) -> bool:
        """Whether this broker owns a partition."""
        return self.owner(topic, partition) == self.node_id

    def owners(self, topic: Topic) -> tuple[int, ...]:
        """Return the owner of each partition of a topic. Cost: a look-up, until one changes."""
        cached = self._owners.get(topic.name)
        if cached is not None and cached[0] is topic and cached[1] is self.live:
            return cached[2]
        owners = owners_of(topic.topic_id, topic.partition_count, topic.assignments, self.live.ids)
        self._owners[topic.name] = (topic, self.live, owners)
        return owners

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        """Return the brokers of a partition that may own it, as clients see them."""
        preferred = topic.assignments.get(partition, ())
        return replicas_of(self.owners(topic)[partition], preferred, self.live.ids)

    def shown_replicas(self, topic: Topic, partition: int) -> Replicas:
        """Return those, and the brokers that read in each rack: consumers use no other ones."""
        shown, live = self.replicas(topic, partition)
        readers = self.readers(topic, partition)
        more = tuple(sorted({*readers.values()} - {*shown})) if readers else ()
        return Replicas(shown + more, live + more)

    def readers(self, topic: Topic, partition: int) -> Mapping[str, int]:
        """Return the live broker of each rack that reads a partition for the consumers there.

        In the owner's rack that is the owner. None reads for others unless brokers serve racks.
        Cost: a look-up, until the topic or a broker changes.
        """
        if not self._serves_racks or not self.live.racks:
            return {}
        cached = self._readers.get(topic.name)
        if cached is None or cached[0] is not topic or cached[1] is not self.live:
            cached = self._readers[topic.name] = (topic, self.live, {})
        found = cached[2].get(partition)
        if found is None:
            preferred = (self.owners(topic)[partition], *topic.assignments.get(partition, ()))
            found = readers_of(topic.topic_id, partition, preferred, self.live.racks)
            cached[2][partition] = found
        return found

    def endpoint(self, broker_id: int, listener: str | None = None) -> Endpoint | None:
        """Return where clients of a listener reach a broker, or other brokers do.

        None: it is not alive, or has no such listener.
        """
        found = self.live.get(broker_id)
        return None if found is None else found.endpoint(listener)

    # -- changes ----------------------------------------------------------------------------------

    def listen(self, callback: Callable[[], None]) -> None:
        """Have `callback` called after each change of owners, in the order of these calls."""
        self._listeners.append(callback)

    async def start(
        self, me: LiveBroker, store: MetadataStore, paths: ClusterPaths, *, is_shared: bool
    ) -> None:
        """Learn who else is there, and go on following it. Errors: CoreError.

        `is_shared`: whether there can be others at all.
        """
        self.live = LiveBrokers([me])
        if is_shared:
            self._registrations = _Registrations(store, paths.brokers, me, self.use)
            await self._registrations.start()

    async def refresh(self) -> None:
        """Read all registrations anew: for who lost a log to somebody else. Errors: CoreError."""
        if self._registrations is not None:
            await self._registrations.read_all()

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        if self._registrations is not None:
            await self._registrations.close()

    def on_topic_changed(self, topic: Topic) -> None:
        """Tell who listens if partitions may have other owners now."""
        former = self._told.get(topic.name)
        self._told[topic.name] = topic
        if former is not None and _placing(former) != _placing(topic):
            self._tell()

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Forget a topic's owners."""
        self._owners.pop(topic.name, None)
        self._readers.pop(topic.name, None)
        self._told.pop(topic.name, None)

    def use(self, live: LiveBrokers) -> None:
        """Go on with other live brokers, and tell who listens if that is news."""
        if live.all() != self.live.all():
            logger.info("live brokers ids=%s", ",".join(map(str, live.ids)))
            self.live = live
            self._tell()

    def _tell(self) -> None:
        for callback in self._listeners:
            tell("routes", callback)


def _placing(topic: Topic) -> tuple[object, ...]:
    return topic.topic_id, topic.partition_count, topic.assignments


class _Registrations:
    """Follows the registrations in the metadata store, and hands on what they make."""

    def __init__(
        self,
        store: MetadataStore,
        parent: str,
        me: LiveBroker,
        use: Callable[[LiveBrokers], None],
    ) -> None:
        self._store = store
        self._parent = parent
        self._me = me
        self._use = use
        self._live = LiveBrokers([me])
        self._watch: ChildWatch | None = None
        self._tasks = Tasks("registrations")
        self._rereading = Forever("registrations.others", pause_s_max=PAUSE_S)
        self._absences = 0
        """Ends of this broker's session that others may be missing for."""
        self._is_closed = False
        store.on_session(self._on_session)

    async def start(self) -> None:
        await self.read_all()
        known = map(str, self._live.ids)
        self._watch = ChildWatch(self._store, self._parent, self._note, known)
        self._watch.start()

    async def close(self) -> None:
        self._is_closed = True
        if self._watch is not None:
            await self._watch.close()
        await self._tasks.close()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION and not self._is_closed:
            self._absences += 1
            self._tasks.start(self._wait_for_others(), "wait for others")

    async def _wait_for_others(self) -> None:
        """Read who is there once the others had time to come back."""
        await asyncio.sleep(ABSENCE_S)
        self._absences -= 1
        await self._rereading.until_done(self._read_unless_absent)

    async def _read_unless_absent(self) -> None:
        if not self._absences:  # else another one waits
            await self.read_all()

    async def read_all(self) -> None:
        """Read each on its own, as the watch does: what comes meanwhile is not overwritten."""
        known = map(str, self._live.ids)
        for name in sorted({*await self._store.children(self._parent), *known}):
            await self._note(name)

    async def _note(self, name: str) -> None:
        node_id = decimal(name, INT32_MAX)
        if node_id is None or node_id == self._me.node_id:
            return
        node = await self._store.exists(f"{self._parent}/{name}")
        if node is None and self._absences:
            return
        self._live = self._live.without(node_id)
        if node is not None:
            try:
                found = live_broker(node_id, decode_broker(node.data))
            except CorruptData as error:
                logger.warning("broker ignored id=%d error=%s", node_id, error)
            else:
                self._live = self._live.with_broker(found)
        self._use(self._live)
