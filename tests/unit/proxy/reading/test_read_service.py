"""What one reader of a read proxy gets: as a direct reader, from every start to every end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tests.unit.core.log.world import Listener, put, write
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.world import (
    LATEST,
    OLDEST,
    Reader,
    direct,
    read,
    request,
    service,
    writing,
)


def test_every_start_gives_what_a_direct_reader_gets(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for txid in range(1, 31):
            await write(writer, txid * 10)
            if txid % 7 == 0:
                await writer.roll()
        for txid in (400, 400, 401):  # one entry
            put(writer, txid)
        await writer.flush()
        await writer.close()
        proxy = service(world)
        all_records = await direct(log)
        starts: list[Any] = [each.dlsn for each in all_records]
        starts += [each.dlsn.next_slot() for each in all_records]
        starts += [DLSN(-5, 0, 0), DLSN(2, -1, -1), DLSN(3, 10**9, 0), DLSN(99, 0, 0)]
        starts += [DLSN(2**63 - 1, 2**63 - 1, 2**63 - 1)]
        for start in starts:
            found = await read(proxy, start)
            assert found.got == await direct(log, max(start, DLSN(0, 0, 0))), start
            assert found.tails[-1] == len(found.got)
        for txid in (-(2**63), 0, 10, 11, 155, 300, 301, 400, 401, 402, 2**63 - 1):
            found = await read(proxy, [txid])
            assert found.got == await direct(log, txid), txid
        assert (await read(proxy, OLDEST)).got == all_records
        assert (await read(proxy, LATEST)).got == []
        await proxy.close()

    run(tmp_path, story)


def test_number_of_records_is_kept(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for txid in range(100):
            put(writer, txid)
        await writer.flush()
        await writer.close()
        proxy = service(world)
        for most in (1, 2, 99, 100, 101):
            found = await read(proxy, [10], most=most, tail=most <= 90)
            assert found.txids == list(range(10, min(10 + most, 100)))
            assert found.tails == ([90] if most >= 90 else []) or most > 90
        await proxy.close()
        assert log.name == "s"

    run(tmp_path, story)


def test_tailing_reader_gets_what_comes_and_hears_once_that_it_has_all(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world, control_flush_ms=20)
        proxy = service(world)
        reader = Reader(proxy, request(LATEST))
        assert await reader.step()
        assert reader.tails == [0]
        waiting = asyncio.create_task(reader.until(3))
        await asyncio.sleep(10)
        assert not waiting.done()
        for txid in (1, 2, 3):
            await write(writer, txid)
            await asyncio.sleep(5)
        await waiting
        assert reader.txids == [1, 2, 3]
        assert reader.tails == [0, 1, 2, 3]
        await writer.close()
        await reader.close()
        await proxy.close()
        assert proxy.metrics.readers == proxy.metrics.feeds == proxy.metrics.streams == 0

    run(tmp_path, story)


def test_rolls_are_followed_to_the_end_of_the_stream(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        proxy = service(world)
        reader = Reader(proxy, request())
        reading = asyncio.create_task(reader.to_end())
        for txid in range(1, 20):
            await write(writer, txid)
            if txid % 4 == 0:
                await writer.roll()
            await asyncio.sleep(1)
        await writer.mark_end_of_stream()
        await writer.close()
        await reading
        assert reader.txids == list(range(1, 20))
        assert reader.ended is not None
        assert reader.ended.code is StatusCode.END_OF_STREAM
        again = await read(proxy)
        assert (again.txids, again.ended) == (reader.txids, reader.ended)
        behind = await read(proxy, LATEST)
        assert behind.ended is not None
        assert behind.ended.code is StatusCode.END_OF_STREAM
        await proxy.close()
        assert log.segments

    run(tmp_path, story)


def test_truncation_counts_at_the_start(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world)
        for txid in range(1, 10):
            await write(writer, txid)
            if txid % 3 == 0:
                await writer.roll()
        proxy = service(world)
        inside = Reader(proxy, request())
        await inside.until(2)
        kept = (await direct(log))[4].dlsn
        await log.truncate(kept)
        await asyncio.sleep(2)
        assert (await read(proxy)).got == await direct(log)
        assert (await read(proxy, [2])).txids == [5, 6, 7, 8, 9]
        assert (await inside.until(9))[-1].txid == 9, "truncation never counts later"
        await inside.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


def test_reader_in_a_purged_segment_hears_of_it(tmp_path: Path) -> None:
    """One that stopped at its end does not need it."""

    async def story(world: ProxyWorld) -> None:
        log, writer = await writing(world, delete_delay_ms=0)
        for txid in range(1, 13):
            await write(writer, txid)
            if txid % 3 == 0:
                await writer.roll()
        await asyncio.sleep(1)
        proxy = service(world, feed_linger_ms=1000)
        one, two = Reader(proxy, request()), Reader(proxy, request())
        await one.step()
        assert one.txids == [1, 2, 3]
        await two.step()
        await two.step()
        assert two.txids == [1, 2, 3, 4, 5, 6]
        await asyncio.sleep(10)
        assert proxy.metrics.feeds == 0
        assert len(await log.purge_segments(3)) == 2
        await log.upkeep.trimmer.drop_purged_and_cold()
        await one.step()
        assert one.ended is not None
        assert one.ended.code is StatusCode.LOG_SEGMENT_IS_TRUNCATED
        assert (await two.until(12))[-1].txid == 12
        await one.close()
        await two.close()
        await writer.close()
        await proxy.close()

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gone", StatusCode.LOG_NOT_FOUND),
        ("", StatusCode.INVALID_STREAM_NAME),
        (".x", StatusCode.INVALID_STREAM_NAME),
        ("a/../b", StatusCode.INVALID_STREAM_NAME),
    ],
)
def test_wrong_names_are_refused(tmp_path: Path, name: str, code: StatusCode) -> None:
    async def story(world: ProxyWorld) -> None:
        await writing(world)
        proxy = service(world)
        found = await read(proxy, stream=name)
        assert found.ended is not None
        assert found.ended.code is code
        assert found.ended.error
        assert proxy.metrics.failed_requests_total == 1
        await proxy.close()

    run(tmp_path, story)


def test_unknown_edge_is_refused(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        await writing(world)
        proxy = service(world)
        asked = ReadRequest.FromString(b"\x0a\x01s\x10\x07")
        reader = Reader(proxy, asked)
        await reader.to_end()
        assert reader.ended is not None
        assert reader.ended.code is StatusCode.REQUEST_DENIED
        await proxy.close()

    run(tmp_path, story)


def test_reader_of_a_deleted_stream_hears_of_it(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        _, writer = await writing(world)
        await write(writer, 1, 2)
        await writer.close()
        proxy = service(world)
        reader = Reader(proxy, request())
        reading = asyncio.create_task(reader.to_end())
        await asyncio.sleep(3)
        assert reader.txids == [1, 2]
        await world.namespace().delete_log("s")
        async with asyncio.timeout(30):
            await reading
        assert reader.ended is not None
        assert reader.ended.code is StatusCode.LOG_NOT_FOUND
        await proxy.close()

    run(tmp_path, story)


def test_log_of_this_process_is_read(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        namespace = world.namespace()
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        proxy = ReadService(namespace, world.clock, ReadConfig())
        reader = Reader(proxy, request())
        assert await reader.step()
        for txid in range(1, 9):
            await write(writer, txid)
            if txid == 4:
                await writer.roll()
            await reader.until(txid)
        assert reader.txids == list(range(1, 9))
        assert (await read(proxy)).txids == list(range(1, 9))
        await writer.close()
        await reader.close()
        await proxy.close()

    run(tmp_path, story)


def test_names_are_resolved(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:

        _, writer = await writing(world, "%2Et-0")
        await write(writer, 1)
        await writer.close()
        proxy = ReadService(
            world.namespace(), world.clock, ReadConfig(), lambda name: name.replace(".", "%2E")
        )
        assert (await read(proxy, stream=".t-0")).txids == [1]
        await proxy.close()

    run(tmp_path, story)
