"""A server that tests start, watch, pause and kill: what brokers and bookies have in common.

The first server of each kind that a test process starts is the executable; those behind it are
forks of a process that has loaded what they consist of, unless it matters.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from tests.forks import Fork, may_be_fork

TAILRACE = Path(sys.executable).with_name("tailrace")
READY_WITHIN_S: Final = 60
_STOP_WITHIN_S: Final = 30

Ready: TypeAlias = "queue.Queue[str | None]"
"""Gets what a ready line names, then None when the process has ended."""

Child: TypeAlias = "subprocess.Popen[str] | Fork"

_executed: Final[set[tuple[str, ...]]] = set()
"""Scripts and sub-commands that were started as they are."""


class ServerProcess:
    """One process at a time, what it printed, and what its ready line says."""

    ready_line: ClassVar[str]
    """How the line begins that says that it serves; what follows names it."""
    may_fork: bool = True
    """Whether it may be a fork. Not where its process as a whole is looked at: its memory, say."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._child: Child | None = None
        self._reader: threading.Thread | None = None
        self._printed = threading.Condition()

    def launch_command(self, command: Sequence[str]) -> Ready:
        """Start it."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        may_fork = self.may_fork and _may_fork(command, environment)
        self._child = (fork if may_fork else execute)(command, environment)
        ready: Ready = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self._child, ready), daemon=True)
        self._reader.start()
        return ready

    def wait_for(self, text: str) -> None:
        """Wait until it has printed a line with this text."""
        with self._printed:
            found = self._printed.wait_for(
                lambda: any(text in line for line in self.lines), READY_WITHIN_S
            )
        assert found, f"no {text!r} in:\n{self.output}"

    @property
    def pid(self) -> int:
        """The process id."""
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

    def pause(self) -> None:
        """Stop it in mid-air (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Pull the plug: SIGKILL, no word of farewell."""
        self.end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as a service manager would, and return its exit code."""
        return self.end(signal.SIGTERM)

    def close(self) -> None:
        """End it, whatever state it is in; nothing of it is left, also if it ended by itself."""
        if self.is_running:
            self.resume()
            self.stop()
        elif self._child is not None:
            self.end(None)

    def end(self, how: signal.Signals | None) -> int:
        """Send a signal, or None to wait until it ends by itself; return its exit code."""
        assert self._child is not None
        assert self._reader is not None
        if how is not None:
            self._child.send_signal(how)
        code = self._child.wait(_STOP_WITHIN_S)
        self._reader.join(_STOP_WITHIN_S)
        assert self._child.stdout is not None
        self._child.stdout.close()
        return code

    def _read(self, child: Child, ready: Ready) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            with self._printed:
                self.lines.append(line.rstrip("\n"))
                self._printed.notify_all()
            if line.startswith(self.ready_line):
                ready.put(line.strip().removeprefix(self.ready_line))
        ready.put(None)


def _may_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    kind = tuple(command[:2])
    if kind not in _executed:
        _executed.add(kind)
        return False
    script = _script(command)[0]
    is_script = script == str(TAILRACE) or script.endswith(".py")
    return is_script and may_be_fork(environment)


def _script(command: Sequence[str]) -> Sequence[str]:
    """Return a script and its arguments, without the Python that is to run it."""
    return command[1:] if command[0] == sys.executable else command


def fork(command: Sequence[str], environment: Mapping[str, str]) -> Child:
    """Start a Python script, as `execute` would, by forking."""
    read, write = os.pipe()
    stdout = open(read)  # noqa: SIM115 - closed when it has ended
    try:
        return Fork(_script(command), environment, (0, write, write), stdout)
    finally:
        os.close(write)


def execute(command: Sequence[str], environment: Mapping[str, str]) -> Child:
    """Start it; all that it prints comes from its stdout."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
