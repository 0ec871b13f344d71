"""`tailrace autorecovery`: run the process that makes lost replicas anew, and look after it."""

import sys
from typing import Annotated

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.core.runtime.config import Assignment
from tailrace.processes.autorecovery_config import AutoRecoveryProcessConfig
from tailrace.tools.bookies import autorecovery_tools
from tailrace.tools.options import Assignments, ConfigFile, ConfigJson, Insecure, ShowConfig
from tailrace.tools.settings import insecure_option, load_settings_of, show_settings

app = typer.Typer(add_completion=False)
autorecovery_tools.add_to(app)


@app.callback(invoke_without_command=True)
def autorecovery(
    ctx: typer.Context,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            "-m",
            metavar="URI",
            envvar="TAILRACE_METADATA",
            help="zk://HOST:PORT,HOST:PORT/ledgers: the cluster to look after.",
        ),
    ] = None,
    insecure: Insecure = False,
    config: ConfigFile = None,
    assignments: Assignments = None,
    show_config: ShowConfig = False,
    as_json: ConfigJson = False,
) -> None:
    """Make the replicas of lost bookies anew until SIGTERM or Ctrl-C, or look after that (below).

    Any number of these processes may run, in one cluster with BookKeeper's: one of them is the
    auditor, all copy. Settings come from defaults, then --config, then TAILRACE_* variables (upper
    case, dots as underscores), then --set, then the options here; names are BookKeeper's. It prints
    `ready: autorecovery=ID` once it votes and takes work.
    """
    if ctx.invoked_subcommand is not None:
        return
    options = insecure_option(insecure=insecure)
    if metadata is not None:
        options.append(Assignment("metadataServiceUri", metadata, f"--metadata {metadata}"))
    loaded = load_settings_of(
        AutoRecoveryProcessConfig,
        "tailrace autorecovery",
        config,
        assignments or (),
        options,
    )
    if show_config:
        show_settings(loaded, as_json=as_json)
        return
    with loading_modules():
        from tailrace.processes.autorecovery import run

    sys.exit(run(loaded.config))
