"""Brokers to measure: Tailrace and one Apache Kafka node, each with a folder of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.java.jars import QUICK_JVM, jars

TAILRACE_COMMAND = str(Path(sys.executable).with_name("tailrace"))
T = TypeVar("T")
_READY_S = 60.0
_KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={listeners}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs={data}
default.replication.factor={replicas}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
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
# Errors, and what the cleaner says of its passes.
_KAFKA_LOG = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread=info",
]


@dataclass(slots=True)
class Running:
    """A broker, or a cluster of them, that answers."""

    name: str
    bootstrap: str
    processes: tuple[psutil.Process, ...]
    data: Path
    typed_at: float = field(default_factory=time.perf_counter)
    out: Path | None = None
    """What it prints; None: there are several."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Addresses of its other listeners, by protocol."""
    client: Mapping[str, str] = field(default_factory=dict)
    """How its clients log in, beside the address."""

    @property
    def address(self) -> dict[str, Any]:
        """Return what jobs of clients need to reach it."""
        return {"bootstrap": self.bootstrap, "client": dict(self.client)}

    def by(self, protocol: str, client: Mapping[str, str]) -> "Running":
        """Return the same broker as clients of another listener see it."""
        settings = {"security.protocol": protocol, **client}
        return replace(self, bootstrap=self.others[protocol], client=settings)

    def cpu_s(self) -> float:
        """Return the CPU seconds that its processes and their children have used."""
        times = self._of_all(lambda process: process.cpu_times())
        return sum(
            found.user + found.system + found.children_user + found.children_system
            for found in times
        )

    def rss_mb(self) -> float:
        """Return the resident memory of all its processes and their children. Unit: MB."""
        return sum(found.rss for found in self._of_all(lambda each: each.memory_info())) / 1e6

    def _of_all(self, look: Callable[[psutil.Process], T]) -> list[T]:
        found = [look(process) for process in self.processes]
        for child in [each for process in self.processes for each in process.children()]:
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended, and is its parent's
                found.append(look(child))
        return found


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to start a broker: its name in the tables and what it runs."""

    name: str
    fsync_per_message_set: bool = False
    is_kafka: bool = False


TAILRACE = Kind("tailrace")
KAFKA = Kind("kafka", is_kafka=True)
KAFKA_FSYNC = Kind("kafka-fsync", is_kafka=True, fsync_per_message_set=True)


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """One node of Kafka, broker and controller: its number counts from 0 in `controllers`."""

    number: int
    port: int
    controllers: tuple[int, ...]
    """The controllers' ports, one for each node."""
    cluster: str
    others: Mapping[str, int] = field(default_factory=dict)
    """Ports of more listeners, by protocol."""

    @property
    def properties(self) -> dict[str, object]:
        """What the file of properties says of it."""
        voters = [f"{id_}@127.0.0.1:{port}" for id_, port in enumerate(self.controllers, 1)]
        return {
            "node_id": self.number + 1,
            "voters": ",".join(voters),
            "replicas": len(voters),
            "listeners": listeners_text(self.port, self.others),
            "controller": self.controllers[self.number],
        }


@contextlib.contextmanager
def started(
    kind: Kind,
    folder: Path,
    data: Path | None = None,
    settings: Mapping[str, str] | None = None,
    protocols: Sequence[str] = (),
) -> Iterator[Running]:
    """Run a broker in a fresh folder (or again over `data`) until the block ends.

    `settings`: beside its own. `protocols`: those of more listeners.
    """
    given = [f"{name}={value}" for name, value in (settings or {}).items()]
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=kind.name + "-", dir=folder))
    data = data or own / "data"
    port = free_port()
    others = {protocol: free_port() for protocol in protocols}
    if kind.is_kafka:
        node = KafkaNode(0, port, (free_port(),), uuid.uuid4().hex[:22], others)
        command = kafka_command(node, own, data, *given, fsync=kind.fsync_per_message_set)
    else:
        command = _tailrace(data, listeners_text(port, others))
        command += [part for each in given for part in ("--set", each)]
    typed_at = time.perf_counter()
    with running(command, own / "out") as child:
        await_port(child, port, own / "out")
        process = psutil.Process(child.pid)
        addresses = {protocol: f"127.0.0.1:{other}" for protocol, other in others.items()}
        out = own / "out"
        yield Running(kind.name, f"127.0.0.1:{port}", (process,), data, typed_at, out, addresses)


@contextlib.contextmanager
def running(command: list[str], out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the block ends; what it prints goes to `out`."""
    with out.open("w") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def listeners_text(port: int, others: Mapping[str, int]) -> str:
    """Return a PLAINTEXT listener and others as `listeners` has them."""
    ports = {"PLAINTEXT": port, **others}
    return ",".join(f"{name}://127.0.0.1:{at}" for name, at in ports.items())


def _tailrace(data: Path, listeners: str) -> list[str]:
    return [TAILRACE_COMMAND, "start", "--data", str(data), "--listen", listeners,
            "--set", "group.initial.rebalance.delay.ms=0"]  # fmt: skip


def kafka_command(
    node: KafkaNode, own: Path, data: Path, *settings: str, fsync: bool, quick: bool = False
) -> list[str]:
    """Return how to start a node of Kafka over `data`, formatted if it is new.

    `quick`: in a JVM that starts with little CPU, for what is not measured.
    """
    # Kafka's jars alone come without anything that writes what it logs.
    logger = [jar for jar in jars("distributedlog") if jar.name.startswith("slf4j-simple-")]
    classpath = os.pathsep.join(str(jar) for jar in [*jars("kafka"), *logger])
    java = ["java", *(QUICK_JVM if quick else ()), *_KAFKA_LOG, "-cp", classpath]
    properties = own / "server.properties"
    flush = ("log.flush.interval.messages=1",) if fsync else ()
    extra = "\n".join((*flush, *settings))
    properties.write_text(_KAFKA_PROPERTIES.format(**node.properties, data=data, extra=extra))
    if not (data / "meta.properties").exists():
        storage = [*java, "kafka.tools.StorageTool", "format"]
        arguments = ["-t", node.cluster, "-c", str(properties)]
        subprocess.run([*storage, *arguments], check=True, capture_output=True)
    jvm = ["-Xmx1G"] if quick else _KAFKA_JVM
    return [java[0], *jvm, *java[1:], "kafka.Kafka", str(properties)]


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
