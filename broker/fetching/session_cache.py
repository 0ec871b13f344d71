"""Which fetch sessions this broker keeps, and which gives way to a new one. Pure.

A new session takes the place of one that was not used for `EVICTION_MS`; else of a smaller one that
is older than that, or, if it is privileged, of any that is not. Else it gets none: the client is
answered with id 0 and goes on with full fetches.
Bounds: sessions, and the partitions of all of them together.
Source: FetchSession.scala (FetchSessionCacheShard, FetchManager); reference Kafka 5.6.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.broker.fetching.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSession,
    SessionKind,
    Updates,
)
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.fetch import FetchResponse

NO_SESSION = 0
SESSION_ID_MAX = 0x7FFF_FFFF
EVICTION_MS = 120_000
"""How long a session is safe from others after its making, or after it was used."""
SESSION_PARTITIONS_MAX = 10_000
"""Partitions of one session: what a poll may have to look at in one go, up to 30 ms. A client with
more names them all each time."""
PARTITIONS_MAX = 500_000
"""Partitions of all sessions; each costs about 400 bytes. Beyond it no session grows."""


@dataclass(slots=True)
class SessionMetrics:
    """How many sessions there are, and how they fare."""

    sessions: int = gauge("fetch sessions that are kept")
    partitions: int = gauge("partitions of all fetch sessions")
    evictions_total: int = counter("fetch sessions that gave way to another")
    refusals_total: int = counter("clients that wanted a fetch session and got none")


class EvictableKey(NamedTuple):
    """How much a session is worth; the smallest goes first."""

    privileged: bool
    size: int
    session_id: int


class _Entry:
    """A session and what the cache last knew of it."""

    __slots__ = ("is_old", "key", "session", "used_ms")

    def __init__(self, session: FetchSession, key: EvictableKey) -> None:
        self.session = session
        self.used_ms = session.created_ms
        self.key = key
        self.is_old: bool | None = None  # not asked yet


class FetchSessionCache:
    """All sessions of a broker."""

    def __init__(self, slots: int, draw_id: Callable[[], int]) -> None:
        """`draw_id`: a random number from 1 to `SESSION_ID_MAX`."""
        self._slots = slots
        self._draw_id = draw_id
        self._entries: OrderedDict[int, _Entry] = OrderedDict()  # used longest ago first
        self._evictable_by_all: list[EvictableKey] = []
        self._evictable_by_privileged: list[EvictableKey] = []
        self.metrics = SessionMetrics()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, session_id: int) -> FetchSession | None:
        """Return a session."""
        entry = self._entries.get(session_id)
        return entry.session if entry else None

    def create(self, size: int, kind: SessionKind, now_ms: int) -> FetchSession | None:
        """Return a new session that is to have `size` partitions, or None if there is no place.

        The caller adds the partitions, and calls `touch`.
        """
        if not self._has_room(EvictableKey(kind.privileged, size, 0), now_ms):
            self.metrics.refusals_total += 1
            return None
        session_id = self._draw_id()
        while session_id in self._entries:
            session_id = self._draw_id()
        session = FetchSession(session_id, now_ms, kind)
        self._entries[session_id] = _Entry(session, EvictableKey(kind.privileged, 0, session_id))
        self.metrics.sessions += 1
        return session

    def resume(
        self, session_id: int, epoch: int, *, uses_topic_ids: bool
    ) -> FetchSession | ErrorCode:
        """Return the session that a request goes on with, or why it cannot."""
        session = self.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def update(self, session: FetchSession, changes: Updates, now_ms: int) -> bool:
        """Change a session as a request says; return whether it is still there.

        One that forgot all its partitions is removed, and so is one for which there is no room.
        """
        session.update(changes)
        if not 0 < len(session.partitions) <= SESSION_PARTITIONS_MAX:
            self.remove(session.id)
            return False
        self.touch(session, now_ms)
        if self.metrics.partitions > PARTITIONS_MAX:
            self.remove(session.id)
            return False
        return True

    def touch(self, session: FetchSession, now_ms: int) -> None:
        """Note that a session is used, and how large it is."""
        entry = self._entries.get(session.id)
        if entry is None:
            return
        self._entries.move_to_end(session.id)
        entry.used_ms = now_ms
        size, is_old = len(session.partitions), now_ms - session.created_ms > EVICTION_MS
        if size == entry.key.size and is_old is entry.is_old:
            return
        self.metrics.partitions += size - entry.key.size
        self._forget_key(entry.key)
        entry.key, entry.is_old = entry.key._replace(size=size), is_old
        if is_old:
            insort(self._evictable_by_all, entry.key)
        if is_old or not session.privileged:
            insort(self._evictable_by_privileged, entry.key)

    def withhold(self, answer: FetchResponse) -> int:
        """Take note that an answer's partitions are not sent; return the session id that is.

        What it told is told again. The client that began a session with it tries again without one.
        """
        session = self.get(answer.session_id)
        if session is None:
            return answer.session_id
        if session.is_new:
            self.remove(session.id)
            return NO_SESSION
        session.untell(
            (topic.topic_id if session.uses_topic_ids else topic.topic, each.partition_index)
            for topic in answer.responses
            for each in topic.partitions
        )
        return session.id

    def remove(self, session_id: int) -> None:
        """Close a session if there is one; a poll of it that waits ends."""
        entry = self._entries.pop(session_id, None)
        if entry is not None:
            self.metrics.sessions -= 1
            self.metrics.partitions -= entry.key.size
            self._forget_key(entry.key)
            entry.session.close()

    def _has_room(self, newcomer: EvictableKey, now_ms: int) -> bool:
        """Whether a new session may be made, of which another may have to give way."""
        if newcomer.size > SESSION_PARTITIONS_MAX:
            return False
        if self.metrics.partitions + newcomer.size > PARTITIONS_MAX:
            return False
        return len(self._entries) < self._slots or self._evict_for(newcomer, now_ms)

    def _evict_for(self, newcomer: EvictableKey, now_ms: int) -> bool:
        """Remove the session that is worth less than a new one; return whether there is one."""
        oldest = next(iter(self._entries.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            victim = oldest.session.id
        else:
            by_all, by_privileged = self._evictable_by_all, self._evictable_by_privileged
            keys = by_privileged if newcomer.privileged else by_all
            if not keys or newcomer < keys[0]:
                return False
            victim = keys[0].session_id
        self.remove(victim)
        self.metrics.evictions_total += 1
        return True

    def _forget_key(self, key: EvictableKey) -> None:
        for keys in (self._evictable_by_all, self._evictable_by_privileged):
            at = bisect_left(keys, key)
            if at < len(keys) and keys[at] == key:
                del keys[at]


def is_full(session_epoch: int) -> bool:
    """Whether a request names all its partitions, and closes the session it names."""
    return session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
