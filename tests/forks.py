"""Processes of `tailrace` that cost little to start: forks of one that has its modules loaded."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final, TextIO

from tests.fork_server import Start

_SERVER: Final = Path(__file__).with_name("fork_server.py")
_STARTS_WITHIN_S: Final = 60
_NUMBER_BYTES_MAX: Final = 16
_READ_EARLY: Final = ("GLIBC_", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "PYTHON", "TZ")
"""How variables begin that a fork is too late for."""
_READ_ANYWAY: Final = "PYTHONUNBUFFERED"


class Fork:
    """A process with what `subprocess.Popen` has; its pid is nobody else's until its end is heard.

    It runs the words, the first of which is a Python script, in this folder. `streams`: its
    standard input, output and error. `stdout`: where the caller reads what it prints, if anywhere.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        stdout: TextIO | None = None,
    ) -> None:
        self.returncode: int | None = None
        self.stdout = stdout
        self._words = words
        self._hearing = Lock()
        self._said, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said.settimeout(_STARTS_WITHIN_S)
        start = Start(arguments=list(words), environment=dict(environment), folder=os.getcwd())
        with theirs:
            _server().send(json.dumps(start).encode(), [*streams, theirs.fileno()])
        self.pid = self._number()

    def poll(self) -> int | None:
        """Return its exit code; None if it runs, and while another thread waits for its end."""
        if self._hearing.acquire(blocking=False):
            try:
                self._hear(0)
            finally:
                self._hearing.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended. Errors: subprocess.TimeoutExpired."""
        with self._hearing:
            self._hear(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self._words, timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> None:
        """Wait for its exit code, if it is not known; then nothing is left of it."""
        if self.returncode is not None:
            return
        heard = select.poll()
        heard.register(self._said, select.POLLIN)
        if heard.poll(None if timeout is None else 1000 * timeout):
            self.returncode = self._number()
            self._said.shutdown(socket.SHUT_WR)
            assert not self._said.recv(1)
            self._said.close()

    def _number(self) -> int:
        said = self._said.recv(_NUMBER_BYTES_MAX)
        assert said, "the fork server ended"
        return int(said)


def may_be_fork(environment: Mapping[str, str]) -> bool:
    """Tell whether a process with these variables can be a fork that they were set for in time."""
    return _read_early(environment) == _server().read_early


class _Server:
    """The process that forks (`fork_server`); it ends with this one."""

    def __init__(self) -> None:
        self.read_early = _read_early(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # what Python finds out of its streams holds for forks
                stdout=subprocess.PIPE,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        atexit.register(self._close)

    def send(self, message: bytes, descriptors: Sequence[int]) -> None:
        """Ask it for a fork."""
        socket.send_fds(self._socket, [message], descriptors)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


_starting: Final = Lock()
_the_server: Final = cache(_Server)


def _server() -> _Server:
    with _starting:
        return _the_server()


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_EARLY) and name != _READ_ANYWAY
    }
