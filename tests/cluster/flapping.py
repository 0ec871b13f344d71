"""What a write proxy costs whose metadata session is lost and comes back, again and again.

    python -m tests.cluster.flapping --streams 200 --seconds 20

One of two write proxies reaches ZooKeeper by a wire that is cut for longer than its session, then
mended. Thin clients write on; with `--newcomers`, clients come that know no owner, so the other
proxy claims streams whose lock is gone. With `--both` both proxies flap, in turn.
"""

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from time import monotonic

from tailrace import dlog
from tailrace.core.runtime.tasks import together
from tailrace.dlog import ThinClient
from tests.cluster.rolling import (
    QUORUMS,
    Flow,
    check_all,
    in_turns,
    open_writers,
    process_cpu_s,
)
from tests.cluster.three_bookies import ThreeBookies
from tests.proxy_process import WriteProxyUnderTest
from tests.tcp_proxy import TcpProxy
from tests.zookeeper import ZooKeeperServer

SESSION_MS = 1_000
CUT_S, MENDED_S = 1.3, 0.7
"""A session that is cut for so long is over; it comes back about each other second."""
_ACQUIRED = re.compile(r"(?P<at>\S+)Z .* stream_acquired stream=(?P<stream>\S+)")


class Flapping:
    """Streams that are written to while the sessions of some proxies flap."""

    def __init__(
        self,
        namespace: str,
        proxies: Sequence[WriteProxyUnderTest],
        wires: Sequence[TcpProxy],
        streams: Sequence[str],
    ) -> None:
        self._namespace = namespace
        self._proxies = proxies
        self._wires = wires
        self._flows = [Flow(stream) for stream in streams]
        self._rounds = 0

    async def run(self, seconds: float, period_s: float, *, newcomers: bool) -> None:
        """Do it, check each stream's records, and print what was found.

        Errors: the first that a client sees; AssertionError.
        """
        flows = self._flows
        async with AsyncExitStack() as stack:
            writers = await open_writers(stack, self._namespace, flows)
            writing = [
                flow.run(writer, period_s * n / len(flows), period_s)
                for n, (flow, writer) in enumerate(zip(flows, writers, strict=True))
            ]
            await together([*writing, self._measure(seconds, newcomers=newcomers)])
        await check_all(self._namespace, flows)

    async def _measure(self, seconds: float, *, newcomers: bool) -> None:
        await together([flow.written_again() for flow in self._flows])
        await self._print("quiet", [asyncio.sleep(seconds / 2)])
        work = [self._flap(seconds)]
        if newcomers:
            work.append(self._come(seconds))
        await self._print("flapping", work)
        await together([flow.written_again() for flow in self._flows])
        for flow in self._flows:
            flow.end()

    async def _flap(self, seconds: float) -> None:
        """Cut each wire and mend it, in turn, until the time is over."""
        ends_s = monotonic() + seconds
        while monotonic() < ends_s:
            wire = self._wires[self._rounds % len(self._wires)]
            self._rounds += 1
            await wire.cut()
            await asyncio.sleep(CUT_S)
            await wire.mend()
            await asyncio.sleep(MENDED_S)

    async def _come(self, seconds: float) -> None:
        """Have a client that knows no owner ask for each stream, again and again."""
        ends_s = monotonic() + seconds
        while monotonic() < ends_s:
            async with ThinClient(self._namespace) as client:
                await in_turns([flow.stream for flow in self._flows], client.heartbeat)

    async def _print(self, what: str, work: Sequence[Coroutine[None, None, None]]) -> None:
        for flow in self._flows:
            flow.longest_s = 0.0
        written = sum(flow.written for flow in self._flows)
        cpu = [process_cpu_s(proxy.pid) for proxy in self._proxies]
        began_s = monotonic()
        lines = [len(proxy.lines) for proxy in self._proxies]
        await together(work)
        passed_s = monotonic() - began_s
        written = sum(flow.written for flow in self._flows) - written
        cpu = [
            process_cpu_s(each.pid) - used for each, used in zip(self._proxies, cpu, strict=True)
        ]
        longest = sorted(flow.longest_s for flow in self._flows)
        acquired, least_s = self._acquisitions(lines)
        sys.stdout.write(
            f"{what}: {passed_s:.1f} s, {written / passed_s:.0f} records/s; write of a stream, its"
            f" longest: median {statistics.median(longest):.2f} s, most {longest[-1]:.2f} s; cpu"
            f" of proxies {' '.join(f'{each / passed_s:.2f}' for each in cpu)}; claims of a stream:"
            f" mean {sum(acquired) / len(self._flows):.2f}, most {max(acquired, default=0)}, least"
            f" time between two {least_s:.2f} s\n"
        )

    def _acquisitions(self, lines: Sequence[int]) -> tuple[list[int], float]:
        """Return how often streams were claimed, and the least time between two of one stream."""
        times: dict[str, list[float]] = defaultdict(list)
        for proxy, first in zip(self._proxies, lines, strict=True):
            for line in proxy.lines[first:]:
                found = _ACQUIRED.match(line)
                if found:
                    at = datetime.fromisoformat(found["at"]).timestamp()
                    times[found["stream"]].append(at)
        ordered = [sorted(each) for each in times.values()]
        gaps = [b - a for each in ordered for a, b in pairwise(each)]
        return [len(each) for each in ordered], min(gaps, default=float("inf"))


async def flap(
    zookeeper: ZooKeeperServer,
    cluster: ThreeBookies,
    folder: Path,
    given: argparse.Namespace,
    stack: ExitStack,
) -> None:
    """Run it on a cluster."""
    await dlog.bind_namespace(cluster.namespace, cluster.metadata)
    async with AsyncExitStack() as wires_stack:
        wires = [
            await wires_stack.enter_async_context(TcpProxy(zookeeper.port))
            for _ in range(2 if given.both else 1)
        ]
        settings = [
            word
            for each in (*QUORUMS, f"zkSessionTimeout={SESSION_MS}", *given.set)
            for word in ("--set", each)
        ]
        hosts = [*(wire.hosts for wire in wires), zookeeper.hosts][:2]
        proxies = [
            WriteProxyUnderTest(
                cluster.metadata.replace(zookeeper.hosts, at),
                cluster.namespace.replace(zookeeper.hosts, at),
                shard,
                *settings,
            )
            for shard, at in enumerate(hosts)
        ]
        for proxy in proxies:
            stack.callback(proxy.close)
            await asyncio.to_thread(proxy.start)
        streams = [f"s{n}" for n in range(given.streams)]
        try:
            flapping = Flapping(cluster.namespace, proxies, wires, streams)
            await flapping.run(given.seconds, given.period, newcomers=given.newcomers)
        finally:
            if given.log:
                given.log.write_text("\n====\n".join(proxy.output for proxy in proxies))


def main() -> None:
    """Run it on a cluster of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--period", type=float, default=0.5, help="seconds between two records")
    parser.add_argument("--newcomers", action="store_true")
    parser.add_argument("--both", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="a setting of the proxies")
    parser.add_argument("--log", type=Path, help="where the output of the proxies goes")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        zookeeper = ZooKeeperServer(folder / "zookeeper").start()
        stack.callback(zookeeper.stop)
        cluster = stack.enter_context(ThreeBookies(zookeeper, folder))
        asyncio.run(flap(zookeeper, cluster, folder, given, stack))


if __name__ == "__main__":
    main()
