"""A closed ledger in memory, and a cold store in a directory."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tailrace.core.errors import EntryNotFound
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold.format import Header
from tailrace.core.log.cold.object_writer import ObjectWriter
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import LedgerId

LOG = "/distributedlog/tailrace/s"
LEDGER = LedgerId(42)
SEGMENT = SegmentMetadata(
    lssn=3, ledger_id=LEDGER, first_txid=10, in_progress=False, last_txid=90,
    completion_time_ms=1_700_000_000_000, record_count=9, last_entry_id=8, last_slot=0,
)  # fmt: skip


def entries_of(payloads: Sequence[bytes]) -> list[Entry]:
    length = 0
    entries = []
    for number, payload in enumerate(payloads):
        length += len(payload)
        entries.append(Entry(LEDGER, number, number - 1, length, memoryview(payload)))
    return entries


class MemoryLedger:
    """SegmentLedger. `fails_at`: reading this entry raises."""

    is_closed = True
    ledger_id = LEDGER

    def __init__(self, payloads: Sequence[bytes], fails_at: int | None = None) -> None:
        self.entries = entries_of(payloads)
        self.fails_at = fails_at
        self.last_confirmed = len(payloads) - 1
        self.length = sum(map(len, payloads))

    def note_confirmed(self, lac: int) -> None: ...

    async def read(self, first: int, last: int) -> list[Entry]:
        if self.fails_at is not None and first <= self.fails_at <= last:
            raise EntryNotFound(f"entry {self.fails_at}")
        return self.entries[first : last + 1]

    async def read_some(self, first: int, last: int) -> list[Entry]:
        return await self.read(first, last)

    async def read_last_confirmed(self) -> int:
        return self.last_confirmed

    async def read_last_confirmed_and_entry(
        self, entry_id: int, timeout_ms: int
    ) -> tuple[int, Entry | None]:
        return self.last_confirmed, None


def build(payloads: Sequence[bytes], block_bytes: int) -> tuple[bytes, ObjectWriter]:
    """Return an object's bytes."""
    ledger = MemoryLedger(payloads)
    header = Header(
        namespace="/n", log="s", lssn=3, ledger_id=LEDGER, entries=len(payloads),
        payload_bytes=ledger.length, segment="",
    )  # fmt: skip
    writer = ObjectWriter(header, block_bytes)
    parts = list(writer.begin())
    for entry in ledger.entries:
        parts += writer.add(entry)
    parts += writer.finish()
    return b"".join(bytes(part) for part in parts), writer


@asynccontextmanager
async def cold_store(url: Path | str, seed: int = 1, **changes: Any) -> AsyncIterator[ColdStore]:
    config = replace(ColdConfig(url=str(url), block_bytes=64, retry_pause_ms=1), **changes)
    store = ColdStore(config, "cluster-1", Random(seed))
    try:
        yield store
    finally:
        await store.close()
