"""`tailrace bookie`: run a bookie of a cluster, and look after bookies."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.core.runtime.config import Assignment
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.tools.bookies import bookie_tools
from tailrace.tools.bookies.decommission import decommission
from tailrace.tools.endpoints import parse_endpoint
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import Assignments, ConfigFile, ConfigJson, Insecure, ShowConfig
from tailrace.tools.settings import insecure_option, load_settings_of, show_settings

app = typer.Typer(add_completion=False)
bookie_tools.add_to(app)
app.command("decommission")(decommission)

BOOKIE_PORT = 3181


@app.callback(invoke_without_command=True)
def bookie(
    ctx: typer.Context,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            "-m",
            metavar="URI",
            envvar="TAILRACE_METADATA",
            help="zk://HOST:PORT,HOST:PORT/ledgers: the cluster to belong to.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Where it keeps journal and ledgers.",
            show_default="./tailrace-data",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where to listen; also its id, unless bookieId is set.",
            show_default="127.0.0.1:3181",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST", help="Host that clients are told."),
    ] = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Run a bookie of a cluster until SIGTERM or Ctrl-C, or look after bookies (see below).

    Settings come from defaults, then --config, then TAILRACE_* variables (upper case, dots as
    underscores), then --set, then the options here; names are BookKeeper's. It prints
    `ready: bookie=ID` once it would answer and clients can find it.
    """
    if ctx.invoked_subcommand is not None:
        return
    options = _options(metadata, data, listen, advertise) + insecure_option(insecure=insecure)
    loaded = load_settings_of(
        BookieProcessConfig, "tailrace bookie", config, assignments or (), options
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    with loading_modules():
        from tailrace.processes.bookie import run

    sys.exit(run(loaded.config))


def _options(
    metadata: str | None, data: Path | None, listen: str | None, advertise: str | None
) -> list[Assignment]:
    given = []
    if metadata is not None:
        given.append(Assignment("metadataServiceUri", metadata, f"--metadata {metadata}"))
    if data is not None:
        given.append(Assignment("data", str(data), f"--data {data}"))
    if listen is not None:
        at = parse_endpoint(listen, "--listen", BOOKIE_PORT)
        given.append(Assignment("listeningInterface", at.host, f"--listen {listen}"))
        given.append(Assignment("bookiePort", at.port, f"--listen {listen}"))
    if advertise is not None:
        if ":" in advertise and not advertise.startswith("["):
            raise CliError(
                f"{advertise!r} is no host", place="--advertise",
                remedy="the host alone: the port is the one of --listen", code=Exit.USAGE,
            )  # fmt: skip
        given.append(Assignment("advertisedAddress", advertise, f"--advertise {advertise}"))
    return given
