"""Options that several commands share, with one spelling and one help text."""

from typing import Annotated

import typer

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT",
        envvar="TAILRACE_BOOTSTRAP",
        help="The broker to ask; several joined by commas.",
    ),
]
BOOTSTRAP = "127.0.0.1:9092"

Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="KEY=VALUE",
        help="A property of librdkafka, such as security.protocol=ssl.",
    ),
]

Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait.")
]
TIMEOUT_S = 30.0

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
