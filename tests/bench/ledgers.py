"""Bookies and ledger clients: ours with ours, Apache's with Apache's, over one ZooKeeper.

Every round measures both: as many adds as go, then both at the same pace, half of what the slower
one reached, for the latency; then everything is read back. Then one of three bookies is given
500 ms for each sync, and the pace is kept.
"""

import json
import os
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench.bookies import APACHE, TAILRACE, Bookies, run_load, started

SIDES = (TAILRACE, APACHE)
_IN_FLIGHT_BYTES = 16 * 1024 * 1024
_IN_FLIGHT_MAX = 4096
_SLOW_SYNC_MS = 500
_SLOW_PACE = 200
"""Adds a second beside the slow bookie: less than it can sync, so that it lags and no more."""


@dataclass(frozen=True, slots=True)
class Adds:
    """One workload. Unit: bytes."""

    entry_bytes: int
    ensemble: int
    write_quorum: int
    ack_quorum: int

    @property
    def name(self) -> str:
        """Say it as the tables do: `16KiB E3/3/2`."""
        quorums = f"E{self.ensemble}/{self.write_quorum}/{self.ack_quorum}"
        return f"{self.entry_bytes // 1024}KiB {quorums}"

    def arguments(self) -> list[object]:
        """Return what both clients are told first."""
        in_flight = min(_IN_FLIGHT_MAX, _IN_FLIGHT_BYTES // self.entry_bytes)
        return [self.ensemble, self.write_quorum, self.ack_quorum, self.entry_bytes, in_flight]


QUORUMS = ((1, 1, 1), (3, 3, 2))
LOADS = tuple(Adds(size, *quorums) for quorums in QUORUMS for size in (1024, 16_384, 65_536))
ONE_SLOW = "one slow bookie"
PARTS = (*(load.name for load in LOADS), ONE_SLOW)


def measure(
    zookeeper: str,
    folder: Path,
    *,
    parts: Collection[str],
    seconds: float,
    warm_s: float,
    steps: Callable[[str], None],
) -> dict[str, dict[str, float]]:
    """Run one round of these of `PARTS`; return figures by side."""
    figures: dict[str, dict[str, float]] = {side.name: {} for side in SIDES}
    for load in [load for load in LOADS if load.name in parts]:
        # Bookies of its own for each: what all loads of a round leave would fill a disk.
        with tempfile.TemporaryDirectory(prefix="load-", dir=folder) as own, ExitStack() as stack:
            running = [
                stack.enter_context(started(side, load.ensemble, zookeeper, Path(own)))
                for side in SIDES
            ]
            _measure_load(load, running, seconds, warm_s, figures)
        steps(load.name)
    if ONE_SLOW in parts:
        figures[TAILRACE.name] |= _one_slow(zookeeper, folder, seconds, warm_s)
        steps(ONE_SLOW)
    return figures


def _measure_load(
    load: Adds,
    running: list[Bookies],
    seconds: float,
    warm_s: float,
    figures: dict[str, dict[str, float]],
) -> None:
    most: list[float] = []
    for bookies in running:
        cpu_s = bookies.cpu_s()
        lines = run_load(bookies.load(*load.arguments(), warm_s, 0, seconds, 0))
        warm, full, read = map(json.loads, lines)
        spent_s = bookies.cpu_s() - cpu_s
        adds = warm["adds_per_s"] * warm_s + full["adds_per_s"] * seconds
        most.append(full["adds_per_s"])
        figures[bookies.side.name] |= {
            f"{load.name} adds/s": full["adds_per_s"],
            f"{load.name} MB/s": full["mb_per_s"],
            f"{load.name} reads MB/s": read["mb_per_s"],
            f"{load.name} bookie CPU us/add": spent_s / adds * 1e6,
        }
    for bookies in running:
        os.sync()  # what the load before left to be flushed is not this one's to wait for
        lines = run_load(bookies.load(*load.arguments(), warm_s, 0, seconds, min(most) / 2))
        paced = json.loads(lines[1])
        figures[bookies.side.name] |= {
            f"{load.name} half load p50 ms": paced["p50_ms"],
            f"{load.name} half load p99 ms": paced["p99_ms"],
            f"{load.name} RSS of a bookie, MB": bookies.rss_mb(),
        }


def _one_slow(zookeeper: str, folder: Path, seconds: float, warm_s: float) -> dict[str, float]:
    load = Adds(16_384, 3, 3, 2)
    found: dict[str, float] = {}
    for name, slow_ms in (("healthy", 0), ("one slow", _SLOW_SYNC_MS)):
        own = Path(tempfile.mkdtemp(prefix="slow-", dir=folder))
        with started(TAILRACE, 3, zookeeper, own, slow_ms) as bookies:
            pace = [warm_s, _SLOW_PACE, seconds, _SLOW_PACE]
            # One entry at a time: a p99 needs more than the few batches that this pace makes.
            lines = run_load([*bookies.load(*load.arguments(), *pace), "--read-batch=1"])
            adds, reads = json.loads(lines[1]), json.loads(lines[2])
            found[f"three bookies, {name}: adds p99 ms"] = adds["p99_ms"]
            found[f"three bookies, {name}: reads p99 ms"] = reads["p99_ms"]
    return found
