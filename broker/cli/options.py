"""Options that several commands share, with one spelling and one help text."""

from pathlib import Path
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

TestFaults = Annotated[
    str | None,
    typer.Option(
        "--test-faults",
        metavar="HOST:PORT",
        help="For tests: a port, on a loopback address, where they break this broker on purpose. "
        "It prints `faults: http=HOST:PORT`. By default there is none.",
    ),
]

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings by their names.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over file and environment."),
]
ShowConfig = Annotated[
    bool,
    typer.Option("--show-config", help="Print every setting with its source and meaning, and end."),
]
ConfigJson = Annotated[bool, typer.Option("--json", help="With --show-config: as JSON.")]

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
