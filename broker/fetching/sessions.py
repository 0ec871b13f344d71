"""What a fetch session remembers: the partitions a consumer reads, and which of them may have news.

Invariant: a partition of a session is *active* (it is in the queue of those that a poll has to look
at), or a poll looks at it, or it stands at its log, which tells it once anything changes. So a poll
costs what changed, not what is read: one that finds nothing new touches no partition, and one whose
answer is full leaves the rest of the queue to the next.
Order: what gave records goes to the end of the queue, as in Kafka; what a poll looked at that never
ended, or that gave none and is not idle, keeps its place at the front.
Pure. Source: FetchSession.scala (CachedPartition, FetchSession); reference Kafka 5.6.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from tailrace.protocol.ids import Offset

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

    __slots__ = (
        "asked",
        "gave",
        "high_watermark",
        "is_active",
        "is_gone",
        "key",
        "log_start_offset",
        "place",
        "session",
    )

    def __init__(self, session: "FetchSession", key: PartitionKey, asked: FetchPartition) -> None:
        self.session = session
        self.key = key
        self.asked = asked
        self.high_watermark: Offset = -1
        self.log_start_offset: Offset = -1
        self.place: Place | None = None
        """Where it stands; None while it does not."""
        self.is_active = False
        self.is_gone = False
        """Forgotten by the client; it may still be in the queue."""
        self.gave = False
        """Whether the last answer had records of it."""

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

    @property
    def is_awaited(self) -> bool:
        """Whether a poll of its session waits."""
        return self.session.parked is not None

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
        self.gave = size > 0
        if data.error_code:
            self.high_watermark = -1  # told again once the error is gone
        if data.preferred_read_replica >= 0:
            return True
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
        "access_version",
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
        self.access_version = 0
        """The authorizer's, as of which its partitions may be read; 0 without one."""
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.parked: Parked | None = None
        """The poll that waits, if one does."""
        self._active: deque[CachedPartition] = deque()
        self._examined: list[CachedPartition] = []  # by a poll that has not ended

    @property
    def has_news(self) -> bool:
        """Whether a partition waits to be looked at."""
        active = self._active
        while active and active[0].is_gone:
            active.popleft()
        return bool(active)

    @property
    def active_count(self) -> int:
        """How many partitions wait to be looked at, at most."""
        return len(self._active)

    def begin(self, *, reads_committed: bool) -> int:
        """Begin a poll; return the epoch that the session has until the next one.

        An earlier one that is still under way is outdated: it is woken, and finds another epoch.
        """
        self.epoch = next_epoch(self.epoch)
        self._put_back(self._examined)
        self._examined = []
        if reads_committed != self.reads_committed:  # another bound: nothing is known to be idle
            self.reads_committed = reads_committed
            for cached in self.partitions.values():
                self.activate(cached)
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
        self.activate(cached)
        return cached

    def look_at_all(self, access_version: int) -> None:
        """Have polls look at every partition: what may be read has changed.

        What a poll looks at already stays with it.
        """
        self.access_version = access_version
        examined = set(self._examined)
        for cached in self.partitions.values():
            if cached not in examined:
                self.activate(cached)

    def activate(self, cached: CachedPartition) -> None:
        """Have a poll look at a partition."""
        if not cached.is_active:
            cached.is_active = True
            self._active.append(cached)

    def take(self) -> CachedPartition | None:
        """Return the next active partition, None if there is none; `settle` gives it back."""
        if not self.has_news:
            return None
        cached = self._active.popleft()
        cached.is_active = False
        cached.leave()
        self._examined.append(cached)
        return cached

    def settle(self, idle: Mapping[CachedPartition, Place]) -> None:
        """End a poll: what it looked at is active again, save what stands at a log from now on."""
        waiting = []
        for cached in self._examined:
            place = idle.get(cached)
            if cached.is_gone:
                continue
            if place is not None:
                cached.stand(place)
            elif cached.gave:
                self.activate(cached)
            else:
                waiting.append(cached)
        self._put_back(waiting)
        self._examined = []

    @property
    def is_new(self) -> bool:
        """Whether no poll has gone on with it yet."""
        return self.epoch == next_epoch(INITIAL_EPOCH)

    def untell(self, keys: Iterable[PartitionKey]) -> None:
        """Have the next poll tell again what an answer told that is not sent."""
        for key in keys:
            cached = self.partitions.get(key)
            if cached is not None:
                cached.high_watermark = cached.log_start_offset = -1
                cached.leave()
                self.activate(cached)

    def close(self) -> None:
        """Let go of all logs; a poll that waits ends now, outdated."""
        self.epoch = CLOSED
        for cached in self.partitions.values():
            cached.leave()
        parked, self.parked = self.parked, None
        if parked is not None:
            parked.wake()

    def _put_back(self, examined: list[CachedPartition]) -> None:
        for cached in reversed(examined):
            if not cached.is_active and not cached.is_gone:
                cached.is_active = True
                self._active.appendleft(cached)

    def _forget(self, key: PartitionKey) -> None:
        cached = self.partitions.pop(key, None)
        if cached is not None:
            cached.leave()
            cached.is_gone = True
