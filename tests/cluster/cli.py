"""The command line as a person runs it.

The first command of each kind that a test process runs is started as it is; those behind it are
forks of a process that has loaded what they consist of.
"""

import json
import os
import subprocess
from typing import Any

from tests.commands import run_command
from tests.server_process import TAILRACE

_TIMEOUT_S = 60
_started: set[str] = set()


def tailrace(
    *arguments: str | bytes, stdin: bytes = b"", bootstrap: str = ""
) -> subprocess.CompletedProcess[bytes]:
    """Run one command to its end."""
    environment = {**os.environ, "COLUMNS": "120"}
    if bootstrap:
        environment["TAILRACE_BOOTSTRAP"] = bootstrap
    words = [os.fsdecode(argument) for argument in arguments]
    if words[0] in _started:
        return run_command(TAILRACE, words, environment, stdin)
    _started.add(words[0])
    return subprocess.run(
        [str(TAILRACE), *arguments],
        input=stdin,
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
        env=environment,
    )


def output(*arguments: str, stdin: bytes = b"", bootstrap: str = "") -> bytes:
    """Return what a command that must succeed prints."""
    done = tailrace(*arguments, stdin=stdin, bootstrap=bootstrap)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def refusal(code: int, *arguments: str | bytes, bootstrap: str = "", stdin: bytes = b"") -> str:
    """Return what a command says that must fail with `code`."""
    done = tailrace(*arguments, bootstrap=bootstrap, stdin=stdin)
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert "Traceback" not in text
    return text


def parsed(*arguments: str, bootstrap: str = "") -> Any:
    """Return the JSON that a command prints."""
    return json.loads(output(*arguments, "--json", bootstrap=bootstrap))
