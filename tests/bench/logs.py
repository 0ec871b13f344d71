"""Log streams: our library and Apache DistributedLog, on the same three bookies of ours.

Every round asks both for the same, one after the other: appends of 1 KiB records, sent at once and
buffered; how old a record is when a reader of another session has it; reading back what the other
wrote; taking over a log of many segments; finding records in it by txid. Last, what idle logs cost
in memory, ours only.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.uri import ledgers_root, open_store
from tests.bench.bookies import TAILRACE, run_load, started
from tests.java.jars import main_class

OURS: Final = "tailrace"
JAVA: Final = "distributedlog"
_RECORD_BYTES: Final = 1024
_IN_FLIGHT: Final = 4096
_TAIL_RATES: Final = (100, 2000)
_SEGMENTS: Final = 1000
_SEGMENTS_QUICK: Final = 20
_SEGMENT_RECORDS: Final = 10
_OPENINGS: Final = 10
_SEEKS: Final = 20
_IDLE_LOGS: Final = 1000
_IDLE_LOGS_QUICK: Final = 100
_POSITIONS: Final = 100
_QUORUMS: Final = ("bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2")
_PATIENT: Final = "lockTimeoutSeconds=30"
_IMMEDIATE: Final = ("writerOutputBufferSize=0", "enableImmediateFlush=true")
_BUFFERED: Final = ("writerOutputBufferSize=65536", "periodicFlushFrequencyMilliSeconds=10")

Figures = dict[str, dict[str, float]]


def measure(
    zookeeper: str,
    folder: Path,
    *,
    seconds: float,
    warm_s: float,
    is_quick: bool,
    steps: Callable[[str], None],
) -> Figures:
    """Run one round of everything; return figures by library."""
    own = Path(tempfile.mkdtemp(prefix="logs-", dir=folder))
    with started(TAILRACE, 3, zookeeper, own) as bookies:
        round_ = _Round(zookeeper, bookies.uri, own.name)
        for name, settings in (("immediate", _IMMEDIATE), ("buffered", _BUFFERED)):
            round_.append(name, settings, seconds, warm_s)
            steps(f"append, {name}")
        for rate in _TAIL_RATES:
            round_.tail(rate, seconds, warm_s)
            steps(f"tail, {rate} records/s")
        round_.catch_up(warm_s)
        steps("catch up")
        round_.many_segments(_SEGMENTS_QUICK if is_quick else _SEGMENTS)
        steps("many segments")
        round_.idle(_IDLE_LOGS_QUICK if is_quick else _IDLE_LOGS)
        steps("idle logs")
    return round_.figures


class _Round:
    """One namespace, which both libraries use in turns."""

    def __init__(self, zookeeper: str, ledgers_uri: str, name: str) -> None:
        self.figures: Figures = {OURS: {}, JAVA: {}}
        path = f"/messaging/{name}"
        self._uri = f"distributedlog://{zookeeper}{path}"
        asyncio.run(bind(ledgers_uri, zookeeper, path))

    def append(self, name: str, settings: tuple[str, ...], seconds: float, warm_s: float) -> None:
        numbers = (_RECORD_BYTES, _IN_FLIGHT, warm_s, seconds)
        for side in self.figures:
            found = self._run(side, "append", f"{name}-{side}", *numbers, *settings)
            self._note(side, f"append 1 KiB {name}, records/s", found["records_per_s"])
            self._note(side, f"append 1 KiB {name}, full load p99 ms", found["p99_ms"])

    def tail(self, rate: int, seconds: float, warm_s: float) -> None:
        numbers = (_RECORD_BYTES, rate, warm_s, seconds)
        for side in self.figures:
            found = self._run(side, "tail", f"tail-{rate}-{side}", *numbers, *_IMMEDIATE)
            for share in ("p50", "p99"):
                self._note(side, f"tail at {rate}/s, {share} ms", found[f"{share}_ms"])

    def catch_up(self, warm_s: float) -> None:
        """Let each read what ours wrote, then what Java wrote."""
        for name in ("buffered", "immediate"):
            for writer in self.figures:
                for side in self.figures:
                    found = self._run(side, "read", f"{name}-{writer}", warm_s)
                    text = f"catch up with {writer}'s {name}, MB/s"
                    self._note(side, text, found["mb_per_s"])

    def many_segments(self, count: int) -> None:
        self._run(OURS, "segments", "many", count, _SEGMENT_RECORDS)
        for side in self.figures:
            found = self._run(side, "open", "many", _OPENINGS, _PATIENT)
            self._note(side, f"open and recover {count} segments, ms", found["open_ms"])
            self._note(side, f"open {count} segments and write a record, ms", found["written_ms"])
        for side in self.figures:
            found = self._run(side, "position", "many", _POSITIONS)
            self._note(side, f"position in {count} segments, p50 ms", found["p50_ms"])
        for side in self.figures:
            found = self._run(side, "seek", "many", _OPENINGS, _SEEKS, _PATIENT)
            what = f"read from a txid in {count} segments"
            self._note(side, f"{what}, p50 ms", found["p50_ms"])
            self._note(side, f"{what}, a new client's first, ms", found["first_ms"])

    def idle(self, count: int) -> None:
        """Note what logs cost that this process owns and nobody writes. Only ours."""
        (line,) = run_load([sys.executable, "-m", "tests.bench.idle_logs", "--logs", str(count)])
        for stage, kb in json.loads(line)["kb_per_log"].items():
            self._note(OURS, f"idle log, {stage}, KB", kb)

    def _note(self, side: str, figure: str, value: float) -> None:
        self.figures[side][figure] = value

    def _run(self, side: str, what: str, log: str, *words: object) -> dict[str, float]:
        java = main_class("distributedlog", "LogLoad", runs_long=True) if side == JAVA else []
        ours = [sys.executable, "-m", "tests.bench.log_client"]
        command = [*(java or ours), self._uri, what, log, *map(str, words), *_QUORUMS]
        (line,) = run_load(command)
        found: dict[str, float] = json.loads(line)
        return found


async def bind(ledgers_uri: str, zookeeper: str, path: str) -> None:
    """Bind a namespace to the bookies of a URI."""
    store = await open_store(ledgers_uri)
    try:
        root = ledgers_root(ledgers_uri)
        binding = BKDLConfig(bk_zk_servers=zookeeper, bk_ledgers_path=root)
        await bind_namespace(store, path, binding)
    finally:
        await store.close()
