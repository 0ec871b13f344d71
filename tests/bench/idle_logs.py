"""What an idle log costs in memory, while this process owns it.

    python -m tests.bench.idle_logs [--logs 1000] [--records 100]

Everything of ours is real but the bookie, which forgets what it was sent; SQLite's own memory and
the caches that all logs share are not counted. Python's allocations, by tracemalloc: what the
process takes beyond that is the allocator's. The objective is 20 KB, so that 10,000 logs fit.
"""

import argparse
import asyncio
import gc
import json
import logging
import tempfile
import tracemalloc
from pathlib import Path
from random import Random

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.config import LogConfig
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.ids import TxId
from tests.unit.core.ledger.fake_bookie import FakeBookie

RECORD = b"x" * 1024


class Deaf:
    """An owner that wants to know nothing."""

    def on_confirmed(self, txid: TxId) -> None:
        """Do nothing."""

    def on_failed(self, error: CoreError) -> None:
        """Stop the measurement."""
        raise error


async def measure(directory: Path, logs: int, records: int) -> dict[str, float]:
    """Return KB per log: opened for writing, idle after its first record, and after many."""
    store = SqliteStore(directory / "metadata", SystemClock())
    bookie = FakeBookie("bookie")
    ledgers = LedgerClient(store, LocalBookies([bookie]), None, Random(7))
    namespace = LogNamespace(store, ledgers, LogConfig(), SystemClock())
    await initialize_layout(store, instance_id="bench")

    def kept_kb() -> float:
        bookie.requests.clear()
        for ledger in bookie.ledgers.values():
            ledger.entries.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / 1024

    async def write(writer: LogWriter, count: int) -> None:
        for _ in range(count):
            writer.append(max(writer.last_txid + 1, 0), (RECORD,), len(RECORD))
            await asyncio.sleep(0)
        await writer.commit()

    names = [f"topic-{number}" for number in range(logs)]
    for name in names:
        await namespace.create_log(name)
    tracemalloc.start()
    found: dict[str, float] = {}
    before = kept_kb()
    writers = [await (await namespace.open_log(name)).open_writer(Deaf()) for name in names]
    found["opened"] = (kept_kb() - before) / logs
    for stage, count in (("first record", 1), (f"{records} records", records)):
        for writer in writers:
            await write(writer, count)
        found[stage] = (kept_kb() - before - bookie_kb(bookie)) / logs
    tracemalloc.stop()
    await namespace.close()
    await store.close()
    return found


def bookie_kb(bookie: FakeBookie) -> float:
    """Return about what the bookie itself keeps of each ledger, which is not the log's."""
    ledger = next(iter(bookie.ledgers.values()))
    one = sum(map(_size, (ledger, ledger.__dict__, ledger.entries, ledger.unsynced)))
    return len(bookie.ledgers) * one / 1024


def _size(thing: object) -> int:
    return thing.__sizeof__()


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--records", type=int, default=100)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(measure(Path(directory), arguments.logs, arguments.records))
    print(json.dumps({"kb_per_log": {stage: round(kb, 1) for stage, kb in found.items()}}))


if __name__ == "__main__":
    main()
