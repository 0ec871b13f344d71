"""Commands of `tailrace` that end, each in a process of its own that costs little to start."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Final

_SERVER: Final = Path(__file__).with_name("command_server.py")
_TIMEOUT_S: Final = 60
_NUMBER_BYTES_MAX: Final = 16
_idle: list["CommandServer"] = []


def run_command(
    script: Path, arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, as `subprocess.run` would; several at a time if threads ask.

    Errors: TimeoutError, after the command was killed.
    """
    server = _idle.pop() if _idle else CommandServer()
    done = server.run([str(script), *arguments], environment, stdin)
    _idle.append(server)
    return done


class CommandServer:
    """A process that forks into one command at a time (`command_server`), and ends with this one.

    It never runs anything twice, and after a failure here it is not asked again.
    """

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # what Python finds out of its streams holds for commands
                stdout=subprocess.PIPE,
            )

    def run(
        self, words: list[str], environment: Mapping[str, str], stdin: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        """Run what the words say; the first is the script."""
        message = json.dumps({"arguments": words, "environment": dict(environment)}).encode()
        with ExitStack() as streams:
            pipes = [os.pipe() for _ in range(3)]
            ends = [open(pipes[0][1], "wb", buffering=0)]  # noqa: SIM115 - the stack closes it
            ends += [open(read, "rb") for read, _ in pipes[1:]]  # noqa: SIM115
            for end in ends:
                streams.enter_context(end)
            theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
            socket.send_fds(self._socket, [message], theirs)
            for descriptor in theirs:
                os.close(descriptor)
            pid = self._number()
            with ThreadPoolExecutor(len(ends)) as pool:
                pool.submit(_write, ends[0], stdin)
                printed = [pool.submit(end.read) for end in ends[1:]]
                try:
                    code = self._number()
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise
            return subprocess.CompletedProcess(words, code, *(each.result() for each in printed))

    def _number(self) -> int:
        said = self._socket.recv(_NUMBER_BYTES_MAX)
        assert said, "the server of commands ended"
        return int(said)


def _write(stream: BinaryIO, data: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(data)
