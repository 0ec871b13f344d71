"""What a fetch session remembers: the partitions a consumer reads, and which of them may have news.

Invariant: a partition of a session is either *active* (the next poll looks at it) or it stands at
its log, which tells it once anything changes. So a poll costs what changed, not what is read: one
that finds nothing new touches no partition. Whoever takes the active ones gives back those that are
not idle; those of a poll that never ended are taken again by the next.
Order: polls look at partitions in the order of their turns; one that gave records goes last.
Pure. Source: FetchSession.scala (CachedPartition, FetchSession); reference Kafka 5.6.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from protocol.kafka.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData

if TYPE_CHECKING:
    from protocol.ids import Offset

PartitionKey: TypeAlias = tuple[str | bytes, int]
"""Topic name, or the 16 bytes of its id, and the number of the partition."""

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
CLOSED = -2
"""No request says this."""
EPOCH_MAX = 0x7FFF_FFFF


def next_epoch(epoch: int) -> int:
    """Return the epoch of the request that follows; it never wraps to 0, which asks for more."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


class Parked(Protocol):
    """A poll that waits."""

    def on_bytes(self, count: int) -> None:
        """Hear of `count` more readable bytes."""

    def wake(self) -> None:
        """Look again now."""


class Place(Protocol):
    """Where a log keeps those whom it tells what happens to it."""

    def watch(self, watcher: "CachedPartition") -> None:
        """Tell `watcher` everything from now on."""

    def unwatch(self, watcher: "CachedPartition") -> None:
        """Stop telling it; unknown ones are ignored."""


class CachedPartition:
    """One partition of a session: what the client asked last, and what it was told last."""

    __slots__ = ("asked", "high_watermark", "key", "log_start_offset", "place", "session", "turn")

    def __init__(self, session: "FetchSession", key: PartitionKey, asked: FetchPartition) -> None:
        self.session = session
        self.key = key
        self.asked = asked
        self.high_watermark: Offset = -1
        self.log_start_offset: Offset = -1
        self.place: Place | None = None
        """Where it stands; None while it does not."""
        self.turn = session.next_turn()

    def on_bytes(self, readable: int, stable: int) -> None:
        """Become active, and tell the poll that waits; without one, hear no more of it."""
        session = self.session
        session.activate(self)
        if session.parked is None:
            self.leave()
        else:
            session.parked.on_bytes(stable if session.reads_committed else readable)

    def wake(self) -> None:
        """Become active: the log is not what it was."""
        session = self.session
        session.activate(self)
        self.leave()
        if session.parked is not None:
            session.parked.wake()

    def stand(self, place: Place) -> None:
        """Be idle until the log there says something."""
        self.place = place
        place.watch(self)

    def leave(self) -> None:
        """Stand nowhere."""
        if self.place is not None:
            self.place.unwatch(self)
            self.place = None

    def tell(self, data: PartitionData, size: int) -> bool:
        """Note what the client is told; return whether it has to be told at all.

        `size`: bytes of records in `data`.
        """
        start = data.log_start_offset
        changed = data.high_watermark != self.high_watermark or start != self.log_start_offset
        self.high_watermark = data.high_watermark
        self.log_start_offset = start
        if size:
            self.turn = self.session.next_turn()
        if data.error_code:
            self.high_watermark = -1  # told again once the error is gone
        return bool(changed or size or data.error_code or data.diverging_epoch.epoch >= 0)


class Updates(NamedTuple):
    """What a request changes in a session."""

    topics: Iterable[FetchTopic]
    forgotten: Iterable[ForgottenTopic]


class SessionKind(NamedTuple):
    """What the request that asks for a session says of it."""

    privileged: bool
    """Of a follower: not given up for a consumer's."""
    uses_topic_ids: bool
    reads_committed: bool
    """Whether only what lies below the last stable offset counts; each poll may change it."""


class FetchSession:
    """A session between one client and this broker; `FetchSessionCache` makes and removes it."""

    __slots__ = (
        "_active",
        "_examined",
        "_turns",
        "created_ms",
        "epoch",
        "id",
        "parked",
        "partitions",
        "privileged",
        "reads_committed",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, created_ms: int, kind: "SessionKind") -> None:
        self.id = session_id
        self.created_ms = created_ms
        self.privileged, self.uses_topic_ids, self.reads_committed = kind
        self.epoch = next_epoch(INITIAL_EPOCH)
        """What the next request has to say."""
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.parked: Parked | None = None
        """The poll that waits, if one does."""
        self._turns = 0
        self._active: dict[CachedPartition, None] = {}
        self._examined: dict[CachedPartition, None] = {}  # by a poll that has not ended

    @property
    def has_news(self) -> bool:
        """Whether a partition is active."""
        return bool(self._active)

    def next_turn(self) -> int:
        """Return a place behind all partitions."""
        self._turns += 1
        return self._turns

    def begin(self, *, reads_committed: bool) -> int:
        """Begin a poll; return the epoch that the session has until the next one.

        An earlier one that is still under way is outdated: it is woken, and finds another epoch.
        """
        self.epoch = next_epoch(self.epoch)
        self._active.update(self._examined)
        self._examined.clear()
        if reads_committed != self.reads_committed:  # another bound: nothing is known to be idle
            self.reads_committed = reads_committed
            self._active.update(dict.fromkeys(self.partitions.values()))
        parked, self.parked = self.parked, None
        if parked is not None:
            parked.wake()
        return self.epoch

    def update(self, changes: Updates) -> None:
        """Add and change partitions as a request says, and forget those that it names."""
        for topic in changes.topics:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for asked in topic.partitions:
                self.add((name, asked.partition), asked)
        for forgotten in changes.forgotten:
            name = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                self._forget((name, index))

    def add(self, key: PartitionKey, asked: FetchPartition) -> CachedPartition:
        """Note what is asked of a partition; it is active."""
        cached = self.partitions.get(key)
        if cached is None:
            cached = self.partitions[key] = CachedPartition(self, key, asked)
        else:
            cached.asked = asked
        self._active[cached] = None
        return cached

    def activate(self, cached: CachedPartition) -> None:
        """Have the next poll, or the one that waits, look at a partition."""
        self._active[cached] = None

    def take_active(self) -> list[CachedPartition]:
        """Return the active partitions in order; they are examined until `settle`."""
        active = self._active
        if not active:
            return []
        self._active = {}
        self._examined.update(active)
        for cached in active:
            cached.leave()
        return sorted(active, key=_turn)

    def settle(self, idle: Mapping[CachedPartition, Place]) -> None:
        """End a poll: what it examined is active again, save what stands at a log from now on."""
        for cached in self._examined:
            place = idle.get(cached)
            if place is None:
                self._active[cached] = None
            else:
                cached.stand(place)
        self._examined.clear()

    def close(self) -> None:
        """Let go of all logs; a poll that waits ends now, outdated."""
        self.epoch = CLOSED
        for cached in self.partitions.values():
            cached.leave()
        parked, self.parked = self.parked, None
        if parked is not None:
            parked.wake()

    def _forget(self, key: PartitionKey) -> None:
        cached = self.partitions.pop(key, None)
        if cached is not None:
            cached.leave()
            self._active.pop(cached, None)
            self._examined.pop(cached, None)


def _turn(cached: CachedPartition) -> int:
    return cached.turn
