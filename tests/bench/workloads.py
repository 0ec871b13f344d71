"""What is measured: each function runs one workload and returns figures by name."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.bench.brokers import Kind, Running, started
from tests.bench.disk import write_and_sync_ms

_CLIENT_TIMEOUT_S = 600
PACED_RECORDS_S = 2000
"""What the producer sends whose records are timed from end to end: no queue builds up anywhere."""
CONSUMED_BYTES = 512 * 1024 * 1024
"""What is read back of each load: the same of everybody, who took more or less in the same time."""
READS: Final = 3
"""Of each load; the median of what one took is what counts: two of one broker differ by a third."""
_topic_numbers = count()


@dataclass(frozen=True, slots=True)
class Produce:
    """One produce workload. Unit: bytes."""

    batch_bytes: int
    record_bytes: int
    partitions: int

    @property
    def name(self) -> str:
        """Say it as the tables do: `produce 16KB 1KiB p6`."""
        batch = "16KB" if self.batch_bytes < 100_000 else "1MB"
        record = "100B" if self.record_bytes == 100 else "1KiB"
        return f"{batch} {record} p{self.partitions}"


FULL = tuple(
    Produce(batch, record, partitions)
    for batch in (16_384, 1_000_000)
    for record in (100, 1024)
    for partitions in (1, 6, 100)
)
QUICK = (Produce(16_384, 1024, 6), Produce(1_000_000, 1024, 6))


def client(job: str, module: str = "tests.bench.client", **arguments: Any) -> dict[str, Any]:
    """Run one job of a load client in a process of its own and return what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", module, job, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=_CLIENT_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{job} {arguments} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def warm_up(broker: Running, seconds: float) -> None:
    """Let a JVM compile what it will be measured on; the same for everybody."""
    for batch in (16_384, 1_000_000):
        topic = f"warm-{next(_topic_numbers)}"
        client(
            "produce",
            create=True,
            topic=topic,
            partitions=6,
            batch_bytes=batch,
            record_bytes=1024,
            seconds=seconds / 2,
            **broker.address,
        )
        client("consume", topic=topic, partitions=6, record_bytes=1024, **broker.address)


def produce_and_consume(broker: Running, load: Produce, seconds: float) -> dict[str, float]:
    """Produce for `seconds`, then until there are `CONSUMED_BYTES`; read the newest of these.

    The partitions are made and opened before: that would be most of a short run in 100 of them.
    """
    topic = f"load-{next(_topic_numbers)}"
    common = {
        **broker.address,
        "topic": topic,
        "partitions": load.partitions,
        "record_bytes": load.record_bytes,
    }
    client("first_of_each", create=True, **common)
    cpu = broker.cpu_s()
    sent = client("produce", batch_bytes=load.batch_bytes, seconds=seconds, **common)
    spent = broker.cpu_s() - cpu
    there = sent["bytes"]
    while there < CONSUMED_BYTES:
        there += client("produce", batch_bytes=load.batch_bytes, seconds=1, **common)["bytes"]
    reads = [client("consume", newest_bytes=CONSUMED_BYTES, **common) for _ in range(READS)]
    return {
        f"produce {load.name} MB/s": sent["mb_s"],
        f"produce {load.name} CPU us/request": spent / max(1, sent["requests"]) * 1e6,
        f"produce {load.name} CPU s/GB": spent / sent["bytes"] * 1e9,
        f"consume {load.name} MB/s": median(read["mb_s"] for read in reads),
    }


def consume_cold(
    kind: Kind, folder: Path, data: Path, topic: str, load: Produce
) -> dict[str, float]:
    """Read a topic that was there before the broker started: nothing is in its memory."""
    with started(kind, folder, data) as broker:
        read = client(
            "consume",
            bootstrap=broker.bootstrap,
            topic=topic,
            partitions=load.partitions,
            record_bytes=load.record_bytes,
        )
    return {f"consume cold {load.name} MB/s": read["mb_s"]}


def consume_at_the_tail(broker: Running, load: Produce, seconds: float) -> dict[str, float]:
    """Follow a producer that sends what it can, then one that sends a little all the time."""
    cpu = broker.cpu_s()
    job = {"batch_bytes": load.batch_bytes, "seconds": seconds}
    read = _follow(broker, load, "produce", job)
    spent = broker.cpu_s() - cpu
    paced = {"records_s": PACED_RECORDS_S, "seconds": seconds}
    aged = _follow(broker, load, "produce_paced", paced, stamped=True)
    return {
        f"consume at the tail {load.name} MB/s": read["mb_s"],
        f"consume at the tail {load.name} CPU s/GB, producing included": spent
        / (read["records"] * load.record_bytes)
        * 1e9,
        "end to end p50 ms": aged["p50_ms"],
        "end to end p99 ms": aged["p99_ms"],
    }


def _follow(
    broker: Running, load: Produce, job: str, arguments: dict[str, Any], **how: bool
) -> dict[str, Any]:
    """Run a producer's job and, from before its start, a consumer that reads all of it."""
    common = {
        "bootstrap": broker.bootstrap,
        "topic": f"tail-{next(_topic_numbers)}",
        "partitions": load.partitions,
        "record_bytes": load.record_bytes,
    }
    consumer = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.bench.client", "follow"),
            json.dumps({"create": True, **common, **how}),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert consumer.stdout is not None
    try:
        if consumer.stdout.readline().strip() != "ready":
            raise RuntimeError("the consumer at the tail did not start")
        sent = client(job, **common, **arguments)
        out, _ = consumer.communicate(f"{sent['records']}\n", _CLIENT_TIMEOUT_S)
    except BaseException:
        consumer.kill()
        consumer.wait()
        raise
    if consumer.returncode:
        raise RuntimeError(f"the consumer at the tail failed, {job} {arguments}")
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def latency(broker: Running) -> dict[str, float]:
    """One record at a time; and what the disk alone takes for it, where it is synced."""
    topic = f"latency-{next(_topic_numbers)}"
    found = client(
        "latency",
        create=True,
        bootstrap=broker.bootstrap,
        topic=topic,
        records=2000,
        record_bytes=100,
    )
    disk = write_and_sync_ms(broker.data)
    return {
        "one record p50 ms": found["p50_ms"],
        "one record p99 ms": found["p99_ms"],
        "one write and sync of the disk alone p50 ms": disk[len(disk) // 2],
        "one write and sync of the disk alone p99 ms": disk[int(len(disk) * 0.99)],
    }


def start_up(kind: Kind, folder: Path) -> dict[str, float]:
    """From the command to the first acknowledged record, and to reading it back."""
    typed: list[float] = []
    with started(kind, folder) as broker:
        typed.append(time.time() - (time.perf_counter() - broker.typed_at))
        found = client("first_record", bootstrap=broker.bootstrap, topic="first")
        time.sleep(2)  # let start-up work settle before memory is read
        idle = broker.rss_mb()
    client_start_s = _client_start_s()
    return {
        "first record acknowledged s": found["acknowledged_at"] - typed[0] - client_start_s,
        "first record read back s": found["read_at"] - typed[0] - client_start_s,
        "RSS idle MB": idle,
    }


def _client_start_s() -> float:
    """Return what starting a client process costs by itself; it is nobody's broker's fault."""
    before = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", "import tests.bench.client"], check=True, timeout=_CLIENT_TIMEOUT_S
    )
    return time.perf_counter() - before


def measure(
    kind: Kind,
    folder: Path,
    loads: tuple[Produce, ...],
    seconds: float,
    warm_s: float,
    steps: Callable[[str], None],
) -> dict[str, float]:
    """Run everything once against one kind of broker."""
    figures = start_up(kind, folder)
    steps(f"{kind.name}: started")
    with started(kind, folder) as broker:
        data = broker.data
        warm_up(broker, warm_s)
        steps(f"{kind.name}: warm")
        figures |= latency(broker)
        for load in loads:
            figures |= produce_and_consume(broker, load, seconds)
            steps(f"{kind.name}: {load.name}: {figures[f'produce {load.name} MB/s']:.0f} MB/s")
        figures |= consume_at_the_tail(broker, loads[0], seconds)
        steps(f"{kind.name}: at the tail")
        figures["RSS loaded MB"] = broker.rss_mb()
        cold = loads[0]
        topic = f"cold-{next(_topic_numbers)}"
        client(
            "produce",
            create=True,
            bootstrap=broker.bootstrap,
            topic=topic,
            partitions=cold.partitions,
            batch_bytes=cold.batch_bytes,
            record_bytes=cold.record_bytes,
            seconds=seconds,
        )
    return figures | consume_cold(kind, folder, data, topic, cold)
