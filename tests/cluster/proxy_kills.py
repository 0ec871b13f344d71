"""Write proxies, read proxies and their clients, killed at random; what must be there is there.

python -m tests.cluster.proxy_kills --kills 60 --seed 7 --streams 200

ZooKeeper, three bookies, three write proxies, two read proxies, two processes that write numbered
records to all streams and one that reads them all: each a process of its own. One after the other
is killed (SIGKILL) and started again. An operator balances now and then.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from math import inf
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, NamedTuple, Self

from tailrace.core.runtime.tasks import together
from tailrace.dlog import LogExists, ThinClient, sync
from tailrace.protocol.proxy.write_proxy_pb2 import HandshakeRequest
from tailrace.proxy.balancing.plan import PERCENT, Rules
from tests.cluster import proxy_clients
from tests.cluster.cli import tailrace
from tests.cluster.proxy_records import (
    FAILED,
    STARTED,
    Acknowledged,
    Journal,
    Kill,
    Record,
    Report,
    Streams,
    first_writes,
    parse_acknowledged,
    parse_read,
    problems_of_reads,
    problems_of_writes,
    stream_names,
)
from tests.cluster.three_bookies import ThreeBookies
from tests.proxy_client import calls
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest
from tests.server_process import READY_WITHIN_S, ServerProcess
from tests.zookeeper import ZooKeeperServer

SESSION_MS: Final = 1_000
"""What is recommended for proxies."""
WRITE_PROXY: Final = "write proxy"
READ_PROXY: Final = "read proxy"
CLIENT: Final = "client"
WRITE_PROXIES: Final = 3
READ_PROXIES: Final = 2
WRITERS: Final = 2
STORY_WITHIN_S: Final = 120
BALANCE: Final = ("--rate", "0", "--max-moves", "10", "--json")
BALANCE_EVERY: Final = 3
"""Kills, after which an operator does."""
BALANCES_MAX: Final = 100
"""Times that an operator runs it until it is enough."""
STARTS_MAX: Final = 3
"""Times that a supervisor starts one, whose session may be over before it is ready."""
RECORDS_MAX: Final = 1 << 30
POLL_S: Final = 0.02


def until(is_so: Callable[[], bool], what: str, within_s: float = STORY_WITHIN_S) -> None:
    """Return once something holds."""
    deadline_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {what}"
        time.sleep(POLL_S)


class Plan(NamedTuple):
    """What is to be done."""

    seed: int
    kills: Sequence[str]
    """Which kind, one after the other."""
    streams: int
    pause_s: float
    """Between the bursts of a writer to a stream, on average."""
    within_s: float = inf
    """None is killed after so long, though it was to be."""


class Client(ServerProcess):
    """`tests.cluster.proxy_clients`; each start is another process with a name of its own."""

    ready_line = "ready"

    def __init__(self, how: str, name: str, namespace: str, folder: Path, plan: Plan) -> None:
        super().__init__()
        self.journal = Journal(folder / f"{name}.journal")
        self._name = name
        self._starts = 0
        self._command = [sys.executable, proxy_clients.__file__, how, namespace]
        self._command += [str(self.journal.path), str(plan.streams), str(plan.pause_s)]

    def start(self, attempts: int = 1) -> Self:
        """Start it and return once SIGTERM would have it finish; start it again if it ends."""
        for _ in range(attempts):
            self._starts += 1
            ready = self.launch_command([*self._command, f"{self._name}.{self._starts}"])
            if ready.get(timeout=READY_WITHIN_S) is not None:
                return self
            self.end(None)
        raise AssertionError(f"it ended before it was ready:\n{self.output}")


def _settings(given: Sequence[str]) -> list[str]:
    return [part for each in given for part in ("--set", each)]


class World:
    """All processes, and what they are known to have done."""

    def __init__(self, cluster: ThreeBookies, folder: Path, plan: Plan) -> None:
        self.report = Report(plan.seed)
        self.streams = stream_names(plan.streams)
        self.acknowledged: list[Acknowledged] = []
        self._chance = Random(plan.seed)
        self._namespace = namespace = cluster.namespace
        shared = [f"zkSessionTimeout={SESSION_MS}"]
        three = ["bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2"]
        self.write_proxies = [
            WriteProxyUnderTest(cluster.metadata, namespace, shard, *_settings(shared + three))
            for shard in range(WRITE_PROXIES)
        ]
        self.read_proxies = [
            ReadProxyUnderTest(cluster.metadata, namespace, shard, *_settings(shared))
            for shard in range(READ_PROXIES)
        ]
        self.writers = [
            Client("write", f"writer{n}", namespace, folder, plan) for n in range(WRITERS)
        ]
        self.reader = Client("read", "reader", namespace, folder, plan)
        self._read: list[str] = []
        self._seen = 0
        """How much of what was read `_last_read` is of."""
        self._last_read: dict[str, Record] = {}

    def __enter__(self) -> Self:
        try:
            for each in self._proxies:
                each.start(STARTS_MAX)
            asyncio.run(self._create())
            for client in self._clients:
                client.start(STARTS_MAX)
            self.wait_for_writes(0)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            if client.is_running:
                client.kill()
        for each in self._proxies:
            each.close()

    @property
    def _proxies(self) -> list[WriteProxyUnderTest]:
        return [*self.write_proxies, *self.read_proxies]

    @property
    def _clients(self) -> list[Client]:
        return [*self.writers, self.reader]

    async def _create(self) -> None:
        async with ThinClient(self._namespace) as client:
            for stream in self.streams:
                with suppress(LogExists):  # an earlier try of the call made it
                    await client.create(stream)

    # ------------------------------------------------------------------ what clients note

    def follow(self) -> None:
        """Take what is new in the journals."""
        for writer in self.writers:
            for line in writer.journal.news():
                if line.startswith(FAILED):
                    self.report.problems.append(line)
                elif line != STARTED:
                    self.acknowledged.append(parse_acknowledged(line))
        self._read += self.reader.journal.news()

    def wait_for_writes(self, since_s: float) -> None:
        """Return once a record of each stream was acknowledged that was submitted since then."""
        waiting, seen = set(self.streams), len(self.acknowledged)

        def is_so() -> bool:
            nonlocal seen
            self.follow()
            for one in self.acknowledged[seen:]:
                if one.submitted_s >= since_s:
                    waiting.discard(one.stream)
            seen = len(self.acknowledged)
            return not waiting

        until(is_so, f"a write to {sorted(waiting)[:5]}")

    # ------------------------------------------------------------------ kills

    def kill_one(self, kind: str) -> None:
        """Kill one of a kind, at a random moment; return once all streams are written again."""
        chance = self._chance
        is_back_at_once, is_balanced = chance.random() < 0.5, chance.random() < 0.25
        time.sleep(chance.random())  # the moment itself, not a synchronisation
        if kind == WRITE_PROXY:
            with self._balancing() if is_balanced else nullcontext():
                times = self._kill_owner(is_back_at_once=is_back_at_once)
            kill = Kill(kind, is_back_at_once, [] if is_balanced else times)
        else:
            others: Sequence[ReadProxyUnderTest | Client] = self._clients
            self._kill_other(chance.choice(self.read_proxies if kind == READ_PROXY else others))
            kill = Kill(kind, is_back_at_once=True, first_writes=[])
        self.report.kills.append(kill)
        ended = [each for each in (*self._proxies, *self._clients) if not each.is_running]
        assert not ended, ended[0].output

    def _kill_owner(self, *, is_back_at_once: bool) -> list[float]:
        """Kill one that owns streams; return how long each of them had no owner."""
        owners = asyncio.run(self._owned())
        victim = self._chance.choice([each for each in self.write_proxies if owners[each.at]])
        owned = owners[victim.at]
        victim.kill()
        killed_s = time.monotonic()
        if is_back_at_once:
            victim.start(STARTS_MAX)
        self.wait_for_writes(killed_s)
        if not is_back_at_once:
            victim.start(STARTS_MAX)
        return list(first_writes(owned, killed_s, self.acknowledged).values())

    def _kill_other(self, victim: ReadProxyUnderTest | Client) -> None:
        victim.kill()
        killed_s = time.monotonic()
        victim.start(STARTS_MAX)
        self.wait_for_writes(killed_s)

    @contextmanager
    def _balancing(self) -> Iterator[None]:
        """Have an operator balance while other things happen."""
        beside = threading.Thread(target=self._run_balance)
        beside.start()
        try:
            yield
        finally:
            beside.join()

    async def _owned(self) -> dict[str, list[str]]:
        async def ask(at: str) -> list[str]:
            async with calls(at) as proxy:
                info = await proxy("handshake", HandshakeRequest(get_ownerships=True))
                return list(info.ownerships)

        owned = await together([ask(each.at) for each in self.write_proxies])
        return dict(zip((each.at for each in self.write_proxies), owned, strict=True))

    def balance(self) -> None:
        """Do what an operator does until owners are spread within tolerance."""
        said = ""
        for _ in range(BALANCES_MAX):
            counts = tuple(len(each) for each in asyncio.run(self._owned()).values())
            if self._is_spread(counts):
                self.report.spreads.append(counts)
                return
            said = self._run_balance()
        self.report.problems.append(f"streams are spread {counts}: {said}")

    def _run_balance(self) -> str:
        """Run it once, and return what it says; the next run does what fails or takes too long."""
        try:
            done = tailrace("proxy", "balance", "-n", self._namespace, *BALANCE)
        except subprocess.TimeoutExpired as error:
            return str(error)
        self.report.moves += len(json.loads(done.stdout or b"[]"))
        return done.stderr.decode()

    def _is_spread(self, counts: Sequence[int]) -> bool:
        limit = len(self.streams) * (PERCENT + Rules().tolerance_percent)
        within = max(counts) * PERCENT * WRITE_PROXIES <= limit
        return within and sum(counts) == len(self.streams)

    # ------------------------------------------------------------------ the end

    def finish(self) -> Report:
        """End writing; compare what was acknowledged, what is there and what was read."""
        codes = [writer.stop() for writer in self.writers]
        codes += [each.stop() for each in self.write_proxies]  # segments are completed: all is seen
        assert not any(codes), self._outputs()
        written, report = self._written(), self.report
        until(lambda: self._has_read(written), "the reader is at the end of all streams")
        report.acknowledged = len(self.acknowledged)
        report.written = sum(map(len, written.values()))
        report.problems += problems_of_writes(written, self.acknowledged)
        report.problems += problems_of_reads(written, self._read)
        return report

    def _has_read(self, written: Streams) -> bool:
        """Tell whether the last record of each stream was read."""
        self.follow()
        seen, self._seen = self._seen, len(self._read)
        for line in self._read[seen:]:
            if line != STARTED:
                stream, record = parse_read(line)
                self._last_read[stream] = record
        return all(self._last_read.get(name) == of[-1] for name, of in written.items())

    def _outputs(self) -> str:
        return "\n".join(each.output for each in self._clients)

    def _written(self) -> dict[str, list[Record]]:
        """Return what a process with a core of its own reads."""
        written: dict[str, list[Record]] = {}
        with sync.open_namespace(self._namespace) as opened:
            for name in self.streams:
                found = written[name] = []
                with opened.open_log(name).open_reader() as reader:
                    while some := reader.read_bulk(RECORDS_MAX, timeout_s=0):  # [] is the tail
                        found += [Record(each.dlsn, bytes(each.payload).decode()) for each in some]
        return written


def run(
    zookeeper: ZooKeeperServer, folder: Path, plan: Plan, tell: Callable[[str], None]
) -> Report:
    """Kill one after the other; return what came of it. `tell`: what happens, as it does."""
    with ThreeBookies(zookeeper, folder) as cluster, World(cluster, folder, plan) as world:
        until_s = time.monotonic() + plan.within_s
        for number, kind in enumerate(plan.kills, 1):
            if time.monotonic() > until_s:
                break
            if number % BALANCE_EVERY == 0:
                world.balance()
            world.kill_one(kind)
            tell(f"{number}: {world.report.kills[-1].text()}")
        world.balance()
        return world.finish()


def main() -> int:
    """Run it by hand."""
    parser = argparse.ArgumentParser(prog="tests.cluster.proxy_kills")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--pause", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--minutes", type=float, default=inf, help="kill none after so long")
    given = parser.parse_args()
    kinds = Random(given.seed).choices((WRITE_PROXY, READ_PROXY, CLIENT), (3, 1, 1), k=given.kills)
    plan = Plan(given.seed, kinds, given.streams, given.pause, given.minutes * 60)
    with tempfile.TemporaryDirectory() as name:
        zookeeper = ZooKeeperServer(Path(name) / "zookeeper").start()
        try:
            report = run(zookeeper, Path(name), plan, partial(print, flush=True))
        finally:
            zookeeper.stop()
    print(report.text())
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
