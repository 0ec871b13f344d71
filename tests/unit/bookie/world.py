"""What the bookie's tests share: a small bookie in a temporary directory, and requests for it."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tailrace.bookie.app import OpenBookie, open_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import Files, SystemFiles
from tailrace.protocol.bookkeeper.digest import Digest, DigestType, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Request, Response
from tailrace.protocol.ids import EntryId, LedgerId

KEY = ledger_master_key(b"")
OTHER_KEY = ledger_master_key(b"other")
DIGEST = Digest(DigestType.CRC32C)
L1 = LedgerId(1)
L2 = LedgerId(2)


def small_config(directory: Path, **changes: Any) -> BookieConfig:
    """Return a bookie that rolls, checkpoints and reserves in small steps."""
    config = BookieConfig(
        journal_directories=(directory / "journal",),
        ledger_directories=(directory / "ledgers",),
        preallocate_mb=1,
        port=0,
        bookie_id="test:3181",
    )
    return dataclasses.replace(config, **changes)


def entry_body(ledger_id: LedgerId, entry_id: EntryId, payload: bytes, lac: int = -1) -> bytes:
    return b"".join(pack_entry(ledger_id, entry_id, lac, len(payload), (payload,), DIGEST))


def add(
    ledger_id: LedgerId,
    entry_id: EntryId,
    payload: bytes = b"payload",
    *,
    lac: int = -1,
    key: bytes = KEY,
    recovery: bool = False,
) -> AddRequest:
    body = pack_entry(ledger_id, entry_id, lac, len(payload), (payload,), DIGEST)
    return AddRequest(ledger_id, entry_id, key, body, recovery)


def read(ledger_id: LedgerId, entry_id: EntryId = -1) -> ReadRequest:
    return ReadRequest(ledger_id, entry_id)


def fence(ledger_id: LedgerId, entry_id: EntryId = -1, key: bytes = KEY) -> ReadRequest:
    return ReadRequest(ledger_id, entry_id, fence=True, master_key=key)


def ask(bookie: Any, request: Request) -> "asyncio.Future[Any]":
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def settle(response: Response) -> None:
        if not future.done():
            future.set_result(response)

    bookie.submit(request, settle)
    return future


async def open_small(directory: Path, files: Files | None = None, **changes: Any) -> OpenBookie:
    config = small_config(directory, **changes)
    return await open_bookie(config, None, ManualClock(), files or SystemFiles())


def run(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a story on a loop of its own, in debug mode, for 60 s at most."""

    async def main() -> Any:
        async with asyncio.timeout(60):
            return await story()

    return asyncio.run(main(), debug=True)
