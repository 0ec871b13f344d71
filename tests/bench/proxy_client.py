"""Load through proxies, and on an embedded log beside it: a process of its own.

`python -m tests.bench.proxy_client WHAT NAMESPACE STREAM NUMBERS...` prints one line of JSON.

    embedded  BYTES IN_FLIGHT WARM_S SECONDS   a log's own writer, as many records as go
    stream    BYTES IN_FLIGHT WARM_S SECONDS   `ThinClient.open_writer`: a WriteStream
    calls     BYTES IN_FLIGHT WARM_S SECONDS   one record a call
    embedded-latency, latency  BYTES COUNT     one record at a time
    fan-out   BYTES READERS COUNT              readers of the tail, while records are written
"""

import json
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import uvloop

from tailrace import dlog
from tailrace.core.runtime.collector import settle_collector
from tailrace.core.runtime.tasks import together
from tailrace.dlog import TAIL, LogExists, ThinClient

if TYPE_CHECKING:
    import asyncio

Submit: TypeAlias = Callable[[bytes], Awaitable["asyncio.Future[dlog.DLSN]"]]

_CALLS: Final = {"enable.idempotence": "false"}
"""DistributedLog's own way: each record is a call of its own."""
_WARM_RECORDS: Final = 200


def main() -> None:
    """Do what the command line says."""
    what, namespace, stream, *numbers = sys.argv[1:]
    jobs = {
        "embedded": _embedded,
        "stream": _stream,
        "calls": _calls,
        "embedded-latency": _embedded_latency,
        "latency": _latency,
        "fan-out": _fan_out,
    }
    found = uvloop.run(jobs[what](namespace, stream, *map(float, numbers)))
    sys.stdout.write(json.dumps(found) + "\n")


# ---------------------------------------------------------------------- throughput


async def _embedded(
    namespace: str, stream: str, size: float, in_flight: float, warm_s: float, seconds: float
) -> dict[str, float]:
    async with _embedded_writer(namespace, stream) as submit:
        return await _rate(submit, size, in_flight, warm_s, seconds)


async def _stream(
    namespace: str, stream: str, size: float, in_flight: float, warm_s: float, seconds: float
) -> dict[str, float]:
    async with _thin(namespace, stream) as client, client.open_writer(stream) as writer:
        return await _rate(writer.submit, size, in_flight, warm_s, seconds)


async def _calls(
    namespace: str, stream: str, size: float, in_flight: float, warm_s: float, seconds: float
) -> dict[str, float]:
    async with _thin(namespace, stream, _CALLS) as client:
        payload = bytes(int(size))
        written = 0

        async def write() -> None:
            nonlocal written
            while time.perf_counter() < until:
                await client.write(stream, payload)
                written += 1

        for length in (warm_s, seconds):
            written, began = 0, time.perf_counter()
            until = began + length
            await together([write() for _ in range(int(in_flight))])
        return {"records_per_s": written / (time.perf_counter() - began)}


async def _rate(
    submit: Submit, size: float, in_flight: float, warm_s: float, seconds: float
) -> dict[str, float]:
    payload, rate = bytes(int(size)), 0.0
    settle_collector()
    for length in (warm_s, seconds):
        began = time.perf_counter()
        waiting: deque[asyncio.Future[dlog.DLSN]] = deque()
        written = 0
        while time.perf_counter() < began + length:
            while len(waiting) < in_flight:
                waiting.append(await submit(payload))
            await waiting[0]
            while waiting and waiting[0].done():
                waiting.popleft().result()
                written += 1
        rate = written / (time.perf_counter() - began)
        for each in waiting:
            await each
    return {"records_per_s": rate}


# ---------------------------------------------------------------------- latency


async def _embedded_latency(
    namespace: str, stream: str, size: float, count: float
) -> dict[str, float]:
    async with _embedded_writer(namespace, stream) as submit:

        async def write(payload: bytes) -> None:
            await (await submit(payload))

        return await _one_by_one(write, size, count)


async def _latency(namespace: str, stream: str, size: float, count: float) -> dict[str, float]:
    async with _thin(namespace, stream, _CALLS) as client:
        return await _one_by_one(lambda payload: client.write(stream, payload), size, count)


async def _one_by_one(
    write: Callable[[bytes], Awaitable[object]], size: float, count: float
) -> dict[str, float]:
    payload, took = bytes(int(size)), []
    for _ in range(_WARM_RECORDS + int(count)):
        began = time.perf_counter()
        await write(payload)
        took.append(time.perf_counter() - began)
    p50, p99 = np.percentile(took[_WARM_RECORDS:], [50, 99]) * 1000
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


# ---------------------------------------------------------------------- fan-out


async def _fan_out(
    namespace: str, stream: str, size: float, readers: float, count: float
) -> dict[str, float]:
    """Have each reader get each record, while they are written."""
    payload, total = bytes(int(size)), int(count)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_thin(namespace, stream))
        opened = [
            await stack.enter_async_context(client.read(stream, TAIL)) for _ in range(int(readers))
        ]
        writer = await stack.enter_async_context(client.open_writer(stream))
        began = time.perf_counter()

        async def write() -> None:
            for _ in range(total):
                await writer.submit(payload)

        entries: set[tuple[int, int]] = set()

        async def read(reader: dlog.ThinReader) -> None:
            left = total
            while left:
                found = await reader.read_bulk(left)
                left -= len(found)
                if reader is opened[0]:
                    entries.update((each.dlsn.lssn, each.dlsn.entry_id) for each in found)

        await together([write(), *(read(each) for each in opened)])
        seconds = time.perf_counter() - began
    return {
        "entries": len(entries),
        "mb_per_s": total * len(opened) * size / seconds / 1e6,
    }


# ---------------------------------------------------------------------- writers


@asynccontextmanager
async def _embedded_writer(namespace: str, stream: str) -> AsyncIterator[Submit]:
    async with dlog.open_namespace(namespace) as opened:
        await opened.create_log(stream)
        async with opened.open_log(stream) as log, log.open_writer() as writer:
            txid = 0

            async def submit(payload: bytes) -> "asyncio.Future[dlog.DLSN]":
                nonlocal txid
                txid += 1
                return await writer.submit(payload, txid)

            yield submit


@asynccontextmanager
async def _thin(
    namespace: str, stream: str, settings: dict[str, str] | None = None
) -> AsyncIterator[ThinClient]:
    async with ThinClient(namespace, settings=settings) as client:
        with suppress(LogExists):
            await client.create(stream)
        await client.heartbeat(stream)
        yield client


if __name__ == "__main__":
    main()
