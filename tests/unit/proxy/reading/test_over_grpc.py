"""Reading through the real gRPC server: flow control, cancelled calls, the stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import uvloop

from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.proxy.methods import READ_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import ListSegmentsRequest, ReadLastRequest
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tests.proxy_client import ProxyCalls, calls
from tests.unit.core.log.world import Listener, World, put, write
from tests.unit.proxy.reading.world import LATEST, Got, direct, got_of, request

WITHIN_S = 60
RECORD_BYTES = 60_000
RECORDS = 250
"""15 MB: more than gRPC's windows and buffers hold for one call."""
HELD_BYTES_MAX = 10_000_000


class Served(NamedTuple):
    world: World
    writer: LogWriter
    proxy: ReadService
    server: GrpcServer
    ask: ProxyCalls
    at: str


@asynccontextmanager
async def served(path: Path, **config: int) -> AsyncIterator[Served]:
    world = World(path)
    await initialize_layout(world.store, instance_id="test")
    log = await world.log(control_flush_ms=5)
    writer = await log.open_writer(Listener())
    proxy = ReadService(world.namespace(), SystemClock(), ReadConfig(**config))
    server = GrpcServer(GrpcConfig())
    at = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
    server.add(READ_PROXY, proxy)
    await server.start()
    try:
        async with calls(at, READ_PROXY) as ask:
            yield Served(world, writer, proxy, server, ask, at)
    finally:
        await proxy.close()
        await server.close()
        await writer.close()
        await world.store.close()


def run(path: Path, story: Callable[[Served], Awaitable[None]], **config: int) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S), served(path, **config) as all_of_it:
            await story(all_of_it)

    uvloop.run(main())


async def take(call: Any, records: int) -> list[Got]:
    found: list[Got] = []
    while len(found) < records:
        found += got_of(await call.read())
    return found


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop work until something holds; the story's time bounds it."""
    while True:
        if holds():
            return
        await asyncio.sleep(0.001)


def test_three_methods_are_served(tmp_path: Path) -> None:
    async def story(it: Served) -> None:
        await write(it.writer, *range(1, 51))
        await it.writer.commit()
        log = await it.world.log()
        found = [each async for each in it.ask.stream("read", request(tail=False))]
        assert [got for each in found for got in got_of(each)] == await direct(log)
        assert found[-1].at_tail
        last = await it.ask("read_last", ReadLastRequest(stream="s"))
        assert last.record.transaction_id == 50
        segments = await it.ask("list_segments", ListSegmentsRequest(stream="s"))
        assert [each.log_segment_sequence_number for each in segments.segments] == [1]
        gone = [each async for each in it.ask.stream("read", request(stream="gone"))]
        assert [each.header.code for each in gone] == [StatusCode.LOG_NOT_FOUND]

    run(tmp_path, story)


def test_client_that_does_not_read_holds_back_nobody(tmp_path: Path) -> None:
    """What is made for it ends where gRPC's windows are full; later it reads everything."""

    async def story(it: Served) -> None:
        async with calls(it.at, READ_PROXY) as other:
            stopped, running = it.ask.stream("read", request()), other.stream("read", request())
            assert (await stopped.read()).at_tail
            assert (await running.read()).at_tail
            metrics = it.proxy.metrics
            for txid in range(RECORDS):
                put(it.writer, txid, b"x" * RECORD_BYTES)
                await it.writer.flush()
                assert [each.txid for each in await take(running, 1)] == [txid]
            for_stopped = metrics.sent_bytes_total - RECORDS * RECORD_BYTES
            assert for_stopped < HELD_BYTES_MAX
            assert it.proxy._context.budget.used_bytes <= 1_000_000
            everything = await take(stopped, RECORDS)
            assert [each.txid for each in everything] == list(range(RECORDS))
            assert metrics.fallen_behind_total >= 1
            stopped.cancel()
            running.cancel()
        await until(lambda: metrics.readers == 0)

    run(tmp_path, story, cache_bytes=1_000_000)


def test_cancelled_and_broken_calls_leave_nothing(tmp_path: Path) -> None:
    async def story(it: Served) -> None:
        async with calls(it.at, READ_PROXY) as other:
            readers = [each.stream("read", request(LATEST)) for each in (it.ask, other) * 20]
            for each in readers:
                assert (await each.read()).at_tail
            assert it.proxy.metrics.readers == 40
            for each in readers[::2]:
                each.cancel()
            await until(lambda: it.proxy.metrics.readers == 20)
        await until(lambda: it.proxy.metrics.readers == 0)
        await until(lambda: it.proxy.metrics.feeds == 0)

    run(tmp_path, story, feed_linger_ms=10)


def test_readers_hear_of_the_stop(tmp_path: Path) -> None:
    async def story(it: Served) -> None:
        readers = [it.ask.stream("read", request()) for _ in range(10)]
        for each in readers:
            assert (await each.read()).at_tail
        await it.proxy.close()
        for each in readers:
            last = await each.read()
            assert last.header.code == StatusCode.SERVICE_UNAVAILABLE
            assert await each.read() is grpc.aio.EOF
            assert await each.code() is grpc.StatusCode.OK

    run(tmp_path, story)
