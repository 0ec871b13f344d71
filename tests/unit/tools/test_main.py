"""The command: what loads when, and how it ends."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tailrace.tools.errors import CliError, Exit
from tailrace.tools.main import COMMANDS, app

HOUSE = Path(__file__).parents[4]


def tailrace(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tailrace", *arguments],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "100", **environment},
    )


def printed_by(code: str) -> str:
    """Return what Python code prints in a process that has loaded nothing yet."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_start_loads_nothing_that_only_others_need() -> None:
    code = (
        "import sys, tailrace.tools.main, tailrace.tools.serving.start;"
        "import tailrace.processes.standalone;"
        "print([m for m in ('rich', 'confluent_kafka', 'pyspark', 'tomllib', 'grpc')"
        " if m in sys.modules])"
    )
    assert printed_by(code) == "[]"


def test_a_bookie_loads_no_logs_and_no_broker() -> None:
    code = (
        "import sys, tailrace.tools.main, tailrace.tools.bookies.bookie;"
        "import tailrace.processes.bookie;"
        "print([m for m in ('rich', 'tailrace.core.log.log', 'tailrace.broker.config')"
        " if m in sys.modules])"
    )
    assert printed_by(code) == "[]"


def test_auto_recovery_loads_no_logs_no_broker_and_no_bookie() -> None:
    code = (
        "import sys, tailrace.tools.main, tailrace.tools.bookies.autorecovery;"
        "import tailrace.processes.autorecovery;"
        "print([m for m in ('rich', 'tailrace.core.log.log', 'tailrace.broker.config',"
        " 'tailrace.bookie.storage') if m in sys.modules])"
    )
    assert printed_by(code) == "[]"


def test_reading_options_loads_no_validation_library() -> None:
    code = (
        "import sys, tailrace.tools.main as cli, tailrace.tools.errors as errors\n"
        "try: cli.app(['bookie', '--set', 'nonsense'], standalone_mode=False)\n"
        "except errors.CliError as error: print(error, 'pydantic' in sys.modules)"
    )
    assert printed_by(code).split()[-1] == "False"


def test_help_names_every_command() -> None:
    done = tailrace("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command and sub-command with its full name."""
    tree: Any = typer.main.get_command(app)
    found = [(name, tree.get_command(None, name)) for name in COMMANDS]
    while found:
        name, command = found.pop()
        yield name, command
        children = getattr(command, "commands", {})
        found.extend((f"{name} {child}", below) for child, below in children.items())


def test_every_command_says_what_it_is_for() -> None:
    for name, command in commands():
        assert command.help, name
        assert "\n" not in command.help.replace("\n\n", ""), f"{name}: lines are cut short"


def test_no_help_text_has_what_rich_takes_for_markup() -> None:
    for name, command in commands():
        texts = [command.help, *(getattr(each, "help", None) for each in command.params)]
        assert not [text for text in texts if text and re.search(r"\[[a-z]", text)], name


def test_help_shows_defaults() -> None:
    done = tailrace("start", "--help")
    assert done.returncode == 0, done.stderr
    assert "[default: (127.0.0.1:9092)]" in done.stdout


def test_completion_knows_the_commands() -> None:
    done = tailrace(_TAILRACE_COMPLETE="complete_bash", COMP_WORDS="tailrace to", COMP_CWORD="1")
    assert done.stdout.split() == ["topic"]


def test_version() -> None:
    done = tailrace("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("tailrace ")


def test_unknown_commands_are_a_usage_error() -> None:
    done = tailrace("strat")
    assert done.returncode == Exit.USAGE
    assert "strat" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_name_cause_place_and_remedy() -> None:
    error = CliError("it broke", place="here", remedy="that")
    assert error.report() == "error: it broke\n   at: here\n  try: that"
    assert CliError("it broke").report() == "error: it broke"


@pytest.mark.parametrize("command", [("topic", "list"), ("restore", "t")])
def test_nobody_listens(unused_port: int, command: tuple[str, ...]) -> None:
    done = tailrace(*command, "--bootstrap", f"127.0.0.1:{unused_port}")
    assert done.returncode == Exit.UNREACHABLE
    assert "Connection refused" in done.stderr
    assert "tailrace start" in done.stderr
    assert done.stdout == ""


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        port: int = at.getsockname()[1]
        return port


def test_the_app_is_one() -> None:
    assert app.info.name == "tailrace"


def test_help_for_a_reader_who_has_enough() -> None:
    done = shell("tailrace --help | true; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("command", ["--help", "start --show-config", "start --show-config --json"])
def test_output_that_cannot_be_written(command: str) -> None:
    done = shell(f"tailrace {command} > /dev/full")
    assert done.returncode == Exit.FAILED
    assert done.stderr.splitlines()[:2] == [
        "error: cannot write: No space left on device",
        "   at: standard output",
    ]
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_closed_standard_output_is_no_error() -> None:
    done = shell("tailrace start --show-config >&-")
    assert (done.returncode, done.stderr) == (0, "")


def shell(command: str) -> subprocess.CompletedProcess[str]:
    function = f'tailrace() {{ "{sys.executable}" -m tailrace "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", function + command],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_command_that_is_mistyped_is_guessed() -> None:
    done = tailrace("topics", TERM="dumb")
    assert done.returncode == Exit.USAGE
    assert "No such command 'topics'. Did you mean 'topic'?" in " ".join(
        done.stderr.replace("│", " ").split()
    )
