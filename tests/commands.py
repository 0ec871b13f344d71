"""Commands of `tailrace` that end, each in a process of its own that costs little to start."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Final

from tests.forks import Fork

_TIMEOUT_S: Final = 60


def run_command(
    script: Path, arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, as `subprocess.run` would; several at a time if threads ask.

    Errors: subprocess.TimeoutExpired, after the command was killed.
    """
    words = [str(script), *arguments]
    with ExitStack() as streams:
        pipes = [os.pipe() for _ in range(3)]
        ends: list[BinaryIO] = [open(pipes[0][1], "wb", buffering=0)]  # noqa: SIM115 - see below
        ends += [open(read, "rb") for read, _ in pipes[1:]]  # noqa: SIM115
        for end in ends:
            streams.enter_context(end)
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        try:
            child = Fork(words, environment, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        with ThreadPoolExecutor(len(ends)) as pool:
            pool.submit(_write, ends[0], stdin)
            printed = [pool.submit(end.read) for end in ends[1:]]
            try:
                code = child.wait(_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(_TIMEOUT_S)
                raise
        return subprocess.CompletedProcess(words, code, *(each.result() for each in printed))


def _write(stream: BinaryIO, data: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(data)
