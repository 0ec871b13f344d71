"""A feed over a reader that does what the test says, in turns that a world cannot choose."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, cast

from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.resume import Place
from tailrace.core.log.segments import SegmentList
from tailrace.core.runtime.loop_turns import LoopTurns
from tailrace.protocol.distributedlog.dlsn import INITIAL
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.feed import Feed, FeedContext, Position, Signal
from tailrace.proxy.reading.message import NO_LEDGER
from tailrace.proxy.reading.metrics import ReadMetrics
from tailrace.proxy.reading.ring import RingBudget
from tailrace.simulation.loop import SimLoop
from tests.unit.proxy.owner.world import LoopClock

if TYPE_CHECKING:
    from tailrace.core.log.log import Log
    from tailrace.core.log.reader import LogReader


class AtTail:
    """A log without records, and its reader; it is told of news that are none."""

    name = "s"
    segments = SegmentList()
    is_caught_up = True

    def __init__(self) -> None:
        self.reads = 0
        self.fails_with: Exception | None = None
        self.news = asyncio.Event()

    async def open_reader(self, *_: Any) -> "LogReader":
        return cast("LogReader", self)

    async def read_entries(self, _: int) -> list[EntryRecords]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.fails_with is not None:
            raise self.fails_with
        return []

    async def wait_for_more(self) -> None:
        await self.news.wait()
        self.news.clear()

    async def close(self) -> None:
        """Nothing is open."""


class Home:
    def __init__(self, log: AtTail) -> None:
        self.log = cast("Log", log)
        self.idle: list[Feed] = []

    def is_elsewhere(self, _: Feed) -> bool:
        return False

    def on_idle(self, feed: Feed) -> None:
        self.idle.append(feed)


def feed_of(log: AtTail) -> tuple[Feed, Home]:
    context = FeedContext(ReadConfig(), LoopClock(), ReadMetrics(), RingBudget(1, 1), LoopTurns())
    home = Home(log)
    return Feed(home, Position(Place(INITIAL, NO_LEDGER)), context), home


def run(story: Any) -> None:
    with asyncio.Runner(loop_factory=lambda: SimLoop(Random(1))) as runner:
        runner.run(story())


def test_reader_that_ends_has_bookies_asked_though_news_came_with_its_request() -> None:
    """A reader of core that was told of news asks no bookie in its next read."""

    async def story() -> None:
        log = AtTail()
        feed, _ = feed_of(log)
        tailing = feed.ask(is_told=True, ends=False)
        await asyncio.sleep(1)
        reads = log.reads
        log.news.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ending = feed.ask(is_told=False, ends=True)
        assert await ending is Signal.AT_TAIL
        assert log.reads == reads + 2
        assert not tailing.done()
        feed.forget(tailing)
        await feed.close()

    run(story)


def test_fault_of_ours_ends_the_feed_and_is_answered() -> None:
    async def story() -> None:
        log = AtTail()
        feed, home = feed_of(log)
        log.fails_with = ZeroDivisionError("a secret")
        waiters = [feed.ask(is_told=False, ends=bool(n % 2)) for n in range(4)]
        for each in waiters:
            found = await each
            assert "secret" not in str(found)
            assert "ZeroDivisionError" in str(found)
        assert feed.is_closed
        assert home.idle == [feed]
        await feed.close()

    run(story)


def test_feed_that_nobody_waits_for_reads_nothing_and_ends() -> None:
    async def story() -> None:
        log = AtTail()
        feed, home = feed_of(log)
        await asyncio.sleep(1)
        assert log.reads == 0
        waiter = feed.ask(is_told=True, ends=False)
        await asyncio.sleep(20)
        assert home.idle == [], "a reader waits"
        feed.forget(waiter)
        await asyncio.sleep(1)
        assert not feed.is_pumping
        reads = log.reads
        await asyncio.sleep(20)
        assert (log.reads, home.idle) == (reads, [feed])
        await feed.close()

    run(story)
