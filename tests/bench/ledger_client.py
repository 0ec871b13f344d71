"""Load on bookies through our own ledger client, a process of its own.

`python -m tests.bench.ledger_client URI E QW QA ENTRY_BYTES IN_FLIGHT [SECONDS RATE]...` prints one
line of JSON for each step and one for reading the last step's ledger back: what
tests/java/bookkeeper/LedgerLoad.java does with Apache's client. Rate 0: as many adds as go.
`--read-batch`: so many entries are read together.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import deque

import numpy as np
import uvloop

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import EntryId

_TICK_S = 0.001


class Load:
    """Adds to one ledger, at a rate or as fast as they are confirmed (a LedgerListener)."""

    def __init__(self, in_flight: int) -> None:
        self._in_flight = in_flight
        self._due: deque[float] = deque()
        self._confirmed = -1
        self._room = asyncio.Event()
        self.latencies_s: list[float] = []
        self.error: CoreError | None = None

    def on_confirmed(self, lac: EntryId) -> None:
        """Note the latency of everything up to `lac`."""
        now = time.perf_counter()
        for _ in range(lac - self._confirmed):
            self.latencies_s.append(now - self._due.popleft())
        self._confirmed = lac
        self._room.set()

    def on_failed(self, error: CoreError) -> None:
        """End the load."""
        self.error = error
        self._room.set()

    async def run(self, writer: LedgerWriter, payload: bytes, seconds: float, rate: float) -> float:
        """Add for `seconds`, wait for the last one and return the time that it took."""
        start = time.perf_counter()
        sent = 0
        while self.error is None and (now := time.perf_counter()) < start + seconds:
            room = self._in_flight - len(self._due)
            count = min(room, int((now - start) * rate) + 1 - sent) if rate else room
            for _ in range(count):
                self._due.append(start + sent / rate if rate else time.perf_counter())
                writer.add([payload])
                sent += 1
            if rate:
                await asyncio.sleep(_TICK_S if room > count else 0)
            else:
                self._room.clear()
                await self._room.wait()
        while self._due and self.error is None:
            self._room.clear()
            await self._room.wait()
        if self.error is not None:
            raise self.error
        return time.perf_counter() - start


async def main(arguments: list[str]) -> None:
    """Run all steps and the reading."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--read-batch", type=int, default=64)
    parser.add_argument("uri")
    parser.add_argument("numbers", type=float, nargs="+")
    options = parser.parse_args(arguments)
    uri: str = options.uri
    ensemble, write_quorum, ack_quorum, entry_bytes, in_flight = map(int, options.numbers[:5])
    steps: list[float] = options.numbers[5:]
    payload = random.Random(7).randbytes(entry_bytes)
    root = ledgers_root(uri)
    store = await open_store(uri)
    bookies = RegisteredBookies(store, root=root)
    client = LedgerClient(store, bookies, LedgerClientConfig(root=root))
    config = LedgerConfig(
        ensemble_size=ensemble,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        digest=DigestType.CRC32C,
        unconfirmed_entries_max=max(in_flight, 1),
    )
    ledger_id = -1
    for seconds, rate in zip(steps[::2], steps[1::2], strict=True):
        load = Load(in_flight)
        writer = await client.create_ledger(config, load)
        took = await load.run(writer, payload, seconds, rate)
        await writer.close()
        ledger_id = writer.ledger_id
        _report("adds", load.latencies_s, len(load.latencies_s), entry_bytes, took)
    await _read(client, ledger_id, entry_bytes, options.read_batch)
    await bookies.close()
    await store.close()


async def _read(client: LedgerClient, ledger_id: int, entry_bytes: int, batch: int) -> None:
    reader = await client.open_ledger(ledger_id, recover=False)
    start = time.perf_counter()
    latencies_s = []
    for first in range(0, reader.last_confirmed + 1, batch):
        before = time.perf_counter()
        await reader.read(first, min(reader.last_confirmed, first + batch - 1))
        latencies_s.append(time.perf_counter() - before)
    took = time.perf_counter() - start
    _report("reads", latencies_s, reader.last_confirmed + 1, entry_bytes, took)


def _report(what: str, latencies_s: list[float], count: int, size: int, took: float) -> None:
    p50, p99 = np.percentile(latencies_s, [50, 99]) * 1000
    figures = {f"{what}_per_s": count / took, "mb_per_s": count / took * size / 1e6}
    print(json.dumps(figures | {"p50_ms": float(p50), "p99_ms": float(p99)}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
