"""A rolling restart of write proxies under thin clients: what each stream met, and for how long.

    python -m tests.cluster.rolling --streams 1000

Tests do it with few streams. Each stream is written to by one client, a record a period; each proxy
in turn gets SIGTERM, drains and starts again; `tailrace proxy balance` ends it.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from tailrace import dlog
from tailrace.core.runtime.tasks import together
from tailrace.dlog import ThinClient, ThinWriter
from tests.cluster.three_bookies import ThreeBookies
from tests.proxy_process import WriteProxyUnderTest
from tests.server_process import TAILRACE
from tests.zookeeper import ZooKeeperServer

QUORUMS: Final = ("bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2")
CLIENTS: Final = 3
AT_ONCE: Final = 32
RECORDS_MAX: Final = 1_000_000
TAIL_S: Final = 30.0


class Restart(NamedTuple):
    """What the restart of one proxy was like. Unit: seconds."""

    drain_s: float
    """From SIGTERM to its end."""
    start_s: float
    longest_s: float
    """The longest write of any stream, from the drain until all were written again."""
    p99_s: float
    """Of each stream's longest write."""
    median_s: float


class Rolled(NamedTuple):
    """A rolling restart."""

    quiet_s: float
    """The longest write of any stream before it."""
    restarts: list[Restart]
    moves: int
    """Of `tailrace proxy balance` at the end."""
    balance_s: float
    records: int
    """That were written, all streams together."""


class Flow:
    """One stream, and what is written to it: the numbers 0, 1, 2, one after the other."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.written = 0
        self.longest_s = 0.0
        self._last = dlog.DLSN(-1, -1, -1)
        self._is_over = False
        self._marks: list[asyncio.Future[None]] = []

    async def run(self, writer: ThinWriter, delay_s: float, period_s: float) -> None:
        """Write until `end`. Errors: what a client sees."""
        await asyncio.sleep(delay_s)
        while not self._is_over:
            began_s, marks = monotonic(), self._marks
            self._marks = []
            position = await writer.write(b"%d" % self.written)
            assert position > self._last, self.stream
            self._last = position
            self.written += 1
            self.longest_s = max(self.longest_s, monotonic() - began_s)
            for mark in marks:
                mark.set_result(None)
            await asyncio.sleep(period_s)

    def end(self) -> None:
        """Have it end behind the record that is on its way."""
        self._is_over = True

    async def written_again(self) -> None:
        """Return once a record is acknowledged that begins from now on."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._marks.append(mark)
        await mark


class Rolling:
    """Streams that are written to while their proxies are restarted."""

    def __init__(
        self, namespace: str, proxies: Sequence[WriteProxyUnderTest], streams: Sequence[str]
    ) -> None:
        self._namespace = namespace
        self._proxies = proxies
        self._flows = [Flow(stream) for stream in streams]

    async def run(self, period_s: float) -> Rolled:
        """Restart every proxy in turn; check each stream's records at the end.

        Errors: the first that a client sees; AssertionError.
        """
        flows = self._flows
        async with AsyncExitStack() as stack:
            writers = await open_writers(stack, self._namespace, flows)
            found: list[Rolled] = []

            async def restart_all() -> None:
                found.append(await self._restart_all())

            writing = [
                flow.run(writer, period_s * n / len(flows), period_s)
                for n, (flow, writer) in enumerate(zip(flows, writers, strict=True))
            ]
            await together([*writing, restart_all()])
        await check_all(self._namespace, flows)
        return found[0]._replace(records=sum(flow.written for flow in flows))

    async def _restart_all(self) -> Rolled:
        await self._all_written()
        self._longest()  # of claims
        await self._all_written()
        quiet_s = self._longest()[-1]
        restarts = [await self._restart(proxy) for proxy in self._proxies]
        began_s = monotonic()
        moves = await asyncio.to_thread(balance, self._namespace)
        balance_s = monotonic() - began_s
        await self._all_written()
        for flow in self._flows:
            flow.end()
        return Rolled(quiet_s, restarts, moves, balance_s, 0)

    async def _restart(self, proxy: WriteProxyUnderTest) -> Restart:
        began_s = monotonic()
        assert await asyncio.to_thread(proxy.stop) == 0
        drained_s = monotonic()
        await asyncio.to_thread(proxy.start)
        started_s = monotonic()
        await self._all_written()
        longest = self._longest()
        return Restart(
            drain_s=drained_s - began_s,
            start_s=started_s - drained_s,
            longest_s=longest[-1],
            p99_s=longest[len(longest) * 99 // 100],
            median_s=longest[len(longest) // 2],
        )

    async def _all_written(self) -> None:
        await together([flow.written_again() for flow in self._flows])

    def _longest(self) -> list[float]:
        """Return each stream's longest write since this was asked before, sorted."""
        found = sorted(flow.longest_s for flow in self._flows)
        for flow in self._flows:
            flow.longest_s = 0.0
        return found


async def open_writers(
    stack: AsyncExitStack, namespace: str, flows: Sequence[Flow]
) -> list[ThinWriter]:
    """Make the streams, and a writer of each at one of the clients, until the stack closes."""
    clients = [await stack.enter_async_context(ThinClient(namespace)) for _ in range(CLIENTS)]
    await create_all(clients[0], flows)
    return [
        await stack.enter_async_context(clients[n % CLIENTS].open_writer(flow.stream))
        for n, flow in enumerate(flows)
    ]


async def create_all(client: ThinClient, flows: Sequence[Flow]) -> None:
    """Make the streams; one that an earlier try has made is there. Errors: ProxyError."""

    async def create(flow: Flow) -> None:
        try:
            await client.create(flow.stream)
        except dlog.ProxyError as error:
            if not (error.is_unknown and isinstance(error, dlog.LogExists)):
                raise

    await in_turns(flows, create)


async def check_all(namespace: str, flows: Sequence[Flow]) -> None:
    """Check that every record is there once, in order, as a process with a core of its own reads.

    Errors: AssertionError.
    """
    async with dlog.open_namespace(namespace) as opened:

        async def check(flow: Flow) -> None:
            log = await opened.open_log(flow.stream)
            found: list[bytes] = []
            async with log.open_reader() as reader:
                # what was acknowledged last is readable once its owner has said how far it got
                while some := await reader.read_bulk(
                    RECORDS_MAX, timeout_s=TAIL_S if len(found) < flow.written else 0
                ):
                    found += [bytes(each.payload) for each in some]
            assert found == [b"%d" % n for n in range(flow.written)], flow.stream

        await in_turns(flows, check)


async def in_turns(each: Sequence[object], work: Callable[..., Awaitable[None]]) -> None:
    """Do work for each of many, `AT_ONCE` side by side."""
    left = iter(each)

    async def worker() -> None:
        for one in left:
            await work(one)

    await together([worker() for _ in range(AT_ONCE)])


def process_cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def balance(namespace: str) -> int:
    """Balance by count; return how many streams moved."""
    command = [str(TAILRACE), "proxy", "balance", "-n", namespace, "--rate", "0", "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, (done.stderr.decode(), done.stdout.decode()[-2_000:])
    moved = json.loads(done.stdout)
    assert {each["result"] for each in moved} <= {"moved"}
    return len(moved)


def main() -> None:
    """Run it on a cluster of its own, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--proxies", type=int, default=3)
    parser.add_argument("--period", type=float, default=2.0, help="seconds between two records")
    parser.add_argument("--set", action="append", default=[], help="a setting of the proxies")
    parser.add_argument("--log", type=Path, help="where the output of the proxies goes")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        zookeeper = ZooKeeperServer(folder / "zookeeper").start()
        stack.callback(zookeeper.stop)
        cluster = stack.enter_context(ThreeBookies(zookeeper, folder))
        settings = [word for each in (*QUORUMS, *given.set) for word in ("--set", each)]
        proxies = [
            WriteProxyUnderTest(cluster.metadata, cluster.namespace, shard, *settings)
            for shard in range(given.proxies)
        ]
        for proxy in proxies:
            stack.callback(proxy.close)
            proxy.start()
        streams = [f"s{n}" for n in range(given.streams)]
        try:
            rolled = asyncio.run(Rolling(cluster.namespace, proxies, streams).run(given.period))
        finally:
            if given.log:
                given.log.write_text("\n====\n".join(proxy.output for proxy in proxies))
        for number, restart in enumerate(rolled.restarts):
            sys.stdout.write(f"{number}: {restart}\n")
        sys.stdout.write(f"{rolled._replace(restarts=[])}\n")


if __name__ == "__main__":
    main()
