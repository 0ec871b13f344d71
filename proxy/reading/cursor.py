"""One reader: which message comes next, and where that is in the stream.

    resolved start -> feed and number -> messages -> parts of them, as the request wants them
                        ^                    |
                        +--------------------+ fallen behind, or the feed ended: join again

Nothing but this is held for a reader whose consumer does not ask.
"""

from typing import NamedTuple

from tailrace.core.errors import CoreError
from tailrace.proxy.reading.codes import Failure, failure_of
from tailrace.proxy.reading.feed import Feed, Found, Position, Signal
from tailrace.proxy.reading.message import ALL, Message, Part, part_of
from tailrace.proxy.reading.metrics import ReadMetrics
from tailrace.proxy.reading.stream_feeds import StreamFeeds


class Start(NamedTuple):
    """Where a reader begins."""

    position: Position
    part: Part = ALL
    """What it wants of what comes there first."""


class Records(NamedTuple):
    """What a reader gets next."""

    data: bytes
    """A response."""
    records: int


class Cursor:
    """One reader of a stream."""

    __slots__ = ("_feed", "_is_told", "_metrics", "_number", "_part", "_position", "stream")

    def __init__(self, stream: StreamFeeds, start: Start, metrics: ReadMetrics) -> None:
        self.stream = stream
        self._position, self._part = start
        self._metrics = metrics
        self._feed: Feed | None = None
        self._number = 0
        self._is_told = False
        """Whether it was told that it has all records, and nothing came since."""

    async def next(self, *, ends: bool, records_max: int = 0) -> Records | Signal | Failure:
        """Return the next records; at the tail AT_TAIL, once, then wait unless it `ends` there.

        `records_max`: how many at most; 0: all. Only the last call may have another number.
        Shape: never GONE. Errors: none. Cancel: nothing is lost.
        """
        while True:
            try:
                found = self._ready() or await self._ask(ends=ends)
            except CoreError as error:
                return failure_of(error)
            if isinstance(found, Message):
                self._number += 1
                self._position = Position(found.end, found.given)
                self._is_told = found.is_at_tail
                data, count = part_of(found, self._part._replace(records_max=records_max))
                if count:
                    self._part = ALL
                    return Records(data, count)
            elif found is Signal.GONE:
                self._feed = None
            else:
                self._is_told = found is Signal.AT_TAIL
                return found

    def _ready(self) -> Message | None:
        """Return the next message if it is there. Errors: as `_join`."""
        feed = self._feed
        while True:
            if feed is None or feed.is_closed:
                feed = self._join()
            message = feed.ring.get(self._number)
            if message is not None or self._number == feed.ring.next_number:
                feed.touch()
                return message
            self._metrics.fallen_behind_total += 1
            feed = None

    async def _ask(self, *, ends: bool) -> Found:
        """Wait for what comes next in the feed; GONE: look again where to go on."""
        feed = self._feed
        assert feed is not None, "the reader joined it"
        waiter = feed.ask(is_told=self._is_told, ends=ends)
        try:
            return await waiter
        finally:
            feed.forget(waiter)

    def _join(self) -> Feed:
        """Go on in a feed: its message may begin before. Errors: as StreamFeeds.join."""
        at = self._position.place
        self._feed, self._number = self.stream.join(self._position)
        floor = self._part.from_place
        if floor is None or floor.dlsn < at.dlsn:
            self._part = self._part._replace(from_place=at)
        return self._feed
