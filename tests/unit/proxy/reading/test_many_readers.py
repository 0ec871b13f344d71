"""Many readers of one stream: bookies see one, memory is bounded, and nobody waits for the slow."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tailrace.core.ledger.config import ReadConfig as BookieReads
from tailrace.processes.proxy_config import ReadProxyConfig
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ReadLacRequest,
    Request,
)
from tailrace.protocol.bookkeeper.messages import (
    StatusCode as BookieStatus,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.feed import READ_BYTES
from tailrace.proxy.reading.message import MESSAGE_BYTES_MAX
from tailrace.proxy.reading.read_service import ReadService
from tests.unit.core.ledger.fake_bookie import Reply, no_fault
from tests.unit.core.log.world import put, write
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.world import (
    LATEST,
    Reader,
    direct,
    entry_reads,
    read,
    request,
    service,
    writing,
)

if TYPE_CHECKING:
    from tailrace.core.log.writer import LogWriter

RECORD_BYTES = 2_000


async def write_entries(writer: "LogWriter", entries: range) -> None:
    for txid in entries:
        put(writer, txid, b"x" * RECORD_BYTES)
        await writer.flush()


def test_bookies_see_one_reader(tmp_path: Path) -> None:
    """Over rolls, at the tail and behind it."""

    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world, control_flush_ms=10)
        await write_entries(writer, range(100))
        await writer.roll()
        proxy = service(world)
        world.bookie.requests.clear()
        readers = [Reader(proxy, request()) for _ in range(50)]
        reading = [asyncio.create_task(each.until(200)) for each in readers]
        for at in range(100, 200, 10):
            await asyncio.sleep(0.5)
            await write_entries(writer, range(at, at + 10))
        await asyncio.gather(*reading)
        late = [Reader(proxy, request([150 + at])) for at in range(20)]
        await asyncio.gather(*(each.until(50 - at) for at, each in enumerate(late)))
        assert {tuple(each.txids) for each in readers} == {tuple(range(200))}
        assert [each.txids for each in late] == [list(range(150 + at, 200)) for at in range(20)]
        assert max(Counter(entry_reads(world)).values()) == 1
        assert proxy.metrics.encoded_records_total == 200
        assert proxy.metrics.feeds == 1
        for each in (*readers, *late):
            await each.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


def test_stopped_reader_holds_nothing_but_its_cursor(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world, control_flush_ms=10)
        proxy = service(world, cache_bytes=100_000, stream_cache_bytes=50_000)
        stopped, running = Reader(proxy, request()), Reader(proxy, request())
        await asyncio.gather(stopped.step(), running.step())
        budget = proxy._context.budget
        for at in range(0, 2_000, 50):
            await write_entries(writer, range(at, at + 50))
            await running.until(at + 50)
            assert budget.used_bytes <= 50_000 + MESSAGE_BYTES_MAX
            (stream,) = proxy._streams.values()
            for feed in stream.feeds:
                assert len(feed._waiting) <= 1
                assert sum(each.size_bytes for each in feed._pending) <= READ_BYTES
        assert proxy.metrics.feeds == 1
        assert running.txids == list(range(2_000))
        assert stopped.got == []
        assert await stopped.until(2_000) == await direct(log)
        assert proxy.metrics.fallen_behind_total >= 1
        await asyncio.sleep(20)
        assert proxy.metrics.feeds == 0, "the readers stopped asking"
        for each in (stopped, running):
            await each.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


@pytest.mark.parametrize("rolls", [False, True])
def test_places_that_meet_go_on_as_one(tmp_path: Path, rolls: bool) -> None:
    """Also where one ends at the end of a segment and the other began in the next one."""

    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world, control_flush_ms=10)
        await write_entries(writer, range(100))
        await writer.commit()
        proxy = service(world)
        tailing = Reader(proxy, request(LATEST))
        await tailing.step()
        if rolls:
            await writer.roll()
        behind = Reader(proxy, request())
        reading = asyncio.create_task(behind.until(102))
        await asyncio.sleep(2)
        for txid in (100, 101):
            await write_entries(writer, range(txid, txid + 1))
            await tailing.until(txid - 99)
        await reading
        assert behind.txids == list(range(102))
        assert proxy.metrics.merged_feeds_total == 1
        assert proxy.metrics.encoded_records_total == 102
        await asyncio.sleep(3)
        waiting = [asyncio.create_task(each.step()) for each in (tailing, behind)]
        await asyncio.sleep(7)
        assert proxy.metrics.feeds == 1
        await write(writer, 102)
        await asyncio.gather(*waiting)
        assert tailing.txids[-1] == behind.txids[-1] == 102
        for each in (tailing, behind):
            await each.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


def test_late_reader_hears_of_the_tail_only_there(tmp_path: Path) -> None:
    """What was the last message when it was encoded is not when the reader gets it."""

    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world, control_flush_ms=10)
        proxy = service(world)
        late, prompt = Reader(proxy, request()), Reader(proxy, request())
        await asyncio.gather(late.step(), prompt.step())
        for txid in range(1, 4):
            await write(writer, txid)
            await prompt.until(txid)
        await late.until(3)
        assert (late.txids, late.tails) == ([1, 2, 3], [0, 3])
        assert prompt.tails == [0, 1, 2, 3]
        assert proxy.metrics.encoded_records_total == 3
        for each in (late, prompt):
            await each.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


def test_waking_many_readers_takes_turns_with_others(tmp_path: Path) -> None:
    """Between two slices of readers that are woken, everything else goes on."""

    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world, control_flush_ms=10)
        proxy = service(world)
        readers = [Reader(proxy, request(LATEST)) for _ in range(1_000)]
        for each in readers:
            await each.step()
        waiting = [asyncio.create_task(each.until(1)) for each in readers]
        woken_between: list[int] = []

        async def count() -> None:
            done = 0
            while done < len(waiting):
                await asyncio.sleep(0)
                now = sum(task.done() for task in waiting)
                woken_between.append(now - done)
                done = now

        await asyncio.sleep(1)
        await write(writer, 1)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await count()
        assert max(woken_between) <= 2 * 64
        assert all(each.txids == [1] for each in readers)
        for each in readers:
            await each.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


def test_limits_are_answered(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in ("s", "t", "u"):
            _, writer = await writing(world, name)
            await write(writer, *range(1, 4))
            await writer.close()
        proxy = service(world, readers_max=3, stream_readers_max=2, streams_max=2)
        readers = [Reader(proxy, request(stream=name)) for name in "sst"]
        for each in readers[:2]:
            await each.step()
        await refused(proxy, "s", "proxy.read.stream.readers.max=2")
        await readers[2].step()
        await refused(proxy, "t", "proxy.read.readers.max=3")
        await readers[0].close()
        await refused(proxy, "u", "proxy.read.streams.max=2")
        assert (await read(proxy, stream="s")).txids == [1, 2, 3]
        for each in readers:
            await each.close()
        assert proxy.metrics.readers == 0
        assert proxy.metrics.over_capacity_total == 3
        await proxy.close()

    async def refused(proxy: ReadService, name: str, limit: str) -> None:
        found = await read(proxy, stream=name)
        assert found.ended is not None
        assert found.ended.code is StatusCode.OVER_CAPACITY
        assert limit in found.ended.error

    run(tmp_path, story)


def test_place_that_nobody_asks_for_makes_room(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        await write_entries(writer, range(100))
        await writer.close()
        everything = await direct(log)
        proxy = service(world, cache_bytes=0, feeds_max=2, stream_feeds_max=2)
        readers = [Reader(proxy, request(everything[at].dlsn)) for at in (0, 30, 60, 90)]
        for each in readers:
            await each.step()
        assert proxy.metrics.feeds == 2
        for at, each in zip((0, 30, 60, 90), readers, strict=True):
            assert await each.until(100 - at) == everything[at:]
        for each in readers:
            await each.close()
        await proxy.close()

    run(tmp_path, story)


def test_hundreds_of_places_are_read_at_once(tmp_path: Path) -> None:
    """Each reader far from the others, all of them asking, and nothing that is kept."""
    places = 300

    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for txid in range(2 * places):
            put(writer, txid, b"x" * 40_000)
        await writer.close()
        starts = [each.dlsn for each in (await direct(log))[::2]]
        proxy = service(world, cache_bytes=0)
        readers = [Reader(proxy, request(start)) for start in starts]
        await asyncio.gather(*(each.step() for each in readers))
        assert [each.txids for each in readers] == [[2 * at] for at in range(places)]
        assert proxy.metrics.feeds > 100
        for each in readers:
            await each.close()
        await proxy.close()

    run(tmp_path, story)


def test_silent_bookies_are_asked_again_and_then_the_reader_hears(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world)
        await write(writer, *range(1, 4))
        await writer.close()
        proxy = service(world, retries=3, retry_backoff_ms=100, retry_backoff_max_ms=150)
        failures = 2

        def fault(asked: Request) -> BookieStatus | None:
            nonlocal failures
            if isinstance(asked, AddRequest | ReadLacRequest) or failures == 0:
                return None
            failures -= 1
            return BookieStatus.LOCAL_UNAVAILABLE

        world.bookie.fault = fault
        assert (await read(proxy)).txids == [1, 2, 3]
        assert proxy.metrics.retries_total == 2
        await asyncio.sleep(20)
        failures = 10**9
        found = await read(proxy)
        assert found.ended is not None
        assert found.ended.code is StatusCode.RETRYABLE_READ_EXCEPTION
        assert proxy.metrics.retries_total == 2 + 3
        world.bookie.fault = no_fault
        assert (await read(proxy)).txids == [1, 2, 3], "what failed is tried again"
        await proxy.close()

    run(tmp_path, story)


def test_damaged_entry_ends_the_read_where_it_lies(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        await write_entries(writer, range(6))
        await writer.close()
        (segment,) = log.segments
        world.bookie.flip_bit(segment.ledger_id, 3)
        proxy = service(world)
        for _ in range(2):
            found = await read(proxy)
            assert found.txids == [0, 1, 2]
            assert found.ended is not None
            assert found.ended.code is StatusCode.LOG_READ_ERROR
            for place in ("log s", "segment 1", f"ledger {segment.ledger_id}", "entry 3"):
                assert place in found.ended.error
        assert (await read(proxy, [5])).txids == [5], "what lies before does not matter"
        assert (await read(proxy, found.got[2].dlsn)).txids == [2]
        await proxy.close()

    run(tmp_path, story)


def test_readers_hear_that_the_proxy_stops(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world)
        await write(writer, 1)
        proxy = service(world)
        readers = [Reader(proxy, request()) for _ in range(100)]
        reading = [asyncio.create_task(each.to_end()) for each in readers]
        await asyncio.sleep(5)
        await proxy.close()
        await asyncio.gather(*reading)
        ends = {each.ended.code for each in readers if each.ended is not None}
        assert ends == {StatusCode.SERVICE_UNAVAILABLE}
        assert proxy.metrics.readers == proxy.metrics.feeds == proxy.metrics.streams == 0
        found = await read(proxy)
        assert found.ended is not None
        assert found.ended.code is StatusCode.SERVICE_UNAVAILABLE
        await writer.close()

    run(tmp_path, story)


@pytest.mark.parametrize("stuck", [0, 1, 2])
@pytest.mark.parametrize(
    ("reads", "most_s"), [(BookieReads(), 3.1), (ReadProxyConfig().ledgers.read, 0.8)]
)
def test_stuck_bookie_does_not_hold_back_readers_at_the_tail(
    tmp_path: Path, stuck: int, reads: BookieReads, most_s: float
) -> None:
    """It takes writes and answers no read: once the others are asked as well, then first."""

    async def story(world: ProxyWorld) -> None:
        loop = asyncio.get_running_loop()
        _, writer = await writing(
            world, ensemble_size=3, write_quorum=3, ack_quorum=2, control_flush_ms=10
        )
        await write(writer, 0)
        proxy = service(world, reads=reads)
        reader = Reader(proxy, request())
        await reader.until(1)
        await asyncio.sleep(5)
        bookie = world.bookies[stuck]
        answer = bookie._answer

        def answer_adds(asked: Request, reply: Reply) -> None:
            if isinstance(asked, AddRequest):
                answer(asked, reply)

        bookie._answer = answer_adds  # type: ignore[method-assign]
        waits_s: list[float] = []
        for txid in range(1, 21):
            began_s = loop.time()
            await write(writer, txid)
            await reader.until(txid + 1)
            waits_s.append(loop.time() - began_s)
            await asyncio.sleep(0.5)
        assert max(waits_s) < most_s
        assert sum(each > 0.1 for each in waits_s) <= 2, waits_s
        await reader.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story, bookies=3)
