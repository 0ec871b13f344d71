"""Options that several commands share, with one spelling and one help text.

A default that is not the parameter's own is given as `show_default`: rich takes a `[default: ...]`
of a help text for markup and leaves it out.
"""

import math
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
        help="A property of librdkafka, such as client.id=me; it wins over the file.",
    ),
]

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="TAILRACE_COMMAND_CONFIG",
        help="A file of client properties, as Kafka's tools take it: security.protocol, "
        "sasl.jaas.config, ssl.truststore.location, ...",
    ),
]


def _is_number(seconds: float) -> float:
    if math.isnan(seconds):  # neither below a minimum nor above a maximum
        raise typer.BadParameter("nan is no number of seconds.")
    return seconds


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=1_000_000,
        callback=_is_number,
        help="How long to wait.",
    ),
]
TIMEOUT_S = 30.0

Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where to listen; port 0 picks a free one. Several: as the setting `listeners`.",
        show_default="127.0.0.1:9092",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="HOST:PORT",
        help="Where clients are told to connect.",
        show_default="where it listens",
    ),
]

Secure = Annotated[
    bool,
    typer.Option(
        "--secure",
        envvar="TAILRACE_SECURE",
        help="Make a certificate and the user admin at the first start, print how clients get in, "
        "and let in nobody else: TLS, SCRAM, an authorizer.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Listen without authentication on addresses that other machines reach.",
    ),
]

TestFaults = Annotated[
    str | None,
    typer.Option(
        "--test-faults",
        metavar="HOST:PORT",
        help="For tests: a port, on a loopback address, where they break this broker on purpose. "
        "It prints `faults: http=HOST:PORT`.",
        show_default="none",
    ),
]

StandaloneData = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where everything of a standalone broker lies.",
        show_default="./tailrace-data",
    ),
]
StandaloneConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.toml", help="As given to start.")
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
