"""10,000 readers of one stream at one read proxy, one of which does not read.

What a reader costs the proxy in memory and a response in CPU, how soon all of them have a message,
how long another caller of the proxy waits at the same time, and what its three bookies are asked.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tailrace import dlog
from tailrace.core.runtime.tasks import Tasks
from tests.bench.bookies import TAILRACE, started
from tests.bench.logs import bind
from tests.bench.proxies import Figures, Proxy, proxy

READERS: Final = 10_000
_STREAM: Final = "s"
_MESSAGES: Final = 5
_FLOOD_RECORDS: Final = 100
_FLOOD_RECORD_BYTES: Final = 4_096
_ASK_PAUSE_S: Final = 0.02
_END_S: Final = 60
_QUORUMS: Final = {"bkcEnsembleSize": "3", "bkcWriteQuorumSize": "3", "bkcAckQuorumSize": "2"}


def measure(zookeeper: str, folder: Path, *, steps: Callable[[str], None]) -> Figures:
    """Run one round; return its figures."""
    own = Path(tempfile.mkdtemp(prefix="readers-", dir=folder))
    with started(TAILRACE, 3, zookeeper, own) as bookies:
        path = f"/messaging/{own.name}"
        namespace = f"distributedlog://{zookeeper}{path}"
        asyncio.run(bind(bookies.uri, zookeeper, path))
        at = ("--metadata", bookies.uri, "--namespace", namespace)
        with proxy("read", at, own) as running:
            found = asyncio.run(_measure(namespace, running, steps))
    return {f"{READERS} readers": found}


async def _measure(
    namespace: str, running: Proxy, steps: Callable[[str], None]
) -> dict[str, float]:
    async with dlog.open_namespace(namespace, settings=_QUORUMS) as opened:
        await opened.create_log(_STREAM)
        async with opened.open_log(_STREAM) as log, log.open_writer() as writer:
            await writer.write(b"first", 1)
            clients, asker = _Clients(running.at), _Asker(running.at)
            tasks = Tasks("readers")
            tasks.start(asker.run(), "ask")
            try:
                return await _story(writer, running, clients, asker, steps)
            finally:
                clients.end()
                await tasks.close()


async def _story(
    writer: Any,
    running: Proxy,
    clients: "_Clients",
    asker: "_Asker",
    steps: Callable[[str], None],
) -> dict[str, float]:
    idle_mb = running.rss_mb()
    found = {"all have begun after, s": (await clients.answer())["seconds"]}
    found["memory of a reader, KB"] = (running.rss_mb() - idle_mb) * 1000 / READERS
    found["another caller waits while they come, longest ms"] = asker.longest_ms()
    steps(f"{READERS} readers wait")
    took: list[float] = []
    for number in range(1, _MESSAGES + 1):
        await writer.write(b"x" * 1000, 1 + number)
        took.append((await clients.ask("messages", number))["seconds"])
    found["a message has come to all after, s"] = statistics.median(took)
    steps("a message at a time")
    await clients.ask("stop", 1)
    before_mb, before_s, asked = running.rss_mb(), running.cpu_s(), _asked(running)
    sent = [
        await writer.submit(b"y" * _FLOOD_RECORD_BYTES, 100 + each)
        for each in range(_FLOOD_RECORDS)
    ]
    await asyncio.gather(*sent)
    flood = await clients.ask("records", 1 + _MESSAGES + _FLOOD_RECORDS)
    cpu_s = running.cpu_s() - before_s
    found["CPU of a response of 60 KB, us"] = cpu_s * 1e6 / flood["responses"]
    found["much at once, MB/s"] = (
        READERS * _FLOOD_RECORDS * _FLOOD_RECORD_BYTES / flood["seconds"] / 1e6
    )
    found["much at once, memory more, MB"] = running.rss_mb() - before_mb
    found["responses for each read or long poll of bookies"] = flood["responses"] / (
        _asked(running) - asked
    )
    found["another caller waits, p50 ms"] = statistics.median(asker.took_ms)
    found["another caller waits, longest ms"] = asker.longest_ms()
    steps("much, with one reader stopped")
    return found


def _asked(running: Proxy) -> float:
    """Return how often the proxy asked bookies for entries or for what comes."""
    return running.number("ledger_reads_total") + running.number("ledger_long_polls_total")


class _Asker:
    """Another caller of the proxy: asks all the time for its health."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.took_ms: list[float] = []

    def longest_ms(self) -> float:
        """Return how long an answer took at most since this was asked last."""
        longest = max(self.took_ms)
        self.took_ms = [0.0]
        return longest

    async def run(self) -> None:
        async with grpc.aio.insecure_channel(self._at) as channel:
            ask = health_pb2_grpc.HealthStub(channel).Check
            while True:
                began_s = time.perf_counter()
                await ask(health_pb2.HealthCheckRequest())
                self.took_ms.append((time.perf_counter() - began_s) * 1000)
                await asyncio.sleep(_ASK_PAUSE_S)


class _Clients:
    """The process of all readers."""

    def __init__(self, at: str) -> None:
        words = ["-m", "tests.bench.readers_client", at, _STREAM, str(READERS)]
        self._child = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    async def ask(self, what: str, count: int) -> dict[str, float]:
        """Have it do something, and return what it found."""
        to = self._child.stdin
        assert to is not None
        to.write(f"{what} {count}\n")
        to.flush()
        return await self.answer()

    async def answer(self) -> dict[str, float]:
        """Return the next thing that it found. Errors: RuntimeError when it failed."""
        out: IO[str] | None = self._child.stdout
        assert out is not None
        line = await asyncio.to_thread(out.readline)
        if not line:
            raise RuntimeError("the readers failed: see their errors above")
        found: dict[str, float] = json.loads(line)
        return found

    def end(self) -> None:
        """End it."""
        self._child.terminate()
        self._child.wait(_END_S)
