"""The user's side of the guardian: starts it, tells it what to do, hears what happened."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tailrace.testing.errors import BrokerError
from tailrace.testing.logs import tail

_GUARDIAN: Final = Path(__file__).with_name("guardian.py")
_GUARDIAN_TIMEOUT_S: Final = 30.0
"""For an answer that takes the guardian milliseconds, on a machine that is very busy."""
_READ_BYTES: Final = 64 * 1024


class Guard:
    """A guardian process with a folder of its own, and the broker that it runs or does not.

    Not for several threads at a time. A forked child that inherits it must not use it: `is_mine`.
    """

    def __init__(self) -> None:
        """Start the guardian. It makes the folder, so that nothing is left if we die just now."""
        self.folder = Path(tempfile.gettempdir()) / f"tailrace-{uuid.uuid4().hex[:12]}"
        self.log = self.folder / "log"
        self.pid: int | None = None
        self.exit_code: int | None = None
        self._is_ready = False
        self._user = os.getpid()
        self._heard = b""
        self._signalled = 0
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARDIAN), str(self._user), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # a traceback instead of an answer is shown as it is
            bufsize=0,
            start_new_session=True,  # Ctrl-C at the terminal must not reach it or the broker
        )

    @property
    def is_mine(self) -> bool:
        """Whether this process started it, and is not a fork of the one that did."""
        return os.getpid() == self._user

    def wait_until_ready(self) -> None:
        """Return once the folder is there. Errors: BrokerError."""
        self._hear_until(lambda: self._is_ready)

    def run(self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
        """Run a command that ends by itself, where the broker would run; it prints into the log.

        Errors: BrokerError if it cannot be run, fails, or does not end in time.
        """
        self.start(command, environment)
        if not self.wait_for_end(timeout_s):
            self.signal(signal.SIGKILL)
            raise BrokerError(
                f"{' '.join(command)}: it had not ended after {timeout_s:g} s",
                "give a longer `start_timeout_s`",
            )
        if self.exit_code:
            raise BrokerError(
                f"{' '.join(command)}: it ended with exit code {self.exit_code}",
                "see its last lines below",
                tail(self.log),
            )

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the broker. Errors: BrokerError if the command cannot be run."""
        self.exit_code = None
        self._tell(start=list(command), environment=dict(environment), log=str(self.log))
        self._hear_until(lambda: self.pid is not None or self.exit_code is not None)

    def signal(self, number: int) -> None:
        """Send the broker a signal; after SIGSTOP all its threads stand still."""
        awaited = self._signalled + 1
        self._tell(signal=int(number))
        self._hear_until(lambda: self._signalled >= awaited or self.pid is None)

    def wait_for_end(self, timeout_s: float) -> bool:
        """Wait until the broker has ended and tell whether it has."""
        deadline = time.monotonic() + timeout_s
        while self.pid is not None and (left := deadline - time.monotonic()) > 0:
            self.hear(left)
        return self.pid is None

    def hear(self, timeout_s: float) -> None:
        """Take in what the guardian has said, waiting for something so long at most."""
        assert self._guardian.stdout is not None
        readable, _, _ = select.select([self._guardian.stdout], [], [], timeout_s)
        if not readable:
            return
        chunk = os.read(self._guardian.stdout.fileno(), _READ_BYTES)
        if not chunk:
            raise self._broken("it ended")
        *lines, self._heard = (self._heard + chunk).split(b"\n")
        for line in lines:
            self._take(line)

    def close(self) -> None:
        """Kill the broker, if it runs, remove the folder, end the guardian. Idempotent.

        Errors: BrokerError if the guardian could not do that, with what it said.
        """
        if not self.is_mine or self._guardian.returncode is not None:
            return
        try:
            said, _ = self._guardian.communicate(timeout=_GUARDIAN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()  # the broker dies with it
            self._guardian.communicate()
            raise self._broken(f"{_GUARDIAN_TIMEOUT_S:.0f} s after its end was asked for") from None
        finally:
            self.pid = None
        if self._guardian.returncode != 0:
            shutil.rmtree(self.folder, ignore_errors=True)  # what it may have left; named below
            raise self._broken((self._heard + said).decode(errors="replace"))

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            rest, _ = self._guardian.communicate(timeout=_GUARDIAN_TIMEOUT_S)
            raise self._broken((line + b"\n" + rest).decode(errors="replace")) from None
        if "ready" in said:
            self._is_ready = True
        elif "started" in said:
            self.pid = said["started"]
        elif "ended" in said:
            self.pid, self.exit_code = None, said["ended"]
        elif "signalled" in said:
            self._signalled += 1
        elif "refused" in said:
            raise BrokerError(
                f"the broker's command cannot be run: {said['refused']}",
                "leave `command` out, or give one that exists: `pip install .` in a checkout of"
                " Tailrace brings it",
            )

    def _tell(self, **order: object) -> None:
        assert self._guardian.stdin is not None
        try:
            self._guardian.stdin.write(json.dumps(order).encode() + b"\n")
        except OSError as error:
            raise self._broken(str(error)) from error

    def _hear_until(self, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _GUARDIAN_TIMEOUT_S
        while not is_done():
            if (left := deadline - time.monotonic()) <= 0:
                raise self._broken(f"no answer within {_GUARDIAN_TIMEOUT_S:.0f} s")
            self.hear(left)

    def _broken(self, why: str) -> BrokerError:
        return BrokerError(
            f"the guardian of the broker (pid {self._guardian.pid}) does not work: {why}",
            f"look at what is left in {self.folder}, and at limits on processes and files",
        )
