"""`tailrace group`: where consumer groups are, and where they go on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.logs.position_spec import parse_partition
from tailrace.tools.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Json,
    Properties,
    Timeout,
)
from tailrace.tools.output import Column, note, show_json, show_rows
from tailrace.tools.records.offset_spec import (
    OFFSET_HELP,
    BadOffset,
    OffsetSpec,
    Stored,
    parse_offset,
)

if TYPE_CHECKING:
    from tailrace.tools.groups.groups_admin import GroupsAdmin

app = typer.Typer(no_args_is_help=True, add_completion=False)

Group = Annotated[str, typer.Argument(metavar="GROUP")]
Groups = Annotated[list[str], typer.Argument(metavar="GROUP...")]
Partitions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TOPIC[/PARTITION]]...", help="Whole topics, or single partitions of them."
    ),
]
AllTopics = Annotated[
    bool, typer.Option("--all-topics", help="Everything that the group has committed.")
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask, although a person could answer.")
]

_RESET: Final = "tailrace group reset GROUP TOPIC OTHER/3 --to start --execute"
_DELETE_OFFSETS: Final = "tailrace group delete-offsets GROUP TOPIC OTHER/3"


@app.callback()
def group() -> None:
    """List, describe and delete consumer groups, and set where they go on."""


@app.command("list")
def list_groups(
    bootstrap: Bootstrap = BOOTSTRAP,
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Stable, Empty, ...")
    ] = None,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """List groups with their state and coordinator."""
    with _admin(bootstrap, properties, timeout_s, command_config) as groups:
        rows = groups.list_all(states or [])
    columns = [
        Column("group"),
        Column("type"),
        Column("state"),
        Column("coordinator", right=True),
    ]
    show_rows(rows, columns, as_json=as_json)


@app.command()
def describe(
    names: Groups,
    bootstrap: Bootstrap = BOOTSTRAP,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Describe groups: state, members, and how far each is behind in each partition."""
    with _admin(bootstrap, properties, timeout_s, command_config) as groups:
        found = [groups.describe(name) for name in names]
    if as_json:
        show_json(found)
        return
    for number, described in enumerate(found):
        if number:
            print()
        _show_group(described)


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option("--to", metavar="OFFSET", help=OFFSET_HELP + ".")],
    partitions: Partitions = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    all_topics: AllTopics = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it, and do not only show it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done, as without --execute.")
    ] = False,
    create: Annotated[
        bool, typer.Option("--create", help="Make the group, if it is not there yet.")
    ] = False,
    as_json: Json = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Let a group without members go on somewhere else. Negative offsets: --to=-10.

    Shows where it would go on; with --execute it does, in all partitions that are shown.
    """
    if execute and dry_run:
        raise CliError("--execute and --dry-run", place="--dry-run", code=Exit.USAGE)
    spec = _position(to)
    with _admin(bootstrap, properties, timeout_s, command_config) as groups:
        groups.check_idle(group, may_be_new=create)
        before = groups.committed(group)
        chosen = _chosen(groups, partitions, before if all_topics else None, _RESET)
        after = groups.offsets.positions(chosen, spec)
        rows = [
            {
                "topic": at.topic,
                "partition": at.partition,
                "from": before.get(at),
                "to": after[at],
            }
            for at in chosen
        ]
        refused: dict[TopicPartition, int] = {}
        if execute:
            refused = groups.commit(group, after)
    columns = [
        Column("topic"),
        Column("partition", right=True),
        Column("from", right=True),
        Column("to", right=True),
    ]
    moved = [row for at, row in zip(chosen, rows, strict=True) if at not in refused]
    if moved or not refused:
        show_rows(moved, columns, as_json=as_json)
    if not execute:
        note("nothing was changed; --execute does it")
    if refused:
        raise CliError(
            f"{len(refused)} of {len(chosen)} partitions of group {group} were not moved: "
            f"{_told(refused)}",
            remedy="stop its members first",
        )


@app.command()
def delete(
    names: Groups,
    bootstrap: Bootstrap = BOOTSTRAP,
    yes: Yes = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Delete groups without members, with everything that they committed."""
    _ask(f"Delete {', '.join(names)} with all offsets?", yes=yes)
    with _admin(bootstrap, properties, timeout_s, command_config) as groups:
        for name in names:
            groups.delete(name)
            note(f"group {name}: deleted")


@app.command("delete-offsets")
def delete_offsets(
    group: Group,
    partitions: Partitions = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    all_topics: AllTopics = False,
    yes: Yes = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Delete what a group committed of topics that it does not read now."""
    with _admin(bootstrap, properties, timeout_s, command_config) as groups:
        before = groups.committed(group) if all_topics else None
        chosen = _chosen(groups, partitions, before, _DELETE_OFFSETS)
        _ask(f"Delete the offsets of group {group} in {len(chosen)} partitions?", yes=yes)
        groups.forget(group, chosen)
    note(f"group {group}: offsets of {len(chosen)} partitions deleted")


def _chosen(
    groups: "GroupsAdmin",
    names: list[str] | None,
    committed: dict[TopicPartition, int] | None,
    example: str,
) -> list[TopicPartition]:
    """Return the partitions that were named, or all that are committed.

    `example`: the command as it could have been typed.
    """
    if bool(names) == (committed is not None):
        raise CliError(
            "name topics or partitions, or --all-topics",
            remedy=example,
            code=Exit.USAGE,
        )
    if committed is None:
        return groups.offsets.named([_named(name) for name in names or ()])
    if not committed:
        raise CliError("the group has committed nothing")
    return sorted(committed)


def _told(refused: dict[TopicPartition, int]) -> str:
    """Return the partitions by the error that each had."""
    by_code: dict[int, list[str]] = {}
    for at, code in sorted(refused.items()):
        by_code.setdefault(code, []).append(str(at))
    return "; ".join(
        f"{', '.join(names)}: {ErrorCode(code).name} ({code})" for code, names in by_code.items()
    )


def _named(text: str) -> tuple[str, int | None]:
    if "/" not in text:
        return text, None
    return parse_partition(text)


def _position(text: str) -> OffsetSpec:
    try:
        spec = parse_offset(text)
    except BadOffset as error:
        raise CliError(str(error), place="--to", remedy=OFFSET_HELP, code=Exit.USAGE) from error
    if isinstance(spec, Stored):
        raise CliError("a group is where it is", place="--to", remedy=OFFSET_HELP, code=Exit.USAGE)
    return spec


def _ask(question: str, *, yes: bool) -> None:
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(question, abort=True, err=True)


def _admin(
    bootstrap: str, properties: list[str] | None, timeout_s: float, command_config: Path | None
) -> "GroupsAdmin":
    from tailrace.tools.clients.librdkafka import target
    from tailrace.tools.groups.groups_admin import GroupsAdmin

    return GroupsAdmin(target(bootstrap, properties or [], timeout_s, command_config))


def _show_group(described: dict[str, Any]) -> None:
    for name in ("group", "type", "state", "assignor", "coordinator"):
        value = described[name]
        print(f"{name:13}{'-' if value in (None, '') else value}")
    if described["members"]:
        columns = [
            Column("member"),
            Column("instance"),
            Column("client"),
            Column("host"),
            Column("partitions"),
        ]
        print()
        show_rows(described["members"], columns)
    if described["offsets"]:
        columns = [
            Column("topic"),
            Column("partition", right=True),
            Column("committed", right=True),
            Column("start", right=True),
            Column("end", right=True),
            Column("lag", right=True),
            Column("client"),
        ]
        print()
        show_rows(described["offsets"], columns)
