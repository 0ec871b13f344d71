"""A user's process that writes a log with `tailrace.dlog` until something ends it.

python -m tests.dlog_writer NAMESPACE-URI LOG HOW

HOW: `asyncio`, `threads` (the blocking face), or `careless` (the same; submits 500 records and ends
without closing anything). Prints `owns TXID` (the last one that it found), `wrote TXID` for each
record once it is durable, and `failed KIND` when the writer is dead.
"""

import asyncio
import sys
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final

from tailrace import dlog
from tailrace.dlog import sync

if TYPE_CHECKING:
    from concurrent.futures import Future

SETTINGS: Final = {"zkSessionTimeoutSeconds": 1}
IN_FLIGHT: Final = 20
CARELESS: Final = 500


def payload(txid: int) -> bytes:
    return b"record %d" % txid


def say(word: str, what: object) -> None:
    print(word, what, flush=True)


async def with_asyncio(uri: str, name: str) -> None:
    try:
        async with (
            dlog.open_namespace(uri, SETTINGS) as namespace,
            namespace.open_log(name) as log,
            log.open_writer() as writer,
        ):
            last = writer.last_txid
            say("owns", last)
            flying: deque[tuple[int, asyncio.Future[dlog.DLSN]]] = deque()
            for txid in count(0 if last is None else last + 1):
                flying.append((txid, await writer.submit(payload(txid), txid)))
                if len(flying) > IN_FLIGHT:
                    oldest, done = flying.popleft()
                    await done
                    say("wrote", oldest)
    except dlog.CoreError as error:
        say("failed", type(error).__name__)


def with_threads(uri: str, name: str) -> None:
    flying: deque[tuple[int, Future[dlog.DLSN]]] = deque()
    try:
        with (
            sync.open_namespace(uri, SETTINGS) as namespace,
            namespace.open_log(name) as log,
            log.open_writer() as writer,
        ):
            last = writer.last_txid
            say("owns", last)
            for txid in count(0 if last is None else last + 1):
                flying.append((txid, writer.submit(payload(txid), txid)))
                if len(flying) > IN_FLIGHT:
                    oldest, done = flying.popleft()
                    done.result()
                    say("wrote", oldest)
    except dlog.CoreError as error:
        say("failed", type(error).__name__)
    except KeyboardInterrupt:
        say("interrupted", flying[-1][0])


def carelessly(uri: str, name: str) -> None:
    writer = sync.open_namespace(uri, SETTINGS).open_log(name).open_writer()
    for txid in range(CARELESS):
        writer.submit(payload(txid), txid)
    say("submitted", CARELESS)


if __name__ == "__main__":
    _, uri, name, how = sys.argv
    if how == "asyncio":
        asyncio.run(with_asyncio(uri, name))
    elif how == "threads":
        with_threads(uri, name)
    else:
        carelessly(uri, name)
