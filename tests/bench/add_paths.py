"""What `journalWriteData` costs: one bookie in this process, both ways of writing.

    python -m tests.bench.add_paths [--directory DIR]... [--mib 512] [--rounds 3]

Adds of 1, 16 and 64 KiB over eight ledgers, 512 in flight, everything synced and acknowledged; the
time includes the last checkpoint. "direct": the entry log is the journal. "journaled": one journal
directory and one ledger directory. "journaled x2": two of each. With several `--directory` (on
disks of their own) journals go to the first ones and ledgers to the last.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tailrace.protocol.ids import LedgerId

MIB = 1024 * 1024
IN_FLIGHT = 512
LEDGERS = 8
WAYS: dict[str, tuple[bool, int]] = {
    "direct": (False, 1),
    "journaled": (True, 1),
    "journaled x2": (True, 2),
}


class Load:
    """Keeps so many adds in flight until all are acknowledged."""

    def __init__(self, bookie: OpenBookie, size: int, count: int) -> None:
        self._bookie = bookie
        self._payload = bytes(range(256)) * (size // 256)
        self._count = count
        self._sent = 0
        self._acked = 0
        self._digest = Digest(DigestType.CRC32C)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        for _ in range(min(IN_FLIGHT, self._count)):
            self._send()
        await self._done

    def _send(self) -> None:
        ledger_id, entry_id = LedgerId(self._sent % LEDGERS), self._sent // LEDGERS
        self._sent += 1
        payload = self._payload
        body = pack_entry(ledger_id, entry_id, -1, len(payload), (payload,), self._digest)
        self._bookie.submit(AddRequest(ledger_id, entry_id, b"k" * 20, body), self._on_reply)

    def _on_reply(self, response: Any) -> None:
        if response.status is not StatusCode.EOK and not self._done.done():
            self._done.set_exception(AssertionError(f"refused: {response}"))
        self._acked += 1
        if self._sent < self._count:
            self._send()
        elif self._acked == self._count and not self._done.done():
            self._done.set_result(None)


async def measure(way: str, size: int, total: int, roots: list[Path]) -> float:
    """Return MB/s of payload."""
    write_data, directories = WAYS[way]
    config = BookieConfig(
        journal_write_data=write_data,
        journal_directories=tuple(
            roots[i % len(roots)] / f"journal{i}" for i in range(directories)
        ),
        ledger_directories=tuple(
            roots[-1 - i % len(roots)] / f"ledgers{i}" for i in range(directories)
        ),
    )
    bookie = await open_bookie(config, None, SystemClock(), SystemFiles())
    started = time.perf_counter()
    await Load(bookie, size, total // size).run()
    await bookie.checkpoint()
    speed = total / (time.perf_counter() - started) / 1e6
    await bookie.close()
    return speed


def one_run(way: str, size: int, total: int, parents: list[Path | None]) -> float:
    """Measure in fresh directories."""
    roots = [Path(tempfile.mkdtemp(dir=parent)) for parent in parents]
    try:
        return uvloop.run(measure(way, size, total, roots))
    finally:
        for root in roots:
            shutil.rmtree(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, action="append")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for kib in (1, 16, 64):
        total = arguments.mib * MIB // (8 if kib == 1 else 1)
        speeds: dict[str, list[float]] = {}
        for _ in range(arguments.rounds):
            for way in WAYS:
                speed = one_run(way, kib * 1024, total, arguments.directory or [None])
                speeds.setdefault(way, []).append(round(speed))
        medians = {way: statistics.median(found) for way, found in speeds.items()}
        print(f"{kib} KiB: MB/s {json.dumps(medians)} of {json.dumps(speeds)}", flush=True)


if __name__ == "__main__":
    main()
