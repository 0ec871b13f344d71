"""A process that is a client of proxies, until it is killed; SIGTERM has it finish.

python tests/cluster/proxy_clients.py write|read NAMESPACE JOURNAL STREAMS PAUSE NAME

write: numbered records to s0, s1, ... without end; each one that is acknowledged is noted in the
journal. PAUSE: seconds between the bursts of a stream, on average.
read: the records of all of them, through read proxies, behind the last ones noted there.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Final, NamedTuple

from tailrace import dlog
from tailrace.core.runtime.tasks import together
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.cluster.proxy_records import (
    FAILED,
    STARTED,
    Acknowledged,
    Journal,
    Record,
    acknowledged_line,
    parse_read,
    payload_of,
    read_line,
    stream_names,
)

BURST_MAX: Final = 4
"""Records in flight of a stream."""
READ_MAX: Final = 1_000


class Notes:
    """The journal, as the process that appends to it has it: what is noted outlives a kill."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, lines: str) -> None:
        """Append lines."""
        data = lines.encode()
        assert os.write(self._file, data) == len(data)


class Writing(NamedTuple):
    """What all streams of a writer share."""

    client: dlog.ThinClient
    notes: Notes
    process: str
    pause_s: float
    stopping: asyncio.Event


async def write(stream: str, shared: Writing) -> None:
    """Write one stream, in bursts, until it is to stop."""
    client, notes, process, pause_s, stopping = shared
    chance, number = Random(f"{process} {stream}"), 0

    def note(submitted_s: float, payload: str, done: "asyncio.Future[DLSN]") -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            notes.note(f"{FAILED} {stream} {payload}: {error!r}\n")
            return
        one = Acknowledged(stream, done.result(), payload, submitted_s, monotonic())
        notes.note(acknowledged_line(one))

    async with client.open_writer(stream) as writer:
        while not stopping.is_set():
            for _ in range(chance.randint(1, BURST_MAX)):
                payload = payload_of(process, number)
                number += 1
                done = await writer.submit(payload.encode())
                done.add_done_callback(partial(note, monotonic(), payload))
            await writer.flush()
            await _wait(stopping, 2 * pause_s * chance.random())


async def read(client: dlog.ThinClient, stream: str, start: DLSN | dlog.Edge, notes: Notes) -> None:
    """Read one stream, for ever."""
    async with client.read(stream, start) as reader:
        while True:
            found = await reader.read_bulk(READ_MAX)
            records = [Record(each.dlsn, bytes(each.payload).decode()) for each in found]
            notes.note("".join(read_line(stream, each) for each in records))


async def main(
    how: str, namespace: str, journal: Path, streams: Sequence[str], pause_s: float, name: str
) -> None:
    """Be the client."""
    positions = _last_read(journal) if how == "read" else {}
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    notes = Notes(journal)
    notes.note(f"{STARTED}\n")
    async with dlog.ThinClient(namespace) as client:
        print("ready", flush=True)
        if how == "write":
            shared = Writing(client, notes, name, pause_s, stopping)
            await together([write(each, shared) for each in streams])
        else:
            starts = {each: positions.get(each, dlog.START) for each in streams}
            await together([read(client, *each, notes) for each in starts.items()])


def _last_read(journal: Path) -> dict[str, DLSN]:
    """Return where the process before was; of its last line it may have written a part."""
    if not journal.exists():
        return {}
    os.truncate(journal, journal.read_bytes().rfind(b"\n") + 1)
    lines = [line for line in Journal(journal).news() if line != STARTED]
    return {stream: record.dlsn for stream, record in map(parse_read, lines)}


async def _wait(stopping: asyncio.Event, for_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(for_s):
            await stopping.wait()


if __name__ == "__main__":
    _, how, namespace, journal, streams, pause, name = sys.argv
    asyncio.run(main(how, namespace, Path(journal), stream_names(int(streams)), float(pause), name))
