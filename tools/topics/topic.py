"""`tailrace topic`: create, list, describe, delete and alter topics."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Json,
    Properties,
    Timeout,
)
from tailrace.tools.output import Column, note, progress, show_json, show_rows
from tailrace.tools.topics.topic_contents import latest, stats

if TYPE_CHECKING:
    from tailrace.tools.topics.topics_admin import TopicsAdmin

app = typer.Typer(no_args_is_help=True, add_completion=False)

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...")]
SomeNames = Annotated[list[str] | None, typer.Argument(metavar="[TOPIC...]")]


app.command()(stats)
app.command()(latest)


@app.callback()
def topic() -> None:
    """Create, list, describe, delete and alter topics, and look at what they hold."""


@app.command()
def create(
    names: Names,
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", min=-1, max=100_000, help="-1: the broker's num.partitions."
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", min=-1, max=10_000, help="-1: the broker's default."
        ),
    ] = -1,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="KEY=VALUE", help="A topic config."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there is no error.")
    ] = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check, and create nothing.")
    ] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Create topics."""
    given = pairs(configs, "--config")
    with _admin(bootstrap, properties, timeout_s, command_config) as topics:

        def one(name: str) -> str:
            made = topics.create(
                name,
                partitions,
                replication_factor,
                given,
                if_not_exists=if_not_exists,
                validate_only=validate_only,
            )
            return (
                ("could be created" if validate_only else "created") if made else "is there already"
            )

        _each(names, "create", one)


@app.command("list")
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP,
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics too.")] = False,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """List topics."""
    with _admin(bootstrap, properties, timeout_s, command_config) as topics:
        rows = [row for row in topics.list_topics() if internal or not row["internal"]]
    columns = [Column("topic"), Column("partitions", right=True)]
    if internal:
        columns.append(Column("internal"))
    show_rows(rows, columns, as_json=as_json)


@app.command()
def describe(
    names: SomeNames = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Configs at their defaults too.")
    ] = False,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Describe topics: id, configs, and each partition with its offsets. Without a name: all."""
    with _admin(bootstrap, properties, timeout_s, command_config) as topics:
        wanted = names or [row["topic"] for row in topics.list_topics() if not row["internal"]]
        found = topics.describe(wanted, all_configs=all_configs) if wanted else []
    if as_json:
        show_json(found)
        return
    for number, described in enumerate(found):
        if number:
            print()
        _show_topic(described)


@app.command()
def delete(
    names: Names,
    bootstrap: Bootstrap = BOOTSTRAP,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, although a person could answer.")
    ] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="A topic that is not there is no error.")
    ] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Delete topics with everything in them."""
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
    with _admin(bootstrap, properties, timeout_s, command_config) as topics:
        _each(
            names,
            "delete",
            lambda name: "deleted" if topics.delete(name, if_exists=if_exists) else "is not there",
        )


@app.command()
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=100_000, help="Grow to this many partitions."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a config.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list.")
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="KEY=VALUE", help="Take out of a list."),
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Check, and change nothing.")
    ] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Change a topic's configs, or give it more partitions."""
    changes = [
        *(("SET", key, value) for key, value in pairs(set_, "--set").items()),
        *(("DELETE", key, None) for key in unset or ()),
        *(("APPEND", key, value) for key, value in pairs(append, "--append").items()),
        *(("SUBTRACT", key, value) for key, value in pairs(subtract, "--subtract").items()),
    ]
    if not changes and partitions is None:
        raise CliError(
            "nothing to change",
            remedy="--set, --unset, --append, --subtract or --partitions",
            code=Exit.USAGE,
        )
    with _admin(bootstrap, properties, timeout_s, command_config) as topics:
        if changes:
            topics.alter_configs(name, changes, validate_only=validate_only)
        if partitions is not None:
            topics.grow(name, partitions, validate_only=validate_only)
    note(f"topic {name}: " + ("could be altered" if validate_only else "altered"))


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Read KEY=VALUE options. Errors: CliError."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CliError(
                f"{text!r} has no value",
                place=option,
                remedy=f"{option} KEY=VALUE",
                code=Exit.USAGE,
            )
        found[key] = value
    return found


def _admin(
    bootstrap: str, properties: list[str] | None, timeout_s: float, command_config: Path | None
) -> "TopicsAdmin":
    from tailrace.tools.clients.librdkafka import target
    from tailrace.tools.topics.topics_admin import TopicsAdmin

    return TopicsAdmin(target(bootstrap, properties or [], timeout_s, command_config))


def _each(names: Sequence[str], doing: str, act: Callable[[str], str]) -> None:
    """Do something to each topic; say what came of it, and go on after a failure."""
    failed = []
    with progress(f"{doing} topics", "topics", quiet=len(names) < 10) as step:
        for number, name in enumerate(names):
            try:
                outcome = act(name)
            except CliError as error:
                if error.code is Exit.UNREACHABLE or len(names) == 1:
                    raise
                failed.append(name)
                note(error.report())
            else:
                note(f"topic {name}: {outcome}")
            step(number + 1, len(names))
    if failed:
        raise CliError(f"{len(failed)} of {len(names)} topics failed: {', '.join(failed)}")


def _show_topic(described: Mapping[str, Any]) -> None:
    print(f"topic       {described['topic']}{'  (internal)' if described['internal'] else ''}")
    print(f"id          {described['topic_id']}")
    print(f"partitions  {len(described['partitions'])}")
    for name, value in described["configs"].items():
        print(f"config      {name}={value}")
    columns = [
        Column("partition", right=True),
        Column("leader", right=True),
        Column("leader_epoch", right=True, title="epoch"),
        Column("replicas"),
        Column("isr"),
        Column("start_offset", right=True, title="start"),
        Column("end_offset", right=True, title="end"),
    ]
    show_rows(described["partitions"], columns)
