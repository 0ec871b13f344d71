"""`tailrace produce`: send lines, or whole files, as records of a topic."""

from collections.abc import Sequence
from pathlib import Path
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
from tailrace.tools.records.record_format import BadFormat, unescape

app = typer.Typer(add_completion=False)

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = ("all", "-1", "1", "0")
_WHOLE = ("all", "-1")
_WEAKER = ("acks", "request.required.acks")
"""Properties whose other values no idempotent producer has."""


@app.command()
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Read these instead of standard input."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    whole: Annotated[
        bool, typer.Option("--whole", help="One record per file, not one per line.")
    ] = False,
    key_delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", "-K", help="Split key and value of a line here."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", help="What ends a record.")
    ] = r"\n",
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record."),
    ] = None,
    partition: Annotated[
        int,
        typer.Option(
            "--partition", "-p", min=-1, max=2**31 - 1, help="-1: by key, else at random."
        ),
    ] = -1,
    timestamp_ms: Annotated[
        int,
        typer.Option(
            "--timestamp",
            "-T",
            min=0,
            max=2**63 - 1,
            help="Of every record, in ms.",
            show_default="now",
        ),
    ] = 0,
    null: Annotated[
        bool, typer.Option("--null", "-Z", help="Send empty keys and values as null.")
    ] = False,
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", "-a", help="all, 1 or 0.")] = "all",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was sent as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No notes on stderr.")] = False,
    command_config: CommandConfig = None,
    properties: Properties = None,
    timeout_s: Timeout = TIMEOUT_S,
) -> None:
    """Send records and wait until the broker has acknowledged them.

    A line that has no key delimiter is a record without key. With --acks all each record is written
    once, whatever is sent again (idempotence). Ends with 1 when a record was refused.
    """
    if whole and not files:
        raise CliError("--whole needs files", place="--whole", code=Exit.USAGE)
    _check(compression, _COMPRESSIONS, "--compression")
    _check(acks, _ACKS, "--acks")
    from tailrace.tools.clients.librdkafka import target
    from tailrace.tools.records.record_writer import Framing, Stamp, send

    framing = Framing(
        _bytes(delimiter, "--delimiter"),
        None if key_delimiter is None else _bytes(key_delimiter, "--key-delimiter"),
        whole=whole,
        null=null,
    )
    stamp = Stamp(
        partition, None if key is None else key.encode(), _headers(headers or []), timestamp_ms
    )
    settings = {"compression.type": compression, "acks": acks}
    given = properties or []
    if acks in _WHOLE and not any(each.split("=")[0].strip() in _WEAKER for each in given):
        settings["enable.idempotence"] = "true"
    to = target(bootstrap, [*_texts(settings), *given], timeout_s, command_config)
    send(to, topic, files or [], (framing, stamp), as_json=as_json, quiet=quiet)


def _check(text: str, known: Sequence[str], option: str) -> None:
    if text not in known:
        remedy = f"one of {', '.join(known)}"
        raise CliError(f"{text!r} is unknown", place=option, remedy=remedy, code=Exit.USAGE)


def _bytes(text: str, option: str) -> bytes:
    try:
        data = unescape(text)
    except BadFormat as error:
        raise CliError(str(error), place=option, code=Exit.USAGE) from error
    if not data:
        raise CliError("an empty delimiter", place=option, code=Exit.USAGE)
    return data


def _headers(texts: list[str]) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        headers.append((name, value.encode() if equals else None))
    return headers


def _texts(settings: dict[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]
