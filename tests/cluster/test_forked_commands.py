"""A command that is forked does and says what the executable does and says."""

import os
import subprocess

import pytest

from tests.commands import run_command
from tests.process import TailraceProcess
from tests.server_process import TAILRACE


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["topic", "list"], 0),
        (["topic", "describe", "none"], 1),
        (["topic", "list", "--none"], 2),
        (["topic", "create", os.fsdecode(b"\xff")], 2),
        (["group", "list", "--bootstrap", "127.0.0.1:1"], 3),
    ],
    ids=str,
)
def test_it_ends_and_prints_the_same(broker: TailraceProcess, words: list[str], code: int) -> None:
    environment = {**os.environ, "TAILRACE_BOOTSTRAP": broker.bootstrap, "COLUMNS": "120"}
    plain = subprocess.run(
        [str(TAILRACE), *words], env=environment, capture_output=True, check=False, timeout=60
    )
    forked = run_command(TAILRACE, words, environment, b"")
    assert plain.returncode == code
    assert (forked.returncode, forked.stdout) == (code, plain.stdout)
    assert forked.stderr == plain.stderr


def test_its_input_and_environment_are_its_own(broker: TailraceProcess) -> None:
    for number in (b"1", b"2"):
        environment = {**os.environ, "TAILRACE_BOOTSTRAP": broker.bootstrap}
        run_command(TAILRACE, ["produce", "t"], environment, number * 200_000 + b"\n")
    read = run_command(TAILRACE, ["consume", "t", "-e", "-q"], environment, b"")
    assert read.stdout == b"1" * 200_000 + b"\n" + b"2" * 200_000 + b"\n", read.stderr
    elsewhere = {**os.environ, "TAILRACE_BOOTSTRAP": "127.0.0.1:1"}
    assert run_command(TAILRACE, ["topic", "list"], elsewhere, b"").returncode == 3
