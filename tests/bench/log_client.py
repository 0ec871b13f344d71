"""Load on log streams through our own library, a process of its own.

`python -m tests.bench.log_client URI WHAT LOG NUMBERS... [KEY=VALUE]...` prints one line of JSON:
what tests/java/distributedlog/LogLoad.java does with Apache's library. Settings have
DistributedLog's names, so both are told the same.

    append    RECORD_BYTES IN_FLIGHT WARM_S SECONDS   as many records as go, from one writer
    tail      RECORD_BYTES RATE WARM_S SECONDS        how old records are when a reader of another
                                                      session has them
    read      WARM_S                                  a whole log, from the beginning
    open      ROUNDS                                  own a log and recover its last segment
    position  COUNT                                   find records by txid
    seek      ROUNDS COUNT                            read the first record from a txid on
    segments  COUNT RECORDS                           make a log of many segments (only here)
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import numpy as np
import uvloop

from tailrace.core.errors import CoreError
from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.open_namespace import NamespaceOptions, open_namespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.runtime.collector import settle_collector
from tailrace.core.runtime.config import load
from tailrace.core.runtime.config_sources import from_arguments
from tailrace.protocol.distributedlog.dlsn import INITIAL

_READ_BYTES: Final = 1 << 20
_SEGMENT_RECORD: Final = bytes(1024)
_SEEK_TXID_MAX: Final = 200
"""What is looked for first: any log of `segments` has so many records."""


class Sent:
    """Records 1, 2, ... of one writer: when each was due and confirmed (a LogListener)."""

    def __init__(self, in_flight: int) -> None:
        self.due_s: list[float] = []
        self.latencies_s: list[float] = []
        self.error: CoreError | None = None
        self._in_flight = in_flight
        self._moved = asyncio.Event()

    def on_confirmed(self, txid: int) -> None:
        """Note the latency of everything up to `txid`."""
        now = time.perf_counter()
        confirmed = len(self.latencies_s)
        self.latencies_s += [now - due for due in self.due_s[confirmed:txid]]
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        """End the load."""
        self.error = error
        self._moved.set()

    async def write(self, writer: LogWriter, payload: bytes, seconds: float, rate: float) -> float:
        """Append for `seconds`, at a rate or as fast as it goes (0); return how long it took."""
        start = time.perf_counter()
        if rate:
            await self._send_when_due(writer, payload, int(np.ceil(rate * seconds)), rate)
        else:
            await self._send_as_it_goes(writer, payload, start + seconds)
        while len(self.latencies_s) < len(self.due_s) and self.error is None:
            await self._wait()
        if self.error is not None:
            raise self.error
        return time.perf_counter() - start

    async def _send_as_it_goes(self, writer: LogWriter, payload: bytes, until_s: float) -> None:
        while self.error is None and time.perf_counter() < until_s:
            for _ in range(self._in_flight - (len(self.due_s) - len(self.latencies_s))):
                self.due_s.append(time.perf_counter())
                writer.append(len(self.due_s), (payload,), len(payload))
            await self._wait()

    async def _send_when_due(
        self, writer: LogWriter, payload: bytes, count: int, rate: float
    ) -> None:
        """Send from a thread's clock, as Java's load does: the loop's timers are a ms late."""
        loop = asyncio.get_running_loop()
        start = time.perf_counter()

        def send(due_s: float) -> None:
            if self.error is not None:
                return
            self.due_s.append(due_s)
            try:
                writer.append(len(self.due_s), (payload,), len(payload))
            except CoreError as error:
                self.on_failed(error)  # nobody else would hear of it, and all would wait

        def pace() -> None:
            for number in range(count):
                due_s = start + number / rate
                while (left_s := due_s - time.perf_counter()) > 0:
                    time.sleep(left_s)
                if self.error is not None:
                    return
                loop.call_soon_threadsafe(send, due_s)

        await asyncio.to_thread(pace)

    async def _wait(self) -> None:
        self._moved.clear()
        await self._moved.wait()


class Load:
    """What the command line says, and the steps that it can name."""

    def __init__(self, uri: str, log: str, words: Sequence[str]) -> None:
        self._uri = uri
        self._log = log
        self._numbers = [float(word) for word in words if "=" not in word]
        settings = from_arguments([word for word in words if "=" in word])
        self._config = load(LogConfig, settings).config

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[LogNamespace]:
        """Open the namespace with a session of its own."""
        async with open_namespace(self._uri, NamespaceOptions(log=self._config)) as opened:
            yield opened.logs

    async def append(self) -> None:
        """Append as much as goes."""
        size, in_flight, warm_s, seconds = self._numbers
        payload = random.Random(7).randbytes(int(size))
        async with self.connect() as logs:
            sent = Sent(int(in_flight))
            writer = await (await _made(logs, self._log)).open_writer(sent)
            await sent.write(writer, payload, warm_s, 0)
            warm = len(sent.due_s)
            took = await sent.write(writer, payload, seconds, 0)
            _report(sent.latencies_s[warm:], records_per_s=(len(sent.due_s) - warm) / took)
            await writer.close()

    async def tail(self) -> None:
        """Append at a rate, and note when a reader of another session has each record."""
        size, rate, warm_s, seconds = self._numbers
        payload = random.Random(7).randbytes(int(size))
        async with self.connect() as logs, self.connect() as others:
            sent = Sent(10_000)
            writer = await (await _made(logs, self._log)).open_writer(sent)
            read_s: list[float] = []
            last = int(np.ceil(rate * warm_s)) + int(np.ceil(rate * seconds))
            log = await others.open_log(self._log)
            async with asyncio.TaskGroup() as group:
                group.create_task(_follow(log, read_s, last))
                await sent.write(writer, payload, warm_s, rate)
                warm = len(sent.due_s)
                await sent.write(writer, payload, seconds, rate)
            ages = [at - due for at, due in zip(read_s, sent.due_s, strict=True)]
            _report(ages[warm:])
            await writer.close()

    async def read(self) -> None:
        """Read a whole log until warm, then once for the figure."""
        (warm_s,) = self._numbers
        async with self.connect() as logs:
            log = await logs.open_log(self._log)
            warm_until = time.perf_counter() + warm_s
            while time.perf_counter() < warm_until:
                await _read_once(log)
        async with self.connect() as logs:  # nothing of it is in a cache here
            log = await logs.open_log(self._log)
            start = time.perf_counter()
            size = await _read_once(log)
            took = time.perf_counter() - start
        _print(mb_per_s=size / 1e6 / took, mb=size / 1e6)

    async def open(self) -> None:
        """Own and recover a log, by a new client's view of it each time; the first one warms up."""
        times = []
        for _ in range(int(self._numbers[0]) + 1):
            async with self.connect() as logs:
                await self._connect_to_all(logs)
                times.append(await _open_once(logs, self._log))
        open_ms, written_ms = np.median(times[1:], axis=0)
        _print(open_ms=open_ms, written_ms=written_ms)

    async def _connect_to_all(self, logs: LogNamespace) -> None:
        """Do with another log what is to be measured, so that all connections are there."""
        await _made(logs, f"{self._log}-other")
        await _open_once(logs, f"{self._log}-other")

    async def position(self) -> None:
        """Find records by txid, anywhere in the log."""
        count = int(self._numbers[0])
        chance = random.Random(7)
        async with self.connect() as logs:
            log = await logs.open_log(self._log)
            await log.refresh()
            last = log.segments.last_txid
            times = []
            for _ in range(2 * count):
                txid = chance.randint(1, last)
                start = time.perf_counter()
                found = await log.locate(txid)
                times.append(time.perf_counter() - start)
                assert found is not None, txid
        _report(times[count:])

    async def seek(self) -> None:
        """Open readers at a txid: first by clients new to the log, then again by the last one."""
        rounds, count = map(int, self._numbers)
        chance = random.Random(7)
        firsts, times = [], []
        for number in range(rounds + 1):
            async with self.connect() as logs:
                await self._connect_to_all(logs)
                start = time.perf_counter()
                log = await logs.open_log(self._log)
                await _seek(log, chance.randint(1, _SEEK_TXID_MAX))
                firsts.append(time.perf_counter() - start)
                if number == rounds:
                    last = log.segments.last_txid
                    times = [await _seek(log, chance.randint(1, last)) for _ in range(2 * count)]
        _report(times[count:], first_ms=np.median(firsts[1:]) * 1000)

    async def segments(self) -> None:
        """Make a log of many segments, an entry per record; the last one stays in progress."""
        count, records = map(int, self._numbers)
        async with self.connect() as logs:
            sent = Sent(records)
            writer = await (await _made(logs, self._log)).open_writer(sent)
            for number in range(count):
                if number:
                    await writer.roll()
                for txid in range(number * records + 1, (number + 1) * records + 1):
                    writer.append(txid, (_SEGMENT_RECORD,), len(_SEGMENT_RECORD))
                    await asyncio.sleep(0)
                await writer.flush()
            await writer.abort()
        _print(segments=count)


async def _made(logs: LogNamespace, name: str) -> Log:
    if not await logs.log_exists(name):
        await logs.create_log(name)
    return await logs.open_log(name)


async def _follow(log: Log, read_s: list[float], last: int) -> None:
    """Note when each of the first `last` records is read."""
    reader = await log.open_reader(INITIAL)
    while len(read_s) < last:
        entries = await reader.read_entries(_READ_BYTES)
        now = time.perf_counter()
        for entry in entries:
            read_s += [now] * len(entry.columns.txids)
        if not entries:
            await reader.wait_for_more()
    await reader.close()


async def _read_once(log: Log) -> int:
    """Read everything; return the bytes of all payloads."""
    reader = await log.open_reader(INITIAL)
    size = 0
    while entries := await reader.read_entries(_READ_BYTES):
        for entry in entries:
            size += sum(map(len, entry.columns.payloads))
    await reader.close()
    return size


async def _open_once(logs: LogNamespace, name: str) -> tuple[float, float]:
    """Return how long it takes to own a log, and to have its first record written. Unit: ms.

    Leaves a segment in progress.
    """
    start = time.perf_counter()
    log = await logs.open_log(name)
    writer = await log.open_writer(Sent(1))
    opened = time.perf_counter()
    writer.append(max(writer.last_txid, 0) + 1, (_SEGMENT_RECORD,), len(_SEGMENT_RECORD))
    await writer.flush()
    written = time.perf_counter()
    await writer.abort()
    return (opened - start) * 1000, (written - start) * 1000


async def _seek(log: Log, txid: int) -> float:
    """Return how long it takes to read the first record from a txid on. Unit: seconds."""
    start = time.perf_counter()
    reader = await log.open_reader(txid)
    entries = await reader.read_entries(1)
    took = time.perf_counter() - start
    assert entries[0].columns.txids[0] >= txid, txid
    await reader.close()
    return took


def _report(times_s: Sequence[float], **figures: float) -> None:
    p50, p99 = np.percentile(times_s, [50, 99]) * 1000
    _print(**figures, p50_ms=float(p50), p99_ms=float(p99))


def _print(**figures: float) -> None:
    print(json.dumps(figures))


Step: TypeAlias = Callable[[Load], Awaitable[None]]
STEPS: Final[dict[str, Step]] = {
    step.__name__: step
    for step in (
        *(Load.append, Load.tail, Load.read),
        *(Load.open, Load.position, Load.seek, Load.segments),
    )
}


async def main(arguments: Sequence[str]) -> None:
    """Do one step, as our processes run: with the collector settled."""
    settle_collector()
    uri, what, log, *words = arguments
    await STEPS[what](Load(uri, log, words))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
