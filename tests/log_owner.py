"""A process that owns a log, new or not, and writes 0, 1, 2, ... to it until it is killed.

python -m tests.log_owner NAMESPACE-URI LOG SESSION-MS

Prints `owns TXID` (the last one that it found), then `confirmed TXID` for each step.
"""

import asyncio
import sys
from contextlib import suppress

from tailrace.core.errors import CoreError, LogExists
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import NamespaceOptions, open_namespace
from tailrace.protocol.ids import TxId

PAUSE_S = 0.005
"""Between two records."""


def options(session_ms: int, client_id: str) -> NamespaceOptions:
    """Return how owners of these tests open their namespace: three copies, two acknowledged."""
    log = LogConfig(ensemble_size=3, write_quorum=3, ack_quorum=2, client_id=client_id)
    return NamespaceOptions(log=log, session_timeout_ms=session_ms)


class Printing:
    """A listener that prints what is confirmed."""

    def on_confirmed(self, txid: TxId) -> None:
        print(f"confirmed {txid}", flush=True)

    def on_failed(self, error: CoreError) -> None:
        print(f"failed {error!r}", flush=True)


async def main(uri: str, name: str, session_ms: int) -> None:
    async with open_namespace(uri, options(session_ms, "first")) as opened:
        with suppress(LogExists):  # then it takes over
            await opened.logs.create_log(name)
        writer = await (await opened.logs.open_log(name)).open_writer(Printing())
        print(f"owns {writer.last_txid}", flush=True)
        txid = writer.last_txid
        while True:
            txid = max(txid, -1) + 1
            payload = b"%d" % txid
            writer.append(txid, (payload,), len(payload))
            await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
