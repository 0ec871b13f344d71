"""The feeds of one stream: where a reader goes on, and where two feeds become one.

A feed ends up in another one's ring when it was behind it, or beside it when both wait at the tail.
Then the one behind stops, of two beside each other the younger; its readers go on in the other one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from tailrace.core.errors import CoreError, OverCapacity
from tailrace.core.log.log import Log
from tailrace.core.log.resume import Place
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import TxId
from tailrace.proxy.reading.feed import Feed, FeedContext, Position
from tailrace.proxy.reading.message import NO_LEDGER

OLDEST: Final = DLSN(0, 0, 0)
"""Before every record."""


class StreamFeeds:
    """One stream, as long as somebody reads it (FeedHome)."""

    def __init__(
        self,
        log: Log,
        context: FeedContext,
        check_room: Callable[[], None],
        on_idle: Callable[["StreamFeeds", Feed], None],
    ) -> None:
        """`check_room` makes room for one more feed, or raises OverCapacity."""
        self.readers = 0
        self._log = log
        self._context = context
        self._check_room = check_room
        self._on_idle = on_idle
        self._feeds: dict[Feed, None] = {}  # oldest first
        self._asking: asyncio.Future[Place] | None = None

    @property
    def log(self) -> Log:
        """What is read (FeedHome)."""
        return self._log

    @property
    def feeds(self) -> list[Feed]:
        """Those that are open, oldest first."""
        return list(self._feeds)

    def join(self, at: Position) -> tuple[Feed, int]:
        """Return a feed with what comes from a position on, and the number of its message.

        Errors: OverCapacity. Cost: a look at each feed.
        """
        best: tuple[Feed, int] | None = None
        for feed in self._near(at):
            number = feed.find(at)
            # The one that goes on alone, as `is_elsewhere` says, so that no reader comes back here.
            is_best = best is None or feed.ring.end.dlsn > best[0].ring.end.dlsn
            if number is not None and is_best:
                best = feed, number
        if best is not None:
            best[0].touch()
            return best
        idle = self.idle_feed()
        if len(self._feeds) >= self._context.config.stream_feeds_max:
            if idle is None:
                raise OverCapacity(
                    f"{self._log.name} is read in {len(self._feeds)} places already"
                    " (proxy.read.stream.feeds.max)"
                )
            self.on_idle(idle)
        self._check_room()
        feed = Feed(self, at, self._context)
        self._feeds[feed] = None
        self._context.metrics.feeds += 1
        return feed, 0

    def idle_feed(self) -> Feed | None:
        """Return the feed that no reader has asked for longest; None if readers wait in all."""
        idle = [feed for feed in self._feeds if not feed.is_pumping]
        return min(idle, key=lambda feed: feed.used_s, default=None)

    def is_elsewhere(self, feed: Feed) -> bool:
        """Tell whether another feed has what comes next in this one (FeedHome)."""
        end = feed.ring.end
        at = Position(end)
        is_older = True
        for other in self._near(at):
            if other is feed:
                is_older = False
            elif (is_older or end.dlsn < other.ring.end.dlsn) and other.find(at) is not None:
                return True
        return False

    def _near(self, at: Position) -> list[Feed]:
        """Return the feeds whose rings may have a position, oldest first.

        Cost: 0.2 us for each feed; `Feed.find` is asked of these few only.
        """
        dlsn = at.place.dlsn
        return [
            feed for feed in self._feeds if (ring := feed.ring).start.dlsn <= dlsn <= ring.end.dlsn
        ]

    def on_idle(self, feed: Feed) -> None:
        """Close a feed (FeedHome)."""
        if feed in self._feeds:
            del self._feeds[feed]
            self._context.metrics.feeds -= 1
            self._on_idle(self, feed)

    def take_feeds(self) -> list[Feed]:
        """Return all feeds, for the caller to close."""
        feeds = list(self._feeds)
        self._feeds.clear()
        self._context.metrics.feeds -= len(feeds)
        return feeds

    # ------------------------------------------------------------------ where readers begin

    def find_txid(self, txid: TxId) -> Place | None:
        """Return where the message with the first record of a txid begins, if a feed has it."""
        for feed in self._feeds:
            number = feed.ring.find_txid(txid)
            message = None if number is None else feed.ring.get(number)
            if message is not None:
                return Place(message.first, message.ledger_id)
        return None

    async def end(self) -> Place:
        """Return where a stream ends now, asked once for all that ask at the same time.

        A feed at the tail knows it. Errors: as Log.end. Cancel: others that wait ask again.
        """
        following = [feed.ring.end for feed in self._feeds if feed.is_following]
        if following:
            return max(following)
        while (asking := self._asking) is not None:
            await asyncio.wait([asking])
            if not asking.cancelled():
                return asking.result()
        self._asking = asked = asyncio.get_running_loop().create_future()
        try:
            end = await self._log.end()
        except CoreError as error:
            asked.set_exception(error)
            raise
        else:
            asked.set_result(end)
            return end
        finally:
            self._asking = None
            if asked.done():
                asked.exception()  # perhaps no other has asked
            else:
                asked.cancel()

    def place_of(self, dlsn: DLSN) -> Place:
        """Return a position in the ledger that its segment has now."""
        segment = self._log.segments.find(dlsn.lssn)
        return Place(dlsn, NO_LEDGER if segment is None else segment.ledger_id)
