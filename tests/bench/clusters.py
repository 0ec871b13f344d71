"""A broker on three bookies beside three nodes of Kafka: three copies of everything.

Ours: E 3, Qw 3, Qa 2, every copy synced before it counts. Kafka: replication factor 3, acks=all,
once as it comes (nothing is synced) and once synced for each message set. ZooKeeper is a process of
the cluster too; its memory is told apart, because it is Apache's on a JVM.
"""

import contextlib
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.brokers import (
    TAILRACE_COMMAND,
    KafkaNode,
    Running,
    await_port,
    free_port,
    kafka_command,
    running,
)
from tests.bench.workloads import Produce, client, produce_and_consume, warm_up
from tests.zookeeper import ZooKeeperServer

NODES = 3
RECORDS_S = 200
"""Pace at which acknowledgements are timed: far below what anybody can do."""

LOADS = (Produce(16_384, 1024, 6), Produce(1_000_000, 1024, 6))


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster to measure."""

    name: str
    is_kafka: bool = True
    fsync: bool = False


KINDS = (
    Kind("tailrace x3", is_kafka=False),
    Kind("kafka x3"),
    Kind("kafka-fsync x3", fsync=True),
)


def measure(
    kind: Kind, folder: Path, seconds: float, warm_s: float, steps: Callable[[str], None]
) -> dict[str, float]:
    """Run everything once against one kind of cluster."""
    start = _kafka if kind.is_kafka else _tailrace
    with start(kind, Path(tempfile.mkdtemp(prefix="cluster-", dir=folder))) as (cluster, others):
        warm_up(cluster, warm_s)
        steps(f"{kind.name}: warm")
        figures = _acknowledgements(cluster, seconds)
        for load in LOADS:
            figures |= produce_and_consume(cluster, load, seconds)
            steps(f"{kind.name}: {load.name}: {figures[f'produce {load.name} MB/s']:.0f} MB/s")
        figures["RSS of all MB"] = cluster.rss_mb()
        figures["RSS with ZooKeeper MB"] = cluster.rss_mb() + sum(
            process.memory_info().rss / 1e6 for process in others
        )
    return figures


def _acknowledgements(cluster: Running, seconds: float) -> dict[str, float]:
    found = client(
        "acknowledgements",
        create=True,
        bootstrap=cluster.bootstrap,
        topic="acknowledgements",
        partitions=6,
        record_bytes=1024,
        records_s=RECORDS_S,
        seconds=seconds,
    )
    name = f"acknowledged at {RECORDS_S}/s"
    return {f"{name} p50 ms": found["p50_ms"], f"{name} p99 ms": found["p99_ms"]}


@contextlib.contextmanager
def _tailrace(kind: Kind, folder: Path) -> Iterator[tuple[Running, tuple[psutil.Process, ...]]]:
    zookeeper = ZooKeeperServer(folder / "zookeeper").start()
    metadata = f"zk://{zookeeper.hosts}/ledgers"
    namespace = f"distributedlog://{zookeeper.hosts}/messaging/bench"
    try:
        init = [TAILRACE_COMMAND, "cluster", "init", "--metadata", metadata]
        subprocess.run(init, check=True, capture_output=True)
        with contextlib.ExitStack() as stack:
            children = []
            for number in range(NODES):
                data = ["--data", str(folder / f"bookie-{number}")]
                command = [TAILRACE_COMMAND, "bookie", "--metadata", metadata, *data]
                children.append(_listening(command, folder / f"bookie-{number}.out", stack)[0])
            command = [TAILRACE_COMMAND, "broker", "--metadata", metadata]
            command += ["--namespace", namespace]
            command += ["--set", f"default.replication.factor={NODES}"]
            broker, port = _listening(command, folder / "broker.out", stack)
            processes = tuple(psutil.Process(child.pid) for child in [broker, *children])
            yield (
                Running(kind.name, f"127.0.0.1:{port}", processes, folder),
                (psutil.Process(zookeeper.pid),),
            )
    finally:
        zookeeper.stop()


def _listening(
    command: list[str], out: Path, stack: contextlib.ExitStack
) -> tuple[subprocess.Popen[bytes], int]:
    """Start one of our processes on a port of its own and return both once it listens."""
    port = free_port()
    child = stack.enter_context(running([*command, "--listen", f"127.0.0.1:{port}"], out))
    await_port(child, port, out)
    return child, port


@contextlib.contextmanager
def _kafka(kind: Kind, folder: Path) -> Iterator[tuple[Running, tuple[psutil.Process, ...]]]:
    controllers = tuple(free_port() for _ in range(NODES))
    cluster, ports = uuid.uuid4().hex[:22], [free_port() for _ in range(NODES)]
    with contextlib.ExitStack() as stack:
        children = []
        for number, port in enumerate(ports):
            own = folder / f"node-{number}"
            own.mkdir()
            node = KafkaNode(number, port, controllers, cluster)
            command = kafka_command(node, own, own / "data", fsync=kind.fsync)
            children.append(stack.enter_context(running(command, own / "out")))
        for number, (child, port) in enumerate(zip(children, ports, strict=True)):
            await_port(child, port, folder / f"node-{number}" / "out")
        processes = tuple(psutil.Process(child.pid) for child in children)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        yield Running(kind.name, bootstrap, processes, folder), ()
