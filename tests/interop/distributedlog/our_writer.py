"""A writer of ours in a process of its own, to be killed.

`python -m tests.interop.distributedlog.our_writer URI LOG SEED FIRST` owns the log and appends
records FIRST, FIRST + 1, ... until somebody stops it; each line says the last confirmed txid.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from tests.interop.bookkeeper.ours import ROOT, STOP_WITHIN_S
from tests.interop.distributedlog.ours import Listener, our_namespace
from tests.interop.distributedlog.records import SIZE, payload

SESSION_MS: Final = 1_000
"""Others need not wait for a dead owner much longer."""
_IN_FLIGHT: Final = 50


class OurWriter:
    """The process; a context manager, which kills it if nobody did."""

    def __init__(self, uri: str, log: str, seed: int, first: int, output: Path) -> None:
        self._output = output
        words = [uri, log, str(seed), str(first)]
        with output.open("wb") as sink:
            self._child = subprocess.Popen(
                [sys.executable, "-m", __name__, *words],
                stdout=subprocess.PIPE,
                stderr=sink,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()
        self.kill()

    def reach(self, txid: int) -> None:
        """Return when the record is confirmed."""
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if int(line) >= txid:
                return
        raise AssertionError(self._output.read_text())

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP): its session ends, it knows nothing of it."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> int:
        """SIGKILL. Return the last txid that it said was confirmed, -1 for none. Idempotent."""
        self._child.kill()
        said = self._child.communicate(timeout=STOP_WITHIN_S)[0].split(b"\n")[:-1]  # no cut line
        return int(said[-1]) if said else -1

    def ended(self) -> tuple[int, str]:
        """Wait until it ends by itself; return what it confirmed and why it ended."""
        said = self._child.communicate(timeout=STOP_WITHIN_S)[0].split(b"\n")[:-1]
        return int(said[-1]) if said else -1, self._output.read_text()


async def main(uri: str, name: str, seed: str, first: str) -> None:
    async with our_namespace(uri, session_timeout_ms=SESSION_MS, client_id="doomed") as opened:
        log = await opened.logs.open_log(name)
        listener = Listener()
        writer = await log.open_writer(listener)
        txid = int(first)
        while not listener.errors:
            while txid < max(listener.txid + 1, int(first)) + _IN_FLIGHT:
                writer.append(txid, (payload(f"{seed}/{txid}"),), SIZE)
                txid += 1
            await listener.moved()
            print(listener.txid, flush=True)
        raise listener.errors[0]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
