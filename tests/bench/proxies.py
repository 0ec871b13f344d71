"""The serving layer beside what it stands on, on three bookies of ours.

What a thin client pays for not having a core of its own: 1 KiB records by a write stream and one a
call beside a log's own writer, a record at a time, and how often 100 readers get an entry that is
read from the bookies once. And what a follower gives to Kafka's consumers, beside the owner.
"""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.bench import followers
from tests.bench.bookies import TAILRACE, run_load, started
from tests.bench.brokers import free_port
from tests.bench.logs import bind

DIRECT: Final = "direct"
THIN: Final = "served"
_RECORD_BYTES: Final = 1024
_IN_FLIGHT: Final = 4096
_CALLS_AT_ONCE: Final = 64
_LATENCY_RECORDS: Final = 2_000
_READERS: Final = 100
_FAN_OUT_RECORDS: Final = 5_000
_END_S: Final = 30
_ENTRIES_READ: Final = "ledger_reads_total"
"""From bookies, by the read proxy's process."""

Figures = dict[str, dict[str, float]]


def measure(
    zookeeper: str, folder: Path, *, seconds: float, warm_s: float, steps: Callable[[str], None]
) -> Figures:
    """Run one round of everything; return figures by the way they took."""
    own = Path(tempfile.mkdtemp(prefix="proxies-", dir=folder))
    figures: Figures = {THIN: {}, DIRECT: {}}
    with ExitStack() as stack:
        bookies = stack.enter_context(started(TAILRACE, 3, zookeeper, own))
        path = f"/messaging/{own.name}"
        namespace = f"distributedlog://{zookeeper}{path}"
        asyncio.run(bind(bookies.uri, zookeeper, path))
        for kind in ("write", "read"):
            at = ("--metadata", bookies.uri, "--namespace", namespace)
            running = stack.enter_context(proxy(kind, at, own))
        load = (_RECORD_BYTES, _IN_FLIGHT, warm_s, seconds)
        rate = "append 1 KiB, records/s"
        figures[DIRECT][rate] = _run("embedded", namespace, *load)["records_per_s"]
        figures[THIN][rate] = _run("stream", namespace, *load)["records_per_s"]
        steps("a write stream and a log's own writer")
        load = (_RECORD_BYTES, _CALLS_AT_ONCE, warm_s, seconds)
        found = _run("calls", namespace, *load)
        figures[THIN]["one record a call, records/s"] = found["records_per_s"]
        steps("one record a call")
        for side, job in ((DIRECT, "embedded-latency"), (THIN, "latency")):
            found = _run(job, namespace, _RECORD_BYTES, _LATENCY_RECORDS)
            for share in ("p50", "p99"):
                figures[side][f"one record at a time, {share} ms"] = found[f"{share}_ms"]
        steps("one record at a time")
        before = running.number(_ENTRIES_READ)
        found = _run("fan-out", namespace, _RECORD_BYTES, _READERS, _FAN_OUT_RECORDS)
        read = running.number(_ENTRIES_READ) - before
        figures[THIN][f"fan-out to {_READERS} readers, MB/s"] = found["mb_per_s"]
        times = _READERS * found["entries"] / read
        figures[THIN][f"fan-out to {_READERS} readers, times what bookies are asked for"] = times
        steps("fan-out")
    found_of = followers.measure(
        Path(tempfile.mkdtemp(prefix="followers-", dir=folder)), seconds, 3
    )
    for side, name in ((DIRECT, "owner"), (THIN, "follower")):
        rates = [each.mb_s for each in found_of[name]]
        figures[side]["Kafka consumer of the owner, of a follower, MB/s"] = statistics.median(rates)
    steps("an owner and a follower")
    return figures


def _run(job: str, namespace: str, *numbers: float) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.proxy_client", job, namespace, job]
    (line,) = run_load([*command, *map(str, numbers)])
    found: dict[str, float] = json.loads(line)
    return found


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that runs."""

    at: str
    process: psutil.Process
    http_port: int

    def number(self, name: str) -> float:
        """Return one of the numbers that it shows over HTTP."""
        url = f"http://127.0.0.1:{self.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return float(line.split()[-1])
        raise AssertionError(f"the proxy tells nothing of {name}")

    def cpu_s(self) -> float:
        """Return the CPU seconds that it has used, user and system."""
        found = self.process.cpu_times()
        return found.user + found.system

    def rss_mb(self) -> float:
        """Return its resident memory. Unit: MB."""
        return self.process.memory_info().rss / 1e6


@contextmanager
def proxy(kind: str, at: tuple[str, ...], folder: Path) -> Iterator[Proxy]:
    """Run a proxy until the block ends."""
    http, address = free_port(), f"127.0.0.1:{free_port()}"
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    settings = ("httpServerEnabled=true", f"httpServerPort={http}", "log.level=warning")
    quorums = ("bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2")
    words = [
        word
        for each in (*settings, *(quorums if kind == "write" else ()))
        for word in ("--set", each)
    ]
    with (folder / f"{kind}.out").open("w") as out:
        child = subprocess.Popen(
            [tailrace, "proxy", kind, *at, "--listen", address, "--shard", "0", *words],
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
        try:
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("ready: "):
                    break
            yield Proxy(address, psutil.Process(child.pid), http)
        finally:
            child.terminate()
            child.wait(_END_S)
