"""The `tailrace` command: one table of sub-commands, each in a module that loads when it is used.

`tailrace start` must be ready well under a second, so nothing that only another command needs
(rich, confluent-kafka, Spark) may be imported here.
"""

import importlib
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tailrace.core.runtime.collector import loading_modules
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.stdout import ReaderGone, drop_stdout, take_stdout

COMMANDS = {
    "start": "tailrace.tools.serving.start",
    "broker": "tailrace.tools.serving.broker",
    "proxy": "tailrace.tools.proxies.proxy",
    "cluster": "tailrace.tools.cluster.cluster",
    "bookie": "tailrace.tools.bookies.bookie",
    "autorecovery": "tailrace.tools.bookies.autorecovery",
    "region": "tailrace.tools.proxies.region",
    "user": "tailrace.tools.security.user",
    "topic": "tailrace.tools.topics.topic",
    "cleaner": "tailrace.tools.topics.cleaner",
    "group": "tailrace.tools.groups.group",
    "txn": "tailrace.tools.transactions.txn",
    "produce": "tailrace.tools.records.produce",
    "consume": "tailrace.tools.records.consume",
    "restore": "tailrace.tools.records.restore",
    "where": "tailrace.tools.logs.where",
    "namespace": "tailrace.tools.cluster.namespace",
    "log": "tailrace.tools.logs.log",
    "ledger": "tailrace.tools.logs.ledger",
    "cold": "tailrace.tools.logs.cold",
    "pipeline": "tailrace.tools.pipeline",
}
"""Command -> module with a Typer app named `app`: one command, or a group if it has a callback."""


def _join_lines(command: Any) -> None:
    """Let help fill its lines: behind the first paragraph Typer keeps those of the docstring."""
    parts = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(part.split()) for part in parts)
    for child in getattr(command, "commands", {}).values():
        _join_lines(child)


class LazyGroup(TyperGroup):
    """A group that imports a sub-command's module when that sub-command is named."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        names: Any = dict.fromkeys(COMMANDS)
        self.commands = names  # where Typer looks for one that is like an unknown name

    def list_commands(self, ctx: Any) -> list[str]:  # type: ignore[explicit-override]  # 3.12 has it
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # type: ignore[explicit-override]
        """Return a command; None for an unknown one."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        with loading_modules():
            app = importlib.import_module(module).app
        command = typer.main.get_command(app)
        command.name = cmd_name
        _join_lines(command)
        return command


app = typer.Typer(
    cls=LazyGroup,
    name="tailrace",
    help="A Kafka-compatible broker over a DistributedLog.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"tailrace {version('tailrace')}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and end."
    ),
) -> None:
    """Run one command of many; see below."""


def _is_text(argument: str) -> bool:
    """Tell whether what was typed is UTF-8; Python keeps other bytes as lone surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def run() -> None:
    """Run the command line and end the process with its exit code."""
    take_stdout()
    try:
        try:
            app(prog_name="tailrace")
        finally:
            sys.stdout.flush()
    except CliError as error:
        print(error.report(), file=sys.stderr)
        drop_stdout()
        sys.exit(error.code)
    except UnicodeEncodeError:
        wrong = [each for each in sys.argv if not _is_text(each)]
        if not wrong:
            raise
        refusal = CliError("an argument is not UTF-8", place=ascii(wrong[0]))
        print(refusal.report(), file=sys.stderr)
        sys.exit(Exit.USAGE)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except ReaderGone:
        drop_stdout()
        sys.exit(Exit.OK)
