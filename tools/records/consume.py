"""`tailrace consume`: print the records of a topic, from anywhere to anywhere."""

from typing import Annotated

import typer

from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import (
    BOOTSTRAP,
    TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    Properties,
    Timeout,
)
from tailrace.tools.records.offset_spec import OFFSET_HELP, BadOffset, OffsetSpec, parse_offset
from tailrace.tools.records.record_format import (
    FORMAT_HELP,
    BadFormat,
    Render,
    compile_format,
    json_line,
)

app = typer.Typer(add_completion=False)


@app.command(epilog=FORMAT_HELP.replace("\n", "\n\n"))
def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    bootstrap: Bootstrap = BOOTSTRAP,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated."),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", "-o", help=f"Where to start: {OFFSET_HELP}.", show_default="start"
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Where to stop: the same words.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=0, help="Stop after so many records.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Stop at the end of every partition.")
    ] = False,
    format_: Annotated[
        str | None, typer.Option("--format", "-f", help="See below.", show_default=r"%s\n")
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("--key-delimiter", "-K", help="Print keys, and this behind them.")
    ] = None,
    null: Annotated[
        str, typer.Option("--null", "-Z", help="What stands for a null key or value.")
    ] = "",
    group: Annotated[
        str | None,
        typer.Option("--group", "-G", help="Read as a member of this group, and commit."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per record.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Print the records of topics."""
    render = _render(format_, key_delimiter, null, as_json=as_json)
    first = _position(offset or "start", "--offset")
    last = _position(until, "--until") if until is not None else None
    if group == "":
        raise CliError("an empty group id", place="--group", code=Exit.USAGE)
    if group is not None and (partitions or last is not None):
        raise CliError(
            "a group decides itself what each member reads",
            place="--group",
            remedy="without --partition and --until",
            code=Exit.USAGE,
        )
    from tailrace.tools.clients.librdkafka import target
    from tailrace.tools.records.record_reader import Limits, read_group, read_partitions

    to = target(bootstrap, properties or [], timeout_s, command_config)
    limits = Limits(count, exit_at_end, quiet)
    if group is not None:
        read_group(to, topics, group, first, limits, render)
    else:
        once = None if partitions is None else list(dict.fromkeys(partitions))
        read_partitions(to, list(dict.fromkeys(topics)), once, (first, last), limits, render)


def _render(format_: str | None, key_delimiter: str | None, null: str, *, as_json: bool) -> Render:
    if as_json:
        if format_ is not None or key_delimiter is not None:
            raise CliError(
                "--json has its own form", place="--format", remedy="one of them", code=Exit.USAGE
            )
        return json_line
    text = format_
    if text is None:
        text = (
            r"%s\n" if key_delimiter is None else "%k" + key_delimiter.replace("%", "%%") + r"%s\n"
        )
    try:
        return compile_format(text, null.encode())
    except BadFormat as error:
        raise CliError(
            str(error), place="--format", remedy="tailrace consume --help", code=Exit.USAGE
        ) from error


def _position(text: str, option: str) -> OffsetSpec:
    try:
        return parse_offset(text)
    except BadOffset as error:
        raise CliError(str(error), place=option, remedy=OFFSET_HELP, code=Exit.USAGE) from error
