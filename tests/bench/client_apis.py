"""What clients do beside records, on Tailrace and on one node of Kafka."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.bench.brokers import Kind, Running, started
from tests.bench.workloads import client, warm_up

_JOBS: Final = "tests.bench.api_client"
_MEMBERS: Final = 100
_PARTITIONS: Final = 1000
_LOG_BYTES: Final = 1_000_000_000
_MB_S: Final = 100
"""What anybody writes here at least; a log is filled for as long as that takes."""


def measure(
    kind: Kind, folder: Path, seconds: float, warm_s: float, steps: Callable[[str], None]
) -> dict[str, float]:
    """Run everything once against one kind of broker."""
    with started(kind, folder) as broker:
        warm_up(broker, warm_s)
        steps(f"{kind.name}: warm")
        figures: dict[str, float] = {}
        for each in (_transactions, _group, _polls, _by_time):
            figures |= each(broker, seconds)
            steps(f"{kind.name}: {each.__name__.strip('_')}")
    return figures


def _ask(job: str, broker: Running, **arguments: Any) -> dict[str, Any]:
    return client(job, module=_JOBS, bootstrap=broker.bootstrap, **arguments)


def _transactions(broker: Running, seconds: float) -> dict[str, float]:
    common = {"topic": "transactions", "partitions": 6, "seconds": seconds}
    _ask("transactions", broker, create=True, **common)  # the first makes the coordinator's topic
    return {"transactions of 100 records /s": _ask("transactions", broker, **common)["per_s"]}


def _group(broker: Running, _seconds: float) -> dict[str, float]:
    took = _ask("group", broker, members=_MEMBERS)["seconds"]
    return {f"group of {_MEMBERS}: to a stable generation s": took}


def _polls(broker: Running, seconds: float) -> dict[str, float]:
    common = {"topic": "many", "partitions": _PARTITIONS, "seconds": seconds}
    load = {"batch_bytes": 16_384, "record_bytes": 1024}
    client("produce", bootstrap=broker.bootstrap, create=True, **load, **common)
    figures = {}
    for name, job in (("idle", "polls"), ("with data", "polls_with_data")):
        _ask(job, broker, **common)  # to warm up
        cpu = broker.cpu_s()
        found = _ask(job, broker, **common)
        spent = broker.cpu_s() - cpu
        what = f"session of {_PARTITIONS} partitions, {name}"
        figures[f"{what}: CPU us/poll"] = spent / found["polls"] * 1e6
    return figures


def _by_time(broker: Running, _seconds: float) -> dict[str, float]:
    load = {"partitions": 1, "batch_bytes": 1_000_000, "record_bytes": 1024}
    sent, create = 0, True
    while sent < _LOG_BYTES:
        found = client(
            "produce",
            bootstrap=broker.bootstrap,
            topic="timed",
            create=create,
            seconds=(_LOG_BYTES - sent) / (_MB_S * 1e6),
            **load,
        )
        sent, create = sent + found["bytes"], False
    found = _ask("by_time", broker, topic="timed", lookups=1000)
    return {
        "first offset at a time, 1 GB: p50 ms": found["p50_ms"],
        "first offset at a time, 1 GB: p99 ms": found["p99_ms"],
    }
