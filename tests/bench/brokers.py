"""Brokers to measure: Tailrace and one Apache Kafka node, each with a folder of its own."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.java.jars import jars

_READY_S = 60.0
_KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
{extra}
"""
# As bin/kafka-server-start.sh and kafka-run-class.sh set them.
_KAFKA_JVM = [
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
_QUIET_LOG4J = """\
status: error
name: quiet
Configuration:
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%m%n"}}
  Loggers:
    Root: {level: error, AppenderRef: {ref: out}}
"""


@dataclass(slots=True)
class Running:
    """A broker that answers."""

    name: str
    bootstrap: str
    process: psutil.Process
    data: Path
    typed_at: float = field(default_factory=time.perf_counter)

    def cpu_s(self) -> float:
        """Return the CPU seconds that the process has used, user and system."""
        times = self.process.cpu_times()
        return times.user + times.system

    def rss_mb(self) -> float:
        """Return resident memory. Unit: MB."""
        return self.process.memory_info().rss / 1e6


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to start a broker: its name in the tables and what it runs."""

    name: str
    fsync_per_message_set: bool = False
    is_kafka: bool = False


TAILRACE = Kind("tailrace")
KAFKA = Kind("kafka", is_kafka=True)
KAFKA_FSYNC = Kind("kafka-fsync", is_kafka=True, fsync_per_message_set=True)


@contextlib.contextmanager
def started(kind: Kind, folder: Path, data: Path | None = None) -> Iterator[Running]:
    """Run a broker in a fresh folder (or again over `data`) until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=kind.name + "-", dir=folder))
    data = data or own / "data"
    port = free_port()
    command = _kafka_command(kind, own, data, port) if kind.is_kafka else _tailrace(data, port)
    typed_at = time.perf_counter()
    with (own / "out").open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            await_port(child, port, own / "out")
            yield Running(kind.name, f"127.0.0.1:{port}", psutil.Process(child.pid), data, typed_at)
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    shutil.rmtree(own / "out", ignore_errors=True)


def _tailrace(data: Path, port: int) -> list[str]:
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    return [tailrace, "start", "--data", str(data), "--listen", f"127.0.0.1:{port}",
            "--set", "group.initial.rebalance.delay.ms=0"]  # fmt: skip


def _kafka_command(kind: Kind, own: Path, data: Path, port: int) -> list[str]:
    classpath = os.pathsep.join(str(jar) for jar in jars("kafka"))
    (own / "log4j2.yaml").write_text(_QUIET_LOG4J)
    java = ["java", f"-Dlog4j2.configurationFile={own / 'log4j2.yaml'}", "-cp", classpath]
    properties = own / "server.properties"
    extra = "log.flush.interval.messages=1" if kind.fsync_per_message_set else ""
    properties.write_text(
        _KAFKA_PROPERTIES.format(port=port, controller=free_port(), data=data, extra=extra)
    )
    if not (data / "meta.properties").exists():
        cluster = uuid.uuid4().hex[:22]
        format_log = [
            *java,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(properties),
        ]
        subprocess.run(format_log, check=True, capture_output=True)
    return [java[0], *_KAFKA_JVM, *java[1:], "kafka.Kafka", str(properties)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(child: subprocess.Popen[bytes], port: int, out: Path) -> None:
    deadline = time.perf_counter() + _READY_S
    while time.perf_counter() < deadline:
        if child.poll() is not None:
            raise RuntimeError(
                f"the broker ended with {child.returncode}:\n{out.read_text()[-3000:]}"
            )
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.005)
    raise TimeoutError(f"no broker on port {port} after {_READY_S} s")
