"""Cleaners of compacted topics: ours and Kafka's, over the same records with the same settings.

One worker, 1 KiB values, 100,000 keys at random, batches of 16 KB, segments of 64 MiB; everything
but the segment in progress is head, so each record is read twice and most of them go. How fast a
pass was, is what each broker's log says of it: bytes of the segments that it went over, by the time
of the whole pass. A pass takes less than a second and two of one broker differ by half, so each
figure is the median of several. While produces are timed, ours leaves room to them, and says what
that costs it.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import count
from pathlib import Path
from statistics import fmean, median
from typing import Final, NamedTuple

from tests.bench.brokers import TAILRACE, Kind, Running, started
from tests.bench.workloads import client

KEYS: Final = 100_000
RECORD_BYTES: Final = 1024
RECORDS: Final = 300_000
"""Of one partition."""
PASSES: Final = 7
"""Timed for each codec."""
BUSY_PARTITIONS: Final = 4
"""Cleaned one after the other, while produces are timed."""
RECORDS_S: Final = 500
"""Produced, each alone, while their answers are timed: far below what anybody can do."""
CLEANED_S: Final = 300.0
"""Longest time for the passes over a topic."""
BUSY_S: Final = 60.0
"""Longest time for which produces are timed while a topic is cleaned."""

_JOBS: Final = "tests.bench.cleaner_client"
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
_SETTINGS: Final = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
_OURS: Final = re.compile(r"log cleaned log=(\S+) .* filtered=(\d+) .* seconds=([\d.]+)")
_KAFKAS: Final = re.compile(
    r"cleaned log (\S+) \(dirty section.*\n\s*([\d,.]+) MB of log processed in [\d,.]+ seconds"
    r" \(([\d,.]+) MB/sec"
)
_topic_numbers = count()


class Cleaned(NamedTuple):
    """What a broker says of a pass."""

    log: str
    mb_s: float


def measure(
    kinds: Sequence[Kind],
    folder: Path,
    *,
    seconds: float,
    warm_s: float,
    steps: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    """Run everything once, pass by pass against one kind of broker after the other.

    A virtual machine changes its speed from minute to minute: passes a minute apart tell nothing.
    """
    figures: dict[str, dict[str, float]] = {kind.name: {} for kind in kinds}
    with ExitStack() as running:
        brokers = {kind.name: running.enter_context(_started(kind, folder)) for kind in kinds}
        for name, broker in brokers.items():
            warm_until = time.monotonic() + warm_s
            while time.monotonic() < warm_until:
                _clean(broker, "lz4")
            steps(f"{name}: warm")
        for codec in ("none", "lz4"):
            for name, found in _clean_in_turn(brokers, codec).items():
                figures[name] |= found
                steps(f"{name}: {codec}: {found[f'clean {codec} MB/s']:.0f} MB/s")
        for name, broker in brokers.items():
            os.sync()  # what one has not synced would be written while another one is timed
            figures[name] |= _produce_meanwhile(broker, seconds)
            steps(f"{name}: produced meanwhile")
    if TAILRACE in kinds:
        figures[TAILRACE.name] |= _summary_memory()
    return figures


def _started(kind: Kind, folder: Path) -> AbstractContextManager[Running]:
    # Kafka's passes are in its log as `brokers` sets it up.
    settings = _SETTINGS if kind.is_kafka else _SETTINGS | {"log.level": "info"}
    return started(kind, folder, settings=settings)


def _clean_in_turn(brokers: Mapping[str, Running], codec: str) -> dict[str, dict[str, float]]:
    passes: dict[str, list[dict[str, float]]] = {name: [] for name in brokers}
    for _ in range(PASSES):
        for name, broker in brokers.items():
            passes[name].append(_clean(broker, codec))
    return {
        name: {figure: median(each[figure] for each in found) for figure in found[0]}
        for name, found in passes.items()
    }


def _clean(broker: Running, codec: str) -> dict[str, float]:
    """Clean one partition. Return its speed, the CPU time and the memory that it took."""
    topic = _fill(broker, codec, 1)
    memory, cpu = broker.rss_mb(), broker.cpu_s()
    highest = [memory]
    _make_due(broker, topic)
    (done,) = _await_cleaned(broker, topic, 1, lambda: highest.append(broker.rss_mb()))
    return {
        f"clean {codec} MB/s": done.mb_s,
        f"clean {codec} CPU s/GB": (broker.cpu_s() - cpu) / (RECORDS * RECORD_BYTES) * 1e9,
        f"clean {codec} more RSS MB": max(highest) - memory,
    }


def _produce_meanwhile(broker: Running, seconds: float) -> dict[str, float]:
    """Time produces while several partitions are cleaned, and before and after it: disks vary."""
    topic = _fill(broker, "none", BUSY_PARTITIONS)
    arguments = {
        "bootstrap": broker.bootstrap,
        "topic": f"meanwhile-{next(_topic_numbers)}",
        "record_bytes": RECORD_BYTES,
        "records_s": RECORDS_S,
    }
    producer = subprocess.Popen(
        [sys.executable, "-m", _JOBS, "acknowledged", json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert producer.stdout is not None
    try:
        if producer.stdout.readline().strip() != "ready":
            raise RuntimeError("the producer did not start")
        time.sleep(seconds)
        began_s = _make_due(broker, topic)
        cleaned = _await_cleaned(broker, topic, BUSY_PARTITIONS, at_most_s=BUSY_S)
        ended_s = time.time()
        time.sleep(seconds)
        out, _ = producer.communicate("end\n", CLEANED_S)
    except BaseException:
        producer.kill()
        producer.wait()
        raise
    took = json.loads(out.splitlines()[-1])["took"]
    busy = [each for sent_s, each in took if began_s <= sent_s <= ended_s]
    quiet = [each for sent_s, each in took if not began_s <= sent_s <= ended_s]
    return {
        "produce p99 ms, nothing cleaned": _p99_ms(quiet),
        "produce p99 ms, while cleaning": _p99_ms(busy),
        "produce p99, while cleaning / nothing cleaned": _p99_ms(busy) / _p99_ms(quiet),
        "clean none MB/s, while produces are timed": fmean(each.mb_s for each in cleaned),
    }


def _summary_memory() -> dict[str, float]:
    """Return what a key costs in the key summary: a full one, and few keys in a large buffer."""
    mib = 1024 * 1024
    many = {"keys": 1_250_000, "records": 1_250_000}
    full = client("summary_memory", module=_JOBS, size_bytes=32 * mib, **many)
    few = client("summary_memory", module=_JOBS, size_bytes=128 * mib, keys=KEYS, records=RECORDS)
    return {
        "key summary bytes/key, nearly full": full["bytes_a_key"],
        f"key summary bytes/key, {KEYS} keys of {RECORDS} records, 128 MiB": few["bytes_a_key"],
    }


def _fill(broker: Running, codec: str, partitions: int) -> str:
    topic = f"table-{next(_topic_numbers)}"
    client(
        "fill",
        module=_JOBS,
        bootstrap=broker.bootstrap,
        topic=topic,
        partitions=partitions,
        records=RECORDS,
        record_bytes=RECORD_BYTES,
        codec=codec,
        keys=KEYS,
        segment_bytes=_SEGMENT_BYTES,
    )
    return topic


def _make_due(broker: Running, topic: str) -> float:
    found = client("make_due", module=_JOBS, bootstrap=broker.bootstrap, topic=topic)
    return float(found["at_s"])


def _await_cleaned(
    broker: Running,
    topic: str,
    partitions: int,
    look: Callable[[], object] = lambda: None,
    at_most_s: float = CLEANED_S,
) -> list[Cleaned]:
    """Wait for a pass over each partition; after `at_most_s` one of them is enough.

    `look`: called 20 times a second meanwhile.
    """
    assert broker.out is not None
    said = ""
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < CLEANED_S:
        look()
        time.sleep(0.05)
        said = broker.out.read_text()
        done = [each for each in _passes(said) if each.log.rpartition("-")[0] == topic]
        if len(done) == partitions or (done and passed_s > at_most_s):
            return done
    raise TimeoutError(f"{topic} was not cleaned in {CLEANED_S} s:\n{said[-3000:]}")


def _passes(said: str) -> list[Cleaned]:
    """Return what a broker's log says of the cleaner's passes, ours or Kafka's."""
    found = [
        Cleaned(log, int(filtered) / float(seconds) / 1e6)
        for log, filtered, seconds in _OURS.findall(said)
    ]
    mib = 1024 * 1024 / 1e6
    return found + [
        Cleaned(log, float(mb_s.replace(",", "")) * mib) for log, _, mb_s in _KAFKAS.findall(said)
    ]


def _p99_ms(took_s: list[float]) -> float:
    return sorted(took_s)[int(len(took_s) * 0.99)] * 1e3
