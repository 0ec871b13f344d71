"""The guardian: a process between the user's and the broker, which outlives both and clears up.

`python -I -S guardian.py OWNER_PID FOLDER`. It makes FOLDER, starts the broker when it is told to,
and, when its owner is gone (however: the end of stdin, or of the process, says so), kills the
broker with SIGKILL, which works on a paused one too, waits for it, and removes FOLDER. A broker
whose guardian is killed dies with it (PR_SET_PDEATHSIG).

Lines of JSON. In: {"start": [command...], "environment": {...}, "log": path}, {"signal": number}.
Out, one for each thing that happened: {"ready": pid of the guardian}, {"started": pid},
{"refused": reason}, {"signalled": number}, {"ended": exit code, negative for a signal}.
It imports little, and nothing of the package, because every start of a broker waits for it.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 64 * 1024


class Guardian:
    """One folder and at most one broker at a time."""

    def __init__(self, owner: int, folder: str) -> None:
        self.folder = folder
        self._owner = os.pidfd_open(owner)
        # Asked after the handle was had: an owner that died before it has left us to somebody else.
        self._is_orphan = os.getppid() != owner
        self._child: subprocess.Popen[bytes] | None = None
        self._child_end = -1
        self._libc = ctypes.CDLL(None)
        self._pid = os.getpid()

    def serve(self) -> None:
        """Do what the owner asks for until it is gone."""
        waiting = b""
        while not self._is_orphan:
            heard = self._wait()
            if self._child_end in heard:
                self._say_ended()
            if self._owner in heard:
                return
            if sys.stdin.fileno() in heard:
                chunk = os.read(sys.stdin.fileno(), _READ_BYTES)
                if not chunk:
                    return
                *lines, waiting = (waiting + chunk).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def clean_up(self) -> None:
        """Kill the broker, if there is one, and remove the folder."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        if os.path.isdir(self.folder):
            import shutil  # only now: a start does not wait for it

            shutil.rmtree(self.folder)

    def _wait(self) -> set[int]:
        poll = select.poll()
        for descriptor in (sys.stdin.fileno(), self._owner, self._child_end):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in poll.poll()}

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self._start(order)
        elif self._child is not None:
            self._signal(self._child, order["signal"])

    def _start(self, order: dict[str, Any]) -> None:
        with open(order["log"], "ab") as log:
            try:
                self._child = subprocess.Popen(
                    order["start"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=order["environment"],
                    preexec_fn=self._die_with_guardian,  # noqa: PLW1509 - no threads here
                )
            except OSError as error:
                _say(refused=str(error))
                return
        self._child_end = os.pidfd_open(self._child.pid)
        _say(started=self._child.pid)

    def _die_with_guardian(self) -> None:
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._pid:  # the guardian was killed before that call
            os._exit(1)

    def _signal(self, child: "subprocess.Popen[bytes]", number: int) -> None:
        child.send_signal(number)
        is_there = child.returncode is None
        if number == signal.SIGSTOP and is_there:  # all its threads stand still after this
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        _say(signalled=number)

    def _say_ended(self) -> None:
        assert self._child is not None
        code = self._child.wait()
        os.close(self._child_end)
        self._child, self._child_end = None, -1
        _say(ended=code)


def _say(**said: object) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")
    except BrokenPipeError:
        return  # nobody is left to hear it; the end of stdin, which ends us, is next


def main() -> None:
    """Serve the owner, and clear up whatever happens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who tells us
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    owner, folder = int(sys.argv[1]), sys.argv[2]
    try:
        guardian = Guardian(owner, folder)
    except ProcessLookupError:  # the owner died before we looked, and nothing is made yet
        return
    os.mkdir(folder, 0o700)
    try:
        _say(ready=os.getpid())
        guardian.serve()
    finally:
        guardian.clean_up()


if __name__ == "__main__":
    main()
