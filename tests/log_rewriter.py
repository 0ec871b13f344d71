"""A process that rewrites segments of a log again and again until it is killed.

python -m tests.log_rewriter NAMESPACE-URI LOG SESSION-MS [merges] [cold=URL]

Keeps the records with an even txid of segments 1 and 2, both swapped in at once, or both in segment
2 with `merges`, and prints each step: `began`, `copied LSSN TXID`, `filled`, `swapped`.
"""

import asyncio
import sys
from dataclasses import replace
from typing import Final

from tailrace.core.errors import OwnershipAcquireFailed
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import NamespaceOptions, open_namespace
from tailrace.core.log.rewrite import SegmentRewrite
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.log_owner import options

RECORDS: Final = 200
"""Of each segment."""
SEGMENTS: Final = 3
REWRITTEN: Final = (1, 2)
RECORD_BYTES: Final = 4096
ALL: Final = list(range(SEGMENTS * RECORDS))
KEPT: Final = [txid for txid in ALL if txid % 2 == 0 or txid >= len(REWRITTEN) * RECORDS]
_READ_BYTES: Final = 64 * 1024
_LOCK_WITHIN_S: Final = 30
_ASK_AGAIN_S: Final = 0.1


def hasty(session_ms: int, client_id: str, cold_url: str = "") -> NamespaceOptions:
    """Return the options of one who deletes replaced ledgers at once."""
    chosen = options(session_ms, client_id)
    log = replace(chosen.log, delete_delay_ms=0)
    return replace(chosen, log=log, cold=ColdConfig(url=cold_url, block_bytes=65536))


def payload(txid: int) -> bytes:
    """Return what a record holds."""
    return b"%d" % txid + bytes(RECORD_BYTES)


async def held(log: Log, lssn: int | None = None) -> list[tuple[int, bytes]]:
    """Return the records that a new reader gets, of one segment or of all."""
    found: list[tuple[int, bytes]] = []
    reader = await log.open_reader(DLSN(lssn or 1, 0, 0))
    try:
        while records := await reader.read(_READ_BYTES):
            found += [
                (each.record.txid, bytes(each.record.payload))
                for each in records
                if lssn in (None, each.dlsn.lssn)
            ]
            if lssn is not None and records[-1].dlsn.lssn != lssn:
                break
    finally:
        await reader.close()
    return found


async def _begun(log: Log, *, merges: bool) -> SegmentRewrite:
    async with asyncio.timeout(_LOCK_WITHIN_S):
        while True:
            try:
                return await log.rewrite(REWRITTEN, merges=merges)
            except OwnershipAcquireFailed:
                await asyncio.sleep(_ASK_AGAIN_S)


async def rewrite_once(log: Log, say: bool, *, merges: bool = False) -> None:
    """Wait until nobody else rewrites, and rewrite. A dead process' lock goes with its session."""

    def tell(text: str) -> None:
        if say:
            print(text, flush=True)

    rewrite = await _begun(log, merges=merges)
    tell("began")
    for lssn in REWRITTEN:
        for txid, data in await held(log, lssn):
            if txid % 2 == 0:
                into = REWRITTEN[-1] if merges else lssn
                await rewrite.append(into, txid, (data,), len(data))
                tell(f"copied {lssn} {txid}")
        if not merges or lssn == REWRITTEN[-1]:
            await rewrite.finish(lssn, None, b"")
    tell("filled")
    await rewrite.commit()
    tell("swapped")


async def main(uri: str, name: str, session_ms: int, *options: str) -> None:
    (cold_url,) = [o.removeprefix("cold=") for o in options if o.startswith("cold=")] or [""]
    async with open_namespace(uri, hasty(session_ms, "doomed", cold_url)) as opened:
        log = await opened.logs.open_log(name)
        merges = "merges" in options
        await log.refresh()
        while not merges or len(log.segments) == SEGMENTS:
            await rewrite_once(log, True, merges=merges)
        print("merged before", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
