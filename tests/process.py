"""A broker as its users run it: the command line in a process of its own, on a port of its own."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

TAILRACE = Path(sys.executable).with_name("tailrace")
_READY_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30


class TailraceProcess:
    """`tailrace start` over a data folder; the port is the one that the ready line names.

    Settings are `--set` pairs. A group's first rebalance is not delayed, because nothing here waits
    for further members.
    """

    def __init__(self, data: Path, *arguments: str, command: Path = TAILRACE) -> None:
        self.data = data
        self.lines: list[str] = []
        self.arguments = arguments
        self.command = command
        self.bootstrap = ""
        self._child: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._printed = threading.Condition()

    def start(self, listen: str = "127.0.0.1:0") -> Self:
        """Start it and return once the first request would be answered."""
        bootstrap = self._launch(listen)
        if bootstrap is None:
            raise AssertionError(f"the broker ended before it was ready:\n{self.output}")
        self.bootstrap = bootstrap
        return self

    def refused(self, listen: str = "127.0.0.1:0") -> str:
        """Start it, expect that it ends by itself without being ready, and return its output."""
        assert self._launch(listen) is None, "it started"
        assert self._end(None) != 0
        return self.output

    def wait_for(self, text: str) -> None:
        """Wait until it has printed a line with this text."""
        with self._printed:
            found = self._printed.wait_for(
                lambda: any(text in line for line in self.lines), _READY_TIMEOUT_S
            )
        assert found, f"no {text!r} in:\n{self.output}"

    def _launch(self, listen: str) -> str | None:
        """Start it; return where it listens, None if it ended before it did."""
        command = [str(self.command), *self.role(), "--listen", listen]
        command += ["--set", "group.initial.rebalance.delay.ms=0", *self.arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        ready: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._child, ready), daemon=True)
        self._reader.start()
        return ready.get(timeout=_READY_TIMEOUT_S)

    def role(self) -> list[str]:
        """Return the sub-command, and where what it keeps lies."""
        return ["start", "--data", str(self.data)]

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._child is not None
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def output(self) -> str:
        """Everything it has printed so far."""
        return "\n".join(self.lines)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.bootstrap.rpartition(":")[2])

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Pull the plug: SIGKILL, no word of farewell."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as a service manager would, and return its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> Self:
        """Start again over the same data and on the same port, as clients expect of a broker."""
        return self.start(self.bootstrap)

    def close(self) -> None:
        """End it, whatever state it is in. Idempotent."""
        if self._child is not None and self._child.poll() is None:
            self.resume()
            self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end(self, how: signal.Signals | None) -> int:
        assert self._child is not None
        assert self._reader is not None
        if how is not None:
            self._child.send_signal(how)
        code = self._child.wait(_STOP_TIMEOUT_S)
        self._reader.join(_STOP_TIMEOUT_S)
        assert self._child.stdout is not None
        self._child.stdout.close()
        return code

    def _read(self, child: subprocess.Popen[str], ready: "queue.Queue[str | None]") -> None:
        assert child.stdout is not None
        for line in child.stdout:
            with self._printed:
                self.lines.append(line.rstrip("\n"))
                self._printed.notify_all()
            if line.startswith("ready: bootstrap="):
                ready.put(line.strip().removeprefix("ready: bootstrap="))
        ready.put(None)
