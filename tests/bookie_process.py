"""A bookie of a cluster as its operators run it: `tailrace bookie` in a process of its own."""

import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import Final, Self

from tests.ports import free_port
from tests.process import TAILRACE

READY_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 30


class BookieUnderTest:
    """`tailrace bookie` over a data folder; the same port and id at every start."""

    def __init__(self, metadata: str, data: Path, *arguments: str, port: int = 0) -> None:
        self.metadata = metadata
        self.data = data
        self.port = port or free_port()
        self.bookie_id = f"127.0.0.1:{self.port}"
        self.arguments = arguments
        self.lines: list[str] = []
        self._child: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._printed = threading.Condition()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._child is not None
        return self._child.pid

    @property
    def output(self) -> str:
        """Everything it has printed so far."""
        return "\n".join(self.lines)

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._child is not None and self._child.poll() is None

    def start(self) -> Self:
        """Start it and return once it is registered and would answer."""
        ready = self.launch()
        named = ready.get(timeout=READY_WITHIN_S)
        if named is None:
            raise AssertionError(f"the bookie ended before it was ready:\n{self.output}")
        assert named == self.bookie_id
        return self

    def launch(self) -> "queue.Queue[str | None]":
        """Start it; the queue gets the id of its ready line, then None at its end."""
        command = [str(TAILRACE), "bookie", "--metadata", self.metadata, "--data", str(self.data)]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.arguments]
        self._child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        ready: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._child, ready), daemon=True)
        self._reader.start()
        return ready

    def refused(self) -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        self.lines.clear()
        ready = self.launch()
        assert ready.get(timeout=READY_WITHIN_S) is None, "it started"
        assert self._end(None) != 0
        return self.output

    def wait_for(self, text: str) -> None:
        """Wait until it has printed a line with this text."""
        with self._printed:
            found = self._printed.wait_for(
                lambda: any(text in line for line in self.lines), READY_WITHIN_S
            )
        assert found, f"no {text!r} in:\n{self.output}"

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Pull the plug: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as a service manager would, and return its exit code."""
        return self._end(signal.SIGTERM)

    def close(self) -> None:
        """End it, whatever state it is in. Idempotent."""
        if self.is_running:
            self.resume()
            self.stop()

    def _end(self, how: signal.Signals | None) -> int:
        assert self._child is not None
        assert self._reader is not None
        if how is not None:
            self._child.send_signal(how)
        code = self._child.wait(STOP_WITHIN_S)
        self._reader.join(STOP_WITHIN_S)
        assert self._child.stdout is not None
        self._child.stdout.close()
        return code

    def _read(self, child: subprocess.Popen[str], ready: "queue.Queue[str | None]") -> None:
        assert child.stdout is not None
        for line in child.stdout:
            with self._printed:
                self.lines.append(line.rstrip("\n"))
                self._printed.notify_all()
            if line.startswith("ready: bookie="):
                ready.put(line.strip().removeprefix("ready: bookie="))
        ready.put(None)
