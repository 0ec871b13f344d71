"""Bookies to measure: Tailrace's and Apache's, processes of their own over one ZooKeeper."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.brokers import await_port, free_port
from tests.java.jars import jars, main_class

_CLIENT_TIMEOUT_S = 900
_END_S = 30.0
_JAVA_PROPERTIES = """\
bookiePort={port}
advertisedAddress=127.0.0.1
allowLoopback=true
metadataServiceUri={uri}
journalDirectories={data}/journal
ledgerDirectories={data}/ledgers
journalSyncData=true
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
enableStatistics=false
httpServerEnabled=false
"""
# As conf/bkenv.sh and bin/bookkeeper of the distribution set them.
_JAVA_JVM = [
    "-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=10",
    "-XX:+ParallelRefProcEnabled", "-XX:+DisableExplicitGC",
    "-Dio.netty.leakDetectionLevel=disabled", "-Dio.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED"
      for name in ("java.nio", "jdk.internal.misc", "java.io", "java.util.zip")),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """Bookies and the client that belongs to them."""

    name: str
    is_java: bool


TAILRACE = Side("tailrace", is_java=False)
APACHE = Side("bookkeeper", is_java=True)


@dataclass(frozen=True, slots=True)
class Bookies:
    """Bookies of one side that answer."""

    side: Side
    uri: str
    processes: tuple[psutil.Process, ...]

    def cpu_s(self) -> float:
        """Return the CPU seconds that all of them have used, user and system."""
        times = [process.cpu_times() for process in self.processes]
        return sum(found.user + found.system for found in times)

    def rss_mb(self) -> float:
        """Return the resident memory of the largest. Unit: MB."""
        return max(process.memory_info().rss for process in self.processes) / 1e6

    def load(self, *arguments: object) -> list[str]:
        """Return the command that puts load on them: see ledger_client.py."""
        java = main_class("bookkeeper", "LedgerLoad", runs_long=True) if self.side.is_java else []
        ours = [sys.executable, "-m", "tests.bench.ledger_client"]
        return [*(java or ours), self.uri, *map(str, arguments)]


@contextlib.contextmanager
def started(
    side: Side, count: int, zookeeper: str, folder: Path, slow_sync_ms: int = 0
) -> Iterator[Bookies]:
    """Run `count` bookies of a new cluster until the block ends; the last one may sync slowly."""
    root = f"/{side.name}-{folder.name}"
    scheme = "zk+hierarchical" if side.is_java else "zk"
    uri = f"{scheme}://{zookeeper}{root}"
    folder.mkdir(parents=True, exist_ok=True)
    _format(side, uri, folder)
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(count):
            slow = slow_sync_ms if number == count - 1 else 0
            command, port = _bookie(side, uri, folder / f"{side.name}-{number}", slow)
            processes.append(stack.enter_context(_running(command, port, folder)))
        yield Bookies(side, uri, tuple(processes))


def run_load(command: list[str]) -> list[str]:
    """Run a load to its end and return its lines."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_CLIENT_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[-8:]} failed:\n{done.stdout[-500:]}\n{done.stderr[-3000:]}")
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


def _format(side: Side, uri: str, folder: Path) -> None:
    if side.is_java:
        properties = folder / "format.properties"
        properties.write_text(_JAVA_PROPERTIES.format(port=0, uri=uri, data=folder / "format"))
        shell = ["org.apache.bookkeeper.bookie.BookieShell", "-conf", str(properties)]
        command = [*_java("-Xmx128m"), *shell, "initnewcluster"]
    else:
        tailrace = str(Path(sys.executable).with_name("tailrace"))
        command = [tailrace, "cluster", "init", "--metadata", uri]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _bookie(side: Side, uri: str, data: Path, slow_sync_ms: int) -> tuple[list[str], int]:
    port = free_port()
    if side.is_java:
        data.mkdir()
        properties = data / "bookie.properties"
        properties.write_text(_JAVA_PROPERTIES.format(port=port, uri=uri, data=data))
        main = ["org.apache.bookkeeper.server.Main", "--conf", str(properties)]
        return [*_java(*_JAVA_JVM), *main], port
    arguments = ["bookie", "--metadata", uri, "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    if slow_sync_ms:
        return [
            sys.executable,
            "-m",
            "tests.bench.slow_bookie",
            str(slow_sync_ms),
            *arguments,
        ], port
    return [str(Path(sys.executable).with_name("tailrace")), *arguments], port


def _java(*options: str) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in jars("bookkeeper"))
    return ["java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classpath]


@contextlib.contextmanager
def _running(command: list[str], port: int, folder: Path) -> Iterator[psutil.Process]:
    out = folder / f"{port}.out"
    with out.open("w") as sink:
        child = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            await_port(child, port, out)
            time.sleep(1)  # registration may follow listening
            yield psutil.Process(child.pid)
        finally:
            child.terminate()
            try:
                child.wait(_END_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
