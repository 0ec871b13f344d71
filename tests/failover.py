"""The owner of a log is killed, and another process goes on: what it finds, how long it takes."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from tailrace.core.errors import CoreError
from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import open_namespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.ids import TxId
from tests.log_owner import options

SESSION_MS: Final = 1000
RECORDS_FIRST: Final = 50
"""What the first owner has confirmed when it is killed, at least."""

STOP_WITHIN_S: Final = 30


class Failover(NamedTuple):
    """One failover. Times: ms since the kill, or of a step."""

    confirmed: TxId
    """The last record that the first owner reported."""
    found: TxId
    """The last record that the second owner found."""
    total_ms: float
    """From the kill to the first record confirmed to the second owner."""
    detection_ms: float
    """Until the lock was free: most of it is the session timeout."""
    ledger_recovery_ms: float
    """Fencing and recovering the ledger."""
    take_over_ms: float
    """From the lock to the writer, the recovery included."""

    @property
    def first_append_ms(self) -> float:
        """Starting the segment and confirming the first record."""
        return self.total_ms - self.detection_ms - self.take_over_ms


class FirstOwner:
    """The process that will be killed."""

    def __init__(self, uri: str, name: str, code: Path | None = None) -> None:
        """`code`: another checkout whose code it runs."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.log_owner", uri, name, str(SESSION_MS)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=code,
        )
        self.confirmed = -1

    def write_some(self) -> None:
        """Return when enough is confirmed."""
        for txid in self._confirmations():
            self.confirmed = txid
            if txid >= RECORDS_FIRST:
                return
        raise AssertionError("the first owner ended by itself")

    def kill(self) -> None:
        """End it (SIGKILL), and hear what it said before. Idempotent."""
        if self._child.returncode is not None:
            return
        self._child.kill()
        self._child.wait(STOP_WITHIN_S)
        for txid in self._confirmations():
            self.confirmed = txid
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _confirmations(self) -> Iterator[TxId]:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            word, _, number = line.partition(" ")
            if word == "confirmed" and number.endswith("\n"):
                yield int(number)


@contextmanager
def first_owner(uri: str, name: str, code: Path | None = None) -> Iterator[FirstOwner]:
    """Run it until the block ends, or until it is killed."""
    owner = FirstOwner(uri, name, code)
    try:
        yield owner
    finally:
        owner.kill()


class Second:
    """A listener that hears of the first confirmation."""

    def __init__(self) -> None:
        self.errors: list[CoreError] = []

    def on_confirmed(self, txid: TxId) -> None:
        """Do nothing: flush tells as well."""

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)


async def fail_over(uri: str, name: str) -> Failover:
    """Kill the owner of a log while another process waits for it; let that one append."""

    async with open_namespace(uri, options(SESSION_MS, "second")) as opened:
        with first_owner(uri, name) as first:
            await asyncio.to_thread(first.write_some)
            log = await opened.logs.open_log(name)
            waiting = asyncio.get_running_loop().create_task(log.open_writer(Second()))
            await _in_line(opened.store, LogPaths(opened.uri.root, name))
            killed_s = monotonic()
            await asyncio.to_thread(first.kill)
            writer = await waiting
            opened_s = monotonic()
            found = writer.last_txid
            await _append(writer, found + 1)
            total_ms = 1000 * (monotonic() - killed_s)
            metrics = opened.logs.metrics
            await _check(log, found + 1)
            await writer.close()
        return Failover(
            first.confirmed,
            found,
            total_ms,
            1000 * (opened_s - killed_s) - metrics.take_over_ms,
            metrics.ledger_recovery_ms,
            metrics.take_over_ms,
        )


async def _in_line(store: MetadataStore, paths: LogPaths) -> None:
    """Wait until both are at the lock."""
    while len(await store.children(paths.lock)) < 2:
        await store.sync()


async def _append(writer: LogWriter, txid: TxId) -> None:
    payload = b"%d" % txid
    writer.append(txid, (payload,), len(payload))
    await writer.flush()


async def _check(log: Log, last: TxId) -> None:
    """The log has every record up to `last`, once and in order."""
    reader = await log.open_reader(0)
    expected = 0
    while found := await reader.read(1 << 20):
        for _, record in found:
            assert (record.txid, bytes(record.payload)) == (expected, b"%d" % expected)
            expected += 1
    await reader.close()
    assert expected == last + 1
