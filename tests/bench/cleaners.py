"""Cleaners of compacted topics: ours and Kafka's, over the same records with the same settings.

One worker, 1 KiB values, 100,000 keys at random, batches of 16 KB, segments of 64 MiB; everything
but the segment in progress is head, so each record is read twice and most of them go. How fast a
pass was, is what each broker's log says of it: bytes of the segments that it went over, by the time
of the whole pass. A pass takes less than a second and two of one broker differ by half, so each
figure is the median of several. Produces are timed in short windows, in which nothing is cleaned
and in which small logs are, in turn: a disk that stands still for half a second is one window's
p99, and not the median of them.
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
from operator import truediv
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
WINDOWS: Final = 8
"""In which produces are timed while logs are cleaned, and as many in which none is."""
RECORDS_S: Final = 500
"""Produced, each alone, while their answers are timed: far below what anybody can do."""
CLEANED_S: Final = 300.0
"""Longest time for the passes over a topic."""

_JOBS: Final = "tests.bench.cleaner_client"
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
_SMALL_SEGMENT_BYTES: Final = _SEGMENT_BYTES // 16
_SMALL_LOG: Final = {"records": 16_000, "keys": 5000, "segment_bytes": _SMALL_SEGMENT_BYTES}
_SMALL_LOGS: Final = {False: 1, True: 32}
"""Cleaned in a window by ours, which leaves room to clients that write, and by Kafka."""
_SETTINGS: Final = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}
_OURS: Final = re.compile(r"log cleaned log=(\S+) .* filtered=(\d+) .* seconds=([\d.]+)")
_KAFKAS: Final = re.compile(
    r"cleaned log (\S+) \(dirty section.*\n\s*([\d,.]+) MB of log processed in [\d,.]+ seconds"
    r" \(([\d,.]+) MB/sec"
)
_P99_RATIO: Final = "produce p99, while cleaning / nothing cleaned"
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
        for kind in kinds:
            found = _produce_meanwhile(kind, brokers[kind.name], seconds)
            figures[kind.name] |= found
            steps(f"{kind.name}: produced meanwhile: {found[_P99_RATIO]:.2f} times the p99")
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


def _produce_meanwhile(kind: Kind, broker: Running, seconds: float) -> dict[str, float]:
    """Time produces while nothing is cleaned and while logs are, in turn."""
    logs = _SMALL_LOGS[kind.is_kafka]
    topics = [_fill(broker, "none", logs, **_SMALL_LOG) for _ in range(WINDOWS)]
    os.sync()  # what was not synced would be written while answers are timed
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
    windows: list[tuple[float, float, float]] = []
    cleaned: list[Cleaned] = []
    try:
        if producer.stdout.readline().strip() != "ready":
            raise RuntimeError("the producer did not start")
        for topic in topics:
            time.sleep(seconds)
            quiet_until_s = time.time()  # `_make_due` starts a process, which takes a core
            busy_from_s = _make_due(broker, topic)
            cleaned += _await_cleaned(broker, topic, logs)
            windows.append((quiet_until_s, busy_from_s, time.time()))
        out, _ = producer.communicate("end\n", CLEANED_S)
    except BaseException:
        producer.kill()
        producer.wait()
        raise
    took = json.loads(out.splitlines()[-1])["took"]
    quiet = [_p99_ms(took, until_s - seconds, until_s) for until_s, _, _ in windows]
    busy = [_p99_ms(took, from_s, until_s) for _, from_s, until_s in windows]
    return {
        "produce p99 ms, nothing cleaned": median(quiet),
        "produce p99 ms, while cleaning": median(busy),
        _P99_RATIO: median(map(truediv, busy, quiet)),
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


def _fill(
    broker: Running,
    codec: str,
    partitions: int,
    *,
    records: int = RECORDS,
    keys: int = KEYS,
    segment_bytes: int = _SEGMENT_BYTES,
) -> str:
    topic = f"table-{next(_topic_numbers)}"
    client(
        "fill",
        module=_JOBS,
        bootstrap=broker.bootstrap,
        topic=topic,
        partitions=partitions,
        records=records,
        record_bytes=RECORD_BYTES,
        codec=codec,
        keys=keys,
        segment_bytes=segment_bytes,
    )
    return topic


def _make_due(broker: Running, topic: str) -> float:
    found = client("make_due", module=_JOBS, bootstrap=broker.bootstrap, topic=topic)
    return float(found["at_s"])


def _await_cleaned(
    broker: Running, topic: str, partitions: int, look: Callable[[], object] = lambda: None
) -> list[Cleaned]:
    """Wait for a pass over each partition. `look`: called 20 times a second meanwhile."""
    assert broker.out is not None
    said = ""
    began = time.monotonic()
    while time.monotonic() - began < CLEANED_S:
        look()
        time.sleep(0.05)
        said = broker.out.read_text()
        done = [each for each in _passes(said) if each.log.rpartition("-")[0] == topic]
        if len(done) == partitions:
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


def _p99_ms(took: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """Return the p99 of what was sent in a window, of (when it was sent, how long it took)."""
    found = sorted(took_s for sent_s, took_s in took if from_s <= sent_s < to_s)
    return found[int(len(found) * 0.99)] * 1e3
